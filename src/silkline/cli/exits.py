"""Exit codes. Scripts rely on the numbers; `docs/reference/cli.md` lists them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit code of every command."""

    OK = 0
    FAILED = 1
    """The command ran, but something failed: URLs were refused, workers failed, or the demo lost items."""
    USAGE = 2
    """Wrong options, settings or names; nothing was changed."""
    UNAVAILABLE = 3
    """The server or a sink is unavailable or refuses writes; it is safe to run the command again."""
    FULL = 4
    """The crawl is full, and --no-wait was given."""
    DEAD = 5
    """The crawl is finished, but some of its requests are dead letters."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT, as in shells."""
    TERMINATED = 143
    """Terminated: 128 + SIGTERM, as in shells."""
