"""One host as it stands."""

from __future__ import annotations

from typing import Any, NamedTuple

from silkline.frontier.answers import Answers, unpack


class HostState(NamedTuple):
    """One host as it stands."""

    host: str
    place: str
    """ready, waiting, busy (at its cap), paused, resting or unknown"""
    opens_in: float
    queued: int
    leased: int
    delay: float
    """As it is now; `slowed_from` tells whether that is more than usual."""
    concurrency: int
    burst: int
    blocked_until: float | None
    paused: bool
    pages: int
    slowed_from: float | None = None
    """What the delay is when the site has not complained; None while it is just that."""
    crawl_delay: float | None = None
    """What robots.txt asks for; it holds unless the host has a delay of its own."""
    answers: Answers | None = None
    """What it answered of late, if workers told."""

    @property
    def pace(self) -> str:
        """Its delay in words."""
        if self.slowed_from is None:
            return f"{self.delay:g} s"
        return f"slowed to {self.delay:.3g} s, decaying to {self.slowed_from:g} s"


def most_trouble_first(host: HostState) -> tuple[float, int]:
    """A key to sort hosts by: the part of their answers that was no good, then how many that are."""
    answers = host.answers
    return (-answers.trouble, -answers.total) if answers and answers.trouble else (0.0, 0)


def read_host(row: list[Any]) -> HostState:
    host, place, opens_in, queued, leased, delay, concurrency, burst, blocked, paused, pages, usual, asked, answers = (
        row
    )
    return HostState(
        host=host.decode(),
        place=place.decode(),
        opens_in=int(opens_in) / 1000,
        queued=queued,
        leased=leased,
        delay=int(delay) / 1000,
        concurrency=concurrency,
        burst=burst,
        blocked_until=int(blocked) / 1000 if int(blocked) else None,
        paused=bool(paused),
        pages=pages,
        slowed_from=int(usual) / 1000 if usual else None,
        crawl_delay=int(asked) / 1000 if asked else None,
        answers=unpack(answers),
    )
