"""Summary: what one run did, and how the crawl stands when it ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from silkline.frontier.inspection import Stats
from silkline.frontier.letters import DeadLetter
from silkline.worker.tally import Tally

SLOWEST = 5
MOST_REASONS = 20
READ_LETTERS = 10_000
"""Dead letters of which the reasons are read; of a crawl with more, the newest."""
REASON_CHARACTERS = 200

_GAVE_UP = re.compile(r"^gave up after \d+ attempts?: ")
_URL = re.compile(r"https?://\S+")


class SlowHost(msgspec.Struct, frozen=True):
    """A host, and how long its pages took on average."""

    host: str
    pages: int
    seconds: float


class DeadReason(msgspec.Struct, frozen=True):
    """Why requests were given up, how many, and one of them."""

    reason: str
    count: int
    example: str


class Course(msgspec.Struct, kw_only=True):
    """How a run went, apart from its pages."""

    seconds: float = 0.0
    resumed: bool = False
    interrupted: bool = False
    workers: int = 1
    restarts: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What `on_finish` hooks get, and what ``silkline run --json`` prints.

    The counts down to *hosts* are of this run; *ready*, *delayed*, *leased*, *done*, *dead*, *seen* and *rescued* are of
    the whole crawl, as it stands now.
    """

    crawl: str
    finished: bool
    """Whether nothing is left to do, or the budget is spent."""
    interrupted: bool
    resumed: bool
    seconds: float
    pages: int
    pages_per_second: float
    items: int
    bytes: int
    links: int
    redirects: int
    retried: int
    dropped: int
    robots_denied: int
    statuses: dict[int, int]
    errors: dict[str, int]
    skipped: dict[str, int]
    """Links that were not followed, by reason."""
    slowest_hosts: list[SlowHost]
    blocked_seconds: float
    """How long handlers kept a worker from anything else."""
    workers: int
    restarts: int
    """Workers that died and were started again."""
    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    seen: int
    rescued: int
    """Requests that came back from workers that were lost."""
    dead_letters: list[DeadReason]

    @property
    def sound(self) -> bool:
        """Whether the crawl is finished, and nothing was given up."""
        return self.finished and not self.dead


def summarise(
    stats: Stats, tally: Tally, course: Course, letters: Sequence[DeadLetter] = (), *, finished: bool
) -> Summary:
    """Put together what is known."""
    totals = ("crawl", "ready", "delayed", "leased", "done", "dead", "seen", "rescued")
    now = {name: getattr(stats, name) for name in totals}
    same = ("pages", "items", "bytes", "links", "redirects", "retried", "dropped", "robots_denied")
    return Summary(
        **now,
        **{name: getattr(tally, name) for name in same},
        finished=finished,
        interrupted=course.interrupted,
        resumed=course.resumed,
        seconds=round(course.seconds, 3),
        pages_per_second=round(tally.pages / course.seconds, 2) if course.seconds else 0.0,
        statuses=dict(sorted(tally.statuses.items())),
        errors=dict(tally.errors.most_common()),
        skipped=dict(tally.skipped.most_common()),
        slowest_hosts=_slowest(tally),
        blocked_seconds=round(tally.blocked_seconds, 3),
        workers=course.workers,
        restarts=course.restarts,
        dead_letters=by_reason(letters),
    )


def by_reason(letters: Iterable[DeadLetter]) -> list[DeadReason]:
    """Dead letters in groups, the largest first. Reasons that differ only in an address are one."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for letter in letters:
        reason = short_reason(letter.reason)
        group = _URL.sub("…", reason)
        counts[group] += 1
        examples.setdefault(group, letter.request.url)
    return [DeadReason(reason, count, examples[reason]) for reason, count in counts.most_common(MOST_REASONS)]


def short_reason(reason: str) -> str:
    """A reason in one line: of a traceback, what was done and the error."""
    lines = [line for line in _GAVE_UP.sub("", reason).splitlines() if line.strip()]
    if not lines:
        return "no reason was given"
    text = lines[0]
    if len(lines) > 1:
        text = f"{lines[0].partition('Traceback')[0].rstrip(' :')}: {lines[-1].strip()}".lstrip(": ")
    return text if len(text) <= REASON_CHARACTERS else f"{text[: REASON_CHARACTERS - 1]}…"


def _slowest(tally: Tally) -> list[SlowHost]:
    slow = sorted(tally.hosts.items(), key=lambda pair: pair[1].mean, reverse=True)[:SLOWEST]
    return [SlowHost(host, times.pages, round(times.mean, 3)) for host, times in slow]
