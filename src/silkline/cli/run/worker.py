"""``silkline worker``: start another worker for a running crawl."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from silkline.cli.exits import Exit
from silkline.cli.logs import LogJson, LogLevel, log_to_screen
from silkline.cli.options.monitor import Metrics, Otel, hooks
from silkline.cli.options.server import Redis, address, existing, repeated
from silkline.cli.options.work import WorkOptions
from silkline.cli.run.waiting import Awaited, embedded_server, wait_for_crawl
from silkline.errors import UnknownCrawl
from silkline.frontier.overflow import overflow_of
from silkline.ops.http_server import ListenAddress
from silkline.ops.parsing import plural
from silkline.runtime.event_loop import run_async
from silkline.sinks.stdout import reserve_stdout
from silkline.worker.crawl.loading import split
from silkline.worker.options import WorkerOptions
from silkline.worker.process.orphans import end_with_parent
from silkline.worker.process.outputs import join_crawl
from silkline.worker.process.process import Parent, WorkResult, work

log = logging.getLogger("silkline.worker")


def worker(  # noqa: PLR0913 - each is an option of the command
    file: str,
    /,
    *,
    options: WorkOptions | None = None,
    redis: Redis = None,
    forever: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    no_wait: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    metrics: Metrics = None,
    otel: Otel = False,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
    report_to: Annotated[int | None, Parameter(show=False)] = None,
    mark_in: Annotated[int | None, Parameter(show=False)] = None,
) -> int:
    """Join a crawl that was started with `silkline run` or `silkline start`, or run the tasks of a file.

    Starts one worker process, which exits when the crawl is finished. If the
    crawl does not exist yet, it waits for it; with --no-wait, it exits. Without
    -o it stores items where `silkline run` does. SIGTERM and Ctrl-C finish the
    pages in progress and give back the rest. For a file with Tasks, it waits
    for tasks until it is stopped, or for as long as --until-idle says.

    Examples:
      silkline worker books.py --redis redis://10.0.0.7 -o s3://my-bucket/books
      silkline worker books.py -o books.jsonl
      silkline worker tasks.py --redis redis://10.0.0.7

    Exit code: 0 the crawl is finished or the worker was stopped,
    1 the event loop was blocked for too long, the memory limit was exceeded, or
    the worker paused the crawl because a handler failed on many pages in a row,
    2 wrong usage, or no such crawl with --no-wait, 3 server or sink unavailable.

    Parameters
    ----------
    file
        The Python file that defines the crawl or the tasks; FILE:NAME if it defines several.
    forever
        Wait for new requests when the crawl is finished.
    no_wait
        Exit with code 2 if the crawl does not exist yet.
    metrics
        Serve /metrics, /healthz, /readyz and /autoscale at [HOST:]PORT.
    otel
        Send an OpenTelemetry span per attempt to OTEL_EXPORTER_OTLP_ENDPOINT.
    """
    options = options or WorkOptions()
    if report_to is not None:
        end_with_parent(report_to, WorkerOptions().drain)
    if options.prints_items:
        reserve_stdout()
    elif report_to is not None:
        os.dup2(2, 1)  # stdout is for the result of the run; output of handlers goes to stderr
    who = "" if report_to is None else f"worker {os.getpid()}: "
    log_to_screen(log_level, who=who, as_json=log_json)
    crawl = options.load(file, or_tasks=True)
    log_to_screen(log_level, who=who, as_json=log_json, crawl=crawl.name)
    waits = crawl.has_pages and not no_wait and report_to is None
    url = address(redis or crawl.tasks.redis) if waits or not crawl.has_pages else existing(redis)
    server = "".join(f" {word}" for word in repeated(redis))
    awaited = Awaited(crawl.name, url, f"silkline start {file}{server}")
    working = partial(
        work,
        crawl,
        url,
        options.out if report_to is not None or not crawl.has_pages else partial(join_crawl, crawl, options.out),
        options=options.worker_options(workers=1),
        forever=forever or (not crawl.has_pages and crawl.until_idle is None),
        parent=Parent(report_to, mark_in),
        hooks=hooks(metrics, otel=otel),
        overflow=overflow_of(options.overflow, url, split(file)[0]),
    )
    try:
        done: WorkResult | None = run_async(_when_started(awaited, metrics, working) if waits else working())
    except UnknownCrawl as error:
        raise UnknownCrawl(f"{error}. To start it: silkline run {file}{server}") from None
    if done is None:
        return Exit.OK
    counters = done.counters
    if crawl.has_pages:
        log.info("left %s after %s and %s", crawl.name, plural(counters.pages, "page"), plural(counters.items, "item"))
    else:
        log.info("left %s after %s", crawl.name, plural(counters.pages, "task"))
    return Exit.FAILED if done.paused_crawl and report_to is None else Exit.OK


async def _when_started(
    awaited: Awaited, metrics: str | None, working: Callable[[], Awaitable[WorkResult]]
) -> WorkResult | None:
    """Work once the crawl exists; None if the worker was stopped before that."""
    place = None if metrics is None else ListenAddress.parse(metrics)
    async with embedded_server(awaited.url):
        return await working() if await wait_for_crawl(awaited, place) else None
