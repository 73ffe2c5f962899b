"""A worker archives what it sends and receives, before a page is done."""

from __future__ import annotations

import asyncio
import gzip
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from silkline.errors import FetchError, SinkUnavailable
from silkline.fetch import AiohttpFetcher, Guard, HttpCache, Response, WreqFetcher
from silkline.sinks import open_sink
from silkline.testing import Raw, SiteResponse, redirect
from silkline.worker.crawl.crawl import FetchOptions
from tests.proxies import ProxyServer

HTML = "<a href=/b>b</a>" + "<p>x</p>" * 200
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Order: 1\r\nx-order: 2\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
)


async def chunked(wire, visit):
    await wire.send(CHUNKED)
    wire.close()


def kinds(path):
    """What warcio reads: kind, path, status or method, body."""
    found = []
    with Path(path).open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            if record.rec_type != "warcinfo":
                uri = record.rec_headers.get_header("WARC-Target-URI")
                line = record.http_headers.statusline.partition(" ")[0] if record.rec_type != "request" else ""
                found.append((record.rec_type, "/" + uri.partition("//")[2].partition("/")[2], line, record))
                record.body = record.raw_stream.read()
    return found


FETCHERS = {
    "wreq": lambda _: WreqFetcher(guard=Guard(allow_private=True)),
    "aiohttp": lambda _: AiohttpFetcher(guard=Guard(allow_private=True)),
}


@pytest.mark.parametrize("fetcher", FETCHERS)
async def test_redirects_errors_and_coded_bodies_are_archived_as_they_were_received(
    run, serve, new_crawl, tmp_path, fetcher
):
    packed = gzip.compress(HTML.encode())
    site = await serve(
        {
            "/": redirect("/a", 301),
            "/a": SiteResponse(packed, headers={"Content-Encoding": "gzip", "Set-Cookie": "id=1"}),
            "/b": SiteResponse("no", status=404),
            "/c": Raw(chunked),
        }
    )
    options = FetchOptions(allow_private=True, fetcher=FETCHERS[fetcher], headers={"X-Token": "secret"})
    crawl = new_crawl([site.url, site.at("/c")], fetching=options)

    @crawl.handler
    def parse(page):
        yield page.follow(page.css("a"))

    out = tmp_path / "pages.warc.gz"
    sink = open_sink(out)
    done = await run(crawl, sinks=[sink])
    await sink.close()
    assert (done.stats.done, done.stats.dead) == (3, 1)
    found = kinds(out)
    responses = {path: record for kind, path, _, record in found if kind == "response"}
    assert {path: record.http_headers.get_statuscode() for path, record in responses.items()} == {
        "/": "301", "/a": "200", "/b": "404", "/c": "200",
    }  # fmt: skip
    assert responses["/a"].body == packed
    assert responses["/a"].http_headers.get_header("set-cookie") == "id=1"
    assert responses["/c"].body == b"abcde"
    assert [value for name, value in responses["/c"].http_headers.headers if name.lower() == "x-order"] == ["1", "2"]
    if fetcher == "wreq":  # aiohttp may have released the connection of a short response
        assert responses["/c"].rec_headers.get_header("WARC-IP-Address") == "127.0.0.1"
    sent = [record.http_headers for kind, *_, record in found if kind == "request"]
    assert len(sent) == 4
    assert all("Silkline" in headers.get_header("user-agent") for headers in sent)
    assert all(headers.get_header("x-token") is None for headers in sent)
    assert site.visits.to(path="/a")[0].headers["x-token"] == "secret"


async def test_what_middleware_changes_and_fetches_besides_is_archived_as_received(run, serve, new_crawl, tmp_path):
    site = await serve({"/": SiteResponse("page"), "/token": SiteResponse("token")})
    crawl = new_crawl([site.url])

    @crawl.middleware
    async def changed(request, call_next):
        await asyncio.create_task(call_next(msgspec.structs.replace(request, url=site.at("/token"))))
        return msgspec.structs.replace(await call_next(request), body=b"changed")

    @crawl.handler
    def parse(page):
        yield {"text": page.text}

    out = tmp_path / "pages.warc.gz"
    done = await run(crawl, sinks=[archive := open_sink(out), items := open_sink(tmp_path / "items.jsonl")])
    await archive.close()
    await items.close()
    assert done.stats.done == 1
    assert (tmp_path / "items.jsonl").read_text() == '{"text":"changed"}\n'
    assert {path: record.body for kind, path, _, record in kinds(out) if kind == "response"} == {
        "/token": b"token", "/": b"page",
    }  # fmt: skip


