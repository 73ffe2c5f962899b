"""House: all crawls of one server over one connection, for whoever looks at many of them for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self, TypeVar

from silkline.core.errors import SilklineError, StoreUnavailable, UnknownCrawl
from silkline.core.url import parse
from silkline.frontier import acts, commands
from silkline.frontier.acts import Act
from silkline.frontier.address import read_url
from silkline.frontier.connection import AsyncConnection
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.facts import Facts
from silkline.frontier.frontier import DEFAULT_LEASE, Frontier
from silkline.frontier.keys import AUDIT, CrawlKeys
from silkline.frontier.plan import Plan
from silkline.frontier.robots import origin_of
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.server import Memory, check_server
from silkline.frontier.settings import Settings
from silkline.frontier.unreadable import NOT_AS_STORED, unreadable
from silkline.frontier.wishes import embedded_in

T = TypeVar("T")


class House:
    """The crawls of a server. Its frontiers share its connection: close the house, never one of them."""

    def __init__(self, connection: AsyncConnection, embedded: EmbeddedServer | None) -> None:
        self._connection = connection
        self._embedded = embedded

    @classmethod
    async def open(cls, url: str | None = None) -> Self:
        """Connect to the server at *url*, or to the embedded one."""
        embedded = await asyncio.to_thread(EmbeddedServer.join, directory) if (directory := embedded_in(url)) else None
        connection = None
        try:
            target = read_url(embedded.url if embedded else str(url))
            connection = AsyncConnection(target, mend=embedded.ensure if embedded else None)
            await connection.start()
            check_server(connection.server, connection.target.public)
        except BaseException:
            if connection:
                await connection.close()
            if embedded:
                await asyncio.to_thread(embedded.leave)
            raise
        return cls(connection, embedded)

    @property
    def where(self) -> str:
        """The server's address without its password."""
        return self._connection.target.public

    async def names(self) -> list[str]:
        return await self._connection.call(commands.register(""))

    async def frontier(self, name: str) -> Frontier:
        """The crawl of this name, as it is stored now; `UnknownCrawl` if there is none."""
        keys = CrawlKeys(name)
        stored = await self._connection.call(commands.read_settings(keys))
        if not stored:
            raise UnknownCrawl(f"there is no crawl {name} on {self.where}")
        return Frontier(self._connection, Plan(keys, Settings.decode(stored)), DEFAULT_LEASE, None, None)

    async def each(self, names: Sequence[str], ask: Callable[[Frontier], Awaitable[T]]) -> dict[str, T | SilklineError]:
        """What every crawl answers, by name; of one that cannot be read, the error."""
        answers = await asyncio.gather(*(self._ask(name, ask) for name in names))
        return dict(zip(names, answers, strict=True))

    async def _ask(self, name: str, ask: Callable[[Frontier], Awaitable[T]]) -> T | SilklineError:
        try:
            return await ask(await self.frontier(name))
        except (SilklineError, *NOT_AS_STORED) as error:
            if isinstance(error, StoreUnavailable):
                await self.names()  # fails if it is the server that is gone, and not the crawl that is damaged
            return unreadable(name, error)

    async def shards(self, frontier: Frontier) -> list[dict[str, str]]:
        """The ledger of every shard of a crawl."""
        return await self._connection.call_all([commands.snapshot(keys) for keys in frontier.plan.shards])

    async def robots(self, frontier: Frontier, url: str) -> RobotsFile:
        """The robots.txt of the origin of *url* as the fleet has it; only looked at, whoever is to fetch it."""
        address = parse(url)
        return await self._connection.call(commands.robots(frontier.plan.shard_of(address.host), origin_of(address), 0))

    async def note_removal(self, by: str, crawl: str) -> None:
        await self._connection.call(acts.note_act(AUDIT, by, "remove", crawl))

    async def removals(self, limit: int) -> list[Act]:
        """Who removed which crawls, the newest first."""
        return await self._connection.call(acts.audit(AUDIT, limit))

    async def memory(self) -> Memory:
        return await self._connection.memory()

    async def examine(self) -> list[Facts]:
        """What each node tells of itself."""
        return await self._connection.examine()

    async def close(self) -> None:
        await self._connection.close()
        if self._embedded:
            await asyncio.to_thread(self._embedded.leave)
