"""Acts of operators: who did what to a crawl, kept for those who ask later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from silkline.core.errors import ConfigError
from silkline.frontier.commands import Command
from silkline.frontier.script import load

KEPT = 1000
"""Acts of a crawl that are kept, the newest; act.lua has the same."""
LONGEST = 500


class Act(NamedTuple):
    """What somebody did, and when (unix time of the server)."""

    time: float
    by: str
    what: str
    """A verb, such as pause, resume, cancel, revive"""
    about: str
    """A host, a filter, a number: whatever the verb needs. Empty for the crawl as a whole."""


def note_act(key: str, by: str, what: str, about: str) -> Command[None]:
    words = [_one_line(word) for word in (by, what, about)]
    if not words[0] or not words[1]:
        raise ConfigError(f"an act is noted with who did it and what, got {by!r} and {what!r}")
    return Command(load("act"), (key,), words, lambda _: None)


def audit(key: str, most: int) -> Command[list[Act]]:
    return Command(load("audit"), (key,), (check_most(most),), lambda reply: [_read_act(line) for line in reply])


def check_most(most: int) -> int:
    if type(most) is not int or not 1 <= most <= KEPT:
        raise ConfigError(f"from 1 to {KEPT} acts can be told, got {most!r}")
    return most


def one_act(now: float, by: str, what: str, about: str) -> Act:
    """As it is read again."""
    return Act(now, _one_line(by), _one_line(what), _one_line(about))


def _read_act(line: bytes) -> Act:
    when, by, what, about = line.decode().split("\n", 3)
    return Act(int(when) / 1000, by, what, about)


def _one_line(text: str) -> str:
    return " ".join(str(text).encode(errors="replace").decode().split())[:LONGEST]


def who_paused(acts: Iterable[Act], host: str = "") -> Act | None:
    """The act that paused the crawl, or one of its hosts; *acts* have the newest first."""
    for act in acts:
        if act.about == host and act.what in ("pause", "resume"):
            return act if act.what == "pause" else None
    return None
