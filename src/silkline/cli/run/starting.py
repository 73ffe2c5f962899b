"""``silkline start``: create a crawl and enqueue its start URLs, without working on it."""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.server import Json, Redis, address, repeated
from silkline.cli.run.command import Overrides
from silkline.cli.run.start import RunStart, check_outputs, prepare
from silkline.errors import ConfigError
from silkline.ops.parsing import plural
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process.outputs import STDOUT
from silkline.worker.process.outputs import allow_private as allow_private_addresses


def start(
    file: str,
    /,
    *,
    out: Annotated[
        list[str] | None, Parameter(name=("--out", "-o"), negative=(), allow_leading_hyphen=True, show_default=False)
    ] = None,
    allow_private: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    redis: Redis = None,
    json: Json = False,
    overrides: Overrides | None = None,
) -> int:
    """Create the crawl that a file defines and enqueue its start URLs.

    It fetches nothing: workers do that. They use the outputs that are stored
    here. A second start adds nothing, because its URLs are seen.

    Examples:
      silkline start books.py -o s3://my-bucket/books --redis redis://10.0.0.7
      silkline worker books.py --forever --redis redis://10.0.0.7

    Exit code: 0, 2 wrong usage, 3 server or sink unavailable.

    Parameters
    ----------
    file
        The Python file that defines the crawl; FILE:NAME if it defines several.
    out
        Where workers store items: s3://…, postgresql://…, redis:KEY, or a file on this machine. May be repeated.
    allow_private
        Allow pages in private networks and on this machine.
    json
        Print the result as JSON.
    """
    if STDOUT in (out or ()):
        raise ConfigError(
            "start stores where workers put their items; -o - prints them, which only `silkline run` can do"
        )
    url = address(redis)
    with redirect_stdout(sys.stderr):  # output of the file
        crawl = load_crawl(file)
        if allow_private:
            allow_private_addresses(crawl)
        (overrides or Overrides()).apply(crawl)
        started = RunStart(crawl, file, url, out or [], start_over=f"silkline run {file} --fresh")
        counts = asyncio.run(_start(started))
    worker = shlex.join(["silkline", "worker", file, *repeated(redis)])
    if json:
        screen.print_json({"crawl": crawl.name, "created": not started.resumed, "added": started.added, **counts})
    else:
        screen.show(_result(crawl, started))
        screen.show(f"To work on it: {escape(worker)}")
    return Exit.OK


def _result(crawl: Crawl, started: RunStart) -> str:
    added = plural(started.added, "start URL") if started.added else "nothing new"
    return f"[bold]{escape(crawl.name)}[/] {'continues' if started.resumed else 'is started'}: {added} enqueued"


async def _start(started: RunStart) -> dict[str, Any]:
    await check_outputs(started)
    async with await prepare(started) as frontier:
        stats = msgspec.to_builtins(await frontier.admin.stats())
        return {name: stats[name] for name in ("ready", "delayed", "leased", "done", "dead")}
