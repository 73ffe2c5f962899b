"""Feeding URLs to a crawl: in batches, patiently while it is full, and with every refusal accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TextIO

import msgspec

from silkline.cli.lines import Line
from silkline.core.lease import Admission
from silkline.core.request import Request
from silkline.frontier.sync import SyncFrontier

BATCH = 1000
SHOWN_REFUSALS = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0


class Refused(msgspec.Struct, frozen=True):
    """A URL that was not taken."""

    where: str
    url: str
    reason: str


class Summary(msgspec.Struct):
    """What became of the URLs. *full* are those that found no room, when waiting was not wanted."""

    crawl: str
    created: bool
    added: int = 0
    seen: int = 0
    refused: int = 0
    full: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    refusals: list[Refused] = []
    """The first few."""

    @property
    def offered(self) -> int:
        return self.added + self.seen + self.refused + self.full


class Intake:
    """One run of ``enqueue``."""

    def __init__(self, frontier: SyncFrontier, summary: Summary, *, priority: int, refused_to: TextIO | None) -> None:
        self._frontier = frontier
        self._priority = priority
        self._refused_to = refused_to
        self.summary = summary

    def feed(self, lines: Iterable[Line], *, wait: bool, on_step: Callable[[int], None]) -> None:
        """Offer all lines; *on_step* is told after every offer how many found no room.

        Without *wait* it ends at the first batch that finds no room.
        """
        for batch in _batches(lines):
            left = self._offer(batch)
            pause = FIRST_PAUSE
            while left:
                on_step(len(left))
                if not wait:
                    self.summary.full = len(left)
                    return
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                fewer = self._offer(left)
                if len(fewer) < len(left):
                    pause = FIRST_PAUSE
                left = fewer
            on_step(0)

    def _offer(self, batch: list[Line]) -> list[Line]:
        """Answers the lines that found no room."""
        answers = self._frontier.enqueue([self._request(line.url) for line in batch])
        tally = answers.tally()
        self.summary.added += tally[Admission.ADDED]
        self.summary.seen += tally[Admission.SEEN]
        self.summary.refused += tally[Admission.REFUSED]
        for refusal in answers.refusals:
            self._note(Refused(batch[refusal.position].where, batch[refusal.position].url, refusal.reason))
        return [line for line, answer in zip(batch, answers, strict=True) if answer is Admission.FULL]

    def _request(self, url: str) -> str | Request:
        return Request(url, priority=self._priority) if self._priority else url

    def _note(self, refused: Refused) -> None:
        if len(self.summary.refusals) < SHOWN_REFUSALS:
            self.summary.refusals.append(refused)
        if self._refused_to:
            self._refused_to.write(f"# {refused.where}: {refused.reason}\n{refused.url}\n")


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    iterator = iter(lines)
    while batch := list(islice(iterator, BATCH)):
        yield batch
