"""Failures: what becomes of a page when something that is not the web's fault keeps it from coming to its end."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback

import msgspec

from silkline.core.lease import Lease
from silkline.core.retries import Retries
from silkline.core.verdict import Verdict
from silkline.worker.tally import Tally

log = logging.getLogger(__name__)


class Failures:
    """Decides on pages that failed, and keeps what is known of it with them."""

    def __init__(self, retries: Retries, tally: Tally) -> None:
        self._backoff = retries.backoff
        self._tally = tally
        self._rng = random.Random()

    def failed(self, lease: Lease, where: str, error: BaseException) -> Verdict:
        """An error of the user's code: it is tried again, and its traceback is kept."""
        name, words = type(error).__name__, said(error)
        self._tally.errors[name] += 1
        log.warning("%s failed on %s: %s: %s", where, lease.url, name, words)
        verdict = self._backoff.decide(attempt=lease.attempt, reason=f"{where}: {name}: {words}", rng=self._rng)
        return msgspec.structs.replace(verdict, detail=_user_traceback(error))

    def took_too_long(self, lease: Lease, seconds: float) -> Verdict:
        """An attempt that did not come to its end in time."""
        self._tally.errors["attempt limit"] += 1
        reason = f"the attempt took longer than {seconds:g} s"
        return self._backoff.decide(attempt=lease.attempt, reason=reason, rng=self._rng)


def said(error: BaseException) -> str:
    """What an error says; even that may be the code of somebody else, and fail."""
    if isinstance(error, asyncio.CancelledError):
        return "a task that it waited for was cancelled"
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever the user's code raises
        return "(it cannot say what)"


def is_to_stop(error: BaseException) -> bool:
    """Whether somebody wants this very task to end. A cancellation is also raised by a task of the user's own that was."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def _user_traceback(error: BaseException) -> str:
    """The traceback from the handler on; what called it is always the same."""
    trace = error.__traceback__
    while trace and trace.tb_next and "silkline" in trace.tb_frame.f_globals.get("__name__", ""):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
