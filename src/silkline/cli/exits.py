"""How a command ends. The numbers are a promise to scripts; `docs/reference/cli.md` lists them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit code of every command."""

    OK = 0
    FAILED = 1
    """It ran, but not everything went well: URLs were refused, workers could not work, or the demo lost something."""
    USAGE = 2
    """Wrong options, settings or names; nothing was changed."""
    UNAVAILABLE = 3
    """The server or a sink cannot be reached or refuses; safe to run again."""
    FULL = 4
    """The crawl is full, and waiting was not wanted."""
    DEAD = 5
    """The crawl is finished, but some of its requests are dead letters."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it."""
    TERMINATED = 143
    """SIGTERM, as shells count it."""
