"""What flows are made of: the effects they yield, and words for yielding them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from silkline.frontier.commands import Command

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Disk(Generic[R]):
    """Not for Redis: something to run on a disk, off the event loop."""

    run: Callable[[], R]


@dataclass(frozen=True, slots=True)
class Stream(Generic[R]):
    """Commands for one shard, one after the other: while the server works on one, the next is made."""

    commands: Iterator[Command[R]]


@dataclass(frozen=True, slots=True)
class Scan:
    """Some keys of the server whose names match, and where to go on (None at the end); None where that is forbidden."""

    match: str
    position: tuple[int, int]
    """Which node, and the cursor on it."""


Effect = Command[Any] | tuple[Command[Any], ...] | Stream[Any] | Disk[Any] | Scan
Flow = Generator[Effect, Any, R]


def ask(command: Command[R]) -> Flow[R]:
    answer: R = yield command
    return answer


def ask_all(several: Iterable[Command[R]]) -> Flow[list[R]]:
    """Send commands to different shards side by side."""
    answers: list[R] = yield tuple(several)
    return answers


def stream(several: Iterator[Command[R]]) -> Flow[list[R]]:
    answers: list[R] = yield Stream(several)
    return answers


def on_disk(run: Callable[[], R]) -> Flow[R]:
    answer: R = yield Disk(run)
    return answer