async def test_a_fetcher_that_keeps_nothing_is_archived_with_decompressed_bodies(run, serve, new_crawl, tmp_path):
    class Plain:
        def __init__(self):
            self._fetcher = WreqFetcher(guard=Guard(allow_private=True))

        async def fetch(self, request, *, user_agent, cut=None) -> Response:
            if request.url.endswith("/broken"):
                raise FetchError("broken", "bad_request")
            return await self._fetcher.fetch(request, user_agent=user_agent, cut=cut)

        async def close(self):
            await self._fetcher.close()

    site = await serve({"/": SiteResponse(gzip.compress(b"<p>x</p>"), headers={"Content-Encoding": "gzip"})})
    fetching = FetchOptions(fetcher=lambda _: Plain(), obey_robots=False)
    crawl = new_crawl([site.url, site.at("/broken")], fetching=fetching)
    crawl.handler(lambda_page)
    out = tmp_path / "pages.warc.gz"
    await run(crawl, sinks=[sink := open_sink(out)])
    await sink.close()
    (response,) = [record for kind, *_, record in kinds(out) if kind == "response"]
    assert response.body == b"<p>x</p>"
    assert response.http_headers.get_header("x-crawler-content-encoding") == "gzip"


async def test_what_comes_through_a_proxy_is_archived_without_its_login_and_address(run, serve, new_crawl, tmp_path):
    site = await serve({"/": SiteResponse(gzip.compress(b"x"), headers={"Content-Encoding": "gzip"})})
    async with ProxyServer(login=("me", "hidden")) as proxy:
        crawl = new_crawl([site.at("/", "h1.test")], fetching=FetchOptions(allow_private=True, proxy=proxy.url))
        crawl.handler(lambda_page)
        out = tmp_path / "pages.warc?credentials=true"
        await run(crawl, sinks=[sink := open_sink(out)])
        await sink.close()
    response, request = [record for *_, record in kinds(tmp_path / "pages.warc")]
    assert gzip.decompress(response.body) == b"x"
    assert response.rec_headers.get_header("WARC-IP-Address") is None
    assert b"roxy" not in (tmp_path / "pages.warc").read_bytes()
    assert request.rec_headers.get_header("WARC-Target-URI") == site.at("/", "h1.test")


async def test_a_page_from_the_cache_is_archived_with_the_time_at_which_it_was_fetched(run, serve, new_crawl, tmp_path):
    site = await serve({"/": "x"})
    fetching = FetchOptions(allow_private=True, cache=HttpCache(tmp_path / "cache"))
    found, times = [], []
    for name in ("first", "second"):
        crawl = new_crawl([site.url], fetching=fetching)
        crawl.name += name
        crawl.handler(lambda_page)
        await run(crawl, sinks=[sink := open_sink(tmp_path / f"{name}.warc.gz")])
        await sink.close()
        times.append(datetime.now(UTC))
        found += [record for kind, *_, record in kinds(tmp_path / f"{name}.warc.gz") if kind == "response"]
    first, second = [datetime.fromisoformat(record.rec_headers.get_header("WARC-Date")) for record in found]
    assert len(site.visits.to(path="/")) == 1
    assert first <= second <= times[0]
    assert found[1].body == b"x"


def lambda_page(page):
    yield {"status": page.status}


class FailingArchive:
    """An archive that is unavailable at first, and records what was done when it stores."""

    def __init__(self, failures):
        self.failures = failures
        self.exchanges = []

    async def write(self, records):
        pass

    async def archive(self, exchanges):
        if self.failures:
            raise self.failures.pop()
        self.exchanges += exchanges

    async def close(self):
        pass


async def test_a_page_is_done_only_after_it_is_archived(run, serve, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl([site.url])
    crawl.handler(lambda_page)
    archive = FailingArchive([SinkUnavailable("the disk is full"), OSError("no space")])
    done = await run(crawl, sinks=[archive])
    assert [exchange.url for exchange in archive.exchanges] == [site.url]
    assert archive.failures == []
    assert done.stats.done == 1
    assert len(site.visits.to(path="/")) == 1  # it was not fetched again
