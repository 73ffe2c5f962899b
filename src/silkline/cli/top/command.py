"""``silkline top``: crawls, hosts, workers and throughput on the full screen, with keys for actions."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter, validators
from rich.live import Live

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.operator import operator
from silkline.cli.options.server import Json, Redis, existing
from silkline.cli.top.board import KeyAction, TopBoard, draw
from silkline.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.frontier.admin_verbs.stats import CrawlStatus
from silkline.frontier.crawl_server import NOT_AS_STORED, connected, crawl_detail, status_of_all, unreadable
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.transport.redis_url import without_password
from silkline.frontier.transport.sync.connection import SyncConnection
from silkline.ops.notices import crawl_notices, memory_notice, urgency
from silkline.ops.parsing import plural

SHOWN = 8
KEY = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|O.)|.", re.DOTALL)
ARROWS = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}


def top(
    crawl: str | None = None,
    /,
    *,
    every: Annotated[float, Parameter(validator=validators.Number(gte=0.1, lte=60))] = 1.0,
    once: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Monitor crawls on the full screen: throughput, hosts, workers, errors.

    Crawls in trouble come first, with the reason.

    Keys: up and down (or k and j) select a crawl, p pauses it and v revives
    its dead letters, both after a confirmation, r resumes it, q quits. The
    audit log records these actions.

    Examples:
      silkline top books
      silkline top --once

    Exit code: 0, 2 wrong usage or no terminal, 3 server unavailable.

    Parameters
    ----------
    crawl
        The crawl to select first.
    every
        Seconds between two refreshes.
    once
        Print the state once and exit; needs no terminal.
    json
        Print the state once as JSON and exit.
    """
    url = existing(redis)
    board = TopBoard(without_password(url))
    if not (once or json) and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; use --once to print the state once, or --json for programs")
    with connected(url) as connection:
        look(board, connection)
        if crawl is not None:
            if crawl not in board.crawls:
                raise ConfigError(f"this server has no crawl named {crawl!r}")
            board.chosen = list(board.crawls).index(crawl)
            look(board, connection)
        if json:
            screen.print_json(_as_json(board))
        elif once:
            screen.show(draw(board))
        else:
            _watch(board, connection, url, every)
    return Exit.OK


def look(board: TopBoard, connection: SyncConnection, most: int = SHOWN) -> None:
    """Read the data of the screen from the server; at most *most* hosts."""
    found = status_of_all(connection)
    readable = [one for one in found.values() if isinstance(one, CrawlStatus)]
    board.of_server = memory_notice(connection.memory(), readable)
    board.notices = {one.stats.crawl: crawl_notices(one) for one in readable}
    found = dict(sorted(found.items(), key=lambda one: (_urgency(board, one[0]), one[0])))
    board.words = {name: one.word for name, one in found.items() if isinstance(one, CrawlStatus)}
    counted = {name: one.stats if isinstance(one, CrawlStatus) else one for name, one in found.items()}
    board.take(counted, time.monotonic())
    if board.crawl is None:
        board.detail = None
        return
    try:
        board.detail = crawl_detail(connection, board.crawl, most)
        if isinstance(selected := found[board.crawl], CrawlStatus):
            board.notices[board.crawl] = crawl_notices(selected, board.detail.workers)
    except (SilklineError, *NOT_AS_STORED) as error:  # the crawl was removed, belongs to a later version, or is damaged
        board.detail, board.message = None, str(unreadable(board.crawl, error))


def _urgency(board: TopBoard, crawl: str) -> int:
    """Return a sort key: crawls in trouble come first."""
    return urgency(board.notices[crawl]) if crawl in board.notices else 0


def _watch(board: TopBoard, connection: SyncConnection, url: str, every: float) -> None:
    with _keys() as keys, Live(console=screen.out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw(board, screen.out.height), refresh=True)
            for key in keys(every):
                deed = board.press(key)
                if deed and deed.verb == "quit":
                    return
                if deed and deed.crawl:
                    _do(board, url, deed)
            try:
                look(board, connection, max(SHOWN, screen.out.height))
            except StoreUnavailable as error:
                board.message = str(error)


def _do(board: TopBoard, url: str, deed: KeyAction) -> None:
    """Run an action and show its result."""
    try:
        with SyncFrontier.open(url, crawl=deed.crawl, create=False) as frontier:
            about = ""
            if deed.verb == "pause":
                frontier.admin.pause()
                board.message = f"{deed.crawl} is paused"
            elif deed.verb == "resume":
                if frontier.admin.stats().state == "open":
                    board.message = f"{deed.crawl} is not paused"
                    return
                frontier.admin.resume()
                board.message = f"{deed.crawl} is resumed"
            else:
                revived = frontier.admin.revive()
                board.message, about = f"{plural(revived, 'dead letter')} revived", f"all: {revived}"
            frontier.internal.append_audit(operator(), deed.verb, about)
    except SilklineError as error:
        board.message = str(error)


def split_keys(text: str) -> list[str]:
    """Split terminal input into key names; one read may return several keys. Empty input is the end of the terminal."""
    return [ARROWS.get(key, key) for key in KEY.findall(text)] or ["q"]


@contextmanager
def _keys() -> Iterator[Any]:
    """Yield a function that waits for keys, up to a given number of seconds."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read(seconds: float) -> list[str]:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        if not ready:
            return []
        return split_keys(os.read(descriptor, 64).decode(errors="replace"))

    tty.setcbreak(descriptor)
    try:
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _state_as_json(board: TopBoard, crawl: str) -> dict[str, Any]:
    notices = [notice.as_json() for notice in board.notices.get(crawl, [])]
    return {"status": board.words.get(crawl), "notices": notices}


def _as_json(board: TopBoard) -> dict[str, Any]:
    detail = board.detail
    return {
        "server": board.server,
        "notices": [board.of_server.as_json()] if board.of_server else [],
        "crawls": [
            {"crawl": name, "error": str(one)}
            if isinstance(one, SilklineError)
            else msgspec.to_builtins(one) | _state_as_json(board, name)
            for name, one in board.crawls.items()
        ],
        "chosen": board.crawl,
        "hosts": [host._asdict() for host in detail.hosts] if detail else [],
        "dead": [group._asdict() for group in detail.reasons] if detail else [],
        "workers": [worker._asdict() for worker in detail.workers] if detail else [],
    }
