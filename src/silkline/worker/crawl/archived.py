"""Crawls whose pages come from an archive: the same start URLs, handlers and scope, without the network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.retries import Backoff
from silkline.core.url import parse
from silkline.errors import RequestError
from silkline.fetch.archive.archive_fetcher import ArchiveFetcher
from silkline.fetch.archive.index import ArchiveIndex
from silkline.worker.crawl.crawl import Crawl

INDEX = ".index"
MOST_NAME = 64
AT_A_TIME = 1_000
"""Pages of a host at a time: no site is asked."""


def index_in(folder: Path, crawl: str, archives: Sequence[Path]) -> Path:
    """Return the path of an index of these archives for *crawl*. Its name is that of the crawl that reads them."""
    return folder / f"{_name_of(crawl, archives)}{INDEX}"


def _name_of(crawl: str, archives: Sequence[Path]) -> str:
    """Return a name such as ``books-from-pages``. The crawl *books* itself stays as it is."""
    stem = re.sub(r"(\.warc|\.gz|\.wacz)+$", "", archives[0].name, flags=re.IGNORECASE)
    more = f"-and-{len(archives) - 1}-more" if len(archives) > 1 else ""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{stem}{more}").strip("-.") or "archive"
    return f"{crawl}-from-{clean}"[:MOST_NAME]


def replay(crawl: Crawl, index: Path) -> None:
    """Let *crawl* read its pages from the archives of an index, under the name of the index.

    robots.txt, delays, headers and feeds do not apply, nothing is retried or visited again, and no page is rendered.
    """
    crawl.name = index.name.removesuffix(INDEX)
    crawl.feeds = []
    crawl.revisit, crawl.revisits, crawl.alerts = None, {}, []
    crawl.politeness = Politeness(delay=0, concurrency=AT_A_TIME)
    crawl.retries = msgspec.structs.replace(crawl.retries, backoff=Backoff(max_attempts=1), handler_attempts=1)
    limits = crawl.fetching.limits
    crawl.fetching = msgspec.structs.replace(
        crawl.fetching,
        fetcher=lambda _: ArchiveFetcher(index, limits),
        obey_robots=False,
        headers={},
        cache=None,
        browser=None,
    )


async def start_in_archive(crawl: Crawl, index: Path) -> bool:
    """Keep the start URLs that are archived. If there is none, start with all archived HTML pages, and return False."""
    starts = await crawl.starts()
    with ArchiveIndex(index) as archive:
        found = [request for request in starts if _is_archived(archive, request)]
    crawl.start_with(found or (lambda: _all_pages(index)))
    return bool(found)


def _is_archived(archive: ArchiveIndex, request: Request) -> bool:
    try:
        return archive.has(parse(request.url))
    except RequestError:
        return False


def _all_pages(index: Path) -> Iterator[Request]:
    with ArchiveIndex(index) as archive:
        yield from map(Request, archive.pages())
