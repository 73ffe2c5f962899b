"""Real proxies on loopback, good and bad ones."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import struct
from contextlib import suppress
from urllib.parse import urlsplit

PAGE = b"<html><body>the proxy's own page</body></html>"


class ProxyServer:
    """A proxy for HTTP (and CONNECT) or SOCKS5. Names that end in ``.test`` are this machine for it, and other unknown names do not exist.

    *login* is the user and password that it wants. *behavior* is ``good``, or what it does instead: ``silent``, ``closes``, ``garbage``,
    ``error page`` (its own, with 403), ``lies`` (it marks the errors of sites as its own), ``refuses`` (503 to all, except to hosts in *reaches*) or ``cut`` (it closes in the middle of a body).
    """

    def __init__(self, kind="http", *, login=None, tls=None, behavior="good", address="127.0.0.1", port=0):
        self.kind = kind
        self.login = login
        self.behavior = behavior
        self.targets = []
        """Each host and port that it was asked for, checks left out."""
        self.checks = 0
        self.accepted = 0
        self.reaches = set()
        self.adds = ""
        """A header that it adds to requests."""
        self._tls = tls
        self._address = address
        self.port = port
        self._server = None
        self._open = set()

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.die()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, self._address, self.port, ssl=self._tls, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def die(self):
        """Close the port and all connections at once."""
        if self._server:
            self._server.close()
        self._server = None
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    @property
    def place(self):
        return f"{self._address}:{self.port}"

    @property
    def url(self):
        scheme = {"http": "https" if self._tls else "http"}.get(self.kind, self.kind)
        login = ":".join(self.login) + "@" if self.login else ""
        return f"{scheme}://{login}{self.place}"

    async def _serve(self, reader, writer):
        self.accepted += 1
        task = asyncio.current_task()
        self._open.add(task)
        try:
            if self.behavior == "silent":
                await reader.read()
            elif self.behavior == "closes":
                pass
            elif self.behavior == "garbage":
                await reader.read(100)
                writer.write(b"\x00SSH-2.0-no proxy at all\r\n\r\n")
            elif self.kind == "http":
                while await self._request(reader, writer):
                    pass
            else:
                await self._socks(reader, writer)
        except (OSError, EOFError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._open.discard(task)
            with suppress(OSError):
                writer.close()

    def _note(self, host, port):
        if host.endswith(".invalid"):
            self.checks += 1
        else:
            self.targets.append(f"{host}:{port}")

    async def _connect(self, host, port):
        """Connect to a host as this proxy sees it; None if it cannot be reached."""
        self._note(host, port)
        if self.behavior == "refuses" and host not in self.reaches:
            return None
        name = "127.0.0.1" if host.endswith((".test", ".localhost")) else host
        if host.endswith(".invalid"):
            return None
        try:
            return await asyncio.open_connection(name, port)
        except OSError:
            return None

    # ── HTTP ──

    async def _request(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        if self.login and not self._knows(headers.get("proxy-authorization", "")):
            return await self._reply(writer, "407 Proxy Authentication Required", "Proxy-Authenticate: Basic\r\n")
        if self.behavior == "error page":
            return await self._reply(writer, "403 Forbidden", "X-Squid-Error: ERR_ACCESS_DENIED 0\r\n")
        if method == "CONNECT":
            return await self._tunnel(target, reader, writer)
        return await self._forward(method, target, lines, headers, reader, writer)

    async def _tunnel(self, target, reader, writer):
        host, _, port = target.rpartition(":")
        upstream = await self._connect(host, int(port))
        if upstream is None:
            return await self._reply(writer, "503 Service Unavailable")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._pass_on(reader, writer, upstream)
        return False

    async def _forward(self, method, target, lines, headers, reader, writer):
        url = urlsplit(target)
        upstream = await self._connect(url.hostname, url.port or 80)
        if upstream is None:
            return await self._reply(writer, "503 Service Unavailable", "X-Squid-Error: ERR_DNS_FAIL 0\r\n")
        path = url.path + (f"?{url.query}" if url.query else "")
        kept = "".join(
            f"{line}\r\n" for line in lines if line and not line.lower().startswith(("proxy-", "connection"))
        )
        kept += f"{self.adds}\r\n" if self.adds else ""
        try:
            upstream[1].write(f"{method} {path or '/'} HTTP/1.1\r\n{kept}Connection: close\r\n\r\n".encode("latin-1"))
            length = int(headers.get("content-length", 0))
            if length:
                upstream[1].write(await reader.readexactly(length))
            body = await upstream[0].read()
        finally:
            upstream[1].close()
        if self.behavior == "cut":
            writer.write(body[: body.index(b"\r\n\r\n") + 10])
            await writer.drain()
            self._server.close()
            return False
        if self.behavior == "lies" and body[9:10] in b"45":
            body = body.replace(b"\r\n", b"\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\n", 1)
        writer.write(body)
        await writer.drain()
        return False

    def _knows(self, given):
        return given.removeprefix("basic ") == base64.b64encode(":".join(self.login).encode()).decode().lower()

    async def _reply(self, writer, status, headers=""):
        writer.write(f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(PAGE)}\r\n\r\n".encode() + PAGE)
        await writer.drain()
        return True

    # ── SOCKS5 ──

    async def _socks(self, reader, writer):
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        wanted = 2 if self.login else 0
        if wanted not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(bytes([5, wanted]))
        if self.login:
            _, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            (size,) = await reader.readexactly(1)
            password = await reader.readexactly(size)
            good = (user.decode(), password.decode()) == tuple(self.login)
            writer.write(bytes([1, 0 if good else 1]))
            if not good:
                return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            (size,) = await reader.readexactly(1)
            host = (await reader.readexactly(size)).decode()
        else:
            host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
        (port,) = struct.unpack("!H", await reader.readexactly(2))
        upstream = await self._connect(host, port)
        writer.write(bytes([5, 0 if upstream else 4, 0, 1]) + bytes(6))
        if upstream:
            await self._pass_on(reader, writer, upstream)

    async def _pass_on(self, reader, writer, upstream):
        async def pipe(source, sink):
            with suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            with suppress(OSError):
                sink.write_eof() if sink.can_write_eof() else sink.close()

        try:
            await asyncio.gather(pipe(reader, upstream[1]), pipe(upstream[0], writer))
        finally:
            upstream[1].close()
