"""``silkline run``: run the crawl that a file defines."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple, TextIO

import msgspec
from cyclopts import Group, Parameter, validators
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.logs import LogJson, LogLevel, log_to_screen
from silkline.cli.options.monitor import Metrics, Otel, WorkersOption, hooks, read_workers
from silkline.cli.options.server import Json, Redis, address
from silkline.cli.options.work import WorkOptions, without_secret
from silkline.cli.run.archive import archived_pages
from silkline.cli.run.board import RunBoard
from silkline.cli.run.every import RunSchedule, may_be_deleted, read_interval
from silkline.cli.run.reload import RELOADED, UserFiles, reloading, run_again
from silkline.cli.run.start import (
    RunStart,
    check_outputs,
    check_overwriting,
    confirm,
    is_finished,
    keep_scaling,
    prepare,
    remove_if_new,
)
from silkline.cli.run.summary import headline, show_summary
from silkline.cli.run.watch import FleetWatch
from silkline.core.units import format_duration
from silkline.errors import ConfigError
from silkline.frontier.frontier import Frontier
from silkline.frontier.overflow import SqliteOverflow, overflow_path
from silkline.ops.autoscale import ScalingTarget
from silkline.ops.http_server import ListenAddress
from silkline.ops.monitor import Monitor
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.loading import split
from silkline.worker.process.fleet import Fleet, NoWorkersLeft, this_python
from silkline.worker.process.run import conclude
from silkline.worker.process.summary import RunInfo, Summary

Flag = Parameter(negative=(), show_default=False)
SETTINGS = Group(
    "Override the file",
    help="These options override settings of the file, also for a resumed crawl.",
    sort_key=9,
)


@Parameter(name="*", group=SETTINGS)
@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings that override those of the file. None keeps the setting of the file."""

    delay: Annotated[float | None, Parameter(validator=validators.Number(gte=0))] = None
    """Seconds between two requests to one host."""
    host_concurrency: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """Requests in progress on one host."""
    max_pages: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """Maximum number of pages of the crawl."""

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
    workers: WorkersOption = "1",
    from_warc: Annotated[list[Path] | None, Parameter(negative=(), show_default=False)] = None,
    target: Annotated[float, Parameter(validator=validators.Number(gte=10, lte=86_400))] = ScalingTarget().drain,
    fresh: Annotated[bool, Flag] = False,
    overwrite: Annotated[bool, Parameter(name=("--overwrite", "-O"), negative=(), show_default=False)] = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative=(), show_default=False)] = False,
    revive: Annotated[bool, Flag] = False,
    reload: Annotated[bool, Flag] = False,
    every: Annotated[str | None, Parameter(show_default=False)] = None,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), negative=(), show_default=False)] = False,
    metrics: Metrics = None,
    otel: Otel = False,
    log_level: LogLevel = "warning",
    log_json: LogJson = False,
    json: Json = False,
    overrides: Overrides | None = None,
    reloaded: Annotated[bool, Parameter(show=False, negative=())] = False,
) -> int:
    """Run the crawl that a file defines.

    A crawl that was stopped continues where it stopped. Ctrl-C finishes the
    pages in progress and exits; a second Ctrl-C exits immediately.

    Examples:
      silkline run books.py -o books.jsonl
      silkline run shop.py:outlet -o sqlite:///shop.db --workers 4

    Exit code: 0 finished without dead letters, 1 workers failed,
    2 wrong usage, 3 server or sink unavailable, 5 finished with dead letters,
    130 interrupted, 143 terminated.

    Parameters
    ----------
    file
        The Python file that defines the crawl; FILE:NAME if it defines several.
    workers
        Worker processes on this machine: a number, or a range such as 1..8 to scale automatically.
    from_warc
        Read pages from a WARC or WACZ file instead of the web. May be repeated. See docs/how-to/archives.md.
    target
        With a range of workers: seconds within which the queue should be finished.
    fresh
        Delete the crawl and start over. Items in sinks stay, unless --overwrite is given.
    overwrite
        Empty the outputs first. Refused for a crawl that is continued; add --fresh to start over.
    yes
        Do not ask for confirmation of --fresh.
    revive
        Retry dead letters.
    reload
        For development: when the file or a module beside it changes, finish the pages in progress and continue with it.
    every
        Run the crawl again at this interval (30m, 1h, 7d), each time afresh, until Ctrl-C. In a fleet, one run at a time. See docs/how-to/revisit.md.
    quiet
        Show only warnings, errors and the summary.
    metrics
        Serve /metrics, /healthz, /readyz and /autoscale at [HOST:]PORT.
    otel
        Send an OpenTelemetry span per attempt to OTEL_EXPORTER_OTLP_ENDPOINT.
    json
        Print the summary as JSON.
    """
    options = options or WorkOptions()
    fresh, overwrite = fresh and not reloaded, overwrite and not reloaded
    least, most = read_workers(workers)
    hooks(metrics, otel=otel)  # checks the options before any page is fetched
    if json and options.prints_items:
        raise ConfigError("--json and -o - both write to stdout; use only one of them")
    log_to_screen(log_level, as_json=log_json)
    live, stdout = not (options.prints_items and sys.stdout.isatty()), sys.stdout
    with (
        redirect_stdout(sys.stderr),
        ExitStack() as stack,
    ):  # stdout is for the result; output of the file goes to stderr
        crawl = options.load(file)
        index = stack.enter_context(archived_pages(crawl, from_warc or [], options, quiet=quiet))
        options = replace(options, from_index=str(index) if index else None)
        log_to_screen(log_level, as_json=log_json, crawl=crawl.name)
        files = UserFiles(split(file)[0]) if reload else None
        (overrides or Overrides()).apply(crawl)
        url = address(redis)
        overflow = _overflow(options, url, file)
        start = RunStart(crawl, file, url, options.out, fresh=fresh, revive=revive, quiet=quiet, overflow=overflow)
        if every is not None:
            given = {"--fresh": fresh, "--revive": revive, "--reload": reload, "--from-warc": index}
            _check_every(crawl, given)
            start.fresh, start.overwrite = True, overwrite
            if not yes and not asyncio.run(may_be_deleted(url, crawl.name)):
                confirm(start)
            more = _more(log_level, otel=otel, log_json=log_json)
            work = Work(options, more, ScalingTarget(drain=target, least=least, most=most), metrics)
            shown = partial(_show, options=options, json=json, log_json=log_json)
            board = partial(RunBoard, crawl.name, live=live, quiet=quiet)
            return asyncio.run(_run_every(start, work, read_interval(every), board, shown, stdout))
        if index:  # what such a crawl has done can be done again, so it needs no confirmation
            start.archived, yes = True, True
            start.fresh = fresh = fresh or (not revive and asyncio.run(is_finished(start)))
        if overwrite:
            start.overwrite = True
            check_overwriting(start)
        if fresh and not yes:
            confirm(start)
        more = _more(log_level, otel=otel, log_json=log_json)
        work = Work(options, more, ScalingTarget(drain=target, least=least, most=most), metrics, files)
        try:
            summary, stop_signal = asyncio.run(_run(start, work, RunBoard(crawl.name, live=live, quiet=quiet)))
        except NoWorkersLeft as error:
            screen.complain(str(error))
            return Exit.FAILED
    if summary is None:
        run_again()
    _show(start, summary, options=options, json=json, log_json=log_json)
    return _verdict(summary, stop_signal)


