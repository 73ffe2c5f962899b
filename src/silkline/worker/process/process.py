"""One worker process, from its first connection to its last report."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from silkline.core.politeness import Politeness
from silkline.errors import SilklineError, SinkUnavailable
from silkline.fetch.local import raise_limit
from silkline.frontier.frontier import Frontier
from silkline.frontier.overflow import Overflow
from silkline.frontier.transport.command import load_all
from silkline.frontier.transport.redis_url import without_password
from silkline.runtime.counters import Counters
from silkline.runtime.memory import relieve_garbage_collector
from silkline.runtime.settling import retry_until_reachable
from silkline.sinks.sink import Sink, open_sink
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.options import WorkerOptions
from silkline.worker.process.marker import PageMarker
from silkline.worker.process.reports import ReportWriter, keep_logging
from silkline.worker.process.watchdog import Trouble
from silkline.worker.worker import AroundAttempt, Worker

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
ENDED = 1
"""The exit code of a process that the watchdog ends."""

Join = Callable[[Frontier], Awaitable[Sequence[str]]]
Alongside = Callable[[Frontier, Worker], AbstractAsyncContextManager[object]]


def _nothing_alongside(_frontier: Frontier, _worker: Worker) -> AbstractAsyncContextManager[object]:
    return nullcontext()


class Hooks(NamedTuple):
    """Hooks of a worker: a function around every attempt, and a context that is open while the worker runs."""

    around_attempt: AroundAttempt | None = None
    alongside: Alongside = _nothing_alongside


class WorkResult(NamedTuple):
    """What a worker did until it left."""

    counters: Counters
    paused_crawl: bool
    """Whether it paused the crawl, because a handler failed on many pages in a row."""


class Parent(NamedTuple):
    """The file descriptors that a worker process shares with the process that started it."""

    report_to: int | None = None
    """A pipe for reports."""
    mark_in: int | None = None
    """A file that holds the page that is being handled."""


async def work(  # noqa: PLR0913 - the options of a worker process
    crawl: Crawl,
    redis: str | None,
    outs: Sequence[str] | Join = (),
    *,
    options: WorkerOptions | None = None,
    forever: bool = False,
    parent: Parent | None = None,
    hooks: Hooks | None = None,
    overflow: Overflow | None = None,
    own_process: bool = True,
) -> WorkResult:
    """Work on an existing crawl, or on a queue of tasks, until it is finished, or until SIGTERM or SIGINT.

    *outs* may be a function that decides where items go once the crawl is open. With a *parent*, this process belongs to the
    worker: it ends when its event loop is blocked for too long, or when it uses too much memory. If this is not its *own_process*,
    but the event loop of a program of the user, signals and the garbage collector are left to that program.
    """
    options, hooks = options or WorkerOptions(), hooks or Hooks()
    load_all()
    reports = ReportWriter(parent.report_to) if parent and parent.report_to is not None else None
    if own_process:
        raise_limit()
        relieve_garbage_collector()
    async with (
        await _open(crawl, redis, options, overflow) as frontier,
        open_sinks(
            await outs(frontier) if callable(outs) else outs,
            redis,
            crawl.sink_makers,
            waiting=reports.report_trouble if reports else _ignore_trouble,
        ) as sinks,
    ):
        worker = Worker(
            crawl, frontier, sinks=sinks, options=options, forever=forever, around_attempt=hooks.around_attempt
        )
        if reports is None:
            _compare_politeness(crawl, frontier)
            if (
                not forever
                and not crawl.feeds
                and crawl.has_pages
                and (await frontier.admin.status()).word == "finished"
            ):
                log.info("%s is finished: nothing to do", crawl.name)
        if parent is not None:
            worker.end_process = partial(_end_process, worker, reports)
            worker.mark = PageMarker(parent.mark_in) if parent.mark_in is not None else worker.mark
        if own_process and threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, worker.stop)
        reporting = asyncio.create_task(reports.keep_reporting(worker) if reports else keep_logging(worker))
        try:
            async with hooks.alongside(frontier, worker):
                return WorkResult(await worker.run(), worker.paused_crawl)
        finally:
            reporting.cancel()
            if reports:
                reports.end(worker)


async def _open(crawl: Crawl, redis: str | None, options: WorkerOptions, overflow: Overflow | None) -> Frontier:
    """Open the frontier of a crawl, which must exist, or the queue of tasks, which may be new."""
    name, lease = "worker", options.lease
    if crawl.has_pages:
        frontier = await Frontier.open(
            redis, crawl=crawl.name, create=False, lease=lease, overflow=overflow, client_name=name
        )
    else:
        frontier = await crawl.tasks.open(redis, lease=lease, client_name=name)
    what = "pages" if crawl.has_pages else "tasks"
    place = without_password(frontier.url or "its server")
    log.info("working on %s at %s, %d %s at a time", crawl.name, place, options.concurrency, what)
    return frontier


def _compare_politeness(crawl: Crawl, frontier: Frontier) -> None:
    """Log that another politeness applies than that of the worker's file."""
    applies = frontier.layout.settings.politeness
    if crawl.has_pages and crawl.politeness != applies:
        log.info(
            "the file of this worker has %s, but the crawl %s has %s, which applies to all workers. To change it: silkline crawl set %s",
            _in_words(crawl.politeness),
            crawl.name,
            _in_words(applies),
            crawl.name,
        )


def _in_words(politeness: Politeness) -> str:
    burst = f", burst {politeness.burst}" if politeness.burst > 1 else ""
    return f"delay {politeness.delay:g} s, concurrency {politeness.concurrency}{burst}"


def _ignore_trouble(_: str) -> None:
    """Ignore the reason: no process reads reports, and it is in the log."""


def _end_process(worker: Worker, reports: ReportWriter | None, trouble: Trouble) -> None:
    """End this process at once: its event loop may be blocked."""
    try:
        if reports:
            reports.end(worker, trouble.what)
        else:
            log.error("this worker %s; what it held was given back, and it exits; start another one", trouble.what)
        logging.shutdown()
    finally:  # whatever is wrong with the report
        os._exit(ENDED)


@asynccontextmanager
async def open_sinks(
    outs: Sequence[str],
    redis: str | None,
    makers: Sequence[Callable[[], Sink]] = (),
    *,
    waiting: Callable[[str], object] | None = None,
) -> AsyncIterator[list[Sink]]:
    """Open all sinks, and the user's own, and close them at the end.

    With *waiting*, a sink that is unavailable is waited for, and *waiting* is called with the reason.
    """
    sinks: list[Sink] = []
    try:
        for out in outs:
            sink = await (_wait_for_sink(out, redis, waiting) if waiting else _open_one(out, redis))
            sinks.append(sink)
        sinks += [make() for make in makers]
        yield sinks
    finally:
        for sink in sinks:
            await sink.close()


async def _open_one(out: str, redis: str | None) -> Sink:
    return await asyncio.to_thread(open_sink, out, redis=redis)


async def _wait_for_sink(out: str, redis: str | None, waiting: Callable[[str], object]) -> Sink:
    def failed(error: SilklineError) -> None:
        if not isinstance(error, SinkUnavailable):
            raise error
        log.warning("%s; it will be retried", error)
        waiting(str(error))

    return await retry_until_reachable(partial(_open_one, out, redis), failed, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
