"""Failures: the verdicts on pages that failed because of the user's code, a sink or a limit, or that this worker cannot handle.

Failures of one kind (the same place in the code, the same exception) are logged once, with the traceback, and then counted. Pages
that this worker cannot handle because of its own file, packages or options are given back for other workers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sysconfig
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, TracebackType
from typing import NamedTuple

import msgspec

from silkline.core.error_text import message_of
from silkline.core.lease import Lease
from silkline.core.retries import Retries
from silkline.core.verdict import Bury, Release, RetryIn, Verdict
from silkline.errors import ForbiddenAddress
from silkline.frontier.verbs.workers import HANDLER, need_in_words
from silkline.runtime.counters import Counters
from silkline.worker.item_check import fields_of

log = logging.getLogger(__name__)

MOST_KINDS = 1_000
"""Kinds of failures that are counted separately; further ones are counted together."""
_LIBRARIES = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OURS = f"{Path(__file__).parent.parent}/"


class Streak(NamedTuple):
    """How many pages of a handler in a row failed in the same way."""

    kind: str
    pages: int


class Failures:
    """Decides what happens to pages that failed, and stores the reason and the traceback with them.

    *pause* is called with a reason when a handler has failed on `Retries.pause_after` pages in a row.
    """

    def __init__(self, retries: Retries, counters: Counters, pause: Callable[[str], None] | None = None) -> None:
        self._retries = retries
        self._counters = counters
        self._pause = pause
        self._rng = random.Random()
        self._kinds: Counter[str] = Counter()
        self.is_repeated = False
        """Whether the last failure of the user's code was not the first of its kind."""
        self._streaks: dict[str, Streak] = {}

    def failed(self, lease: Lease, where: str, error: BaseException) -> Verdict:
        """Return the verdict after an error outside of handlers, such as in middleware: the page is tried again."""
        reason = self._count(lease, where, error, None)
        verdict = self._decide(lease, reason)
        return msgspec.structs.replace(verdict, detail=user_traceback(error))

    def handler_failed(self, lease: Lease, name: str, error: BaseException, code: CodeType | None) -> Verdict:
        """Return the verdict after an error of the handler *name*.

        Its *code* names the line if the traceback has none of the user's.
        """
        reason = self._count(lease, f"handler {name}", error, code)
        self._extend_streak(name, reason.partition("): ")[0] + ")")
        retries = self._retries.for_request(lease.request)
        verdict = retries.after_exception(reason, attempt=lease.attempt, rng=self._rng)
        return msgspec.structs.replace(verdict, detail=user_traceback(error))

    def task_failed(self, lease: Lease, name: str, error: BaseException, code: CodeType | None) -> Verdict:
        """Return the verdict after an error of the task *name*, as after one of a handler."""
        verdict = self._decide(lease, self._count(lease, f"task {name}", error, code))
        return msgspec.structs.replace(verdict, detail=user_traceback(error))

    def handler_succeeded(self, name: str) -> None:
        self._streaks.pop(name, None)

    def took_too_long(self, lease: Lease, seconds: float) -> Verdict:
        """Return the verdict on an attempt that exceeded its time limit."""
        self._counters.errors["attempt limit"] += 1
        reason = f"the attempt took longer than {seconds:g} s"
        return self._decide(lease, reason)

    def _decide(self, lease: Lease, reason: str) -> RetryIn | Bury:
        backoff = self._retries.for_request(lease.request).backoff
        return backoff.decide(attempt=lease.attempt, reason=reason, rng=self._rng)

    def _count(self, lease: Lease, where: str, error: BaseException, code: CodeType | None) -> str:
        """Log the failure if it is the first of its kind; returns the reason: ``WHERE: KIND (FILE:LINE): MESSAGE``."""
        name, place = type(error).__name__, _place(error, code)
        kind = f"{where}: {name} ({place})" if place else f"{where}: {name}"
        self._counters.errors.update(fields_of(error) or [name])
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            kind = "failures of further kinds"
        self._kinds[kind] += 1
        words, count = explain_failure(error), self._kinds[kind]
        self.is_repeated = count > 1
        if count == 1:
            message = words.removesuffix(f" on {lease.url}")  # that of an element that is missing has the URL too
            log.warning("%s: %s on %s\n%s", kind, message, lease.url, user_traceback(error).rstrip())
        elif str(count).rstrip("0") == "1":  # 10, 100, 1000 …
            what = "calls" if where.startswith("task ") else "pages"
            log.warning("%s: %s %s have failed with it, most recently %s", kind, f"{count:,}", what, lease.url)
        return f"{where}: {name} ({place}): {words}" if place else f"{where}: {name}: {words}"

    def _extend_streak(self, handler: str, kind: str) -> None:
        before = self._streaks.get(handler)
        pages = before.pages + 1 if before and before.kind == kind else 1
        self._streaks[handler] = Streak(kind, pages)
        if pages == self._retries.pause_after and self._pause:
            self._pause(f"the last {pages} pages of {kind.replace(':', ' all failed with', 1)}")


