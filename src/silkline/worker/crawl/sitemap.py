"""Sitemaps: a built-in handler reads them as pages of the crawl, so that robots.txt, politeness, leases and retries apply to them.

A sitemap is written by the site, so it may be hostile. At most 50 MiB and 50,000 URLs of each are read, as the protocol permits; XML
with entities is refused; and indexes are followed to a limited depth.
"""

from __future__ import annotations

import asyncio
import io
import logging
from datetime import UTC, datetime
from typing import Any
from xml.parsers import expat

import msgspec

from silkline.core.request import MAX_PRIORITY, SITEMAP, Request
from silkline.core.robots import read_robots
from silkline.core.scope import Scope
from silkline.core.url import MAX_URL_BYTES, ParsedUrl, join, parse
from silkline.errors import FetchError, RequestError, ResponseTooLarge
from silkline.fetch.decode import Decoding
from silkline.worker.crawl.page import Page

log = logging.getLogger("silkline.worker")

MOST_BYTES = 50 * 2**20
"""Bytes of a sitemap without compression."""
MOST_URLS = 50_000
"""URLs of a sitemap, or sitemaps of an index."""
MOST_INDEXES = 3
"""Indexes above a sitemap."""
LONGEST_TEXT = MAX_URL_BYTES + 1000
"""Characters of an element that are read."""
MOST_DEPTH = 100
"""Nested elements. Each costs the parser more memory than its tag has bytes."""
XML_PIECE = 64 * 1024
"""Bytes that are parsed at once: the parser blocks all other threads meanwhile."""
LONGEST_TAG = 1_000_000
"""Bytes of a tag with its attributes, or of a comment."""
GZIP = b"\x1f\x8b"


class BadSitemap(Exception):
    """A page that is no sitemap; it becomes a dead letter with this reason."""


class SitemapPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored in the meta of a sitemap's request."""

    since: str = ""
    """URLs that were not changed since this date are skipped."""
    handler: str | None = None
    """The handler of the URLs."""
    home: str = ""
    """The URL whose site the sitemap is for; by default that of the sitemap. A robots.txt may name sitemaps elsewhere."""
    indexes: int = 0
    """Indexes above this sitemap."""
    turn: str = ""
    """Distinguishes one reading of the sitemap from the next."""

    def request(self, url: str) -> Request:
        """Return the request for a sitemap. It is enqueued once per turn."""
        meta = msgspec.to_builtins(self)
        identity = f"sitemap {url} {self.turn}".encode()
        return Request(url, meta=meta, handler=SITEMAP, priority=MAX_PRIORITY, identity=identity)


def plan_of(request: Request) -> SitemapPlan:
    try:
        return msgspec.convert(request.meta, SitemapPlan)
    except msgspec.ValidationError as error:
        raise BadSitemap(f"its meta is not that of a sitemap: {error}") from None


def in_its_turn(target: Request) -> Request:
    """Return the target of a sitemap's redirect, which is not the same request as in an earlier turn."""
    return msgspec.structs.replace(target, identity=plan_of(target).request(target.url).identity)


class Entry(msgspec.Struct):
    """A URL of a sitemap, or a sitemap of an index."""

    url: str = ""
    lastmod: str = ""


class Sitemap:
    """What was read of a sitemap."""

    def __init__(self) -> None:
        self.is_index = False
        self.entries: list[Entry] = []
        self.left_out = 0
        """Entries after the first 50,000."""
        self.damage = ""

    def add(self, entry: Entry) -> None:
        if not entry.url:
            return
        if len(self.entries) < MOST_URLS:
            self.entries.append(entry)
        else:
            self.left_out += 1


async def read_sitemap(page: Page) -> list[Request]:
    """Handle a sitemap, an index of sitemaps or a robots.txt: return the requests for what it lists."""
    plan = plan_of(page.request)
    address = parse(page.url)
    if address.path == "/robots.txt":
        return _named_by_robots(page, plan)
    sitemap = await asyncio.to_thread(parse_sitemap, page.body)
    _warn(page.url, sitemap)
    home = parse(plan.home) if plan.home else address
    wanted = [entry for entry in sitemap.entries if not _is_older(entry.lastmod, plan.since)]
    page.skipped["not changed since"] += len(sitemap.entries) - len(wanted)
    if sitemap.is_index:
        return _sitemaps(page, wanted, plan, (address, home))
    return await asyncio.to_thread(_pages, page, wanted, plan, (address, home))


