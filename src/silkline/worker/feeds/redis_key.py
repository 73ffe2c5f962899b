"""RedisFeed: a list, set, sorted set or stream on the crawl's own server, which any program fills."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from silkline.core.entry import BadEntry
from silkline.frontier.frontier import Frontier
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.transport.command import MAX_BATCH
from silkline.frontier.user_keys.inbox import MOST_BYTES, Inbox, Message
from silkline.worker.feeds.feed_entry import MOST_STORED, FeedEntry, read

HOLD = 30.0
"""Seconds after which another worker takes the entries of a lost one. Entries that wait for room are kept longer."""


class RedisFeed:
    """The key of a user. Entries are moved beside it while they are being stored (see `Inbox`)."""

    endless = True
    kept = HOLD / 2

    def __init__(self, key: str, inbox: Inbox) -> None:
        self.name = f"redis:{key}"
        self._inbox = inbox
        self._refused = InboxKeys(key).refused

    @classmethod
    def open(cls, key: str, frontier: Frontier, *, hold: float = HOLD) -> RedisFeed:
        return cls(key, frontier.inbox(key, kind="any", hold=hold))

    async def take(self, n: int) -> list[FeedEntry]:
        messages: list[Message] = []
        while len(messages) < n:
            wanted = min(n - len(messages), MAX_BATCH)
            some = await self._inbox.take(wanted)
            messages += some
            if len(some) < wanted:
                break
        return [self._read(message) for message in messages]

    def _read(self, message: Message) -> FeedEntry:
        if not message.oversized:
            return FeedEntry(read(message.data), message.data, message)
        error = BadEntry(
            f"it has {message.oversized:,} bytes, the limit is {MOST_BYTES:,}; the whole entry is in the list {self._refused}"
        )
        return FeedEntry(error, message.data, message)

    async def keep(self, entries: Sequence[FeedEntry]) -> None:
        await self._inbox.extend(_messages(entries))

    async def done(self, entries: Sequence[FeedEntry]) -> None:
        await self._inbox.done(_messages(entries))

    async def refuse(self, entries: Sequence[FeedEntry]) -> None:
        """Remove entries. Those that did not fit into their dead letters are moved to the list of refused messages."""
        await self._inbox.refuse(_messages(entry for entry in entries if len(entry.data) > MOST_STORED))
        await self._inbox.done(_messages(entry for entry in entries if len(entry.data) <= MOST_STORED))

    async def release(self, entries: Sequence[FeedEntry]) -> None:
        await self._inbox.release(_messages(entries))

    async def abandon(self) -> None:
        """There is nothing to do: entries are taken again after the hold time."""

    def where(self, _entry: FeedEntry) -> str:
        return ""

    async def ended(self) -> bool:
        return await self._inbox.waiting() == 0

    async def close(self) -> None:
        """There is nothing to close: the connection belongs to the frontier."""


def _messages(entries: Iterable[FeedEntry]) -> list[Message]:
    return [cast("Message", entry.place) for entry in entries]
