"""The default fetcher, on wreq: HTTP in Rust, outside of the event loop."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar, overload

import wreq
from wreq import exceptions

from silkline.core.request import Request
from silkline.errors import (
    ConfigError,
    FetchError,
    FetchTimeout,
    ForbiddenAddress,
    HostUnreachable,
    LocalFailure,
    ProxyFailure,
    ResponseTooLarge,
)
from silkline.fetch.addresses import IPAddress, read_address
from silkline.fetch.fetcher import BodyWriter, Headers, Received, Response, common_headers, make_headers
from silkline.fetch.guard import FetchTarget, Guard, read_target
from silkline.fetch.impersonation import Impersonation, impersonation_of
from silkline.fetch.limits import (
    Deadline,
    DeadlineTimer,
    KeepaliveMarks,
    Limits,
    PendingResponse,
    check_headers,
    check_length,
    read_body,
)
from silkline.fetch.local import connections, local_failure
from silkline.fetch.proxies import Proxies, Proxy
from silkline.fetch.proxy.pool import PooledProxy, ProxyCheck, ProxyUse
from silkline.fetch.proxy.tiers import ProxyPools, open_pools
from silkline.fetch.resolver import PROBE

MAX_IDLE = 64
"""Idle connections kept to one host."""
IDLE_SECONDS = 30.0
LEAST_BUFFER = 8 * 1024
"""The smallest read buffer of wreq in bytes. A smaller limit for headers is checked here."""
MAX_HEADER_LINES = 256

IMPERSONATE = "impersonate"
"""The key of `Request.meta` that names the browser of one request; an empty value for none."""

VERSIONS = {
    "Version.HTTP_09": "HTTP/0.9",
    "Version.HTTP_10": "HTTP/1.0",
    "Version.HTTP_11": "HTTP/1.1",
    "Version.HTTP_2": "HTTP/2",
    "Version.HTTP_3": "HTTP/3",
}

T = TypeVar("T")


class MarkedClient(NamedTuple):
    """A client, and the number that identifies its sockets."""

    client: wreq.Client
    mark: int


C = TypeVar("C")


class HostClient(Generic[C]):
    """The client of one host, the addresses that it may connect to, and its number of connections."""

    __slots__ = ("addresses", "client", "connections", "running")

    def __init__(self, addresses: tuple[IPAddress, ...], client: C) -> None:
        self.addresses = addresses
        self.client = client
        self.running = 0
        """Fetches in progress."""
        self.connections = 0
        """The most fetches that were in progress at a time: each leaves a connection behind, for the next one."""


class ClientPool(Generic[C]):
    """Keeps clients with at most *most* connections in total, including idle ones, unless running fetches need more.

    The least recently used clients are dropped first. Idle connections belong to a client and are closed with it. *make* creates
    the client of a host.
    """

    def __init__(self, make: Callable[[str, tuple[IPAddress, ...]], C], most: int) -> None:
        self.make = make
        self._most = most
        self._host_clients: OrderedDict[str, HostClient[C]] = OrderedDict()
        self._connections = 0

    def __len__(self) -> int:
        return len(self._host_clients)

    @property
    def connections(self) -> int:
        """How many connections the clients may have in total."""
        return self._connections

    def take(self, host: str, addresses: tuple[IPAddress, ...]) -> HostClient[C]:
        """Return the client that can connect to these addresses of *host*, for one fetch; `give_back` ends it."""
        host_client = self._host_clients.get(host)
        if host_client is None or host_client.addresses != addresses:
            self.drop(host)
            host_client = self._host_clients[host] = HostClient(addresses, self.make(host, addresses))
        else:
            self._host_clients.move_to_end(host)
        host_client.running += 1
        if host_client.running > host_client.connections:
            host_client.connections += 1
            self._connections += 1
            self._shrink()
        return host_client

    def give_back(self, host_client: HostClient[C]) -> None:
        """End a fetch."""
        host_client.running -= 1
        if not host_client.running:
            self._shrink()

    def drop(self, host: str) -> None:
        """Forget the client of a host, and close its connections when no fetch needs them any more."""
        host_client = self._host_clients.pop(host, None)
        if host_client is not None:
            self._connections -= host_client.connections
            del host_client.client  # the frames of a traceback may hold `host_client` for a long time

    def clear(self) -> None:
        self._host_clients.clear()
        self._connections = 0

    def _shrink(self) -> None:
        while self._connections > self._most:
            idle = next((host for host, host_client in self._host_clients.items() if not host_client.running), None)
            if idle is None:
                return
            self.drop(idle)


class Outgoing(NamedTuple):
    """A request as it is sent, and what is read of its response."""

    request: Request
    target: FetchTarget
    headers: wreq.HeaderMap
    cut: int | None
    into: BodyWriter | None
    browser: Impersonation | None


class WreqFetcher:
    """Fetches with wreq, and connects only to addresses that the guard permits.

    wreq resolves names by a table that a client gets when it is created, so each host has its own client, with the checked
    addresses and no others. When all clients together have more connections than this process can afford, the least recently
    used are closed. Their I/O runs in one thread of wreq. A client costs 20 µs and 5 KiB, a connection 24 KiB.

    *verify* is True for the usual certificate authorities, a PEM file with your own, or False for none. *proxy* is the URL of a
    proxy. It looks up names itself, so the guard checks only what is in URLs; behind a ``socks5://`` proxy, it checks all addresses. The
    proxies of the environment are never used. *http2* is off because a server can fill the memory of this process with empty HTTP/2 frames (see docs/adr/0026);
    turn it on for servers that you trust. *impersonate* is the name of a browser: requests look like its own, and use HTTP/2 unless that
    is False.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        guard: Guard | None = None,
        verify: bool | Path = True,
        proxy: Proxies | str | Sequence[str] | Callable[[], Any] | None = None,
        http2: bool | None = None,
        impersonate: str | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._guard = guard or Guard()
        self._http2 = bool(http2)
        self._impersonated = impersonation_of(impersonate) if impersonate else None
        self._deadlines = DeadlineTimer(self._limits)
        self._settings = _settings(self._limits, verify=verify, http2=self._http2)
        self._marks = KeepaliveMarks()
        self._clients = ClientPool(self._make_client, connections())
        self._browsers = ClientPool(self._make_browser, connections()) if http2 is None else self._clients
        """The clients of requests that impersonate a browser."""
        self.proxies = None if proxy is None else open_pools(Proxies.of(proxy), self.check_proxy, self._download)
        """The proxies; None if pages are fetched without one."""
        self._proxied: dict[ClientPool[MarkedClient], MarkedClient] = {}
        self._handles: dict[Proxy, wreq.Proxy] = {}
        self._closed = False
        self._keeps = False
        self._common: dict[str, wreq.HeaderMap] = {}

    async def fetch(
        self, request: Request, *, user_agent: str, cut: int | None = None, into: BodyWriter | None = None
    ) -> Response:
        """See `Fetcher.fetch`. With *into*, the body is written there."""
        out = self._outgoing(request, user_agent, cut, into)
        if self.proxies is not None:
            return await self._fetch_through_proxy(self.proxies, out)
        target, clients = out.target, self._clients if out.browser is None else self._browsers
        with self._deadlines.over(target.host, request.timeout) as deadline:
            addresses = self._guard.known(target) or await self._guard.addresses(target)
            if self._closed:
                raise FetchError("the fetcher is closed", "bad_request")
            host_client = clients.take(target.host, addresses)
            deadline.waiting(PendingResponse(host_client.client.mark, target.port))
            response = None
            try:
                answer = await self._send(host_client.client.client, out)
                _check_peer(answer, target, addresses)
                deadline.answered(answer.local_addr.port() if answer.local_addr else None)
                response = await self._read(answer, out, deadline)
            except ERRORS as error:
                raise explain(error, target, deadline) from None
            finally:
                clients.give_back(host_client)
                if response is None and (self._http2 or clients is not self._clients):
                    clients.drop(target.host)  # cancelling a fetch over HTTP/2 would end only its stream
            return response

    async def download(self, request: Request, *, user_agent: str, into: BodyWriter) -> Response:
        """See `Fetcher`."""
        return await self.fetch(request, user_agent=user_agent, into=into)

    def allow_private(self, allowed: bool) -> None:  # noqa: FBT001
        """See `Fetcher`."""
        self._guard.allow_private(allowed)

    def keep_received(self) -> None:
        """See `Fetcher`."""
        self._keeps = True

    async def close(self) -> None:
        """Close all connections."""
        self._deadlines.close()
        self._closed = True
        if self.proxies is not None:
            self.proxies.close()
        self._clients.clear()  # dropping a client closes its connections
        self._browsers.clear()
        self._proxied.clear()
        await self._guard.close()

    # ── one request ──

    def _outgoing(
        self, request: Request, user_agent: str, cut: int | None = None, into: BodyWriter | None = None
    ) -> Outgoing:
        target = read_target(request.url)
        browser = self._impersonation(request)
        return Outgoing(request, target, self._headers(request, user_agent, target, browser), cut, into, browser)

    def _impersonation(self, request: Request) -> Impersonation | None:
        """Return the browser that a request impersonates; its own choice takes precedence."""
        if not request.meta or IMPERSONATE not in request.meta:
            return self._impersonated
        name = request.meta[IMPERSONATE]
        try:
            return impersonation_of(name) if name else None
        except ConfigError as error:
            raise FetchError(str(error), "bad_request") from None

    def _headers(
        self, request: Request, user_agent: str, target: FetchTarget, browser: Impersonation | None
    ) -> wreq.HeaderMap:
        if browser is not None:
            return wreq.HeaderMap(make_headers(request, None, target.auth))
        if request.headers or request.cookies or request.auth or target.auth:
            return wreq.HeaderMap(make_headers(request, user_agent, target.auth))
        if user_agent not in self._common:
            self._common = {user_agent: wreq.HeaderMap(common_headers(user_agent))}
        return self._common[user_agent]

    @staticmethod
    def _send(client: wreq.Client, out: Outgoing, **extra: Any) -> Coroutine[Any, Any, wreq.Response]:
        request, target, headers = out.request, out.target, out.headers
        if out.browser is not None:
            extra |= out.browser.options
        if request.method == "GET" and not request.body:
            return client.get(target.url, headers=headers, **extra)
        method = getattr(wreq.Method, request.method.upper(), None)
        if method is None:
            raise FetchError(f"the method {request.method} cannot be sent by this fetcher", "bad_request")
        if request.body:
            extra["body"] = request.body
        return client.request(method, target.url, headers=headers, **extra)

    async def _read(self, answer: wreq.Response, out: Outgoing, deadline: Deadline) -> Response:
        request, cut, into = out.request, out.cut, out.into
        status = answer.status.as_int()
        headers = WreqHeaders(answer.headers)
        stream = answer.stream()
        try:
            if self._limits.max_headers < LEAST_BUFFER or out.browser is not None:
                check_headers(headers, self._limits)
            if status != 304 and request.method != "HEAD" and cut is None:
                check_length(answer.content_length, self._limits.max_body if into is None else into.most)
            coding = headers.get("content-encoding")
            body = await read_body(stream, coding, self._limits, deadline, cut, keep=self._keeps, into=into)
            if body.is_cut:
                await _hang_up(answer, stream)
        except (FetchError, LocalFailure):
            await _hang_up(answer, stream)
            raise
        version, whole, received = VERSIONS[str(answer.version)], body.whole(), None
        if self._keeps:
            peer = answer.remote_addr if self.proxies is None else None
            address = str(peer.ip()) if peer else ""
            received = Received(WreqHeaders(out.headers).pairs, body.received(whole), body.lacks_rest, address)
        return Response(request.url, status, headers, whole, monotonic() - deadline.start, version, received, into)

    # ── proxies ──

    async def _fetch_through_proxy(self, pools: ProxyPools, out: Outgoing) -> Response:
        request, target = out.request, out.target
        pool = pools.pool_of(target.host)
        session = request.session or (request.meta.get("session") if request.meta else None)
        tunnel = target.url.startswith("https:")
        await pool.prepare(tunnel=tunnel)
        with pool.use(target.host, session if isinstance(session, str) else None, tunnel=tunnel) as use:
            try:
                response = await self._fetch_with(use, out)
            except FetchError as error:
                raise await pool.judge(use, error) from None
            if not use.tunnel and (what := _says_proxy(use.proxy, response)):
                if failure := await pool.judge_page(use, target.url, response.status, what):
                    raise failure
                return response
            pool.worked(use, response.status, response.elapsed)
            if blocked := pools.judge_block(pool, use, response):
                raise blocked
            return response

    async def _fetch_with(self, use: ProxyUse, out: Outgoing) -> Response:
        target, clients = out.target, self._clients if out.browser is None else self._browsers
        with self._deadlines.over(target.host, out.request.timeout) as deadline:
            host_client = None
            if use.proxy.looks_up_names:
                await self._guard.check_written(target)
                client = self._proxied.get(clients) or self._proxied.setdefault(clients, clients.make("", ()))
            else:
                host_client = clients.take(target.host, await self._guard.addresses(target))
                client = host_client.client
            if self._closed:
                raise FetchError("the fetcher is closed", "bad_request")
            deadline.waiting()  # the connections to a proxy are shared by all hosts, so it is unknown which host floods
            try:
                if (handle := self._handles.get(use.proxy)) is None:
                    handle = self._handles[use.proxy] = _handle(use.proxy)
                answer = await self._send(client.client, out, proxy=handle)
                return await self._read(answer, out, deadline)
            except ERRORS as error:
                use.fault, use.connecting = proxy_fault(error), isinstance(error, NO_CONNECTION)
                raise explain(error, target, deadline) from None
            finally:
                if host_client is not None:
                    clients.give_back(host_client)

    async def check_proxy(self, proxy: Proxy, tunnel: bool) -> ProxyCheck:  # noqa: FBT001
        """Return whether a proxy works. It is asked for a host that cannot exist."""
        client = self._make_client("", ())
        url = f"{'https' if tunnel else 'http'}://{PROBE}/"
        try:
            async with asyncio.timeout(self._limits.connect_timeout + 1):
                answer = await client.client.get(url, proxy=_handle(proxy, looks_up=True))
        except TimeoutError:
            return ProxyCheck("it does not reply")
        except ERRORS as error:
            text = _THEIRS.sub("", str(error))
            if _REPLIED.search(text) or _local_failure(text):
                return ProxyCheck()
            other = "it speaks another protocol" if _OTHER_PROTOCOL.search(text) else "it closes connections"
            return ProxyCheck(proxy_fault(error) or ("it does not reply" if "TimedOut" in text else other))
        status = answer.status.as_int()
        return ProxyCheck(REFUSALS.get(status, ""), status)

    async def fetch_through(self, proxy: Proxy, request: Request, *, user_agent: str) -> Response:
        """Fetch a page through this proxy, whatever its health is. Raises a `FetchError` or `ProxyFailure` if there is no response."""
        out = self._outgoing(request, user_agent)
        use = ProxyUse(PooledProxy(proxy), out.target.host, 0.0, tunnel=out.target.url.startswith("https:"))
        try:
            return await self._fetch_with(use, out)
        except FetchError:
            if use.fault:
                raise ProxyFailure(use.fault) from None
            raise

    async def read_proxies(self, proxies: Proxies) -> list[Proxy]:
        """Return the proxies of a list as it is now, of all tiers."""
        if proxies.tiers:
            return [proxy for tier in proxies.tiers for proxy in await self.read_proxies(tier)]
        return await proxies.load(self._download) if proxies.changes else proxies.listed

    async def _download(self, url: str) -> str:
        """Return a list of proxies, which its user has chosen, so that the guard is not asked."""
        client = self._make_client("", ())
        try:
            async with asyncio.timeout(self._limits.timeout):
                answer = await client.client.get(url)
                text = await answer.text()
        except TimeoutError:
            raise ConfigError("the list of proxies cannot be downloaded: the server does not respond") from None
        except ERRORS as error:
            reason = _reason(_THEIRS.sub("", str(error)))
            raise ConfigError(f"the list of proxies cannot be downloaded: {reason}") from None
        if answer.status.as_int() != 200:
            raise ConfigError(f"the list of proxies cannot be downloaded: status {answer.status.as_int()}")
        return str(text)

    # ── clients ──

    def _make_client(self, host: str, addresses: tuple[IPAddress, ...]) -> MarkedClient:
        return self._make(host, addresses, self._settings)

    def _make_browser(self, host: str, addresses: tuple[IPAddress, ...]) -> MarkedClient:
        """Make a client that offers HTTP/2 as the browser does, with its settings."""
        apart = ("http1_only", "http2_options")
        return self._make(host, addresses, {name: one for name, one in self._settings.items() if name not in apart})

    def _make(self, host: str, addresses: tuple[IPAddress, ...], settings: dict[str, Any]) -> MarkedClient:
        dns = wreq.DnsOptions(system_dns=True)
        if addresses and read_address(host) is None:
            dns.add_resolve(host, addresses)
        mark = self._marks.next()
        return MarkedClient(wreq.Client(dns_options=dns, tcp_keepalive=timedelta(seconds=mark), **settings), mark)


