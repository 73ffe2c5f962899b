"""Feeding: a worker moves entries from the feeds of its crawl to the frontier.

Every worker of a crawl feeds. An entry leaves its feed only after its request, or its dead letter, is stored: a worker that dies
in between has changed nothing that the next one cannot repeat, because the frontier recognizes requests that it has seen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from silkline.core.entry import BadEntry
from silkline.core.request import Request
from silkline.errors import ConfigError, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.frontier import Frontier
from silkline.frontier.store.settings import OPEN_AGAIN
from silkline.frontier.verbs.enqueue import CANCELLED, Admission
from silkline.worker.feeds.feed import FeedSource, bad_request, check_handler
from silkline.worker.feeds.feed_entry import FeedEntry
from silkline.worker.feeds.feed_name import REDIS
from silkline.worker.feeds.file_feed import FileFeed, check_entries
from silkline.worker.feeds.query_feed import QueryFeed, open_query
from silkline.worker.feeds.query_name import QUERY, read_query_name
from silkline.worker.feeds.redis_key import RedisFeed
from silkline.worker.feeds.sitemap_feed import SITEMAP_FEED, SitemapFeed

log = logging.getLogger("silkline.worker")

BATCH = 4000
"""Entries that are taken before they are enqueued: enough that the frontier enqueues some while it encodes others."""
LOOK_EVERY = 0.25
"""Seconds between two reads of a feed that is empty, and of a crawl that is full."""
ERROR_PAUSE = 2.0
"""Seconds until the next read after one that failed."""
LANES = 2
"""Batches of one feed that are in progress: one is enqueued while the next is taken and the last is removed."""
ROOM_EVERY = 1.0
"""Seconds after which the room in the crawl is read again, because other workers use it too."""


class CrawlCancelled(Exception):
    """The crawl is cancelled: entries stay in their feeds."""


class Feeding:
    """The feeds of one worker. `run` moves their entries; `finished` returns whether the crawl needs no worker any more."""

    def __init__(
        self,
        frontier: Frontier,
        sources: Sequence[FeedSource],
        handlers: Collection[str],
        until_idle: float | None = None,
    ) -> None:
        self.frontier = frontier
        self.handlers = handlers
        self.room = CrawlRoom(frontier)
        self.stopping = asyncio.Event()
        self._sources = sources
        self._feeders = [Feeder(self, source) for source in sources]
        self._until_idle = until_idle
        self._accepted = -1
        self._idle_since = time.monotonic()
        self.quiet = False
        """While True, nothing is taken from the feeds."""

    @property
    def trouble(self) -> str:
        """Why a feed cannot be read, as text; empty if all can."""
        return "; ".join(feeder.trouble for feeder in self._feeders if feeder.trouble)

    async def run(self) -> None:
        """Feed until `stop` is called. Raises only what keeps the worker from working, too."""
        tasks = [asyncio.create_task(feeder.run()) for feeder in self._feeders]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            for source in self._sources:
                await source.close()

    def stop(self) -> None:
        """Take nothing more; `run` returns when what was taken is stored or given back."""
        self.stopping.set()

    async def finished(self) -> bool:
        """Return whether nothing is left in the crawl and its feeds, or it crawls nothing more, whatever is in them.

        With an endless feed, this needs *until_idle*: nothing was left, and nothing has come, for that many seconds.
        """
        if self.room.is_over:
            return await self.frontier.finished()
        if self._until_idle is None and any(source.endless for source in self._sources):
            return False
        empty = all([await source.ended() for source in self._sources]) and await self.frontier.finished()
        if self._until_idle is None:
            return empty
        accepted, now = (await self.frontier.admin.stats()).accepted if empty else -1, time.monotonic()
        if not empty or accepted != self._accepted:
            self._accepted, self._idle_since = accepted, now
            return False
        return now - self._idle_since >= self._until_idle

    async def wanted(self) -> int:
        """Return how many entries to take next."""
        return 0 if self.quiet or self.stopping.is_set() else min(BATCH, await self.room.left())

    async def sleep(self, seconds: float) -> None:
        """Wait, unless the worker stops meanwhile."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)