def _more(log_level: str, *, otel: bool, log_json: bool) -> list[str]:
    return ["--log-level", log_level, *(["--otel"] if otel else []), *(["--log-json"] if log_json else [])]


def _show(start: RunStart, summary: Summary, *, options: WorkOptions, json: bool, log_json: bool) -> None:
    if json:
        screen.print_json(summary)
    elif log_json and options.prints_items:
        screen.remark(headline(summary))
    else:
        console = screen.err if options.prints_items else screen.out
        show_summary(summary, start.outs, _again(), console, revive=f"{_again(every=False)} --revive")


def _check_every(crawl: Crawl, given: Mapping[str, object]) -> None:
    """Raise `ConfigError` for options and crawls that --every cannot be used with."""
    for name in [name for name, value in given.items() if value]:
        raise ConfigError(f"--every and {name} exclude each other: each run starts afresh")
    if crawl.revisit or any(crawl.revisits.values()) or crawl.tasks.are_recurring:
        raise ConfigError(
            f"a run of {crawl.name!r} never ends, because its pages are visited again or its tasks are recurring; leave out --every"
        )


async def _run_every(
    start: RunStart,
    work: Work,
    every: float,
    board: Callable[[], RunBoard],
    show: Callable[[RunStart, Summary], None],
    stdout: TextIO,
) -> int:
    """Run the crawl whenever it is due, until a signal."""
    async with RunSchedule.open(start.redis, start.crawl.name, every) as schedule:
        start.say(f"{escape(start.crawl.name)} runs every {format_duration(every)}; Ctrl-C ends that")
        while turn := await schedule.next_turn():
            again = replace(
                start, outs=list(start.outs), fresh=turn.is_fresh, run=turn.name if turn.is_fresh else "",
                overwrite=start.overwrite and turn.is_fresh,
            )  # fmt: skip
            held = HeldRun(schedule)
            stop_signal, is_done = None, False
            try:
                async with schedule.held(turn, held.lost):
                    summary, stop_signal = await _run(again, work, board(), held.watched)
                is_done = stop_signal is None
                if summary is not None and not held.is_lost:
                    with redirect_stdout(stdout):
                        show(again, summary)
            except NoWorkersLeft as error:
                screen.complain(str(error))
                is_done = True
            finally:
                await schedule.ended(turn, is_done=is_done)
            if stop_signal is not None and not held.is_lost:
                return Exit.INTERRUPTED if stop_signal is signal.SIGINT else Exit.TERMINATED
    return Exit.INTERRUPTED if schedule.stop_signal is signal.SIGINT else Exit.TERMINATED