class WreqHeaders(Headers):
    """Headers that are read on first use: each costs a microsecond, and most are never read."""

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


def _check_peer(answer: wreq.Response, target: FetchTarget, addresses: tuple[IPAddress, ...]) -> None:
    """Raise `ForbiddenAddress` if the response is not from one of the checked addresses. It should never happen."""
    peer = answer.remote_addr
    if peer is None or peer.ip() not in addresses:
        raise ForbiddenAddress(f"the response of {target.host} came from an address that was not checked: {peer}")


async def _hang_up(answer: wreq.Response, stream: wreq.Streamer) -> None:
    """Close the connection instead of reading the rest."""
    await stream.__aexit__(None, None, None)
    await answer.close()


def _settings(limits: Limits, *, verify: bool | Path, http2: bool) -> dict[str, Any]:
    """Return the settings that all clients of a fetcher share."""
    settings: dict[str, Any] = {
        "no_proxy": True,
        "runtime": wreq.Runtime(workers=1, thread_name="silkline-fetch"),
        "connect_timeout": timedelta(seconds=limits.connect_timeout),
        "redirect": wreq.Policy.none(),
        "referer": False,
        "cookie_store": False,
        "pool_max_idle_per_host": MAX_IDLE,
        "pool_max_size": connections(),
        "pool_idle_timeout": timedelta(seconds=IDLE_SECONDS),
        "http1_options": wreq.Http1Options(
            max_buf_size=max(limits.max_headers, LEAST_BUFFER), max_headers=MAX_HEADER_LINES, http09_responses=False
        ),
        "http2_options": wreq.Http2Options(max_header_list_size=limits.max_headers),
        # `decode` decompresses, with limits and with several codings in a row.
        **dict.fromkeys(("gzip", "brotli", "deflate", "zstd"), False),
    }
    if not http2:
        settings["http1_only"] = True
    settings["tls_verify"] = wreq.CertStore.from_pem_stack(verify.read_bytes()) if isinstance(verify, Path) else verify
    return settings


