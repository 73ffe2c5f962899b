"""``silkline import scrapy-redis``: take over what a scrapy-redis project has left to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Self

from cyclopts import App, Parameter
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from silkline.cli import screen
from silkline.cli.crawl_options import CrawlOptions, open_or_create
from silkline.cli.exits import Exit
from silkline.cli.server import Json, Redis, address
from silkline.core.errors import UnknownCrawl
from silkline.frontier.foreign import ForeignKeys
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.sync import SyncFrontier

if TYPE_CHECKING:
    from silkline.scrapy.importing import Import, Summary

SHOWN_REASONS = 5
SCRAPYS_PACE = {"delay": 0.0, "concurrency": 8}
"""DOWNLOAD_DELAY and CONCURRENT_REQUESTS_PER_DOMAIN of a project that sets neither."""

import_ = App(
    name="import",
    help="Take over what another crawler has left to do.",
    help_format="plaintext",
)


@import_.command(name="scrapy-redis", usage="Usage: silkline import scrapy-redis --spider NAME [OPTIONS]")
def scrapy_redis(  # noqa: PLR0913 - each is an option of the command
    *,
    spider: str,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    crawl: str | None = None,
    requests_key: str = "%(spider)s:requests",
    dupefilter_key: str = "%(spider)s:dupefilter",
    move: Annotated[bool, Parameter(negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    redis: Redis = None,
    json: Json = False,
    options: CrawlOptions | None = None,
) -> int:
    """Take over a spider's queue and dupefilter from scrapy-redis.

    The requests keep callback, meta, headers, body and priority; what the
    dupefilter has seen counts as seen. Then start the spider with
    silkline.scrapy: it goes on where scrapy-redis stopped.

    Pickles are read by a reader that knows plain data only. One that
    names a class or calls a function is refused and counted; it is
    never run.

    Without --move the queue is copied and left as it is: stop the
    scrapy-redis workers first (with SCHEDULER_PERSIST = True, or they
    delete the queue when they stop), or they crawl the same pages too.
    With --move each request is taken out of the queue before it comes
    in, so the workers may go on: a request is crawled by them or by us.
    What is refused is kept in the list KEY:silkline:refused. The
    dupefilter is never deleted.

    A crawl keeps the pace it is created with. If the project sets
    DOWNLOAD_DELAY or CONCURRENT_REQUESTS_PER_DOMAIN, give the same here
    with --delay and --concurrency; for a LifoQueue, --order lifo.

    Running it again is safe, also after it was killed: what is in is
    skipped.

    Examples:
      silkline import scrapy-redis --spider shop --dry-run
      silkline import scrapy-redis --spider shop --from redis://old:6379 --redis redis://new:6379
      silkline import scrapy-redis --spider shop --redis redis://localhost:6379 --move

    Exit code: 0 all are in, 1 some were refused, 2 wrong usage,
    3 server unavailable, 130 interrupted.

    Parameters
    ----------
    spider
        Name of the spider.
    from_
        Address of the server that scrapy-redis uses. Without one, the same as --redis.
    crawl
        Name of the crawl. Without one, the spider's name, or what the plugin makes of SCHEDULER_QUEUE_KEY.
    requests_key
        SCHEDULER_QUEUE_KEY of the project.
    dupefilter_key
        SCHEDULER_DUPEFILTER_KEY of the project.
    move
        Take the requests out of the queue of scrapy-redis.
    dry_run
        Only read and count; change nothing.
    json
        Print the summary as JSON.
    """
    from silkline.scrapy.importing import Import, Summary, check_keys, crawl_for  # noqa: PLC0415 - Scrapy is slow to load, and may be missing

    requests, dupefilter = (key.replace("%(spider)s", spider) for key in (requests_key, dupefilter_key))
    name = CrawlKeys(crawl or crawl_for(requests_key, spider)).crawl
    summary = Summary(spider, name, created=False, move=move and not dry_run, dry_run=dry_run)
    with ForeignKeys.open(from_ or address(redis)) as source:
        check_keys(source, requests, dupefilter)
        with _open(summary, address(redis), options or CrawlOptions()) as frontier, _Meter(summary) as meter:
            work = Import(source, frontier, summary, meter.step)
            return _run(work, requests, dupefilter, json=json)


@contextmanager
def _open(summary: Summary, url: str, options: CrawlOptions) -> Iterator[SyncFrontier | None]:
    """The crawl; none when it is only a rehearsal."""
    if summary.dry_run:
        yield None
        return
    frontier, summary.created = open_or_create(url, summary.crawl, _paced(url, summary.crawl, options))
    with frontier:
        yield frontier


def _paced(url: str, crawl: str, options: CrawlOptions) -> CrawlOptions:
    """A new crawl gets the pace that Scrapy has by default: the plugin keeps whatever it was created with."""
    try:
        SyncFrontier.open(url, crawl=crawl, create=False).close()
    except UnknownCrawl:
        return replace(options, **(SCRAPYS_PACE | options.given()))
    return options


def _run(work: Import, requests: str, dupefilter: str, *, json: bool) -> Exit:
    """Import, and account for it however it ends."""
    summary, started = work.summary, time.monotonic()
    try:
        work.run(requests, dupefilter)
    except KeyboardInterrupt:
        summary.interrupted = True
    finally:
        summary.seconds = round(time.monotonic() - started, 3)
        screen.tell_json(summary) if json else _report(summary, requests, dupefilter)
    if summary.interrupted:
        return Exit.INTERRUPTED
    return Exit.FAILED if summary.refused else Exit.OK


class _Meter:
    """Shows how far it is, on a terminal."""

    def __init__(self, summary: Summary) -> None:
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


def _report(summary: Summary, requests: str, dupefilter: str) -> None:
    _tell_counts(summary)
    for reason, count in sorted(summary.reasons.items(), key=lambda pair: -pair[1])[:SHOWN_REASONS]:
        screen.remark(f"  [red]refused[/] {count:,}: {escape(screen.printable(reason))}")
    if summary.refused and summary.move:
        screen.remark(f"What was refused is kept in the list {escape(requests)}:silkline:refused.")
    if summary.changed:
        screen.remark(
            "[yellow]The queue changed meanwhile:[/] scrapy-redis workers are running. Stop them and run this again, or "
            "use --move; otherwise pages are crawled twice, or missed."
        )
    if summary.interrupted:
        screen.remark("Interrupted. Nothing is lost: run the same command again, what is in already is skipped.")
    elif not summary.dry_run:
        keys = escape(dupefilter if summary.move else f"{requests} {dupefilter}")
        screen.remark(f"To delete what scrapy-redis has stored, once nothing uses it any more: redis-cli UNLINK {keys}")


def _tell_counts(summary: Summary) -> None:
    new = " (created)" if summary.created else ""
    verb = "would be added" if summary.dry_run else "moved" if summary.move else "added"
    counts = [f"[bold]{summary.added:,}[/] requests {verb}", f"{summary.before:,} were in already"]
    counts += [f"{summary.refused:,} refused", f"{summary.marked:,} fingerprints seen"]
    screen.show(f"{summary.crawl}{new}: {', '.join(counts)}, in {summary.seconds:.1f} s")
