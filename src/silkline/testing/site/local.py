"""LocalSite: a web site on this machine, for testing crawls."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Mapping
from typing import Self

import uvloop

from silkline.errors import ConfigError
from silkline.testing.site.responses import Route
from silkline.testing.site.server import SiteConnection, SiteState
from silkline.testing.site.shop import Shop
from silkline.testing.site.visits import Visit, Visits

PORT_TRIES = 20


class LocalSite:
    """A real web server on loopback that records every request.

    ::

        async with LocalSite({"/": "<a href=/x>x</a>", "/x": SiteResponse("busy", status=429)}, hosts=2) as site:
            ...                                     # crawl site.url
            assert site.visits.smallest_gap() >= 1.0
            assert site.visits.greatest_concurrency() == 1

    *routes* maps paths to responses (see `Route`). A path with a query takes precedence over the path alone. A path that
    ends in ``*`` matches all paths with that prefix; the longest prefix wins. ``//name/path`` matches only the host of that
    name and takes precedence over other paths. Other paths are 404. Instead of routes, you can pass a `Shop`.

    ``with`` serves from a separate thread, ``async with`` from the running event loop, and `SiteProcess` from a separate
    process.

    *hosts* is the number of loopback addresses, starting with 127.0.0.1; for a crawler, each is a host. The names
    ``a.localhost``, ``b.localhost``, … are hosts too and resolve to the first address. *latency* is added to every response,
    in seconds. *tls* makes it an https site.
    """

    def __init__(
        self,
        routes: Mapping[str, Route] | Shop | None = None,
        *,
        hosts: int = 1,
        port: int = 0,
        robots: Route | None = None,
        latency: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not 1 <= hosts <= 250:
            raise ConfigError(f"hosts must be between 1 and 250, got {hosts}")
        self.routes: dict[str, Route] = dict(routes.routes() if isinstance(routes, Shop) else routes or {})
        """Can be changed while the site is running."""
        if robots is not None:
            self.routes["/robots.txt"] = robots
        self._addresses = [f"127.0.0.{number + 1}" for number in range(hosts)]
        self._tls = tls
        self._books = SiteState(self._find, latency)
        self._servers: list[asyncio.Server] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = port

    # ── addresses ──

    @property
    def url(self) -> str:
        """The URL of the front page."""
        return self.at("/")

    @property
    def hosts(self) -> list[str]:
        """The hosts as in URLs, with the port."""
        return [f"{address}:{self.port}" for address in self._addresses]

    def at(self, path: str, host: int | str = 0) -> str:
        """Return the URL of *path* on a host, given by number (from 0) or by name, such as ``a.localhost``."""
        name = self._addresses[host] if isinstance(host, int) else host
        return f"{'https' if self._tls else 'http'}://{name}:{self.port}{path}"

    # ── visits ──

    @property
    def visits(self) -> Visits:
        """All requests so far, in order of arrival."""
        return self._books.visits

    @property
    def open_connections(self) -> int:
        """The number of connections that are open now."""
        return len(self._books.connections)

    @property
    def connections_made(self) -> int:
        """The number of connections that were accepted so far."""
        return self._books.accepted

    def forget(self) -> None:
        """Clear the list of visits."""
        self._books.visits = Visits()

    # ── serving ──

    async def start(self) -> None:
        """Start listening in the running event loop."""
        loop = asyncio.get_running_loop()
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                await self._listen(loop)
            except OSError as error:
                self._close_servers()
                if self.port or not tries_left:
                    raise ConfigError(f"cannot listen on {self._addresses[0]}:{self.port}: {error}") from error
            else:
                return

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen on a port that is free on all addresses."""
        port = self.port
        for address in self._addresses:
            server = await loop.create_server(
                lambda: SiteConnection(self._books), address, port, backlog=1024, ssl=self._tls
            )
            self._servers.append(server)
            port = server.sockets[0].getsockname()[1]
        self.port = port

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        self._close_servers()
        for connection in list(self._books.connections):
            connection.abandon()
        await self._books.all_left()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="local-site", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._thread is not None
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ── routes ──

    def _find(self, visit: Visit) -> Route:
        path, name = visit.path, visit.host.rpartition(":")[0]
        bare = path.partition("?")[0]
        named = f"//{name}{bare}"
        for candidate in (f"//{name}{path}", path, named, bare):
            if (found := self.routes.get(candidate)) is not None:
                return found
        begun = [
            key
            for key in self.routes
            if key.endswith("*") and (bare.startswith(key[:-1]) or named.startswith(key[:-1]))
        ]
        return self.routes[max(begun, key=len)] if begun else 404
