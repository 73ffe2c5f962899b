"""Opens the crawl of a spider and registers the process as one of its workers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import scrapy

from silkline.errors import SettingsConflict, SilklineError, UnknownCrawl
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.arguments import CrawlArguments, embedded_in, read_crawl_arguments
from silkline.frontier.frontier import Frontier
from silkline.frontier.transport.redis_url import read_url
from silkline.runtime.presence import this_process
from silkline.scrapy.convert.settings import PluginOptions

log = logging.getLogger(__name__)

REMOVAL_TIMEOUT = 20.0
"""Seconds for which opening waits until another worker has removed the crawl."""
TRY_EVERY = 0.1
SCRAPY = {"scrapy": scrapy.__version__}
"""Marks workers that are Scrapy processes in the list of workers."""


class OpenCrawl(NamedTuple):
    """A crawl that was opened, as it was at that moment."""

    frontier: Frontier
    stats: Stats
    others: int
    """The number of other workers."""


async def open_frontier(options: PluginOptions, worker: str, emptied: Callable[[], None] = lambda: None) -> OpenCrawl:
    """Open the crawl and register this worker.

    With SCHEDULER_FLUSH_ON_START the crawl is removed first, and *emptied* is called.

    If another worker is about to remove the crawl, opening is retried. If the crawl still exists after `REMOVAL_TIMEOUT`,
    that worker has died, and this one removes it.
    """
    flush, patience = options.flush_on_start, time.monotonic() + REMOVAL_TIMEOUT
    while True:
        try:
            frontier = await _open(options)
        except UnknownCrawl:
            continue  # it was removed meanwhile
        try:
            if not flush:
                others = await frontier.internal.join(worker, info={**this_process(), **SCRAPY, "state": "working"})
                again = await _open(options)  # before, another worker may have removed and created the crawl
                try:
                    await _apply_changes(again, options)
                    return OpenCrawl(again, await again.admin.stats(), others)
                except BaseException:
                    await again.close()
                    raise
            flush = False
            if await _empty(frontier, options, worker):
                emptied()
        except UnknownCrawl:
            await (asyncio.sleep(TRY_EVERY) if time.monotonic() < patience else frontier.admin.remove())
        finally:
            await frontier.close()


def crawl_gone(crawl: str, in_progress: int) -> UnknownCrawl:
    """Return an error for a crawl that was deleted on the server while there was something to do."""
    pages = "1 page was" if in_progress == 1 else f"{in_progress} pages were"
    return UnknownCrawl(
        f"the crawl {crawl!r} is no longer on the server: FLUSHDB, FLUSHALL, a restart without persistence or `silkline crawl rm` has"
        f" deleted it. {pages} in progress here, and what was waiting is lost. Start the spider again to create a new crawl"
    )


def describe(options: PluginOptions, opened: OpenCrawl) -> str:
    """Return one line about a crawl that was opened: server, queue, filter and pace."""
    stats, settings = opened.stats, opened.frontier.layout.settings
    server = (
        read_url(options.url).public
        if options.url and not embedded_in(options.url)
        else options.url or "embedded:.silkline"
    )
    return (
        f"Silkline uses the crawl {options.crawl!r} on {server}: {stats.pending:,} requests waiting, {stats.seen:,} seen"
        f" ({settings.seen.kind} filter), {opened.others} other {'worker' if opened.others == 1 else 'workers'}. {describe_pace(options)}"
    )


def describe_pace(options: PluginOptions) -> str:
    """Return a sentence about what several workers do to the load of a site."""
    if not options.cluster_wide:
        return "Each worker keeps DOWNLOAD_DELAY and CONCURRENT_REQUESTS_PER_DOMAIN for itself, so more workers make more requests to a site"
    limits = options.politeness
    delay = f", with a delay of {limits.delay:g} s" if limits.delay else ""
    return (
        f"All workers together make at most {limits.concurrency} requests at once to a site{delay}, so more workers do not crawl one"
        " site faster. To limit each worker by itself, set SILKLINE_POLITENESS_CLUSTER_WIDE=False"
    )


async def warn_of_unread_queue(options: PluginOptions, frontier: Frontier) -> None:
    """Log a warning if the queue key of scrapy-redis has requests, which a spider does not read."""
    if not options.queue_key:
        return
    with suppress(SilklineError):  # a spider opens without this key too
        waiting = await frontier.inbox(options.queue_key).waiting()
        if waiting:
            log.warning(
                "The key %r has %d requests of scrapy-redis or of a queue object, which this spider does not read. To import them, run:"
                " silkline import scrapy-redis --spider %s. If they were imported, delete the key",
                options.queue_key,
                waiting,
                options.spider,
            )


async def _empty(frontier: Frontier, options: PluginOptions, worker: str) -> bool:
    """Remove the crawl, unless other workers work on it. Returns whether it was removed."""
    others = await frontier.internal.leave(worker, shut=True)
    if others:
        log.warning("SCHEDULER_FLUSH_ON_START is ignored: %d other workers work on the crawl %r", others, options.crawl)
    else:
        await frontier.admin.remove()
    return not others


async def _open(options: PluginOptions) -> Frontier:
    """Open the crawl with the project's settings, or an existing one with those that are stored."""
    where = {"url": options.url, "crawl": options.crawl, "client_name": "scrapy"}
    place = {**where, "lease": options.lease, "overflow": options.overflow}
    try:
        return await Frontier.open(**place, **options.arguments)  # type: ignore[arg-type]
    except SettingsConflict:
        return await Frontier.open(**place, create=False, **CrawlArguments())  # type: ignore[arg-type]


async def _apply_changes(frontier: Frontier, options: PluginOptions) -> None:
    """Give an existing crawl the project's politeness, dead limit and slots. It keeps its other settings; a warning names them."""
    for host, pace in options.slots.items():
        await frontier.admin.set_host(host, **pace)
    stored = frontier.layout.settings
    if stored.politeness != options.politeness:
        await frontier.admin.set_politeness(options.politeness)
        log.info(
            "the politeness of the crawl %r was changed from %s to %s",
            options.crawl,
            stored.politeness,
            options.politeness,
        )
    if options.dead_limit is not None and stored.dead_limit != options.dead_limit:
        await frontier.admin.set_dead_limit(options.dead_limit)
        log.info(
            "the dead limit of the crawl %r was changed from %d to %d (0: none)",
            options.crawl,
            stored.dead_limit,
            options.dead_limit,
        )
    kept = frontier.layout.settings.conflicts(read_crawl_arguments(options.arguments))
    if kept:
        log.warning(
            "the crawl %r was created with other settings, which stay in effect: %s. Set SCHEDULER_FLUSH_ON_START=True to create a"
            " new one",
            options.crawl,
            "; ".join(kept),
        )
