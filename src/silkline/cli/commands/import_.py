"""``silkline import scrapy-redis``: import the queue of a scrapy-redis project."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Self

from cyclopts import Parameter
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.crawl import CrawlOptions, open_or_create
from silkline.cli.options.server import Json, Redis, address
from silkline.errors import UnknownCrawl
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.user_keys.import_source import ImportSource
from silkline.ops.parsing import plural
from silkline.scrapy.migrate.importing import ImportSummary, QueueImport, check_keys, crawl_for

SHOWN_REASONS = 5
SCRAPYS_PACE = {"delay": 0.0, "concurrency": 8}
"""DOWNLOAD_DELAY and CONCURRENT_REQUESTS_PER_DOMAIN of a project that sets neither."""


def scrapy_redis(  # noqa: PLR0913 - each is an option of the command
    *,
    spider: str,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    crawl: str | None = None,
    requests_key: str = "%(spider)s:requests",
    dupefilter_key: str = "%(spider)s:dupefilter",
    move: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    dry_run: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    redis: Redis = None,
    json: Json = False,
    options: CrawlOptions | None = None,
) -> int:
    """Import the queue and dupefilter of a scrapy-redis spider.

    The requests keep callback, meta, headers, body and priority; URLs in
    the dupefilter count as seen. Then start the spider with
    silkline.scrapy: it continues where scrapy-redis stopped.

    Pickles are read without running code. A pickle that names a class or
    calls a function is refused and counted.

    Without --move the queue is copied. Stop the scrapy-redis workers
    first (with SCHEDULER_PERSIST = True, or they delete the queue when
    they stop), or they crawl the same pages. With --move each request is
    removed from the queue before it is added, so the workers may keep
    running. Refused requests are kept in the list KEY:silkline:refused.
    The dupefilter is never deleted.

    A crawl keeps the rate limits it is created with. If the project sets
    DOWNLOAD_DELAY or CONCURRENT_REQUESTS_PER_DOMAIN, pass the same values
    with --delay and --concurrency; for a LifoQueue, --order lifo.

    You can run the command again, also after it was killed: requests that
    were imported are skipped.

    Examples:
      silkline import scrapy-redis --spider shop --dry-run
      silkline import scrapy-redis --spider shop --from redis://old:6379
      silkline import scrapy-redis --spider shop --redis redis://localhost --move

    Exit code: 0 all imported, 1 some were refused, 2 wrong usage,
    3 server unavailable, 130 interrupted.

    Parameters
    ----------
    spider
        Name of the spider.
    from_
        Address of the server that scrapy-redis uses. Default: --redis.
    crawl
        Name of the crawl. Default: the name the plugin derives from SCHEDULER_QUEUE_KEY and the spider.
    requests_key
        SCHEDULER_QUEUE_KEY of the project.
    dupefilter_key
        SCHEDULER_DUPEFILTER_KEY of the project.
    move
        Remove the requests from the queue of scrapy-redis.
    dry_run
        Only read and count; change nothing.
    json
        Print the summary as JSON.
    """
    requests, dupefilter = (key.replace("%(spider)s", spider) for key in (requests_key, dupefilter_key))
    name = CrawlKeys(crawl or crawl_for(requests_key, spider)).crawl
    summary = ImportSummary(spider, name, created=False, move=move and not dry_run, dry_run=dry_run)
    with ImportSource.open(from_ or address(redis)) as source:
        check_keys(source, requests, dupefilter)
        with _open(summary, address(redis), options or CrawlOptions()) as frontier, _ImportProgress(summary) as meter:
            work = QueueImport(source, frontier, summary, meter.step)
            return _run(work, requests, dupefilter, json=json)


@contextmanager
def _open(summary: ImportSummary, url: str, options: CrawlOptions) -> Iterator[SyncFrontier | None]:
    """Open the crawl; None for a dry run."""
    if summary.dry_run:
        yield None
        return
    frontier, summary.created = open_or_create(url, summary.crawl, _paced(url, summary.crawl, options))
    with frontier:
        yield frontier


def _paced(url: str, crawl: str, options: CrawlOptions) -> CrawlOptions:
    """Give a new crawl the rate limits that Scrapy has by default: the plugin keeps those of an existing crawl."""
    try:
        SyncFrontier.open(url, crawl=crawl, create=False).close()
    except UnknownCrawl:
        return replace(options, **(SCRAPYS_PACE | options.given()))
    return options


def _run(work: QueueImport, requests: str, dupefilter: str, *, json: bool) -> Exit:
    """Import, print the summary, and return the exit code."""
    summary, started = work.summary, time.monotonic()
    try:
        work.run(requests, dupefilter)
    except KeyboardInterrupt:
        summary.interrupted = True
    finally:
        summary.seconds = round(time.monotonic() - started, 3)
        screen.print_json(summary) if json else _report(summary, requests, dupefilter)
    if summary.interrupted:
        return Exit.INTERRUPTED
    return Exit.FAILED if summary.refused else Exit.OK


class _ImportProgress:
    """A progress bar, on a terminal."""

    def __init__(self, summary: ImportSummary) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
        self._progress = Progress(*columns, console=screen.err, transient=True, disable=not screen.err.is_terminal)
        self._task = self._progress.add_task(f"import {summary.spider}", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, text: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=text, completed=done, total=total)


def _report(summary: ImportSummary, requests: str, dupefilter: str) -> None:
    _print_counts(summary)
    for reason, count in sorted(summary.reasons.items(), key=lambda pair: -pair[1])[:SHOWN_REASONS]:
        screen.remark(f"  [red]refused[/] {count:,}: {escape(screen.printable(reason))}")
    if summary.refused and summary.move:
        screen.remark(f"Refused requests are kept in the list {escape(requests)}:silkline:refused.")
    if summary.unfound:
        screen.remark(
            f"[yellow]Not in {escape(dupefilter)}:[/] {plural(summary.unfound, 'refused request')}, looked up by the fingerprints of"
            " scrapy-redis and Scrapy. If the project has its own request_fingerprint, their pages are marked as seen, and links to"
            " them are skipped. Push their URLs to the start key of the spider."
        )
    if summary.changed:
        screen.remark(
            "[yellow]The queue changed during the import:[/] scrapy-redis workers are running. Stop them and run this again, or "
            "use --move; otherwise pages are crawled twice, or missed."
        )
    if summary.interrupted:
        screen.remark(
            "Interrupted. Nothing is lost: run the same command again; requests that were imported are skipped."
        )
    elif (refused := summary.refused + summary.refused_before) and not summary.dry_run:
        screen.remark(
            f"Keep the data of scrapy-redis: {plural(refused, 'request')} could not be imported. {summary.unmarked:,} of "
            "their URLs are not marked as seen, so links to them are still crawled."
        )
    elif not summary.dry_run:
        keys = escape(dupefilter if summary.move else f"{requests} {dupefilter}")
        screen.remark(f"To delete the data of scrapy-redis when nothing uses it any more: redis-cli UNLINK {keys}")


def _print_counts(summary: ImportSummary) -> None:
    new = " (created)" if summary.created else ""
    verb = "would be added" if summary.dry_run else "moved" if summary.move else "added"
    counts = [f"[bold]{summary.added:,}[/] requests {verb}", f"{summary.before:,} imported before"]
    counts += [f"{summary.refused:,} refused", f"{summary.marked:,} fingerprints seen"]
    screen.show(f"{summary.crawl}{new}: {', '.join(counts)}, in {summary.seconds:.1f} s")