# ── exceptions of wreq; their texts are for its developers, and are not passed on ──

ERRORS: tuple[type[Exception], ...] = (
    *(getattr(exceptions, name) for name in exceptions.__all__),
    RuntimeError,  # wreq raises it for headers it cannot send, and when its runtime has ended
)

# wreq's texts also contain URLs and text of the server, which must not decide the kind of an error.
_THEIRS = re.compile(r'uri: [^\s]+,|b"(?:[^"\\]|\\.)*"')
_MESSAGE = re.compile(r'(?:message|error): "([^"]+)"')
_ERRNO = re.compile(r"Os \{ code: (\d+),")
_REASONS = {  # a part of the text of wreq → the reason
    "TimedOut": "timed out",
    "Parse(Version": "the response is not HTTP",
    "Parse(Status": "invalid status line",
    "ContentLengthInvalid": "invalid Content-Length",
    "TransferEncoding": "invalid Transfer-Encoding",
    "Parse(Header": "invalid headers",
    "UnexpectedMessage": "data after the response",
    "TunnelUnsuccessful": "the proxy made no connection",
    "Socks(": "the proxy made no connection",
    ", Library)": "invalid HTTP/2, or too large headers",
}
_CUT_OFF = (
    "UnexpectedEof",
    "IncompleteBody",
    "IncompleteMessage",
    "ConnectionReset",
    "BrokenPipe",
    "ConnectionAborted",
    ", Remote)",  # HTTP/2: the server ended the stream, or all of them
)
_TLS = ("tls", "ssl", "certificate", "handshake")


