"""A web server that speaks just enough HTTP/2 to answer every request the same way."""

from __future__ import annotations

import asyncio

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """A literal header that goes into no table, without Huffman coding (RFC 7541, 6.2.2)."""
    return b"\x00" + _number(len(name)) + name + _number(len(value)) + value


def _number(value):
    if value < 127:
        return bytes([value])
    rest, value = [127], value - 127
    while value >= 128:
        rest.append(value % 128 + 128)
        value //= 128
    return bytes([*rest, value])


def page(body, *headers):
    """An answer: status 200, *headers*, *body*."""
    block = b"\x88" + b"".join(header(name, value) for name, value in headers)

    def answer(stream):
        pieces = [block[start : start + 16_000] for start in range(0, len(block), 16_000)]
        out = frame(HEADERS, END_HEADERS if len(pieces) == 1 else 0, stream, pieces[0])
        for number, piece in enumerate(pieces[1:], 2):
            out += frame(CONTINUATION, END_HEADERS if number == len(pieces) else 0, stream, piece)
        for start in range(0, len(body), 16_000):
            out += frame(DATA, 0, stream, body[start : start + 16_000])
        return out + frame(DATA, END_STREAM, stream)

    return answer


class Http2(asyncio.Protocol):
    """One connection. *answer* makes the frames for a stream."""

    def __init__(self, answer, log, still_open):
        self._answer = answer
        self._log = log
        self._still_open = still_open
        self._buffer = b""
        self._greeted = False

    def connection_made(self, transport):
        self._transport = transport
        self._still_open.add(transport)
        self._log.append(transport.get_extra_info("ssl_object").selected_alpn_protocol())
        transport.write(frame(SETTINGS, 0, 0))

    def connection_lost(self, _error):
        self._still_open.discard(self._transport)

    def data_received(self, data):
        self._buffer += data
        if not self._greeted and len(self._buffer) >= len(PREFACE):
            assert self._buffer.startswith(PREFACE)
            self._buffer, self._greeted = self._buffer[len(PREFACE) :], True
        while self._greeted and len(self._buffer) >= 9:
            end = 9 + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < end:
                return
            kind, flags, stream = self._buffer[3], self._buffer[4], int.from_bytes(self._buffer[5:9], "big")
            payload, self._buffer = self._buffer[9:end], self._buffer[end:]
            self._frame_received(kind, flags, stream, payload)

    def _frame_received(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            self._transport.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._transport.write(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            self._log.append(stream)
            self._transport.write(self._answer(stream))
