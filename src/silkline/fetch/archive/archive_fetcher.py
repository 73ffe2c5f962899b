"""ArchiveFetcher: fetches pages from archives, without the network."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from silkline.core.request import Request
from silkline.core.url import ParsedUrl
from silkline.errors import FetchError, NotArchived, ResponseTooLarge
from silkline.fetch.archive.index import ArchiveIndex, PagePlace
from silkline.fetch.archive.records import BadRecord, HttpMessage, read_http, without_chunks
from silkline.fetch.decode import Decoding
from silkline.fetch.fetcher import Headers, Response
from silkline.fetch.limits import BodyBuffer, Limits

LARGEST_SITEMAP = 50 * 2**20
"""The size that the protocol of sitemaps permits, whatever the limits of pages."""
LARGE = 256 * 1024
"""Bytes of a body from which it is decoded in a thread."""


class ArchiveFetcher:
    """Replies with the responses that an index names. Raises `NotArchived` for a page that no archive has.

    Only GET requests have a response, because the index does not contain the bodies of requests.
    """

    def __init__(self, index: Path, limits: Limits | None = None) -> None:
        self._index = ArchiveIndex(index)
        self._limits = limits or Limits()

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:  # noqa: ARG002
        """See `Fetcher.fetch`."""
        began = time.monotonic()
        where = self._index.find(request.url) if request.method == "GET" and not request.body else None
        if where is None:
            raise NotArchived(f"{request.url} is not in the archive")
        message = self._read(where)
        headers = Headers(message.headers)
        if len(message.body) < LARGE:
            body = self._decode(message, headers, cut)
        else:
            body = await asyncio.to_thread(self._decode, message, headers, cut)
        return Response(request.url, message.status, headers, body, time.monotonic() - began, f"HTTP/{message.version}")

    def archived(self, address: ParsedUrl) -> bool:
        """Whether an archive has a response to a GET request of this URL."""
        return self._index.has(address)

    def _read(self, where: PagePlace) -> HttpMessage:
        """Return the stored response; that of a revisit has the body of another record."""
        most = most_block(self._limits)
        try:
            message = read_http(self._index.record(where, most))
            if where.body is not None:
                payload = read_http(self._index.record(where.body, most))
                return message._replace(body=payload.body, is_cut=payload.is_cut)
        except (BadRecord, OSError, ValueError) as error:
            raise FetchError(
                f"{where.path}, offset {where.place:,}: {error}; it was changed after the run began", "bad_archive"
            ) from None
        return message

    def _decode(self, message: HttpMessage, headers: Headers, cut: int | None) -> bytes:
        """Return the body without transfer coding and content coding, within the limits of a fetch."""
        sent = message.body
        if "chunked" in (headers.get("transfer-encoding") or "").lower():
            sent = without_chunks(sent)
        coding = headers.get("content-encoding")
        cap = max(self._limits.max_body, cut or 0)
        body = BodyBuffer(cap if cut is None else cut)
        try:
            if coding is None or not sent:
                body.add(sent)
            else:
                decoding = Decoding(coding, cap)
                for piece in decoding.feed(sent):
                    body.add(piece)
                if not message.is_cut:
                    decoding.finish()
        except ResponseTooLarge:
            if cut is None:
                body.drop()
                raise
        return body.whole()

    async def close(self) -> None:
        """Close the index and the files."""
        self._index.close()


def most_block(limits: Limits) -> int:
    """Return the largest block of a record that can hold a response within the limits of a fetch."""
    return max(limits.max_body, LARGEST_SITEMAP) + limits.max_headers