def explain(error: Exception, target: FetchTarget, deadline: Deadline) -> FetchError | LocalFailure:
    """Return the `FetchError` for an exception of wreq, or the failure of this machine that caused it."""
    text = _THEIRS.sub("", str(error))
    where = f"{target.host}:{target.port}"
    if isinstance(error, exceptions.BuilderError | RuntimeError):
        return FetchError(f"the request cannot be sent: {_reason(text)}", "bad_request")
    if isinstance(error, NO_CONNECTION):
        return _no_connection(error, text, where)
    if isinstance(error, exceptions.ConnectionResetError) or any(word in text for word in _CUT_OFF):
        return HostUnreachable(f"{where} closed the connection {_progress(deadline)}", "reset")
    if "TimedOut" in text:
        return FetchTimeout(f"{where} did not respond in time")
    if "TooLarge" in text:
        return ResponseTooLarge(f"the headers of {where} exceed the limit")
    return FetchError(f"{where} violates HTTP: {_reason(text)}", "protocol")


def _no_connection(error: Exception, text: str, where: str) -> FetchError | LocalFailure:
    if local := _local_failure(text):
        return local
    if isinstance(error, exceptions.TlsError) or any(word in text.lower() for word in _TLS):
        return HostUnreachable(f"no secure connection to {where}: {_tls_reason(text)}", "tls")
    return HostUnreachable(f"no connection to {where}: {_reason(text)}")


