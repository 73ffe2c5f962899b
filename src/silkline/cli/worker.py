"""``silkline worker``: one more worker for a crawl that is running."""

from __future__ import annotations

import logging
import os
from typing import Annotated

from cyclopts import Parameter

from silkline.cli.exits import Exit
from silkline.cli.logs import LogLevel, log_to_screen
from silkline.cli.monitor_options import Metrics, Otel, company
from silkline.cli.server import Redis, existing
from silkline.cli.work_options import WorkOptions
from silkline.core.errors import UnknownCrawl
from silkline.frontier.address import without_password
from silkline.worker.loading import split
from silkline.worker.process import run_async, work
from silkline.worker.spill import overflow_of
from silkline.worker.tally import Tally

log = logging.getLogger("silkline.worker")


def worker(  # noqa: PLR0913 - each is an option of the command
    file: str,
    /,
    *,
    options: WorkOptions | None = None,
    redis: Redis = None,
    forever: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    metrics: Metrics = None,
    otel: Otel = False,
    log_level: LogLevel = "info",
    report_to: Annotated[int | None, Parameter(show=False)] = None,
) -> int:
    """Join a crawl that `silkline run` has started.

    One process; it ends when the crawl is finished. SIGTERM and Ctrl-C end
    what is under way and give back the rest.

    Examples:
      silkline worker books.py --redis redis://10.0.0.7:6379/0 -o s3://my-bucket/books
      silkline worker books.py -o books.jsonl

    Exit code: 0 the crawl is finished, or it was told to stop,
    2 wrong usage or no such crawl, 3 server or sink unavailable.

    Parameters
    ----------
    file
        The Python file that defines the crawl; FILE:NAME if it defines several.
    forever
        Stay when the crawl is finished, and wait for more.
    metrics
        [HOST:]PORT at which to serve /metrics, /healthz, /readyz and /autoscale.
    otel
        Send an OpenTelemetry span per attempt, to where OTEL_EXPORTER_OTLP_ENDPOINT says.
    """
    options = options or WorkOptions()
    if report_to is not None and not options.prints_items:
        os.dup2(2, 1)  # stdout is for the result of the run: what handlers print is a remark
    log_to_screen(log_level, who="" if report_to is None else f"worker {os.getpid()}: ")
    crawl = options.load(file)
    url = existing(redis)
    try:
        tally: Tally = run_async(
            work(
                crawl,
                url,
                options.out,
                pace=options.pace(),
                forever=forever,
                report_to=report_to,
                company=company(metrics, otel=otel),
                overflow=overflow_of(options.overflow, url, split(file)[0]),
            )
        )
    except UnknownCrawl as error:
        start = f"silkline run {file}" + (f" --redis {without_password(url)}" if redis else "")
        raise UnknownCrawl(f"{error}. To start it: {start}") from None
    log.info("left %s after %s pages and %s items", crawl.name, f"{tally.pages:,}", f"{tally.items:,}")
    return Exit.OK
