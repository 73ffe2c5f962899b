"""The default fetcher, on wreq: HTTP/1.1 and HTTP/2 in Rust, outside of the event loop."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar, overload

import wreq

from silkline.core.errors import ConfigError, FetchError, ForbiddenAddress
from silkline.core.request import Request
from silkline.worker.fetch.addresses import IPAddress
from silkline.worker.fetch.fetcher import Headers, Limits, Response
from silkline.worker.fetch.guard import Guard, Target, read_target
from silkline.worker.fetch.outgoing import common_headers, is_plain, make_headers
from silkline.worker.fetch.reading import check_headers, check_length, read_body
from silkline.worker.fetch.watch import Watch, Watchdog
from silkline.worker.fetch.wreq_errors import ERRORS, explain

MAX_CLIENTS = 1024
"""Names whose connections are kept. A client costs 20 µs and 5 KB; a connection 24 KB."""
MAX_IDLE = 64
"""Idle connections kept to one host."""
IDLE_SECONDS = 30.0
LEAST_BUFFER = 8 * 1024
"""wreq reads into at least so much; a smaller cap on headers is checked by us."""
MAX_HEADER_LINES = 256

VERSIONS = {
    "Version.HTTP_09": "HTTP/0.9",
    "Version.HTTP_10": "HTTP/1.0",
    "Version.HTTP_11": "HTTP/1.1",
    "Version.HTTP_2": "HTTP/2",
    "Version.HTTP_3": "HTTP/3",
}

T = TypeVar("T")


class WreqFetcher:
    """Fetches with wreq, through the guard.

    wreq resolves names by a table given to a client when it is made, so each name has a client of its own that knows the
    checked addresses and no others; the least recently used go first. Their I/O runs in one thread of wreq's.

    *verify* is True for the usual certificate authorities, a file of your own ones (PEM), or False for none at all.
    *proxy* is the URL of a proxy; then it is the proxy that looks names up, and the guard sees only addresses that stand
    in URLs. The proxies of the environment are never used.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        guard: Guard | None = None,
        verify: bool | Path = True,
        proxy: str | None = None,
        http2: bool = True,
    ) -> None:
        self._limits = limits or Limits()
        self._guard = guard or Guard()
        self._proxied = proxy is not None
        self._watchdog = Watchdog(self._limits)
        self._settings = _settings(self._limits, verify=verify, proxy=proxy, http2=http2)
        self._shared: wreq.Client | None = self._make_client(None, ())
        self._clients: OrderedDict[str, tuple[tuple[IPAddress, ...], wreq.Client]] = OrderedDict()
        self._common: dict[str, wreq.HeaderMap] = {}

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:
        """See `Fetcher.fetch`."""
        target = read_target(request.url)
        headers = self._headers(request, user_agent, target)
        with self._watchdog.over(target.host, request.timeout) as watch:
            addresses = self._guard.known(target) or await self._addresses(target)
            client = self._client_for(target, addresses)
            watch.doing = "waiting for the answer"
            try:
                answer = await self._send(client, request, target, headers)
                if not self._proxied:
                    _check_peer(answer, target, addresses)
                return await self._read(answer, request, watch, cut)
            except ERRORS as error:
                raise explain(error, target, watch) from None

    async def close(self) -> None:
        self._watchdog.close()
        self._clients.clear()  # dropping a client closes its connections
        self._shared = None
        await self._guard.close()

    # ── one request ──

    def _headers(self, request: Request, user_agent: str, target: Target) -> wreq.HeaderMap:
        if not is_plain(request) or target.auth is not None:
            return wreq.HeaderMap(make_headers(request, user_agent, target.auth))
        if user_agent not in self._common:
            self._common = {user_agent: wreq.HeaderMap(common_headers(user_agent))}
        return self._common[user_agent]

    @staticmethod
    def _send(
        client: wreq.Client, request: Request, target: Target, headers: wreq.HeaderMap
    ) -> Coroutine[Any, Any, wreq.Response]:
        if request.method == "GET" and not request.body:
            return client.get(target.url, headers=headers)
        method = getattr(wreq.Method, request.method.upper(), None)
        if method is None:
            raise FetchError(f"the method {request.method} cannot be sent by this fetcher", "bad_request")
        extra: dict[str, Any] = {"body": request.body} if request.body else {}
        return client.request(method, target.url, headers=headers, **extra)

    async def _read(self, answer: wreq.Response, request: Request, watch: Watch, cut: int | None) -> Response:
        status = answer.status.as_int()
        headers = WreqHeaders(answer.headers)
        stream = answer.stream()
        try:
            if self._limits.max_headers < LEAST_BUFFER:
                check_headers(headers, self._limits)
            if status != 304 and request.method != "HEAD" and cut is None:
                check_length(answer.content_length, self._limits)
            body = await read_body(stream, headers.get("content-encoding"), self._limits, watch, cut)
            if len(body) == cut:
                await _hang_up(answer, stream)
        except FetchError:
            await _hang_up(answer, stream)
            raise
        version = VERSIONS[str(answer.version)]
        return Response(request.url, status, headers, body, monotonic() - watch.start, version)

    # ── clients ──

    async def _addresses(self, target: Target) -> tuple[IPAddress, ...]:
        if self._proxied and target.literal is None:
            return ()
        return await self._guard.addresses(target)

    def _client_for(self, target: Target, addresses: tuple[IPAddress, ...]) -> wreq.Client:
        """The client that can connect to the checked addresses of the target's host, and nowhere else."""
        if self._shared is None:
            raise FetchError("the fetcher is closed", "bad_request")
        if self._proxied or target.literal is not None:
            return self._shared  # it looks nothing up
        known = self._clients.get(target.host)
        if known is not None and known[0] == addresses:
            self._clients.move_to_end(target.host)
            return known[1]
        client = self._make_client(target.host, addresses)
        self._clients[target.host] = (addresses, client)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return client

    def _make_client(self, host: str | None, addresses: tuple[IPAddress, ...]) -> wreq.Client:
        dns = wreq.DnsOptions(system_dns=True)
        if host is not None:
            dns.add_resolve(host, addresses)
        return wreq.Client(dns_options=dns, **self._settings)


