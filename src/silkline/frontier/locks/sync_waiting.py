"""How plain code waits its turn and repeats a call in the background; `waiting` has the same for async code."""

from __future__ import annotations

import threading
from collections.abc import Callable


class SyncTurn:
    """One thread of this process at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self, seconds: float | None) -> bool:
        """Wait for the turn, at most *seconds*; returns whether it has come."""
        return self._lock.acquire(timeout=-1 if seconds is None else max(0.0, seconds))

    def pass_on(self) -> None:
        self._lock.release()


class SyncRepeater:
    """Calls *function* after the seconds that it returned last, in a thread, until it returns None."""

    def __init__(self, function: Callable[[], float | None], first: float) -> None:
        self._function = function
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(first,), name="silkline-lock", daemon=True)
        self._thread.start()

    def _run(self, pause: float | None) -> None:
        while pause is not None and not self._stopped.wait(pause):
            pause = self._function()

    def stop(self) -> None:
        """Stop, and return when no call is in progress."""
        self._stopped.set()
        self._thread.join()


def sync_caller() -> object:
    """Return what runs now: the thread."""
    return threading.get_ident()