def _local_failure(text: str) -> LocalFailure | None:
    found = _ERRNO.search(text)
    return local_failure(int(found.group(1))) if found else None


def _tls_reason(text: str) -> str:
    found = re.search(
        r"CERTIFICATE_VERIFY_FAILED[^\]\"]*|certificate verify failed[^\]\"]*|[A-Z]+(?:_[A-Z0-9]+){1,6}", text
    )
    return found.group(0).strip(" :\\}])") if found else "the handshake failed"


def _reason(text: str) -> str:
    if found := _MESSAGE.search(text):
        return found.group(1)
    return next((words for mark, words in _REASONS.items() if mark in text), "invalid response")


# ── failures of proxies ──

NO_CONNECTION = (exceptions.ConnectionError, exceptions.ProxyConnectionError, exceptions.TlsError)
REFUSALS = {
    402: "it refuses requests (status 402)",
    407: "it wants another user or password (status 407)",
    429: "it refuses requests (status 429)",
}
"""Statuses with which a proxy refuses to work for this client."""
_LOGIN = re.compile(r"Socks\(\w*Auth")
_OTHER_PROTOCOL = re.compile(r"\(Parse\(|Socks\(Invalid")
_REPLIED = re.compile(r"TunnelUnsuccessful|Socks\((?!Io|Invalid|\w*Auth)")
"""A proxy says that it has no connection to a host."""
_ERROR_PAGES = ("x-squid-error", "proxy-status", "proxy-authenticate")
"""Headers of error pages that a proxy makes itself."""