class HeldRun:
    """A run whose lease this process holds. If another process takes it over, its workers stop."""

    def __init__(self, schedule: RunSchedule) -> None:
        self._schedule = schedule
        self.is_lost = False
        self._watch: FleetWatch | None = None

    @asynccontextmanager
    async def watched(self, watch: FleetWatch) -> AsyncIterator[None]:
        self._watch = watch
        watch.then = self._schedule.stop
        if self._schedule.stop_signal or self.is_lost:  # while the run was prepared
            asyncio.get_running_loop().call_soon(watch.stop, self._schedule.stop_signal or signal.SIGTERM)
        yield

    def lost(self) -> None:
        """Stop the workers, because another process has the run now."""
        self.is_lost = True
        if self._watch:
            self._watch.stop(why="another process has taken over this run")


def _overflow(options: WorkOptions, url: str, file: str) -> Path | None:
    """Return the path of the overflow file. A path given by the user is opened once, to report errors early."""
    place = overflow_path(options.overflow, url, split(file)[0])
    if place and options.overflow:
        SqliteOverflow(place).close()
    return place


class Work(NamedTuple):
    """How a run starts its workers."""

    options: WorkOptions
    more: list[str]
    target: ScalingTarget
    metrics: str | None = None
    reload: UserFiles | None = None
    """The files that are watched, with --reload."""

    def command(self, start: RunStart) -> list[str]:
        """Return the command of a worker process. The server address may contain a password, so it is passed in the environment."""
        options = replace(self.options, out=start.outs, allow_private=start.crawl.fetching.allow_private)
        return [*this_python(), "worker", start.file, *options.arguments(workers=self.target.most), *self.more]


async def _run(
    start: RunStart,
    work: Work,
    board: RunBoard,
    alongside: Callable[[FleetWatch], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
) -> tuple[Summary | None, signal.Signals | None]:
    """Check the sinks, create or resume the crawl, run the workers, and summarize; None if the run must start again."""
    await check_outputs(start)
    async with await prepare(start) as frontier:
        options = work.options.worker_options(workers=work.target.most)
        environment = {"SILKLINE_REDIS": start.redis, **work.options.environment}
        command, settle = work.command(start), frontier.settle
        fleet = Fleet(command, work.target.least, options=options, settle=settle, environment=environment)
        watch = FleetWatch(frontier, fleet, board)
        if not start.all_done:
            async with (
                _served(start, work, frontier, fleet),
                _scaling(work, frontier, fleet),
                _reloading(start, work, watch, board),
                alongside(watch),
            ):
                await watch.run()
                if work.reload is not None and watch.stop_signal is None:
                    await watch.wait_if_it_paused_itself(start.file)
        if watch.reloads and watch.stop_signal is None:
            return None, None
        run_info = RunInfo(
            seconds=watch.elapsed,
            resumed=start.resumed,
            interrupted=watch.stop_signal is not None,
            workers=fleet.largest,
            restarts=fleet.restarts,
            waits_for=watch.waits_for,
        )
        return await conclude(start.crawl, frontier, fleet.counters, run_info, start.outs), watch.stop_signal


@asynccontextmanager
async def _served(start: RunStart, work: Work, frontier: Frontier, fleet: Fleet) -> AsyncIterator[None]:
    """Serve the metrics. If that is not possible, no worker is started, and a crawl that is new is removed."""
    monitor = _monitor(work, frontier, fleet)
    try:
        await monitor.__aenter__()
    except Exception:
        await remove_if_new(start, frontier)
        raise
    try:
        yield
    finally:
        await monitor.__aexit__(None, None, None)


def _monitor(work: Work, frontier: Frontier, fleet: Fleet) -> AbstractAsyncContextManager[object]:
    if work.metrics is None:
        return nullcontext()
    return Monitor(ListenAddress.parse(work.metrics), frontier, fleet, work.target)


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


def _reloading(start: RunStart, work: Work, watch: FleetWatch, board: RunBoard) -> AbstractAsyncContextManager[None]:
    if work.reload is None:
        return nullcontext()

    def say(text: str) -> None:
        board.say(f"[yellow]{escape(screen.printable(text))}[/]")

    return reloading(work.reload, start.file, watch.reload, say)


def _verdict(summary: Summary, stop_signal: signal.Signals | None) -> Exit:
    if summary.finished:
        return Exit.DEAD if summary.dead else Exit.OK
    if stop_signal is None:
        return Exit.FAILED
    return Exit.INTERRUPTED if stop_signal is signal.SIGINT else Exit.TERMINATED


def _again(*, every: bool = True) -> str:
    """Return the command as typed, without options that must not be repeated; without *every*, also without ``--every``."""
    words = [
        word
        for before, word in pairwise(sys.argv)
        if word not in (RELOADED, "--fresh", "--overwrite", "-O", "--yes", "-y", "--revive")
        and (every or "--every" not in (before, word.partition("=")[0]))
    ]
    return shlex.join(["silkline", *map(without_secret, words)])
