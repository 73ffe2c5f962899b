"""A small HTTP server for metrics and health checks: a few paths, GET only, one response per connection.

It uses only asyncio streams, so that a worker needs no web framework. It is not made for browsers or the public internet;
the dashboard is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from silkline.errors import ConfigError, SilklineError, StoreUnavailable

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds that a client may take to send its request."""
MOST_HEADERS = 16_384


class HttpResponse(NamedTuple):
    """A response."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


HttpRoute = Callable[[Mapping[str, str]], Awaitable[HttpResponse]]
"""A handler; it receives the query parameters."""


class ListenAddress(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse ``9090`` (this machine only) or ``0.0.0.0:9090``."""
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(f"a listen address must be PORT or HOST:PORT, such as 9090 or 0.0.0.0:9090, got {text!r}")
        return cls(host.strip("[]") or "127.0.0.1", int(port))


class HttpServer:
    """Serves routes at an address while its context is active."""

    def __init__(self, place: ListenAddress, routes: Mapping[str, HttpRoute]) -> None:
        self._place = place
        self._routes = routes
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, *self._place, limit=MOST_HEADERS)
        except OSError as error:
            raise ConfigError(f"cannot listen at {self._place.host}:{self._place.port}: {error.strerror}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):
            try:
                async with asyncio.timeout(PATIENCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                await self._reply(head, writer)
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

    async def _reply(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        answer = await self._answer(method, rest.partition(" ")[0])
        body = answer.text.encode()
        headers = (
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        writer.write(headers.encode() + (b"" if method == "HEAD" else body))
        async with asyncio.timeout(PATIENCE):
            await writer.drain()

    async def _answer(self, method: str, target: str) -> HttpResponse:
        if method not in ("GET", "HEAD"):
            return HttpResponse("method not allowed; use GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
        parts = urlsplit(target)
        route = self._routes.get(parts.path)
        if route is None:
            return HttpResponse(f"not found; available paths: {', '.join(self._routes)}\n", HTTPStatus.NOT_FOUND)
        try:
            return await route(dict(parse_qsl(parts.query)))
        except StoreUnavailable as error:
            return HttpResponse(f"{error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        except SilklineError as error:
            return HttpResponse(f"{error}\n", HTTPStatus.BAD_REQUEST)
        except Exception:
            log.exception("http: request for %s failed", parts.path)
            return HttpResponse("internal error; see the log\n", HTTPStatus.INTERNAL_SERVER_ERROR)