def proxy_fault(error: Exception) -> str:
    """Return why a proxy is at fault for an exception of wreq, in words; empty if the host may be at fault."""
    text = _THEIRS.sub("", str(error))
    if "ProxyAuthRequired" in text or _LOGIN.search(text):
        return REFUSALS[407]
    if "ConnectFailed(" in text or "ProxyConnect(ConnectError" in text:
        return f"no connection: {_reason(text)}"
    if isinstance(error, exceptions.ProxyConnectionError) and _OTHER_PROTOCOL.search(text):
        return "it speaks another protocol"
    return ""


def _handle(proxy: Proxy, *, looks_up: bool = False) -> wreq.Proxy:
    """Return wreq's proxy. If it *looks_up* names, it does so also if this process would do it."""
    url = proxy.url.replace("socks5:", "socks5h:", 1) if looks_up else proxy.url
    return wreq.Proxy.all(url)


def _says_proxy(proxy: Proxy, response: Response) -> str:
    """Return what an error page of a proxy says; empty for a response of the host."""
    if response.status < 400 or not proxy.scheme.startswith("http"):
        return ""
    if response.status in REFUSALS and response.status != 429:
        return f"status {response.status}"
    headers = response.headers
    return next((f"{name}: {headers[name][:100]}" for name in _ERROR_PAGES if name in headers), "")


def _progress(deadline: Deadline) -> str:
    return f"after {deadline.got} bytes of the body" if deadline.got else "before the body"
