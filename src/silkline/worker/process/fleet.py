"""The fleet: several worker processes on one machine. A process that dies is started again."""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.units import format_bytes
from silkline.core.verdict import Strike, Suspect
from silkline.errors import FrontierError, SilklineError
from silkline.runtime.counters import Counters
from silkline.runtime.memory import used_memory
from silkline.runtime.settling import Ending
from silkline.worker.options import WorkerOptions
from silkline.worker.process.marker import make_file, read_page, read_place
from silkline.worker.process.reports import WorkerReport, read_report
from silkline.worker.worker import HUNG, STALLED

log = logging.getLogger(__name__)

HOPELESS = 3
"""Deaths in a row, each soon after the start, after which a worker counts as unable to work."""
FRUITLESS = 20
"""Deaths in a row, each while it held pages and had ended none. A single page cannot cause that many: it is buried before."""
SOON = 5.0
LAST_WORDS = 2_000
WATCH_EVERY = 0.5
LAST_BREATH = 1.0
"""Seconds that a worker gets to write its traceback before it is killed."""
OVER_MEMORY = 1.25
"""A worker exits at its memory limit. If it cannot, the parent ends it at this multiple of the limit."""

Settle = Callable[[list[Ending]], Awaitable[object]]


class NoWorkersLeft(FrontierError):
    """A worker died several times in a row as soon as it was started."""