class Feeder:
    """Moves the entries of one feed, in order: while some are being enqueued, the next ones are taken."""

    def __init__(self, feeding: Feeding, source: FeedSource) -> None:
        self._feeding = feeding
        self._frontier = feeding.frontier
        self._source = source
        self._taking, self._storing = asyncio.Lock(), asyncio.Lock()
        self._plenty = False
        """Whether the last read found as many entries as it wanted."""
        self._bad = 0
        self.trouble = ""

    async def run(self) -> None:
        lanes = [asyncio.create_task(self._feed(lane)) for lane in range(LANES)]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()

    async def _feed(self, lane: int) -> None:
        stopping = self._feeding.stopping
        while not stopping.is_set():
            pause = LOOK_EVERY
            try:
                if lane == 0 or self._plenty:
                    pause = await self._step()
                    self.trouble = ""
            except CrawlCancelled:
                return
            except UnknownCrawl:
                raise
            except (StoreUnavailable, ConfigError) as error:
                self._note_trouble(error)
                pause = ERROR_PAUSE
            if pause:
                await self._feeding.sleep(pause)

    def _note_trouble(self, error: SilklineError) -> None:
        if self.trouble != str(error):
            self.trouble = str(error)
            log.warning("the feed %s cannot be read: %s; it will be retried", self._source.name, error)

    async def _step(self) -> float:
        """Move some entries, and return the seconds until the next step."""
        async with self._taking:
            wanted = await self._feeding.wanted()
            entries = await self._source.take(wanted) if wanted else []
            self._feeding.room.use(len(entries))
            self._plenty = 0 < len(entries) == wanted
            turn = asyncio.ensure_future(
                self._storing.acquire()
            )  # before the next batch is taken: batches keep their order
        taken = time.monotonic()
        await turn
        try:
            if time.monotonic() - taken > self._source.kept:
                return 0.0  # the crawl was full for a long time; they are taken again
            stored = await self._store_all(entries)
        except SilklineError:
            await self._source.abandon()
            raise
        finally:
            self._storing.release()
        if stored:
            await self._source.done(stored)
        return 0.0 if self._plenty else LOOK_EVERY

    async def _store_all(self, entries: Sequence[FeedEntry]) -> Sequence[FeedEntry]:
        """Store entries, and wait for room if there is none. Returns those that are stored and not yet removed."""
        stored, full = await self._store(entries) if entries else ([], [])
        while full:
            self._feeding.room.is_full()
            await self._source.done(stored)
            if self._feeding.stopping.is_set():
                await self._source.release(full)
                return []
            await self._source.keep(full)
            await self._feeding.sleep(LOOK_EVERY)
            stored, full = await self._store(full)
        return stored

    async def _store(self, entries: Sequence[FeedEntry]) -> tuple[Sequence[FeedEntry], list[FeedEntry]]:
        """Store the requests of entries. Returns the entries that can be removed, and those that the crawl has no room for."""
        bad: list[tuple[FeedEntry, str]] = []
        good: list[FeedEntry] = []
        items: list[str | Request] = []
        for entry in entries:
            item = entry.item
            if type(item) is not str:
                item = check_handler(item, self._feeding.handlers)
            if isinstance(item, BadEntry):
                bad.append((entry, str(item)))
            else:
                good.append(entry)
                items.append(item)
        admissions = await self._frontier.enqueue(items)
        for refusal in admissions.refusals:
            if refusal.reason == CANCELLED:
                raise CrawlCancelled
            bad.append((good[refusal.position], refusal.reason))
        if bad:
            await self._bury(bad)
        if not bad and Admission.FULL not in admissions:
            return entries, []
        answers = list(zip(good, admissions, strict=True))
        full = [entry for entry, answer in answers if answer is Admission.FULL]
        return [entry for entry, answer in answers if answer in (Admission.ADDED, Admission.SEEN)], full

    async def _bury(self, bad: Sequence[tuple[FeedEntry, str]]) -> None:
        name = self._source.name
        letters = [
            (bad_request(name, entry.data, self._source.where(entry)), f"bad entry in {name}: {why}")
            for entry, why in bad
        ]
        if not await self._frontier.internal.add_dead(letters):
            raise CrawlCancelled
        await self._source.refuse([entry for entry, _ in bad])
        before, self._bad = self._bad, self._bad + len(bad)
        if not before or len(str(before)) != len(str(self._bad)):  # the first one, the tenth, the hundredth …
            log.warning(
                "%d bad entries in %s became dead letters (latest reason: %s). To list them: silkline dead ls %s --host feed.invalid",
                self._bad,
                name,
                bad[-1][1],
                self._frontier.crawl,
            )


async def open_feeds(names: Sequence[str], frontier: Frontier, handlers: Collection[str]) -> list[FeedSource]:
    """Open the feeds of a crawl with these *handlers*."""
    return [await _open_feed(name, frontier, handlers) for name in dict.fromkeys(names)]


async def _open_feed(name: str, frontier: Frontier, handlers: Collection[str]) -> FeedSource:
    if name.startswith(REDIS):
        return RedisFeed.open(name.removeprefix(REDIS), frontier)
    if name.startswith(SITEMAP_FEED):
        return SitemapFeed(name, handlers)
    return QueryFeed(name, frontier) if name.startswith(QUERY) else FileFeed(name, frontier)


def check_feeds(names: Sequence[str], handlers: Collection[str]) -> None:
    """Raise `ConfigError` if a file or a query cannot be read on this machine, or a handler that a feed names is missing."""
    for name in names:
        if name.startswith(SITEMAP_FEED):
            SitemapFeed(name, handlers)
        elif name.startswith(QUERY):
            open_query(read_query_name(name)).close()
        elif not name.startswith(REDIS):
            check_entries(name)


class CrawlRoom:
    """How many requests the crawl has room for. It is read now and then, and counted in between."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._left = 0
        self._read = 0.0
        self.is_over = False
        """Whether the crawl is cancelled, or has spent its pages: what is in the feeds stays there."""

    async def left(self) -> int:
        now = time.monotonic()
        if self._left < BATCH or now - self._read > ROOM_EVERY:
            stats = await self._frontier.admin.stats()
            self.is_over = stats.state == "cancelled" or stats.pages_spent
            shut = self.is_over or (stats.full and stats.pending > OPEN_AGAIN * stats.capacity)
            self._left = 0 if shut else max(0, stats.capacity - stats.pending)
            self._read = now
        return self._left

    def use(self, requests: int) -> None:
        self._left -= requests

    def is_full(self) -> None:
        """The crawl has just refused a request."""
        self._left = 0
