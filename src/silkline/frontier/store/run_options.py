"""Options that a run stores for all workers of its crawl: where items go, what feeds it, whether private addresses may be fetched."""

from __future__ import annotations

import msgspec

from silkline.errors import ConfigError

MAX_BYTES = 64 * 1024


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output of a crawl, without its secrets."""

    out: str
    """The value of ``-o``, with an absolute path for a file."""
    hidden: tuple[str, ...] = ()
    """The names of the secrets that were left out."""
    machine: str = ""
    """The machine that has the file; empty for an output that all machines can reach."""

    def __str__(self) -> str:
        return f"{self.out} on {self.machine}" if self.machine else self.out


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a run that are stored with its crawl. None means that no run has stored any."""

    outputs: tuple[Output, ...] | None = None
    sinks: tuple[str, ...] = ()
    """Names of the sinks that the crawl's file defines itself."""
    allow_private: bool | None = None
    feeds: tuple[str, ...] = ()
    """The feeds, except those with a password in their names. Files have absolute paths; workers on their machine read them."""
    until_idle: float | None = None
    """Seconds after which workers leave the crawl, if its queue and feeds are empty."""


def encode(options: RunOptions) -> bytes:
    text = msgspec.json.encode(options)
    if len(text) > MAX_BYTES:
        raise ConfigError(f"the outputs of a crawl may take {MAX_BYTES} bytes, got {len(text)}")
    return text
