"""The audit log: which operator did what to a crawl."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from silkline.errors import ConfigError
from silkline.frontier.transport.command import Command, load

KEPT = 1000
"""Number of newest entries that are kept per crawl; append_audit.lua has the same."""
LONGEST = 500
A_WORKER = "a worker, because "
"""Prefix of the name under which a worker logs that it paused its crawl; the reason follows."""


class AuditEntry(NamedTuple):
    """What an operator did, and when (unix time of the server)."""

    time: float
    by: str
    what: str
    """A verb, such as pause, resume, cancel, revive."""
    about: str
    """A host, a filter or a number, as the verb needs. Empty for the crawl as a whole."""


def append_audit(key: str, by: str, what: str, about: str) -> Command[None]:
    words = [_one_line(word) for word in (by, what, about)]
    if not words[0] or not words[1]:
        raise ConfigError(f"an audit entry needs an operator and an action, got {by!r} and {what!r}")
    return Command(load("append_audit"), (key,), words, lambda _: None)


def read_audit(key: str, most: int) -> Command[list[AuditEntry]]:
    return Command(load("read_audit"), (key,), (check_most(most),), lambda reply: [_read_entry(line) for line in reply])


def check_most(most: int) -> int:
    if type(most) is not int or not 1 <= most <= KEPT:
        raise ConfigError(f"limit must be between 1 and {KEPT}, got {most!r}")
    return most


def audit_entry(now: float, by: str, what: str, about: str) -> AuditEntry:
    """Return an entry as it is read from the log."""
    return AuditEntry(now, _one_line(by), _one_line(what), _one_line(about))


def _read_entry(line: bytes) -> AuditEntry:
    when, by, what, about = line.decode().split("\n", 3)
    return AuditEntry(int(when) / 1000, by, what, about)


def _one_line(text: str) -> str:
    return " ".join(str(text).encode(errors="replace").decode().split())[:LONGEST]


def who_paused(entries: Iterable[AuditEntry], host: str = "") -> AuditEntry | None:
    """Return the entry that paused the crawl or one of its hosts, None if it was resumed. The newest entry comes first."""
    for entry in entries:
        if entry.about == host and entry.what in ("pause", "resume"):
            return entry if entry.what == "pause" else None
    return None


def why_paused_itself(entries: Iterable[AuditEntry]) -> str | None:
    """Return the reason for which a worker paused the crawl; None if it is not paused, or an operator paused it."""
    entry = who_paused(entries)
    return entry.by.removeprefix(A_WORKER) if entry and entry.by.startswith(A_WORKER) else None
