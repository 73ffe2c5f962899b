"""The worker processes of the demo, and how one of them is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from silkline.cli.demo.queue_proof import Journal, seems_busy
from silkline.core.errors import FrontierError

LONGEST_LOOK = 5.0
"""Seconds for which somebody who is busy is sought."""


class Fleet:
    """Real processes, each with a journal in *folder*."""

    def __init__(self, url: str, crawl: str, workers: int, folder: Path) -> None:
        self._command = [sys.executable, "-m", "silkline.cli.demo.queue_worker", url, crawl]
        self._journals = [folder / f"worker-{number}.journal" for number in range(1, workers + 1)]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.killed: int | None = None

    def __enter__(self) -> Self:
        for journal in self._journals:
            with journal.with_suffix(".log").open("wb") as log:
                self.processes.append(
                    subprocess.Popen(  # noqa: S603 - our own module
                        [*self._command, str(journal)], stdin=subprocess.DEVNULL, stderr=log, start_new_session=True
                    )
                )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """However the demo ends, no worker outlives it."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def journals(self) -> list[Journal]:
        return [Journal.read(path) for path in self._journals]

    def kill_one(self) -> int:
        """Kill a worker with SIGKILL in the middle of its work; answers how many leases it held.

        Whoever seems to be busy is stopped first, to see that it still is. One that is never busy is killed at last.
        """
        held, deadline = 0, time.monotonic() + LONGEST_LOOK
        while not held and time.monotonic() < deadline:
            for number in reversed(range(len(self.processes))):
                self.killed, held = number, self._stop_if_busy(number)
                if held:
                    break
            time.sleep(0.001)
        assert self.killed is not None
        self.processes[self.killed].send_signal(signal.SIGKILL)
        self.processes[self.killed].wait()
        return held

    def _stop_if_busy(self, number: int) -> int:
        """How many leases it holds, if it does; then it is stopped."""
        journal, process = self._journals[number], self.processes[number]
        if not seems_busy(journal):
            return 0
        process.send_signal(signal.SIGSTOP)
        held = Journal.read(journal).held
        if not held:
            process.send_signal(signal.SIGCONT)
        return held

    def check(self) -> bool:
        """Whether anybody still works; raises if a worker has failed that nobody killed."""
        for number, process in enumerate(self.processes):
            if process.poll() not in (None, 0) and number != self.killed:
                log = self._journals[number].with_suffix(".log").read_text(errors="replace").strip()
                why = log.splitlines()[-1] if log else f"exit code {process.returncode}"
                raise FrontierError(f"worker {number + 1} has failed: {why}")
        return any(process.poll() is None for process in self.processes)
