"""A web server that answers over HTTP/2 with empty DATA frames without end, and over HTTP/1.1 with a page.

Run as ``python -m tests.fetch.flood FOLDER``: it writes its authority there, prints its port, then what it sees.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.fetch.certificates import Authority
from tests.fetch.http2 import DATA, END_HEADERS, HEADERS, Http2, frame

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ncalm"


def say(word):
    print(word, flush=True)


class Flood(Http2):
    """One connection."""

    def __init__(self):
        super().__init__(None, [], set())
        self._ready = True

    def connection_made(self, transport):
        self._protocol = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        say(self._protocol)
        self._transport = transport
        if self._protocol == "h2":
            super().connection_made(transport)

    def data_received(self, data):
        if self._protocol == "h2":
            super().data_received(data)
        else:
            self._transport.write(PAGE)

    def _frame_received(self, kind, flags, stream, payload):
        if kind == HEADERS:
            self._transport.write(frame(HEADERS, END_HEADERS, stream, b"\x88"))
            self._again = frame(DATA, 0, stream) * 4_000
            self._pour()
        else:
            super()._frame_received(kind, flags, stream, payload)

    def _pour(self):
        while self._ready and not self._transport.is_closing():
            self._transport.write(self._again)

    def pause_writing(self):
        self._ready = False

    def resume_writing(self):
        self._ready = True
        asyncio.get_running_loop().call_soon(self._pour)

    def connection_lost(self, error):
        super().connection_lost(error)
        say("lost")


async def main(folder):
    tls = Authority(Path(folder)).server("127.0.0.1", alpn=("h2", "http/1.1"))
    server = await asyncio.get_running_loop().create_server(Flood, "127.0.0.1", 0, ssl=tls)
    say(server.sockets[0].getsockname()[1])
    await asyncio.sleep(120)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
