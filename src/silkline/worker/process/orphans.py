"""Ends a worker process whose parent has died, whatever the worker is doing.

The parent reads a pipe, of which the worker has the other end. When the parent dies, the kernel closes its end; `OrphanWatch`
waits for that in a thread, from the first moment of the process to its last. The thread needs the GIL, which a page may hold
forever, as a regular expression does that backtracks. So the kernel ends the process too: see `_arm_kernel`.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
from contextlib import suppress

with suppress(ImportError):  # a Python may be built without it
    import ctypes

GRACE = 10.0
"""Seconds that a worker gets to end after its drain time is over."""
CHECK_EVERY = 2.0
"""Seconds between two looks at the parent's process id: a child that the parent has forked may keep the pipe open."""
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
_KERNEL_SIGNALS = sys.platform == "linux" and "ctypes" in sys.modules and hasattr(signal, "SIGSTKFLT")
"""Whether the kernel can send SIGSTKFLT when the parent dies."""


class OrphanWatch(threading.Thread):
    """Terminates this process when the reader of *pipe* is gone, and kills it if it has not ended *seconds* later.

    SIGTERM ends a process that has no worker yet at once. A worker gives back its pages first.
    """

    def __init__(self, pipe: int, seconds: float) -> None:
        super().__init__(name="silkline-orphan-watch", daemon=True)
        self._pipe = pipe
        self._seconds = seconds
        self._parent = os.getppid()

    def run(self) -> None:
        readers = select.poll()
        readers.register(self._pipe, 0)  # an error, such as a pipe without a reader, is always reported
        while not readers.poll(CHECK_EVERY * 1000) and os.getppid() == self._parent:
            pass
        _set_handler(signal.SIG_IGN)  # the death of the parent may be signaled only now
        signal.alarm(math.ceil(self._seconds))  # by default, SIGALRM ends the process without the help of Python
        _silence()
        os.kill(os.getpid(), signal.SIGTERM)


def end_with_parent(pipe: int, drain: float) -> None:
    """End this process when the reader of *pipe* is gone: at the latest *drain* seconds and a moment later."""
    _arm_kernel()
    OrphanWatch(pipe, drain + GRACE).start()


def _arm_kernel() -> None:
    """Have the kernel end this process 16 seconds after the death of its parent, unless `OrphanWatch` sets another time.

    The kernel then sends signal 16, SIGSTKFLT, which has no other use. Its handler is the C function ``alarm``, called with the
    number of the signal: no Python code runs, so it does not matter which code holds the GIL.
    """
    if _KERNEL_SIGNALS:
        libc = ctypes.CDLL(None)
        _set_handler(ctypes.cast(libc.alarm, ctypes.c_void_p).value)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGSTKFLT)


def _set_handler(handler: int | None) -> None:
    """Set the C function that handles SIGSTKFLT. `signal.signal` takes no C functions, and works in the main thread only."""
    if _KERNEL_SIGNALS:
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        libc.signal(signal.SIGSTKFLT, handler)


def _silence() -> None:
    """Discard output for the parent: a handler that prints must not fail because of it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in [2, 1] if os.path.sameopenfile(1, 2) else [2]:
        os.dup2(nowhere, descriptor)