def _named_by_robots(page: Page, plan: SitemapPlan) -> list[Request]:
    named = read_robots(page.body, "silkline").sitemaps
    if not named:
        raise BadSitemap(f"{page.url} names no sitemap; give the URL of one: sitemap:https://…/sitemap.xml")
    plan = msgspec.structs.replace(plan, home=page.url)
    return [plan.request(link.url) for url in named[:MOST_URLS] if (link := _joined(page.url, url))]


def _sitemaps(page: Page, entries: list[Entry], plan: SitemapPlan, homes: tuple[ParsedUrl, ParsedUrl]) -> list[Request]:
    """Return the requests for the sitemaps of an index that are on its site, or on the site that it is for."""
    if plan.indexes >= MOST_INDEXES:
        raise BadSitemap(
            f"an index of sitemaps below {MOST_INDEXES} others; give its URL as a separate feed to read it"
        )
    plan = msgspec.structs.replace(plan, indexes=plan.indexes + 1)
    nearby = Scope(skip_extensions=frozenset())
    found = []
    for entry in entries:
        link = _joined(page.url, entry.url)
        if link is None or all(nearby.objection(link, home, 0) for home in homes):
            page.skipped["sitemap of another site" if link else "not a web address"] += 1
        else:
            found.append(plan.request(link.url))
    return found


def _pages(page: Page, entries: list[Entry], plan: SitemapPlan, homes: tuple[ParsedUrl, ParsedUrl]) -> list[Request]:
    """Return the requests for the URLs of a sitemap that are in the crawl's scope."""
    found: dict[str, Request] = {}
    for entry in entries:
        link = _joined(page.url, entry.url)
        if link is None:
            page.skipped["not a web address"] += 1
            continue
        any_type = plan.handler is not None
        objections = [page.scope.objection(link, home, 1, any_type=any_type) for home in homes]
        if all(objections):
            page.skipped[str(objections[-1])] += 1
        else:
            found[link.url] = Request(link.url, handler=plan.handler)
    return list(found.values())


def _joined(base: str, url: str) -> ParsedUrl | None:
    try:
        return join(parse(base), url) if len(url) <= MAX_URL_BYTES else None
    except RequestError:
        return None


def _warn(url: str, sitemap: Sitemap) -> None:
    if sitemap.damage:
        log.warning(
            "the sitemap %s is damaged: %s; the %d entries before that are used",
            url,
            sitemap.damage,
            len(sitemap.entries),
        )
    if sitemap.left_out:
        log.warning("the sitemap %s has more than %d entries; %d others are left out", url, MOST_URLS, sitemap.left_out)


def _is_older(lastmod: str, since: str) -> bool:
    """Return whether an entry was changed for the last time before *since*. An entry without a readable date was not."""
    if not since or not lastmod:
        return False
    changed, limit = read_date(lastmod), read_date(since)
    return changed is not None and limit is not None and changed < limit


def read_date(text: str) -> datetime | None:
    """Return a date of the W3C format, in UTC if it has no time zone; None if it is none. 2026 and 2026-01 are its first day."""
    text = text.strip()[:40]
    full = {4: f"{text}-01-01", 7: f"{text}-01"}.get(len(text), text)
    try:
        moment = datetime.fromisoformat(full)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        return None


# ── reading ──


def parse_sitemap(body: bytes) -> Sitemap:
    """Return what a sitemap lists: XML or plain text, also compressed with gzip. Raises `BadSitemap` if it is none."""
    sitemap = Sitemap()
    if body[:2] == GZIP:
        body = _unpacked(body, sitemap)
    elif len(body) > MOST_BYTES:
        body, sitemap.damage = body[:MOST_BYTES], f"it has more than {MOST_BYTES:,} bytes"
    start = body[:1000].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<") or b"\0" in start[:4]:  # UTF-16 is XML: plain text must be UTF-8
        _read_xml(body, sitemap)
    else:
        _read_text(body, sitemap)
    if not sitemap.entries and sitemap.damage:
        raise BadSitemap(f"the sitemap cannot be read: {sitemap.damage}")
    return sitemap


