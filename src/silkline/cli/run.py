"""``silkline run``: crawl what a file defines, from the first page to the last."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import Group, Parameter, validators

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.logs import LogLevel, log_to_screen
from silkline.cli.monitor_options import Metrics, Otel, Workers, company, read_workers
from silkline.cli.run_board import Board
from silkline.cli.run_scale import keep_scaling
from silkline.cli.run_start import Start, confirm, prepare
from silkline.cli.run_summary import show_summary
from silkline.cli.run_watch import Watch
from silkline.cli.server import Json, Redis, address
from silkline.cli.work_options import WorkOptions
from silkline.core.errors import ConfigError
from silkline.frontier.address import without_password
from silkline.frontier.frontier import Frontier
from silkline.frontier.overflow import SqliteOverflow
from silkline.metrics.http import Place
from silkline.operate.autoscale import Target
from silkline.operate.monitor import Monitor
from silkline.worker.crawl import Crawl
from silkline.worker.fleet import Fleet, NobodyWorks, this_python
from silkline.worker.loading import split
from silkline.worker.process import open_sinks
from silkline.worker.run import conclude
from silkline.worker.spill import place_of
from silkline.worker.summary import Course, Summary

Flag = Parameter(negative=(), show_default=False)
SETTINGS = Group(
    "Instead of what the file says",
    help="A crawl takes on another pace when it is resumed; --max-pages is for a new one.",
    sort_key=9,
)


@Parameter(name="*", group=SETTINGS)
@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings of the crawl that the command line may set; None leaves it to the file."""

    delay: Annotated[float | None, Parameter(validator=validators.Number(gte=0))] = None
    """Seconds between two starts on one host."""
    host_concurrency: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """Requests under way on one host."""
    max_pages: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """Pages of the whole crawl, never more."""

    def apply(self, crawl: Crawl) -> None:
        pace = {"delay": self.delay, "concurrency": self.host_concurrency}
        given = {name: value for name, value in pace.items() if value is not None}
        crawl.politeness = msgspec.structs.replace(crawl.politeness, **given)
        if self.max_pages is not None:
            crawl.budget = msgspec.structs.replace(crawl.budget, pages=self.max_pages)


def run(  # noqa: PLR0913 - each is an option of the command
    file: str,
    /,
    *,
    options: WorkOptions | None = None,
    redis: Redis = None,
    workers: Workers = "1",
    target: Annotated[float, Parameter(validator=validators.Number(gte=10, lte=86_400))] = Target().drain,
    fresh: Annotated[bool, Flag] = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative=(), show_default=False)] = False,
    revive: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), negative=(), show_default=False)] = False,
    metrics: Metrics = None,
    otel: Otel = False,
    log_level: LogLevel = "warning",
    json: Json = False,
    overrides: Overrides | None = None,
) -> int:
    """Crawl what a file defines.

    A crawl that was stopped goes on where it was. Ctrl-C ends what is under
    way and gives back the rest; a second one ends at once.

    Examples:
      silkline run books.py -o books.jsonl
      silkline run shop.py:outlet -o sqlite:///shop.db --workers 4 --redis redis://localhost:6379/0

    Exit code: 0 finished and nothing dead, 1 workers could not work,
    2 wrong usage, 3 server or sink unavailable, 5 finished with dead letters,
    130 interrupted, 143 terminated.

    Parameters
    ----------
    file
        The Python file that defines the crawl; FILE:NAME if it defines several.
    workers
        Worker processes on this machine: a number, or 1..8 for as many as are of use.
    target
        With --workers 1..8: seconds within which all that is found should be done.
    fresh
        Forget all that the crawl has done, and start over. What sinks hold stays.
    yes
        Do not ask before --fresh.
    revive
        Give dead letters another chance.
    quiet
        No progress and no remarks: only warnings, errors and the summary.
    metrics
        [HOST:]PORT at which to serve /metrics, /healthz, /readyz and /autoscale.
    otel
        Send an OpenTelemetry span per attempt, to where OTEL_EXPORTER_OTLP_ENDPOINT says.
    json
        Print the summary as JSON.
    """
    options = options or WorkOptions()
    least, most = read_workers(workers)
    company(metrics, otel=otel)  # says what is wrong with it before anything is fetched
    if json and options.prints_items:
        raise ConfigError("--json and -o - both want stdout; leave one out")
    log_to_screen(log_level)
    live = not (options.prints_items and sys.stdout.isatty())
    with redirect_stdout(sys.stderr):  # stdout is for the result: what the file prints is a remark
        crawl = options.load(file)
        (overrides or Overrides()).apply(crawl)
        url = address(redis)
        overflow = _overflow(options, url, file)
        start = Start(crawl, file, url, options.out, fresh=fresh, revive=revive, quiet=quiet, overflow=overflow)
        if fresh and not yes:
            confirm(start)
        command = [*_command(file, options, log_level), *(["--otel"] if otel else [])]
        work = Work(command, Target(drain=target, least=least, most=most), metrics)
        try:
            summary, told = asyncio.run(_run(start, work, Board(crawl.name, live=live, quiet=quiet)))
        except NobodyWorks as error:
            screen.complain(str(error))
            return Exit.FAILED
    if json:
        screen.tell_json(summary)
    else:
        show_summary(summary, options.out, _again(), screen.err if options.prints_items else screen.out)
    return _verdict(summary, told)