class WreqHeaders(Headers):
    """Headers that are read when somebody asks: each costs a microsecond, and most are never looked at."""

    __slots__ = ("_source",)

    def __init__(self, source: wreq.HeaderMap) -> None:
        self._source = source
        self._pairs = None
        self._first = None

    def _read(self) -> tuple[tuple[str, str], ...]:
        return tuple((str(name, "latin-1"), str(value, "latin-1")) for name, value in self._source)

    def __getitem__(self, name: str) -> str:
        if (value := self._source.get(name)) is None:
            raise KeyError(name)
        return str(value, "latin-1")

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, default: T, /) -> str | T: ...
    def get(self, name: str, default: Any = None, /) -> Any:
        value = self._source.get(name)
        return default if value is None else str(value, "latin-1")


def _check_peer(answer: wreq.Response, target: Target, addresses: tuple[IPAddress, ...]) -> None:
    """Refuse an answer from anywhere but the checked addresses. It cannot happen; if it does, nobody reads it."""
    peer = answer.remote_addr
    if peer is None or peer.ip() not in addresses:
        raise ForbiddenAddress(f"{target.host} was answered from an address that was not checked: {peer}")


async def _hang_up(answer: wreq.Response, stream: wreq.Streamer) -> None:
    """Drop the connection rather than read what is left."""
    await stream.__aexit__(None, None, None)
    await answer.close()


def _settings(limits: Limits, *, verify: bool | Path, proxy: str | None, http2: bool) -> dict[str, Any]:
    """What all clients of a fetcher have in common."""
    settings: dict[str, Any] = {
        "runtime": wreq.Runtime(workers=1, thread_name="silkline-fetch"),
        "connect_timeout": timedelta(seconds=limits.connect_timeout),
        "redirect": wreq.Policy.none(),
        "referer": False,
        "cookie_store": False,
        "pool_max_idle_per_host": MAX_IDLE,
        "pool_idle_timeout": timedelta(seconds=IDLE_SECONDS),
        "http1_options": wreq.Http1Options(
            max_buf_size=max(limits.max_headers, LEAST_BUFFER), max_headers=MAX_HEADER_LINES, http09_responses=False
        ),
        "http2_options": wreq.Http2Options(max_header_list_size=limits.max_headers),
        # We unpack ourselves: bounded, and several codings on top of each other.
        **dict.fromkeys(("gzip", "brotli", "deflate", "zstd"), False),
    }
    if not http2:
        settings["http1_only"] = True
    if proxy is not None:
        settings["proxies"] = [_proxy(proxy)]
    else:
        settings["no_proxy"] = True
    settings["tls_verify"] = wreq.CertStore.from_pem_stack(verify.read_bytes()) if isinstance(verify, Path) else verify
    return settings


def _proxy(url: str) -> wreq.Proxy:
    try:
        return wreq.Proxy.all(url)
    except ERRORS as error:
        raise ConfigError(f"{url!r} is not the URL of a proxy: {error}") from None
