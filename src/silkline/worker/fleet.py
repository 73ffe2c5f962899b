"""The fleet: several worker processes on one machine, started again when one dies, and ended together."""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from silkline.core.errors import FrontierError
from silkline.worker.report import Report, read_report
from silkline.worker.tally import Tally
from silkline.worker.worker import HUNG, STALLED

log = logging.getLogger(__name__)

HOPELESS = 3
"""Deaths in a row, each soon after the start, by which a worker shows that it cannot work at all."""
SOON = 5.0
LAST_WORDS = 2_000


class NobodyWorks(FrontierError):
    """A worker died again and again as soon as it was started."""


class Member:
    """One place in the fleet, and the process that fills it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: asyncio.subprocess.Process | None = None
        self.report: Report | None = None
        self.heard = time.monotonic()
        """When its process last reported, or was started."""
        self.deaths = 0
        self.early_deaths = 0
        self.past = Tally()
        """What its earlier processes had reported when they died."""
        self.words = ""
        """The end of what it said on stderr."""
        self.leaving = False
        """Whether it was told to end what is under way and not to come back."""
        self.gone = False

    @property
    def finished(self) -> bool:
        """Whether it left by itself, for nothing was left to do. One that an operator ordered away has not."""
        return self.gone and not self.leaving and not (self.report and self.report.ordered)

    @property
    def silence(self) -> float:
        """Seconds since its process was heard of; reports come several times a second as long as it lives."""
        running = self.process is not None and self.process.returncode is None
        return time.monotonic() - self.heard if running else 0.0

    @property
    def stall(self) -> str | None:
        """What it says itself, or that it says nothing any more: a process that is frozen cannot tell of it."""
        told = self.report.stall if self.report else None
        silent = f"worker {self.number} was not heard of for {self.silence:.0f} s" if self.silence > STALLED else None
        return told or silent

    @property
    def hung(self) -> bool:
        return self.silence > HUNG or bool(self.report and self.report.hung)


class Fleet:
    """Runs *command* in *workers* processes until all have ended well.

    Each gets ``--report-to FD`` and writes its reports there. `tally` adds them up; `killed` tells of those that died.
    """

    def __init__(
        self, command: Sequence[str], workers: int, *, drain: float = 20.0, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._drain = drain
        self._stopping = False
        self._tasks: asyncio.TaskGroup | None = None
        self.largest = workers
        """Most that were at work at the same time."""
        self.members = [Member(number) for number in range(1, workers + 1)]

    @property
    def tally(self) -> Tally:
        """What all have done, as far as they have told."""
        total = Tally()
        for member in self.members:
            total.add(member.past)
            if member.report:
                total.add(member.report.tally)
        return total

    @property
    def in_flight(self) -> int:
        return sum(member.report.in_flight for member in self.members if member.report and not member.gone)

    @property
    def troubles(self) -> list[str]:
        """What keeps workers from claiming."""
        return sorted({member.report.trouble for member in self.members if member.report and member.report.trouble})

    @property
    def stall(self) -> str | None:
        """Why some worker claims nothing though it should, in words; None when all are well."""
        return next((member.stall for member in self.active if member.stall), None)

    @property
    def hung(self) -> bool:
        return any(member.hung for member in self.active)

    @property
    def active(self) -> list[Member]:
        """Those that are to go on."""
        return [member for member in self.members if not (member.leaving or member.gone)]

    def resize(self, workers: int) -> None:
        """Start more, or let those with the least under way end it and leave.

        Only while it runs, never to nobody, and not once one has left by itself: then the crawl is finished.
        """
        active = self.active
        if self._stopping or self._tasks is None or any(member.finished for member in self.members):
            return
        for number in range(len(self.members) + 1, len(self.members) + 1 + workers - len(active)):
            self.members.append(Member(number))
            self._tasks.create_task(self._keep(self.members[-1]))
        self.largest = max(self.largest, len(self.active))
        spare = sorted(active, key=lambda member: member.report.in_flight if member.report else 0)
        for member in spare[: len(active) - max(1, workers)]:
            member.leaving = True
            if member.process and member.process.returncode is None:
                with suppress(ProcessLookupError):
                    member.process.terminate()

    @property
    def restarts(self) -> int:
        return sum(member.deaths for member in self.members)

    def stop(self) -> None:
        """Tell all to end what is under way and to leave."""
        self._stopping = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all at once. What they held is rescued when its leases expire."""
        self._stopping = True
        self._signal(signal.SIGKILL)

    async def run(self) -> None:
        """Until the crawl is finished, or all were told to stop."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for member in self.members:
                    self._tasks.create_task(self._keep(member))
        except BaseExceptionGroup as group:
            hopeless = next((error for error in group.exceptions if isinstance(error, NobodyWorks)), None)
            raise hopeless or group from None
        finally:
            self._tasks = None
            self._signal(signal.SIGKILL)

    async def _keep(self, member: Member) -> None:
        """Fill one place until its process ends well, or is not wanted any more."""
        try:
            await self._fill(member)
        finally:
            member.gone = True

    async def _fill(self, member: Member) -> None:
        while not (self._stopping or member.leaving):
            started = time.monotonic()
            code = await self._run_one(member)
            if code == 0 or self._stopping or member.leaving:
                return
            member.deaths += 1
            member.early_deaths = member.early_deaths + 1 if time.monotonic() - started < SOON else 0
            if member.early_deaths >= HOPELESS:
                self.stop()
                raise NobodyWorks(f"worker {member.number} cannot work: {_last_words(member, code)}")
            log.warning("worker %d died (%s); starting another", member.number, _cause(code))
            await asyncio.sleep(min(0.1 * 2**member.early_deaths, SOON))

    async def _run_one(self, member: Member) -> int:
        """One process, from its start to its end; answers its exit code."""
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)  # noqa: FBT003 - os has it so
        try:
            member.process = await asyncio.create_subprocess_exec(
                *self._command,
                "--report-to",
                str(writing),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(writing,),
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for us; we tell them
            )
        finally:
            os.close(writing)
        member.heard = time.monotonic()
        if self._stopping or member.leaving:  # told so while it was being started
            member.process.terminate()
        listening = asyncio.create_task(self._listen(member, reading))
        hearing = asyncio.create_task(_hear(member, member.process))
        code = await member.process.wait()
        await listening
        await hearing
        if member.report and code != 0:
            member.past.add(member.report.tally)
            member.report = None
        return code

    async def _listen(self, member: Member, descriptor: int) -> None:
        """Read its reports until it ends."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**22)
        with os.fdopen(descriptor, "rb") as pipe:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            async for line in reader:
                member.heard = time.monotonic()
                with suppress(msgspec.DecodeError):  # it was killed in the middle of a line
                    member.report = read_report(line)
            transport.close()

    def _signal(self, number: int) -> None:
        for member in self.members:
            if member.process and member.process.returncode is None:
                with suppress(ProcessLookupError):
                    member.process.send_signal(number)


async def _hear(member: Member, process: asyncio.subprocess.Process) -> None:
    """Pass on what it says, and remember the end of it. Not line by line: a user's code may print long ones."""
    assert process.stderr
    member.words = ""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while data := await process.stderr.read(2**16):
        text = decoder.decode(data)
        member.words = (member.words + text)[-LAST_WORDS:]
        sys.stderr.write(text)
        sys.stderr.flush()


def _last_words(member: Member, code: int) -> str:
    lines = member.words.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else _cause(code)


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def this_python() -> list[str]:
    """How to start ``silkline`` again as we were started."""
    return [sys.executable, "-m", "silkline"]
