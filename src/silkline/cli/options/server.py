"""The option --redis and the default server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from silkline.errors import ConfigError
from silkline.frontier.arguments import embedded_in
from silkline.frontier.transport.redis_url import without_password

_KINDS = "redis://HOST:PORT/DB, rediss://, unix://, redis+cluster://, redis+sentinel:// or embedded:DIR"
VARIABLE = "SILKLINE_REDIS"

Redis = Annotated[
    str | None,
    Parameter(
        name="--redis",
        env_var=VARIABLE,
        help=f"Address of the server: {_KINDS}. Default: the embedded server in .silkline/.",
    ),
]
RedisOrTemporary = Annotated[
    str | None,
    Parameter(
        name="--redis",
        env_var=VARIABLE,
        help=f"Address of the server: {_KINDS}. Default: an embedded server in a temporary directory.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]


def address(redis: str | None) -> str:
    """Return the address of the server; an empty SILKLINE_REDIS counts as unset."""
    return redis or "embedded:.silkline"


def repeated(redis: str | None) -> list[str]:
    """Return the option for a command that the user may paste. An address from SILKLINE_REDIS needs none; a password is not printed."""
    if not redis or redis == os.environ.get(VARIABLE):
        return []
    return ["--redis", redis if without_password(redis) == redis else "ADDRESS"]


def existing(redis: str | None) -> str:
    """Return the address for commands that only read: they must not create an embedded server."""
    url = address(redis)
    directory = embedded_in(url)
    if directory and not Path(directory).expanduser().is_dir():
        raise ConfigError(
            f"{directory} has no data of an embedded server; name a server with --redis or SILKLINE_REDIS, "
            "or start a crawl first: silkline run FILE"
        )
    return url