class FleetMember:
    """One place in the fleet, and the process that fills it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: asyncio.subprocess.Process | None = None
        self.report: WorkerReport | None = None
        self.reported_at = time.monotonic()
        """When its process last reported, or was started."""
        self.deaths = 0
        self.early_deaths = 0
        self.past = Counters()
        """The last counters of its earlier processes."""
        self.words = ""
        """The end of its output on stderr."""
        self.marker: int | None = None
        """The file that holds the page that it handles."""
        self.ended = ""
        """Why its process was ended, by itself or by the fleet."""
        self.fruitless = 0
        """Deaths in a row of processes that held pages and had ended none."""
        self.leaving = False
        """Whether it must end its pages and is not started again."""
        self.gone = False

    @property
    def finished(self) -> bool:
        """Whether it ended because the crawl is finished, and not because of an order of an operator."""
        return self.gone and not self.leaving and not (self.report and self.report.ordered)

    @property
    def silence(self) -> float:
        """Seconds since the last report of its process; a live process reports several times a second."""
        running = self.process is not None and self.process.returncode is None
        return time.monotonic() - self.reported_at if running else 0.0

    @property
    def stall(self) -> str | None:
        """Why it makes no progress: by its own report, or because no reports arrive, as from a frozen process."""
        reported = self.report.stall if self.report else None
        silent = f"worker {self.number} has not reported for {self.silence:.0f} s" if self.silence > STALLED else None
        return reported or silent

    @property
    def hung(self) -> bool:
        return self.silence > HUNG or bool(self.report and self.report.hung)


class Fleet:
    """Runs *command* in *workers* processes until all have ended well.

    Each gets ``--report-to FD`` and writes its reports there; `counters` adds them up. One that is silent for longer than
    `WorkerOptions.blocked_limit` is ended. *settle* ends the leases of one that died: the page that it was handling gets a strike.
    """

    def __init__(
        self,
        command: Sequence[str],
        workers: int,
        *,
        options: WorkerOptions | None = None,
        settle: Settle | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._options = options or WorkerOptions()
        self._settle = settle
        self._stopping = False
        self._tasks: asyncio.TaskGroup | None = None
        self.largest = workers
        """The most workers at the same time."""
        self.members = [FleetMember(number) for number in range(1, workers + 1)]

    @property
    def counters(self) -> Counters:
        """The counters of all processes, as far as they have reported them."""
        total = Counters()
        for member in self.members:
            total.add(member.past)
            if member.report:
                total.add(member.report.counters)
        return total

    @property
    def in_flight(self) -> int:
        return sum(member.report.in_flight for member in self.members if member.report and not member.gone)

    @property
    def troubles(self) -> list[str]:
        """Why workers cannot claim."""
        return sorted({member.report.trouble for member in self.members if member.report and member.report.trouble})

    @property
    def gives_back(self) -> Counter[str]:
        """Pages that workers cannot handle and gave back, by need."""
        total: Counter[str] = Counter()
        for member in self.active:
            total.update(member.report.gives_back if member.report else {})
        return total

    @property
    def pids(self) -> set[int]:
        return {member.process.pid for member in self.members if member.process}

    @property
    def stall(self) -> str | None:
        """Why a worker claims nothing although it should, as text; None if all are well."""
        return next((member.stall for member in self.active if member.stall), None)

    @property
    def hung(self) -> bool:
        return any(member.hung for member in self.active)

    @property
    def active(self) -> list[FleetMember]:
        """The members that continue to work."""
        return [member for member in self.members if not (member.leaving or member.gone)]

    def resize(self, workers: int) -> None:
        """Start more workers, or let those with the fewest pages in progress end them and leave.

        Does nothing unless the fleet runs, and after a worker has ended by itself: then the crawl is finished. At least one
        worker stays.
        """
        active = self.active
        if self._stopping or self._tasks is None or any(member.finished for member in self.members):
            return
        for number in range(len(self.members) + 1, len(self.members) + 1 + workers - len(active)):
            self.members.append(FleetMember(number))
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
        """Let all workers end the pages in progress and leave."""
        self._stopping = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all workers at once. Their requests are rescued when the leases expire."""
        self._stopping = True
        self._signal(signal.SIGKILL)

    async def run(self) -> None:
        """Run until the crawl is finished, or until all workers have stopped."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                watching = asyncio.create_task(self._watch())
                for member in self.members:
                    self._tasks.create_task(self._keep(member))
        except BaseExceptionGroup as group:
            hopeless = next((error for error in group.exceptions if isinstance(error, NoWorkersLeft)), None)
            raise hopeless or group from None
        finally:
            self._tasks = None
            watching.cancel()
            self._signal(signal.SIGKILL)

    async def _keep(self, member: FleetMember) -> None:
        """Fill one place until its process ends well, or is not wanted any more."""
        try:
            await self._fill(member)
        finally:
            member.gone = True
            if member.marker is not None:
                os.close(member.marker)
                member.marker = None

    async def _fill(self, member: FleetMember) -> None:
        while not (self._stopping or member.leaving):
            started = time.monotonic()
            code = await self._run_one(member)
            if code == 0 or self._stopping or member.leaving:
                return
            member.deaths += 1
            page = await self._account_for(member, code)
            self._count_death(member, code, page, soon=time.monotonic() - started < SOON)
            if member.early_deaths >= HOPELESS or member.fruitless >= FRUITLESS:
                self.stop()
                raise NoWorkersLeft(f"worker {member.number} cannot work: {_last_words(member, code)}")
            died = f"died ({_cause(code)}){page}; another one was started"
            how = f"{member.ended}; it was ended and another one started" if member.ended else died
            log.warning("worker %d %s", member.number, how)
            await asyncio.sleep(min(0.1 * 2**member.early_deaths, SOON))

    async def _account_for(self, member: FleetMember, code: int) -> str:
        """End the leases of a process that died. Returns the page that it was handling, as text, if that is known."""
        assert member.marker is not None
        marked, place, report = read_page(member.marker), read_place(member.marker), member.report
        if report and report.ended:
            member.ended = report.ended  # it has given back its pages itself
            return ""
        if member.ended and marked:
            member.ended = f"{member.ended} while handling {marked.url}{place}"
        guilty = {(marked.shard, marked.token)} if marked else set()
        reason = member.ended.partition(" while handling")[0] or f"died ({_cause(code)})"
        strike = Strike(f"its worker {reason}{place}", noted=False)
        held = set(report.held if report else ()) | guilty
        ends: list[Ending] = [(_lease(*token), strike if token in guilty else Suspect()) for token in held]
        if self._settle and ends and (code < 0 or marked):
            with suppress(SilklineError):  # then they are rescued when their leases expire
                await self._settle(ends)
        return f" while handling {marked.url}{place}" if marked else ""

    def _count_death(self, member: FleetMember, code: int, page: str, *, soon: bool) -> None:
        """If a process was ended, or killed while handling pages, a page may be responsible; otherwise the worker is."""
        report, member.report = member.report, None
        if page or member.ended or (code < 0 and report and report.working):
            member.fruitless = 0 if report and report.counters.ended else member.fruitless + 1
            member.early_deaths = 0
        else:
            member.early_deaths = member.early_deaths + 1 if soon else 0
        if report:
            member.past.add(report.counters)

    async def _watch(self) -> None:
        """End processes that are silent for too long, or that use too much memory and cannot end themselves."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_EVERY)
            now = time.monotonic()
            away = now - before - WATCH_EVERY
            before = now
            for member in self.members:
                if away > 2 * WATCH_EVERY:
                    member.reported_at += away  # this process was stopped itself, and read no reports
                elif (process := member.process) and process.returncode is None and not member.ended:
                    member.ended = self._objection(member, process.pid)
                    if member.ended:
                        await _end(process)

    def _objection(self, member: FleetMember, pid: int) -> str:
        """Return why a process must be ended, as text; "" if it may continue."""
        limit, most = self._options.blocked_limit, self._options.memory_limit
        working = member.report is not None and member.report.working
        if limit and working and member.silence > limit + 2 + limit / 10:  # it had the time to end itself
            return f"was blocked for {limit:.0f} s"
        used = used_memory(pid) if most else None
        if used and most and used > most * OVER_MEMORY:
            return f"used {format_bytes(used)} of memory, more than its limit of {format_bytes(most)}"
        return ""

    async def _run_one(self, member: FleetMember) -> int:
        """Run one process from its start to its end, and return its exit code."""
        reading, writing = os.pipe()
        member.ended, member.report = "", None
        if member.marker is not None:
            os.close(member.marker)
        member.marker = make_file()
        try:
            member.process = await asyncio.create_subprocess_exec(
                *self._command,
                *("--report-to", str(writing), "--mark-in", str(member.marker)),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(writing, member.marker),
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for this process, which signals the workers
            )
        finally:
            os.close(writing)
        member.reported_at = time.monotonic()
        if self._stopping or member.leaving:  # stopped while it was being started
            member.process.terminate()
        reports = asyncio.create_task(self._read_reports(member, reading))
        copying = asyncio.create_task(_copy_output(member, member.process))
        code = await member.process.wait()
        await reports
        await copying
        return code

    async def _read_reports(self, member: FleetMember, descriptor: int) -> None:
        """Read its reports until it ends."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**22)
        with os.fdopen(descriptor, "rb") as pipe:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            async for line in reader:
                member.reported_at = time.monotonic()
                with suppress(msgspec.DecodeError):  # it was killed in the middle of a line
                    member.report = read_report(line)
            transport.close()

    def _signal(self, number: int) -> None:
        for member in self.members:
            if member.process and member.process.returncode is None:
                with suppress(ProcessLookupError):
                    member.process.send_signal(number)


async def _copy_output(member: FleetMember, process: asyncio.subprocess.Process) -> None:
    """Pass on the output of a process, and keep the end of it. Not by line: the user's code may print long ones."""
    assert process.stderr
    member.words = ""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while data := await process.stderr.read(2**16):
        text = decoder.decode(data)
        member.words = (member.words + text)[-LAST_WORDS:]
        sys.stderr.write(text)
        sys.stderr.flush()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the process write its traceback to its marker, then kill it."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGABRT)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LAST_BREATH)
        if process.returncode is None:
            process.kill()


def _lease(shard: int, token: str) -> Lease:
    """Return a lease with the fields that are needed to end it."""
    return Lease(request=Request(""), shard=shard, wire_token=token, host="", attempt=1, first=0.0, expires=0.0)


def _last_words(member: FleetMember, code: int) -> str:
    """Return why it could not work: its last line of output if it exited, else what killed it."""
    lines = member.words.strip().splitlines()
    if member.ended:
        return f"it {member.ended}"
    return lines[-1].removeprefix("error: ") if lines and code >= 0 else f"it was killed ({_cause(code)})"


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    if code == -signal.SIGKILL:
        return "SIGKILL, often sent by the system when memory runs out"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def this_python() -> list[str]:
    """Return the command that starts ``silkline`` with the Python of this process."""
    return [sys.executable, "-m", "silkline"]
