"""The worker processes of the demo, and how one of them is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from silkline.cli.demo.queue_proof import Journal
from silkline.core.errors import FrontierError


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
        """Kill a worker with SIGKILL in the middle of its work, the last if it can be; answers how many leases it held.

        Each is stopped first, to see that it is in the middle of something: one that is late may hold nothing.
        """
        held = 0
        for turn in range(2_000):
            self.killed = len(self.processes) - 1 - turn // 25 % len(self.processes)
            self.processes[self.killed].send_signal(signal.SIGSTOP)
            held = Journal.read(self._journals[self.killed]).held
            if held:
                break
            self.processes[self.killed].send_signal(signal.SIGCONT)
            time.sleep(0.004)
        assert self.killed is not None
        self.processes[self.killed].send_signal(signal.SIGKILL)
        self.processes[self.killed].wait()
        return held

    def check(self) -> bool:
        """Whether anybody still works; raises if a worker has failed that nobody killed."""
        for number, process in enumerate(self.processes):
            if process.poll() not in (None, 0) and number != self.killed:
                log = self._journals[number].with_suffix(".log").read_text(errors="replace").strip()
                why = log.splitlines()[-1] if log else f"exit code {process.returncode}"
                raise FrontierError(f"worker {number + 1} has failed: {why}")
        return any(process.poll() is None for process in self.processes)
