"""``silkline top``: crawls, hosts, workers and throughput, live on the whole screen, with keys to steer."""

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

from cyclopts import Parameter, validators
from rich.live import Live

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.operating import operator
from silkline.cli.server import Json, Redis, existing
from silkline.cli.top_board import Board, Deed, draw
from silkline.core.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.frontier.address import without_password
from silkline.frontier.connection import SyncConnection
from silkline.frontier.crawls import count_all, look_closer, visit
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.unreadable import NOT_AS_STORED, unreadable
from silkline.operate.numbers import plural

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
    """Watch crawls on the whole screen: throughput, hosts, workers, errors.

    Keys: up and down (or k and j) choose a crawl, p pauses and r resumes it, v
    revives its dead letters after a question, q ends. Who did it is noted.

    Examples:
      silkline top books
      silkline top --once

    Exit code: 0, 2 wrong usage or no terminal, 3 server unavailable.

    Parameters
    ----------
    crawl
        The crawl that is chosen at first.
    every
        Seconds between two looks.
    once
        Look once, print it and end; needs no terminal.
    json
        Look once, and print what was seen as JSON.
    """
    url = existing(redis)
    board = Board(without_password(url))
    if not (once or json) and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; --once prints what it would show, --json prints it for programs")
    with visit(url) as connection:
        look(board, connection)
        if crawl is not None:
            if crawl not in board.crawls:
                raise ConfigError(f"there is no crawl named {crawl!r} on this server")
            board.chosen = list(board.crawls).index(crawl)
            look(board, connection)
        if json:
            screen.tell_json(_as_json(board))
        elif once:
            screen.show(draw(board))
        else:
            _watch(board, connection, url, every)
    return Exit.OK


def look(board: Board, connection: SyncConnection) -> None:
    """Read everything that is shown."""
    board.take(count_all(connection), time.monotonic())
    try:
        board.detail = look_closer(connection, board.crawl, SHOWN) if board.crawl else None
    except (SilklineError, *NOT_AS_STORED) as error:  # it was removed meanwhile, is of a later version, or damaged
        board.detail, board.message = None, str(unreadable(str(board.crawl), error))


def _watch(board: Board, connection: SyncConnection, url: str, every: float) -> None:
    with _keys() as keys, Live(console=screen.out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw(board), refresh=True)
            for key in keys(every):
                deed = board.press(key)
                if deed and deed.verb == "quit":
                    return
                if deed and deed.crawl:
                    _do(board, url, deed)
            try:
                look(board, connection)
            except StoreUnavailable as error:
                board.message = str(error)


def _do(board: Board, url: str, deed: Deed) -> None:
    """Steer a crawl, and say how that went."""
    try:
        with SyncFrontier.open(url, crawl=deed.crawl, create=False) as frontier:
            about = ""
            if deed.verb == "pause":
                frontier.pause()
                board.message = f"{deed.crawl} is paused"
            elif deed.verb == "resume":
                frontier.resume()
                board.message = f"{deed.crawl} goes on"
            else:
                revived = frontier.revive()
                board.message, about = f"{plural(revived, 'dead letter')} revived", f"all: {revived}"
            frontier.note_act(operator(), deed.verb, about)
    except SilklineError as error:
        board.message = str(error)


def split_keys(text: str) -> list[str]:
    """Keys by name, as a terminal sends them: several at once if they were typed while nobody read. No text is its end."""
    return [ARROWS.get(key, key) for key in KEY.findall(text)] or ["q"]


@contextmanager
def _keys() -> Iterator[Any]:
    """Keys as they are pressed: a function that waits for some, at most so many seconds."""
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


def _as_json(board: Board) -> dict[str, Any]:
    detail = board.detail
    return {
        "server": board.server,
        "crawls": [
            {"crawl": name, "error": str(one)} if isinstance(one, SilklineError) else one
            for name, one in board.crawls.items()
        ],
        "chosen": board.crawl,
        "hosts": [host._asdict() for host in detail.hosts] if detail else [],
        "dead": [group._asdict() for group in detail.reasons] if detail else [],
        "workers": [worker._asdict() for worker in detail.workers] if detail else [],
    }