def explain_failure(error: BaseException) -> str:
    """Return the message of an error that a handler raised, with a hint at a frequent mistake."""
    if isinstance(error, asyncio.CancelledError):
        return "a task that it waited for was cancelled"
    words = message_of(error)
    if "'coroutine' object" in words or "'async_generator' object" in words:
        words += " (is an await missing?)"
    return words


def was_cancelled(error: BaseException) -> bool:
    """Return whether this task was cancelled, rather than a task of the user that it awaited."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def _place(error: BaseException, code: CodeType | None) -> str:
    """Return the innermost line of the user's code, as ``books.py:14``; else the first line of the handler; else ""."""
    place = f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith((_OURS, *_LIBRARIES, "<frozen")):
            place = f"{Path(file).name}:{line}"
    return place


def user_traceback(error: BaseException) -> str:
    """Return the traceback from the handler on, without Silkline's own frames above it."""
    trace: TracebackType | None = error.__traceback__
    while trace and trace.tb_next and "silkline" in trace.tb_frame.f_globals.get("__name__", ""):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


# ── pages that need what this worker lacks ──

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds for which a page that is given back is delayed. The delay grows with the time since the need was first seen."""
IN_A_ROW = 8
"""Such pages in a row after which the worker pauses claiming: each of these claims uses a start that a capable worker could use."""
LONGEST_REST = 10.0
"""Seconds for which it pauses at most."""
MOST_WAITING = 100_000
MOST_NAME_BYTES = 80
"""The longest name of a need."""
MOST_NEEDS = 20
"""Needs that are distinguished."""
OTHERS = f"{HANDLER}…"
"""The name of all further needs."""


@dataclass
class UnmetNeed:
    """Something that pages need and this worker does not have."""

    since: float
    due: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    """When each page that was given back may be claimed again."""

    def waiting(self, now: float) -> int:
        """Pages that were given back and may not be claimed yet."""
        while self.due and self.due[0] <= now:
            self.due.popleft()
        return len(self.due)


class UnmetNeeds:
    """Gives back what this worker cannot handle, logs each need once, and counts the pages."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._needs: dict[str, UnmetNeed] = {}
        self.others_may_fetch_private = False
        """Whether the crawl allows private addresses, and this worker does not."""
        self.permission_is_open = True
        """Whether neither a run nor an operator has allowed or refused private addresses for the crawl."""
        self._warned_of_forbidden = False
        self._in_a_row = 0
        self._rests_until = 0.0

    def give_back(self, lease: Lease, need: str, advice: str) -> Release:
        """Return the verdict on a page that has this *need*; see `missing_capabilities`. It costs no attempt."""
        now, need = time.monotonic(), self._known(need)
        if need not in self._needs:
            self._needs[need] = UnmetNeed(now)
            log.warning(
                "this worker cannot handle pages that need %s, such as %s. It gives them back for other workers. %s",
                need_in_words(need),
                lease.url,
                advice,
            )
        known = self._needs[need]
        pause = min(max(FIRST_PAUSE, now - known.since), LONGEST_PAUSE)
        known.due.append(now + pause)
        self._counters.given_back[need_in_words(need)] += 1
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW:
            self._rests_until = now + min(pause / 5, LONGEST_REST)
        return Release(pause)

    def warn_of_forbidden(self, lease: Lease, error: ForbiddenAddress, crawl: str) -> None:
        """Log the first start URL that is buried because of its address, and how to crawl it."""
        if not self._warned_of_forbidden:
            self._warned_of_forbidden = True
            log.warning(
                "%s became a dead letter: %s. Further ones are not logged. To crawl them, allow private addresses "
                "(silkline crawl set %s --allow-private), then: silkline dead revive %s --reason forbidden_address",
                lease.url,
                error,
                crawl,
                crawl,
            )

    def _known(self, need: str) -> str:
        """Return a need as it is reported. Names come from stored requests, so they may be hostile."""
        text = "".join(letter if letter.isprintable() else "?" for letter in need)
        text = text.encode(errors="replace")[:MOST_NAME_BYTES].decode(errors="ignore")
        return text if text in self._needs or len(self._needs) < MOST_NEEDS else OTHERS

    def handled(self) -> None:
        """Note that a page can be handled, so that the worker claims again."""
        self._in_a_row, self._rests_until = 0, 0.0

    @property
    def resting(self) -> bool:
        """Whether the worker should leave pages to other workers for a moment."""
        return time.monotonic() < self._rests_until

    @property
    def waiting(self) -> dict[str, int]:
        """Pages that this worker gave back and that wait until they may be claimed again, by need."""
        now = time.monotonic()
        counts = {need: known.waiting(now) for need, known in self._needs.items()}
        return {need: count for need, count in counts.items() if count}

    @property
    def trouble(self) -> str:
        """What this worker lacks, in words; empty if nothing waits for it."""
        needs = [need_in_words(need) for need in self.waiting]
        return f"cannot handle pages that need {', '.join(needs)}" if needs else ""
