"""A second fetcher, on aiohttp: HTTP/1.1 only, in Python's own event loop. Needs ``silkline[aiohttp]``.

aiohttp parses everything that has arrived in one step, on the event loop, and does not limit the number of parts. So `GuardedHandler`
passes on what arrives in slices and judges the response between two of them. aiohttp has no public name for this; the tests with
hostile pages guard it.
"""

from __future__ import annotations

import functools
import socket
import ssl
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from silkline.core.request import Request
from silkline.errors import FetchError, HostUnreachable, LocalFailure, ResponseTooLarge
from silkline.fetch.fetcher import Headers, Received, Response, make_headers
from silkline.fetch.guard import FetchTarget, Guard, read_target
from silkline.fetch.limits import Deadline, DeadlineTimer, Limits, check_headers, check_length, read_body
from silkline.fetch.local import MOST_CONNECTIONS, connections, local_failure

SLICE = 8 * 1024
MOST_INFORMATIONAL = 16
"""Interim responses (1xx) before the final one."""
FRAMING, LEAST_SHARE = 24 * 1024, 10
"""Bytes of framing (chunk sizes, extensions) after which the body must be ten times as large: a chunk of 64 bytes has about 6
bytes of framing."""


class AbusiveResponse(aiohttp.ClientError):
    """The server sends many parts that contain almost nothing."""


class InterimFlood(AbusiveResponse):
    """The server sends interim responses (1xx) and no final one."""


class GuardedHandler(ResponseHandler):
    """One connection, whose responses are checked while they arrive."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._informational = 0
        self._judged: Any = None
        self._received = 0
        self._given_up = False

    def data_received(self, data: bytes) -> None:
        for start in range(0, max(len(data), 1), SLICE):
            if self._given_up:
                return
            piece = data[start : start + SLICE] if len(data) > SLICE else data
            payload: Any = self._payload
            super().data_received(piece)
            if payload is not None and payload is self._payload:
                self._judge_body(payload, len(piece))

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take the head of a response."""
        if 100 <= data[0].code < 200:
            self._informational += 1
            if self._informational > MOST_INFORMATIONAL:
                self._give_up(InterimFlood(f"{self._informational} interim responses and no final one"))
        else:
            self._informational = 0
        if not self._given_up:
            super().feed_data(data, size)

    def _judge_body(self, payload: Any, received: int) -> None:
        if payload is not self._judged:
            self._judged, self._received, self._before = payload, 0, payload.total_bytes
            return  # the rest of the head may have come with it
        self._received += received
        got = payload.total_bytes - self._before
        framing = self._received - got
        if framing > FRAMING and got < LEAST_SHARE * framing:
            self._give_up(
                AbusiveResponse(f"the body arrives in tiny pieces: {framing} bytes of framing for {got} bytes")
            )

    def _give_up(self, error: AbusiveResponse) -> None:
        self._given_up = True
        if self._payload is not None:
            self._payload.set_exception(error)
        self.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


class BoundedConnector(aiohttp.TCPConnector):
    """Keeps idle connections, but not more over all hosts than this process can afford."""

    _most_idle = MOST_CONNECTIONS

    def __init__(self, *, most_idle: int, **options: Any) -> None:
        super().__init__(**options)
        self._most_idle = most_idle
        vars(self)["_factory"] = functools.partial(GuardedHandler, loop=self._loop)

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        idle = sum(map(len, self._conns.values()))
        super()._release(key, protocol, should_close=should_close or idle >= self._most_idle)


IDLE_SECONDS = 30.0
ERRORS = (aiohttp.ClientError, OSError, ValueError)
_CUT_OFF = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    aiohttp.ClientPayloadError,
    ConnectionError,
)