def _overflow(options: WorkOptions, url: str, file: str) -> Path | None:
    """Where links wait; if it was named and cannot be used, that is said before anything is fetched."""
    place = place_of(options.overflow, url, split(file)[0])
    if place and options.overflow:
        SqliteOverflow(place).close()
    return place


def _command(file: str, options: WorkOptions, log_level: str) -> list[str]:
    """What each worker process runs; the server's address, which may hold a password, comes by the environment."""
    return [*this_python(), "worker", file, *options.arguments(), "--log-level", log_level]


class Work(NamedTuple):
    """How a run has its crawl worked on."""

    command: list[str]
    target: Target
    metrics: str | None = None


async def _run(start: Start, work: Work, board: Board) -> tuple[Summary, signal.Signals | None]:
    """The story: look at the sinks, create or resume, have it worked on, account for it."""
    async with open_sinks(start.outs, start.redis):
        pass  # whatever is wrong with one is said before anything is fetched
    async with await prepare(start) as frontier:
        fleet = Fleet(work.command, work.target.least, environment={"SILKLINE_REDIS": start.redis})
        watch = Watch(frontier, fleet, board)
        if not start.all_done:
            async with _monitor(work, frontier, fleet), _scaling(work, frontier, fleet):
                await watch.run()
        course = Course(
            seconds=watch.elapsed,
            resumed=start.resumed,
            interrupted=watch.told is not None,
            workers=fleet.largest,
            restarts=fleet.restarts,
        )
        return await conclude(start.crawl, frontier, fleet.tally, course, start.outs), watch.told


def _monitor(work: Work, frontier: Frontier, fleet: Fleet) -> AbstractAsyncContextManager[object]:
    if work.metrics is None:
        return nullcontext()
    return Monitor(Place.parse(work.metrics), frontier, fleet, work.target)


@asynccontextmanager
async def _scaling(work: Work, frontier: Frontier, fleet: Fleet) -> AsyncIterator[None]:
    if work.target.least == work.target.most:
        yield
        return
    task = asyncio.create_task(keep_scaling(frontier, fleet, work.target))
    try:
        yield
    finally:
        task.cancel()


def _verdict(summary: Summary, told: signal.Signals | None) -> Exit:
    if summary.finished:
        return Exit.DEAD if summary.dead else Exit.OK
    if told is None:
        return Exit.FAILED
    return Exit.INTERRUPTED if told is signal.SIGINT else Exit.TERMINATED


def _again() -> str:
    """The command as it was typed, without what must not be repeated."""
    words = [word for word in sys.argv[1:] if word not in ("--fresh", "--yes", "-y", "--revive")]
    return shlex.join(["silkline", *map(without_password, words)])
