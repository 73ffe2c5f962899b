"""Shared by operator commands: the user name for the audit log, opening a crawl, confirmation."""

from __future__ import annotations

import getpass
import socket
import sys
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.options.server import existing
from silkline.errors import ConfigError
from silkline.frontier.sync import SyncFrontier

DryRun = Annotated[
    bool,
    Parameter(
        name="--dry-run", negative=(), show_default=False, help="Show what would happen without changing anything."
    ),
]
Yes = Annotated[
    bool,
    Parameter(
        name=("--yes", "-y"),
        negative=(),
        show_default=False,
        help="Do not ask for confirmation; required without a terminal.",
    ),
]
CrawlName = Annotated[
    str, Parameter(name="CRAWL", required=False, help="Name of the crawl. Default: the only crawl of the server.")
]
"""The first argument. If it is missing, `main` adds the name of the only crawl."""
Limit = Annotated[int, Parameter(name="--limit", help="Maximum number of rows.")]


def operator() -> str:
    """Return the user and machine for the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def open_crawl(redis: str | None, crawl: str) -> SyncFrontier:
    """Open an existing crawl."""
    return SyncFrontier.open(existing(redis), crawl=crawl, create=False)


def confirm(what: str, *, yes: bool) -> None:
    """Describe a destructive change and ask for confirmation."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}. Without a terminal, this needs --yes; --dry-run changes nothing")
    screen.remark(f"{escape(screen.printable(what))}.")
    ask("Continue?")


def ask(question: str) -> None:
    """Ask on the terminal; raise `ConfigError` for any reply but yes."""
    screen.err.print(f"{question} \\[y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("not confirmed, so nothing was changed")


def safe(text: str) -> str:
    """Escape untrusted text, so that it controls neither the terminal nor Rich markup."""
    return escape(screen.printable(text))