class AiohttpFetcher:
    """Fetches with aiohttp, through the guard. For platforms without wreq, and for users of aiohttp.

    *verify* is True for the usual certificate authorities, a PEM file with your own, or False for none.
    """

    def __init__(self, limits: Limits | None = None, *, guard: Guard | None = None, verify: bool | Path = True) -> None:
        self._limits = limits or Limits()
        self._guard = guard or Guard()
        self._deadlines = DeadlineTimer(self._limits)
        self._verify = verify
        self._opened: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._keeps = False

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:
        """See `Fetcher.fetch`."""
        target = read_target(request.url)
        headers = make_headers(request, user_agent, target.auth)
        with self._deadlines.over(target.host, request.timeout) as deadline:
            if target.literal is not None:  # aiohttp does not resolve addresses
                await self._guard.addresses(target)
            deadline.doing = "connecting, or waiting for the response"
            sending = self._session().request(
                request.method,
                URL(target.url, encoded=True),
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
            )
            try:
                async with sending as answer:
                    return await self._read(answer, request, deadline, cut, headers)
            except ERRORS as error:
                raise explain(error, target, deadline) from None

    async def _read(
        self,
        answer: aiohttp.ClientResponse,
        request: Request,
        deadline: Deadline,
        cut: int | None,
        sent: dict[str, str],
    ) -> Response:
        peer = _address_of(answer) if self._keeps else ""  # the connection is released with the last byte
        pairs = [(str(name, "latin-1"), str(value, "latin-1")) for name, value in answer.raw_headers]
        headers = Headers(pairs)
        try:
            check_headers(headers, self._limits)
            if answer.status != 304 and request.method != "HEAD" and cut is None:
                check_length(answer.content_length, self._limits.max_body)
            coding = headers.get("content-encoding")
            body = await read_body(answer.content.iter_any(), coding, self._limits, deadline, cut, keep=self._keeps)
            if body.is_cut:
                answer.close()
        except FetchError:
            answer.close()  # instead of reading the rest
            raise
        version = f"HTTP/{answer.version.major}.{answer.version.minor}" if answer.version else "HTTP/1.1"
        whole, received = body.whole(), None
        if self._keeps:
            received = Received(tuple(sent.items()), body.received(whole), body.is_cut, peer)
        return Response(request.url, answer.status, headers, whole, monotonic() - deadline.start, version, received)

    def allow_private(self, allowed: bool) -> None:  # noqa: FBT001
        """See `Fetcher`. Open connections are not used for further pages."""
        self._guard.allow_private(allowed)
        if self._opened is not None:
            self._retired.append(self._opened)
            self._opened = None

    def keep_received(self) -> None:
        """See `Fetcher`."""
        self._keeps = True

    async def close(self) -> None:
        """Close all connections."""
        self._deadlines.close()
        for session in (*self._retired, self._opened):
            if session is not None:
                await session.close()
        await self._guard.close()

    def _session(self) -> aiohttp.ClientSession:
        """Return the session. It is created on first use, because aiohttp needs a running event loop."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=BoundedConnector(
                    most_idle=connections(),
                    resolver=PinnedResolver(self._guard),
                    use_dns_cache=False,  # the guard has a cache
                    limit=0,
                    keepalive_timeout=IDLE_SECONDS,
                    ssl=_tls(verify=self._verify),
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect_timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                max_line_size=self._limits.max_headers,
                max_field_size=self._limits.max_headers,
            )
            # One claim of a host is one request, so the client must not retry.
            self._opened._retry_connection = False  # noqa: SLF001 - there is no public name for it
        return self._opened


class PinnedResolver(AbstractResolver):
    """Resolves names to the addresses that the guard has checked, and to no others."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - aiohttp's signature; addresses of all families are returned
    ) -> list[ResolveResult]:
        found = await self._guard.addresses(FetchTarget("", host, port, None, None))
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in found
        ]

    async def close(self) -> None:
        """Do nothing: the fetcher closes the guard."""


def explain(error: Exception, target: FetchTarget, deadline: Deadline) -> FetchError | LocalFailure:
    """Return the `FetchError` for an exception of aiohttp, or the failure of this machine that caused it."""
    where = f"{target.host}:{target.port}"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return HostUnreachable(f"no secure connection to {where}: {error}", "tls")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ServerTimeoutError | TimeoutError):
        reason = getattr(error, "strerror", None) or "timed out"
        return local_failure(getattr(error, "errno", None)) or HostUnreachable(f"no connection to {where}: {reason}")
    if "TransferEncodingError" in str(error) and "Not enough" not in str(error):
        return FetchError(f"{where} violates HTTP: invalid chunks", "protocol")
    if isinstance(error, _CUT_OFF):
        progress = f"after {deadline.got} bytes of the body" if deadline.got else "before the body"
        return HostUnreachable(f"{where} closed the connection {progress}", "reset")
    if "more than" in str(error) or "Too many" in str(error):
        return ResponseTooLarge(f"the headers of {where} exceed the limit")
    reason = str(getattr(error, "message", error)).partition("\n")[0].rstrip(":")
    kind = "flood" if isinstance(error, InterimFlood) else "protocol"
    return FetchError(f"{where} violates HTTP: {reason[:200]}", kind)


def _address_of(answer: aiohttp.ClientResponse) -> str:
    peer = answer.connection and answer.connection.transport and answer.connection.transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _tls(*, verify: bool | Path) -> ssl.SSLContext | bool:
    if isinstance(verify, Path):
        return ssl.create_default_context(cafile=verify)
    return verify
