"""Facts: what a server tells of itself, as far as it lets itself be asked. `operate.doctor` judges them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from silkline.frontier.server import Server, read_server

Words = tuple[str, ...]
SETTINGS = (
    "appendfsync",
    "appendonly",
    "list-compress-depth",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "protected-mode",
    "save",
    "set-max-intset-entries",
    "timeout",
)
"""Settings that are asked for one by one: all of them would bring passwords along."""

TIME: Words = ("TIME",)
QUESTIONS: tuple[Words, ...] = (
    ("INFO", "everything"),
    ("ACL WHOAMI",),
    ("ACL GETUSER", "default"),
    ("CLUSTER INFO",),
    *(("CONFIG GET", name) for name in SETTINGS),
)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One node. What it would not tell is None, or missing from *config*."""

    where: str
    server: Server
    info: dict[str, Any]
    config: dict[str, str]
    offset: float | None
    """Seconds by which its clock is ahead of ours."""
    doubt: float
    """By how much the offset may be wrong."""
    user: str | None
    open_to_all: bool | None
    """Whether anybody may log in without a password."""
    cluster: dict[str, str] | None


class Answers:
    """Gathers the answers of one node; the clock is read around the question for its time."""

    def __init__(self, where: str, clock: Callable[[], float] = time.time) -> None:
        self._where = where
        self._clock = clock
        self._asked = 0.0
        self._known: dict[Words, Any] = {}
        self._times = (0.0, 0.0)

    def before(self, question: Words) -> None:
        if question == TIME:
            self._asked = self._clock()

    def take(self, question: Words, answer: Any) -> None:
        """Note an answer; None for one that was refused."""
        if question == TIME:
            self._times = (self._asked, self._clock())
        self._known[question] = answer

    def facts(self) -> Facts:
        info: dict[str, Any] = self._known.get(("INFO", "everything")) or {}
        config: dict[str, str] = {}
        for name in SETTINGS:
            config |= self._known.get(("CONFIG GET", name)) or {}
        asked, answered = self._times
        told = self._known.get(TIME)
        default = self._known.get(("ACL GETUSER", "default"))
        server = read_server(info)
        return Facts(
            where=self._where,
            server=server,
            info=info,
            config=config,
            offset=None if told is None else told[0] + told[1] / 1e6 - (asked + answered) / 2,
            doubt=(answered - asked) / 2,
            user=_text(self._known.get(("ACL WHOAMI",))),
            open_to_all=None if default is None else "nopass" in default.get("flags", ()) and "on" in default["flags"],
            cluster=(self._known.get(("CLUSTER INFO",)) or {}) if server.cluster else None,
        )


def _text(answer: Any) -> str | None:
    return answer.decode() if isinstance(answer, bytes) else answer
