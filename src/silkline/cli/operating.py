"""What the commands of operators share: who acts, on which crawl, and whether that is meant."""

from __future__ import annotations

import getpass
import socket
import sys
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.server import existing
from silkline.core.errors import ConfigError
from silkline.frontier.sync import SyncFrontier

DryRun = Annotated[
    bool,
    Parameter(name="--dry-run", negative=(), show_default=False, help="Say what would happen, and change nothing."),
]
Yes = Annotated[
    bool,
    Parameter(name=("--yes", "-y"), negative=(), show_default=False, help="Do not ask; needed without a terminal."),
]
Limit = Annotated[int, Parameter(name="--limit", help="How many to show at most.")]


def operator() -> str:
    """Who acts: the user and the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def open_crawl(redis: str | None, crawl: str) -> SyncFrontier:
    """A crawl that must be there."""
    return SyncFrontier.open(existing(redis), crawl=crawl, create=False)


def confirm(what: str, *, yes: bool) -> None:
    """Before something is destroyed, say what, and ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}. Without a terminal to ask on, this needs --yes; --dry-run changes nothing")
    screen.remark(f"{escape(screen.printable(what))}.")
    ask("Go on?")


def ask(question: str) -> None:
    """Ask on the terminal; anything but yes ends the command."""
    screen.err.print(f"{question} \\[y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("not confirmed, so nothing was changed")


def safe(text: str) -> str:
    """Text from outside, for a table: it steers neither the terminal nor our markup."""
    return escape(screen.printable(text))
