"""What a feed is: a source of entries that leave it only once they are stored in the frontier."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol
from urllib.parse import quote

from silkline.core.entry import BadEntry
from silkline.core.request import SITEMAP, Request, check
from silkline.core.url import parse
from silkline.core.verdict import Bury, Complete, Verdict
from silkline.errors import RequestError
from silkline.frontier.store import record
from silkline.worker.crawl.handlers import Handlers
from silkline.worker.feeds.feed_entry import MOST_STORED, FeedEntry, read

BAD_ENTRY = "feed entry"
"""The handler of a request that stands for a bad entry."""


class FeedSource(Protocol):
    """A source of entries. Several workers may read it: each entry is taken by one of them."""

    name: str
    """What the user wrote: ``redis:KEY``, a path, …"""
    endless: bool
    """Whether new entries may always come."""
    kept: float
    """Seconds for which entries that are taken may wait before they are stored; then another process may take them."""

    async def take(self, n: int) -> list[FeedEntry]:
        """Take up to *n* entries. If this process dies before they are `done`, another takes them again."""

    async def keep(self, entries: Sequence[FeedEntry]) -> None:
        """Keep entries that are taken: this process still works on them."""

    async def done(self, entries: Sequence[FeedEntry]) -> None:
        """Remove entries: their requests are stored."""

    async def refuse(self, entries: Sequence[FeedEntry]) -> None:
        """Remove entries: their dead letters are stored."""

    async def release(self, entries: Sequence[FeedEntry]) -> None:
        """Give entries back to the feed, for other workers."""

    async def abandon(self) -> None:
        """Let entries be taken again that are neither done nor refused: they could not be stored."""

    def where(self, entry: FeedEntry) -> str:
        """Return where an entry is in the feed, such as ``line=7``; empty if it has no place."""

    async def ended(self) -> bool:
        """Return whether nothing is left in the feed, taken or not."""

    async def close(self) -> None: ...


def check_handler(item: str | Request | BadEntry, handlers: Collection[str]) -> str | Request | BadEntry:
    """Return the item, or an error if it names a handler that the crawl does not have."""
    if isinstance(item, Request) and item.handler not in (None, SITEMAP) and item.handler not in handlers:
        return BadEntry(
            f"its handler {item.handler[:50]!r} is not in the crawl's file, which has {', '.join(sorted(handlers))[:200]}"
        )
    return item


def bad_request(feed: str, data: bytes, where: str = "") -> Request:
    """Return the request that stands for a bad entry among the dead letters. Its body is the entry."""
    url = f"https://feed.invalid/{quote(feed.removeprefix('/'), safe=':/')}"[:1000]
    return Request(
        f"{url}?{where}" if where else url, "POST", body=data[:MOST_STORED], handler=BAD_ENTRY, dont_filter=True
    )


def read_again(request: Request, handlers: Handlers) -> Verdict:
    """Return the verdict on a bad entry that was revived: it is enqueued if it can be read now, else buried again."""
    item = check_handler(read(request.body), handlers.names)
    if isinstance(item, BadEntry):
        return Bury(str(item))
    found = item if isinstance(item, Request) else Request(item)
    try:
        check(found)
        record.encode(found, parse(found.url))  # the frontier would refuse it without a word to the operator
    except RequestError as error:
        return Bury(str(error))
    return Complete((found,))
