"""Connections of a browser through the proxies of the crawl: HTTP, HTTPS and SOCKS5."""

from __future__ import annotations

import asyncio
import ssl
import time
from base64 import b64encode
from ipaddress import IPv4Address

from silkline.errors import FetchError, HostUnreachable, LocalFailure, ProxyFailure
from silkline.fetch.addresses import IPAddress
from silkline.fetch.browser.guard_proxy import CONNECT_TIMEOUT, PIECE, Connection
from silkline.fetch.guard import FetchTarget, Guard
from silkline.fetch.proxies import Proxy
from silkline.fetch.proxy.pool import ProxyUse
from silkline.fetch.proxy.tiers import ProxyPools

TRIES = 3
"""Proxies that are tried for one connection."""
REFUSALS = frozenset({402, 407})
"""Statuses with which a proxy refuses to work for this client."""
NO_LOGIN, LOGIN, NO_METHOD = 0, 2, 0xFF
"""How SOCKS5 calls the ways to log in."""
NAME, FOUR, SIX = 3, 1, 4
"""How SOCKS5 calls kinds of hosts."""


class ProxyDial:
    """Connects through the proxies of a crawl, as the fetcher does; *session* keeps the connections of a page with one of them."""

    def __init__(self, guard: Guard, pools: ProxyPools, session: str | None = None, *, verify_tls: bool = True) -> None:
        self._guard = guard
        self._pools = pools
        self._session = session
        self._tls = ssl.create_default_context()
        if not verify_tls:
            self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    async def __call__(self, target: FetchTarget, *, tunnel: bool) -> Connection:
        """Return a connection to a host, or to a proxy that passes on its requests. Raises a `FetchError` or a `LocalFailure`."""
        await self._pools.pool_of(target.host).prepare(tunnel=tunnel)
        for left in reversed(range(TRIES)):
            found = await self._try(target, tunnel=tunnel)
            if isinstance(found, Connection):
                return found
            if not left or not isinstance(found, ProxyFailure):
                raise found
        raise AssertionError

    async def _try(self, target: FetchTarget, *, tunnel: bool) -> Connection | FetchError | LocalFailure:
        """Return a connection through the next proxy, or why there is none."""
        address, pool = None, self._pools.pool_of(target.host)
        with pool.use(target.host, self._session, tunnel=tunnel) as use:
            if use.proxy.looks_up_names:
                await self._guard.check_written(target)
            else:
                address = (await self._guard.addresses(target))[0]
            began = time.monotonic()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    connection = await self._connect(use, target, address, tunnel=tunnel)
            except (OSError, EOFError, ValueError) as error:  # also TimeoutError, and what is not the protocol
                use.connecting = True
                reason = str(error) or "it does not reply"
                return await pool.judge(use, HostUnreachable(f"no connection to {target.host}: {reason}"))
            if connection.proxy_login is None:
                pool.worked(use, 200, time.monotonic() - began)
            return connection

    async def _connect(
        self, use: ProxyUse, target: FetchTarget, address: IPAddress | None, *, tunnel: bool
    ) -> Connection:
        proxy = use.proxy
        tls = self._tls if proxy.scheme == "https" else None
        try:
            host = proxy.host.strip("[]")
            connection = Connection(*await asyncio.open_connection(host, proxy.port, ssl=tls, limit=PIECE))
        except OSError as error:
            use.fault = f"no connection: {error}"
            raise
        try:
            if proxy.scheme.startswith("socks"):
                await _ask_socks(connection, use, target, address)
            elif tunnel:
                await _ask_http(connection, use, target)
            else:
                return connection._replace(proxy_login=_login(proxy))
        except BaseException:
            connection.writer.close()
            raise
        return connection


def _login(proxy: Proxy) -> str:
    """Return the header with the login; empty without one."""
    if not proxy.user and not proxy.password:
        return ""
    return f"Proxy-Authorization: Basic {b64encode(f'{proxy.user}:{proxy.password}'.encode()).decode()}"


async def _ask_http(connection: Connection, use: ProxyUse, target: FetchTarget) -> None:
    place, login = f"{target.host}:{target.port}", _login(use.proxy)
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *([login] if login else []), "", ""]
    connection.writer.write("\r\n".join(lines).encode())
    head = (await connection.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    version, _, rest = head.partition(" ")
    status = int(rest[:3]) if version.startswith("HTTP/1.") and rest[:3].isdigit() else 0
    if status != 200:
        if status in REFUSALS or not status:
            use.fault = f"it refuses requests (status {status})" if status else "it speaks another protocol"
        raise EOFError(f"the proxy made no connection (status {status})")


async def _ask_socks(connection: Connection, use: ProxyUse, target: FetchTarget, address: IPAddress | None) -> None:
    reader, writer, proxy = connection.reader, connection.writer, use.proxy
    has_login = bool(proxy.user or proxy.password)
    writer.write(bytes([5, 2, NO_LOGIN, LOGIN] if has_login else [5, 1, NO_LOGIN]))
    version, method = await reader.readexactly(2)
    if method == LOGIN and has_login:
        user, password = proxy.user.encode(), proxy.password.encode()
        writer.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        method = NO_LOGIN if (await reader.readexactly(2))[1] == 0 else NO_METHOD
    if version != 5 or method != NO_LOGIN:
        use.fault = "it wants another user or password" if version == 5 else "it speaks another protocol"
        raise EOFError(use.fault)
    writer.write(bytes([5, 1, 0]) + _socks_host(target, address) + target.port.to_bytes(2))
    _, reply, _, kind = await reader.readexactly(4)
    if reply:
        raise EOFError(f"the proxy made no connection (code {reply})")
    size = (await reader.readexactly(1))[0] if kind == NAME else 4 if kind == FOUR else 16
    await reader.readexactly(size + 2)


def _socks_host(target: FetchTarget, address: IPAddress | None) -> bytes:
    address = address or target.literal
    if address is None:
        name = target.host.encode()
        return bytes([NAME, len(name)]) + name
    return bytes([FOUR if isinstance(address, IPv4Address) else SIX]) + address.packed