def _unpacked(body: bytes, sitemap: Sitemap) -> bytes:
    pieces, size = [], 0
    decoding = Decoding("gzip", MOST_BYTES)
    try:
        for piece in decoding.feed(body):
            pieces.append(piece[: MOST_BYTES - size])
            size += len(piece)
            if size > MOST_BYTES:
                sitemap.damage = f"it expands to more than {MOST_BYTES:,} bytes"
                break
        else:
            decoding.finish()
    except (FetchError, ResponseTooLarge) as error:
        sitemap.damage = str(error)
    return b"".join(pieces)


def _read_text(body: bytes, sitemap: Sitemap) -> None:
    """Read one URL per line."""
    for number, line in enumerate(io.BytesIO(body.removeprefix(b"\xef\xbb\xbf")), 1):
        text = line.strip()
        if not text:
            continue
        if not text.lower().startswith((b"http://", b"https://")):
            sitemap.damage = sitemap.damage or f"line {number} is no URL: {text[:50]!r}"
            return
        sitemap.add(Entry(text[:LONGEST_TEXT].decode(errors="replace")))


def _read_xml(body: bytes, sitemap: Sitemap) -> None:
    reader = _XmlReader(sitemap)
    try:
        reader.read(body)
    except expat.ExpatError as error:
        sitemap.damage = sitemap.damage or f"its XML is invalid: {error}"
    except BadSitemap as error:
        sitemap.entries.clear()
        sitemap.damage = str(error)
    except (LookupError, ValueError) as error:  # an unknown encoding
        sitemap.damage = sitemap.damage or f"its XML cannot be decoded: {error}"


class _XmlReader:
    """Reads the elements of a sitemap while they are parsed: ``urlset/url/loc``, ``sitemapindex/sitemap/loc``."""

    def __init__(self, sitemap: Sitemap) -> None:
        self._sitemap = sitemap
        self._depth = 0
        self._entry = Entry()
        self._field = ""
        self._text: list[str] = []
        self._size = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse_declarations
        self.parser.EntityDeclHandler = self._refuse
        self.parser.ExternalEntityRefHandler = self._refuse

    def read(self, body: bytes) -> None:
        """Parse a document, in pieces."""
        whole = memoryview(body)
        for start in range(0, len(body), XML_PIECE):
            end = start + XML_PIECE
            self.parser.Parse(whole[start:end], end >= len(body))
            if end - self.parser.CurrentByteIndex > LONGEST_TAG:
                self._sitemap.damage = f"its XML has a tag or comment of more than {LONGEST_TAG:,} bytes"
                return

    def _refuse_declarations(self, *doctype: Any) -> None:
        if doctype[-1]:  # also attributes and elements: their number has no limit, and each costs time at each tag
            self._refuse()

    def _refuse(self, *_: Any) -> Any:
        raise BadSitemap("its XML declares entities or other names, which no sitemap needs")

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise BadSitemap(f"its XML has more than {MOST_DEPTH} nested elements")
        local = name.rpartition(" ")[2]
        if self._depth == 1:
            if local not in ("urlset", "sitemapindex"):
                raise BadSitemap(
                    f"it is no sitemap: its XML begins with <{local[:50]}>, not with <urlset> or <sitemapindex>"
                )
            self._sitemap.is_index = local == "sitemapindex"
        elif self._depth == 2:
            self._entry = Entry()
        elif self._depth == 3 and local in ("loc", "lastmod"):
            self._field, self._text, self._size = local, [], 0
            self.parser.CharacterDataHandler = self._characters

    def _characters(self, text: str) -> None:
        if self._size < LONGEST_TEXT:
            self._text.append(text)
            self._size += len(text)

    def _end(self, _name: str) -> None:
        if self._depth == 3 and self._field:
            text = "".join(self._text)[:LONGEST_TEXT].strip()
            if self._field == "loc":
                self._entry.url = text
            else:
                self._entry.lastmod = text[:40]
            self._field = ""
            self.parser.CharacterDataHandler = None
        elif self._depth == 2:
            self._sitemap.add(self._entry)
        self._depth -= 1
