"""The name of the only crawl of a server, for commands that were called without one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cyclopts import MissingArgumentError

from silkline.cli.options.server import VARIABLE, existing
from silkline.errors import ConfigError
from silkline.frontier.crawl_server import crawl_names
from silkline.frontier.transport.redis_url import without_password

SHOWN = 20


def with_only_crawl(arguments: Sequence[str], error: MissingArgumentError) -> list[str] | None:
    """Return *arguments* with the name of the only crawl, or None if something else is missing.

    Raises `ConfigError` with the names of the crawls if there are several, or if the command needs a name in any case.
    """
    if error.argument is None or error.argument.index is None:
        return None  # an option
    chain = len(error.command_chain or ())
    url = existing(_redis(arguments))
    names = crawl_names(url)
    if any(word in names for word in arguments[chain:]):
        return None
    if not names:
        raise ConfigError(f"there are no crawls on {without_password(url)}. To start one: silkline run FILE")
    is_optional = error.argument.index > 0 or error.argument.parameter.required is False
    if len(names) == 1 and is_optional:
        return [*arguments[:chain], *names, *arguments[chain:]]
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")
    raise ConfigError(
        f"silkline {' '.join(arguments[:chain])} needs the name of a crawl; {without_password(url)} has: {shown}"
    )


def _redis(arguments: Sequence[str]) -> str | None:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--redis":
            return following
        if word.startswith("--redis="):
            return word.partition("=")[2]
    return os.environ.get(VARIABLE)
