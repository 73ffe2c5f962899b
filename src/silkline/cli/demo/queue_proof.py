"""The proof of the demo: what the workers wrote down, held against what was enqueued and what the frontier says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from silkline.frontier.inspection import Stats

LONGEST_LINE = 1000


class Journal(msgspec.Struct):
    """One worker's file: the URLs it was handed, with the server's time in ms, and those whose work it did."""

    handed: list[tuple[int, str]] = []
    done: list[str] = []

    @classmethod
    def read(cls, path: Path) -> Journal:
        journal = cls()
        for line in path.read_text().splitlines() if path.exists() else ():
            mark, time, url = line.split(" ", 2)
            if mark == "+":
                journal.handed.append((int(time), url))
            else:
                journal.done.append(url)
        return journal

    @property
    def held(self) -> int:
        """How many it was handed and had not done yet."""
        return len(self.handed) - len(self.done)


def seems_busy(path: Path) -> bool:
    """Whether the last thing that a worker noted is that it was handed something. Only the end of its file is read."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LONGEST_LINE))
        return file.read().rstrip(b"\n").rpartition(b"\n")[2].startswith(b"+")


class Proof(msgspec.Struct, kw_only=True):
    """What can be said at the end; *sound* if nothing speaks against it."""

    enqueued: int
    completed: int
    """Different URLs that the workers' own files say were done."""
    completed_says_frontier: int
    conserved: bool
    lost: list[str]
    strange: int
    """URLs done that nobody enqueued."""
    handed_out_twice: list[str]
    first_held_by_killed: bool
    """Whether all that were handed out twice were among those that the killed worker held."""
    done_twice: int
    closest_starts: float | None
    """Seconds between the two closest starts on one host."""
    delay: float

    @property
    def polite(self) -> bool:
        """In milliseconds, as the frontier counts."""
        return self.closest_starts is None or round(self.closest_starts * 1000) >= round(self.delay * 1000)

    @property
    def sound(self) -> bool:
        all_done = self.completed == self.completed_says_frontier == self.enqueued
        return all_done and self.conserved and self.polite and not self.lost and not self.strange


def prove(
    enqueued: Iterable[str], journals: Sequence[Journal], killed: int | None, stats: Stats, delay: float
) -> Proof:
    """*killed* is the position of the killed worker's journal."""
    wanted = set(enqueued)
    done = Counter(url for journal in journals for url in journal.done)
    handed = Counter(url for journal in journals for _, url in journal.handed)
    twice = {url for url, times in handed.items() if times > 1}
    held = set() if killed is None else {url for _, url in journals[killed].handed}
    nothing_left = stats.pending + stats.leased + stats.dead + stats.discarded == 0
    return Proof(
        enqueued=len(wanted),
        completed=len(wanted & done.keys()),
        completed_says_frontier=stats.done,
        conserved=stats.conserved and nothing_left and stats.accepted == len(wanted),
        lost=sorted(wanted - done.keys()),
        strange=len(done.keys() - wanted),
        handed_out_twice=sorted(twice),
        first_held_by_killed=twice <= held,
        done_twice=sum(1 for times in done.values() if times > 1),
        closest_starts=_closest(start for journal in journals for start in journal.handed),
        delay=delay,
    )


def _closest(starts: Iterable[tuple[int, str]]) -> float | None:
    by_host: dict[str, list[int]] = {}
    for time, url in starts:
        by_host.setdefault(url.split("/", 3)[2], []).append(time)
    return min(_gaps(by_host), default=None)


def _gaps(by_host: dict[str, list[int]]) -> Iterator[float]:
    for times in by_host.values():
        for earlier, later in pairwise(sorted(times)):
            yield (later - earlier) / 1000
