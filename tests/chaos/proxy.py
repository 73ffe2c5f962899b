"""A proxy between client and server that cuts connections at the worst moment, or swallows everything."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

_SCRIPT = (b"EVALSHA\r\n", b"EVAL\r\n")


class Proxy:
    """Listens on a unix socket, in a thread of its own, and passes on what comes."""

    def __init__(self, server):
        self._server = str(server)
        self._folder = Path(tempfile.mkdtemp(prefix="silk-"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._links = set()
        self._to_cut = 0
        self._share = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._to_hold = 0
        self._held = []
        self.cuts = 0

    @property
    def socket(self):
        return self._folder / "p.sock"

    @property
    def url(self):
        return f"unix://{self.socket}"

    def __enter__(self):
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_):
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def cut_replies(self, times, share=0.0):
        """Let the next scripts run, but let no more than this share of their replies through, then hang up."""
        self._to_cut, self._share = times, share

    def hold_scripts(self, times, sha=""):
        """Keep the next scripts (or the next ones of this hash) on the way, and hang up on their clients."""
        self._to_hold, self._sha = times, sha.encode()

    def deliver(self):
        """Let the server have what was kept; answers how many packets that were."""
        return self._do(self._deliver())

    def swallow(self, swallow=True):
        """A hole in the network: what is sent arrives nowhere, and nobody hangs up."""
        self._loop.call_soon_threadsafe(self._open.clear if swallow else self._open.set)

    def hang_up(self):
        """Cut every connection there is."""
        self._do(self._hang_up())

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(100)

    async def _listen(self):
        self._listener = await asyncio.start_unix_server(self._accept, self.socket)

    async def _stop(self):
        self._listener.close()
        await self._hang_up()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _hang_up(self):
        for link in list(self._links):
            link.close()

    async def _deliver(self):
        for packet in self._held:
            reader, writer = await asyncio.open_unix_connection(self._server)
            writer.write(packet)
            assert await reader.read(65536)
            writer.close()
        return len(self._held)

    async def _accept(self, reader, writer):
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            with suppress(asyncio.CancelledError, OSError):
                await link.run(self._server)
        finally:
            link.close()
            self._links.discard(link)

    def takes_hold(self, request):
        if not self._to_hold or self._sha not in request or not any(word in request for word in _SCRIPT):
            return False
        self._to_hold -= 1
        self._held.append(request)
        return True

    def takes_cut(self, request):
        return self._to_cut > 0 and any(word in request for word in _SCRIPT)

    def cut(self, reply):
        """What of the reply gets through."""
        self._to_cut -= 1
        self.cuts += 1
        return reply[: int(len(reply) * self._share)]

    async def out_of_the_hole(self):
        await self._open.wait()


class _Link:
    """One client's connection."""

    def __init__(self, proxy, reader, writer):
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._upstream = None
        self._script_sent = False

    async def run(self, server):
        upstream, self._upstream = await asyncio.open_unix_connection(server)
        ways = [asyncio.create_task(way) for way in (self._requests(), self._replies(upstream))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self):
        while request := await self._reader.read(65536):
            await self._proxy.out_of_the_hole()
            if self._proxy.takes_hold(request):
                return
            self._script_sent |= self._proxy.takes_cut(request)  # a script that is sent whole comes in several pieces
            self._upstream.write(request)
            await self._upstream.drain()

    async def _replies(self, upstream):
        while reply := await upstream.read(65536):
            await self._proxy.out_of_the_hole()
            if self._script_sent and not reply.startswith(b"-NOSCRIPT"):
                self._writer.write(self._proxy.cut(reply))
                await self._writer.drain()
                return
            self._script_sent = False
            self._writer.write(reply)
            await self._writer.drain()

    def close(self):
        for writer in (self._writer, self._upstream):
            if writer:
                writer.close()
