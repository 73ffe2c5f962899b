"""The other fetcher, on aiohttp: HTTP/1.1 only, all in Python's own event loop. Needs ``silkline[aiohttp]``."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from time import monotonic

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from silkline.core.errors import FetchError, HostUnreachable, ResponseTooLarge
from silkline.core.request import Request
from silkline.worker.fetch.fetcher import Headers, Limits, Response
from silkline.worker.fetch.guard import Guard, Target, read_target
from silkline.worker.fetch.outgoing import make_headers
from silkline.worker.fetch.reading import check_headers, check_length, read_body
from silkline.worker.fetch.watch import Watch, Watchdog

IDLE_SECONDS = 30.0
ERRORS = (aiohttp.ClientError, OSError, ValueError)
_CUT_OFF = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    aiohttp.ClientPayloadError,
    ConnectionError,
)


class AiohttpFetcher:
    """Fetches with aiohttp, through the guard. For platforms without wreq, and for those who know aiohttp.

    *verify* is True for the usual certificate authorities, a file of your own ones (PEM), or False for none at all.
    """

    def __init__(self, limits: Limits | None = None, *, guard: Guard | None = None, verify: bool | Path = True) -> None:
        self._limits = limits or Limits()
        self._guard = guard or Guard()
        self._watchdog = Watchdog(self._limits)
        self._verify = verify
        self._opened: aiohttp.ClientSession | None = None

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:
        """See `Fetcher.fetch`."""
        target = read_target(request.url)
        headers = make_headers(request, user_agent, target.auth)
        with self._watchdog.over(target.host, request.timeout) as watch:
            if target.literal is not None:  # aiohttp does not ask for the address of an address
                await self._guard.addresses(target)
            watch.doing = "connecting, or waiting for the answer"
            sending = self._session().request(
                request.method,
                URL(target.url, encoded=True),
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
            )
            try:
                async with sending as answer:
                    return await self._read(answer, request, watch, cut)
            except ERRORS as error:
                raise explain(error, target, watch) from None

    async def _read(self, answer: aiohttp.ClientResponse, request: Request, watch: Watch, cut: int | None) -> Response:
        pairs = [(str(name, "latin-1"), str(value, "latin-1")) for name, value in answer.raw_headers]
        headers = Headers(pairs)
        try:
            check_headers(headers, self._limits)
            if answer.status != 304 and request.method != "HEAD" and cut is None:
                check_length(answer.content_length, self._limits)
            coding = headers.get("content-encoding")
            body = await read_body(answer.content.iter_any(), coding, self._limits, watch, cut)
            if len(body) == cut:
                answer.close()
        except FetchError:
            answer.close()  # rather than read what is left
            raise
        version = f"HTTP/{answer.version.major}.{answer.version.minor}" if answer.version else "HTTP/1.1"
        return Response(request.url, answer.status, headers, body, monotonic() - watch.start, version)

    async def close(self) -> None:
        self._watchdog.close()
        if self._opened is not None:
            await self._opened.close()
        await self._guard.close()

    def _session(self) -> aiohttp.ClientSession:
        """Made when first asked for: aiohttp wants an event loop that runs."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=Pinned(self._guard),
                    use_dns_cache=False,  # the guard remembers
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
            # One claim of a host is one request: whether to try again is not for the client to decide.
            self._opened._retry_connection = False  # noqa: SLF001 - there is no public name for it
        return self._opened


class Pinned(AbstractResolver):
    """Tells aiohttp the addresses that the guard has checked, and no others."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - aiohttp's signature; all families are told
    ) -> list[ResolveResult]:
        found = await self._guard.addresses(Target("", host, port, None, None))
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
        """The guard is closed by the fetcher."""


def explain(error: Exception, target: Target, watch: Watch) -> FetchError:
    """The `FetchError` that an exception of aiohttp is."""
    where = f"{target.host}:{target.port}"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return HostUnreachable(f"no secure connection to {where}: {error}", "tls")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ServerTimeoutError | TimeoutError):
        return HostUnreachable(f"no connection to {where}: {getattr(error, 'strerror', None) or 'not in time'}")
    if "TransferEncodingError" in str(error) and "Not enough" not in str(error):
        return FetchError(f"{where} does not keep to HTTP: its chunks make no sense", "protocol")
    if isinstance(error, _CUT_OFF):
        progress = f"after {watch.got} bytes of the body" if watch.got else "before the body"
        return HostUnreachable(f"{where} cut the connection {progress}", "reset")
    if "more than" in str(error) or "Too many" in str(error):
        return ResponseTooLarge(f"the headers of {where} are over the cap")
    reason = str(getattr(error, "message", error)).partition("\n")[0].rstrip(":")
    return FetchError(f"{where} does not keep to HTTP: {reason[:200]}", "protocol")


def _tls(*, verify: bool | Path) -> ssl.SSLContext | bool:
    if isinstance(verify, Path):
        return ssl.create_default_context(cafile=verify)
    return verify
