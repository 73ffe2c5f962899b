"""``silkline start``: create a crawl and enqueue its start URLs, without working on it."""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import redirect_stdout
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.server import Json, Redis, address, repeated
from silkline.cli.run.command import Overrides
from silkline.cli.run.start import RunStart, check_outputs, counts_in_words, prepare
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.transport.redis_url import without_password
from silkline.ops.parsing import plural
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process.outputs import STDOUT
from silkline.worker.process.outputs import allow_private as allow_private_addresses
from silkline.worker.process.run import who_paused_it


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
    fresh: Annotated[bool, Parameter(negative=(), show=False)] = False,
) -> int:
    """Create the crawl that a file defines and enqueue its start URLs.

    It fetches nothing: workers do that. They use the outputs that are stored
    here. A second start adds nothing, because its URLs are seen. It does not
    resume a paused crawl, and does not start over with a finished one.

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
    url, again = address(redis), _command(file, out or [], redis, allow_private=allow_private)
    with redirect_stdout(sys.stderr):  # output of the file
        crawl = load_crawl(file)
        if allow_private:
            allow_private_addresses(crawl)
        server = repeated(redis)
        start_over = f"To start over: {shlex.join(['silkline', 'crawl', 'rm', crawl.name, *server])}, then {again}"
        if fresh:
            raise ConfigError(f"start deletes nothing, so it has no --fresh. {start_over}")
        (overrides or Overrides()).apply(crawl)
        started = RunStart(crawl, file, url, out or [], only_starts=True)
        found = asyncio.run(_start(started))
    if json:
        screen.print_json(_as_json(started, found))
    elif started.all_done:
        screen.show(f"{_name(started)} is finished: {counts_in_words(found.stats)}. {escape(start_over)}")
    else:
        screen.show(_result(started))
        if found.paused:
            resume = shlex.join(["silkline", "crawl", "resume", crawl.name, *server])
            why = escape(screen.printable(_why(found.paused)))
            screen.show(f"{_name(started)} is [yellow]still paused[/], {why}; to continue: {escape(resume)}")
        worker = shlex.join(["silkline", "worker", file, *server])
        screen.show(f"To work on it: {escape(worker)}")
    return Exit.OK


class StartedCrawl(NamedTuple):
    """What a start left."""

    stats: Stats
    paused: str
    """Why it is paused, or by whom; empty if it is not."""


async def _start(started: RunStart) -> StartedCrawl:
    await check_outputs(started)
    async with await prepare(started) as frontier:
        stats = await frontier.admin.stats()
        return StartedCrawl(stats, await who_paused_it(frontier) if stats.state == "paused" else "")


def _command(file: str, out: list[str], redis: str | None, *, allow_private: bool) -> str:
    """Return the command that was typed, without settings that override the file, and without passwords."""
    outs = [word for one in out for word in ("-o", one if without_password(one) == one else "OUTPUT")]
    return shlex.join(
        ["silkline", "start", file, *outs, *(["--allow-private"] if allow_private else []), *repeated(redis)]
    )


def _name(started: RunStart) -> str:
    return f"[bold]{escape(started.crawl.name)}[/]"


def _result(started: RunStart) -> str:
    added = plural(started.added, "start URL") if started.added else "nothing new"
    return f"{_name(started)} {'continues' if started.resumed else 'is started'}: {added} enqueued"


def _why(paused: str) -> str:
    return paused if paused.startswith("by ") else f"because {paused}"


def _as_json(started: RunStart, found: StartedCrawl) -> dict[str, Any]:
    counts = {name: getattr(found.stats, name) for name in ("ready", "delayed", "leased", "done", "dead")}
    how = {"finished": started.all_done, "paused": found.paused or None}
    return {"crawl": started.crawl.name, "created": not started.resumed, "added": started.added, **how, **counts}
