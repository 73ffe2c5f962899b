"""https: certificates are verified for the name in the URL, and HTTP/2 is spoken by those who ask for it."""

from __future__ import annotations

import asyncio
import gzip
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from silkline import FetchOptions, Request
from silkline.errors import FetchError, HostUnreachable
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite
from tests.fetch.certificates import Authority
from tests.fetch.http2 import DATA, END_HEADERS, GOAWAY, HEADERS, RST_STREAM, Http2, frame, page

AGENT = "silkline-test/1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


async def test_a_good_certificate_by_name_and_by_address(open_fetcher, authority):
    async with LocalSite({"/": "secret"}, tls=authority.server("shop.localhost", "127.0.0.1")) as site:
        fetcher = open_fetcher(verify=authority.file)
        for host in ("shop.localhost", 0):
            response = await fetcher.fetch(Request(site.at("/", host)), user_agent=AGENT)
            assert response.body == b"secret"
        assert site.visits[0].host == f"shop.localhost:{site.port}"


@pytest.mark.parametrize("wrong", ["unknown authority", "another name", "expired"])
async def test_a_bad_certificate_is_refused_unless_allowed(wrong, open_fetcher, authority):
    name = "other.localhost" if wrong == "another name" else "shop.localhost"
    tls = authority.server(name, days=(-30, -1) if wrong == "expired" else (-1, 30))
    async with LocalSite({"/": "secret"}, tls=tls) as site:
        request = Request(site.at("/", "shop.localhost"))
        verify = True if wrong == "unknown authority" else authority.file
        with pytest.raises(HostUnreachable) as caught:
            await open_fetcher(verify=verify).fetch(request, user_agent=AGENT)
        assert caught.value.kind == "tls"
        assert "certificate" in str(caught.value).lower()
        assert len(site.visits) == 0
        assert (await open_fetcher(verify=False).fetch(request, user_agent=AGENT)).body == b"secret"


async def test_https_to_who_does_not_speak_it(open_fetcher):
    async def answer(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(HostUnreachable) as caught:
            await open_fetcher().fetch(Request(f"https://127.0.0.1:{port}/"), user_agent=AGENT)
        assert caught.value.kind == "tls"


@asynccontextmanager
async def http2_site(authority, answer):
    """An https site that speaks HTTP/2 only; yields its URL and what it logs (the protocol chosen, then streams)."""
    log, still_open = [], set()
    tls = authority.server("127.0.0.1", alpn=("h2",))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Http2(answer, log, still_open), "127.0.0.1", 0, ssl=tls)
    async with server:
        try:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", log
        finally:
            for transport in list(still_open):
                transport.abort()
            while still_open:  # noqa: ASYNC110 - transports have no event for it
                await asyncio.sleep(0)


@asynccontextmanager
async def wreq_fetcher(authority, limits=None, **options):
    options.setdefault("http2", True)
    fetcher = WreqFetcher(limits, guard=Guard(allow_private=True), verify=authority.file, **options)
    yield fetcher
    await fetcher.close()


async def test_http2_is_spoken_and_its_connection_shared(authority):
    body = b"<p>silk</p>" * 1_000
    packed = page(gzip.compress(body), (b"content-encoding", b"gzip"), (b"x-one", b"1"))
    async with http2_site(authority, packed) as (url, log), wreq_fetcher(authority) as fetcher:
        responses = [await fetcher.fetch(Request(url), user_agent=AGENT) for _ in range(2)]
        responses += await asyncio.gather(*(fetcher.fetch(Request(url), user_agent=AGENT) for _ in range(10)))
        assert {response.http_version for response in responses} == {"HTTP/2"}
        assert {response.body for response in responses} == {body}
        assert responses[0].headers["x-one"] == "1"
        assert log.count("h2") == 1


async def test_http2_is_spoken_only_by_those_who_ask_for_it(authority):
    crawl = FetchOptions(allow_private=True, verify_tls=False)
    async with http2_site(authority, page(b"new")) as (url, log):
        fetcher = msgspec.structs.replace(crawl, http2=True).open()
        assert (await fetcher.fetch(Request(url), user_agent=AGENT)).http_version == "HTTP/2"
        await fetcher.close()
        assert log[0] == "h2"
    tls = authority.server("127.0.0.1", alpn=("h2", "http/1.1"))
    async with LocalSite({"/": "old"}, tls=tls) as site:
        for fetcher in (crawl.open(), WreqFetcher(guard=Guard(allow_private=True), verify=authority.file)):
            assert (await fetcher.fetch(Request(site.url), user_agent=AGENT)).http_version == "HTTP/1.1"
            await fetcher.close()


@asynccontextmanager
async def flooding(folder):
    """A server that floods whoever speaks HTTP/2 with it: its URL, its authority, and a function that reads its log."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.fetch.flood", str(folder)]
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=asyncio.subprocess.PIPE)

    async def read(seconds=20):  # an idle connection would be closed after 30 s
        async with asyncio.timeout(seconds):
            return (await process.stdout.readline()).decode().strip()

    try:
        yield f"https://127.0.0.1:{await read(100)}/", folder / "authority.pem", read
    finally:
        process.kill()
        await process.communicate()


@pytest.fixture
async def flood(tmp_path):
    async with flooding(tmp_path) as server:
        yield server


async def test_a_flood_of_empty_http2_frames_meets_nobody_who_speaks_http2(flood):
    url, authority, read = flood
    fetcher = WreqFetcher(guard=Guard(allow_private=True), verify=authority)
    before = psutil.Process().memory_info().rss
    for _ in range(10):
        response = await fetcher.fetch(Request(url), user_agent=AGENT)
        assert (response.http_version, response.body) == ("HTTP/1.1", b"calm")
    assert await read() == "http/1.1"
    await fetcher.close()
    assert await read() == "lost"
    assert psutil.Process().memory_info().rss - before < 50 * 2**20


async def test_a_flood_over_http2_loses_its_connection_when_its_page_is_given_up(tmp_path):
    """What comes until then fills the memory: that is why HTTP/2 has to be asked for. On a busy machine, reading it may take long."""
    for left in (2, 1, 0):
        async with flooding(tmp_path) as (url, authority, read):
            fetcher = WreqFetcher(guard=Guard(allow_private=True), verify=authority, http2=True)
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(Request(url), user_agent=AGENT)
            assert caught.value.kind in ("protocol", "slow")  # slow: no byte of the page came meanwhile
            try:
                assert [await read(), await read()] == ["h2", "lost"]
                break
            except TimeoutError:
                if not left:
                    raise
            finally:
                await fetcher.close()


@pytest.mark.parametrize(
    ("size", "options"), [(100_000, {}), (1_000_000, {}), (100_000, {"http2": None, "impersonate": "firefox"})]
)
async def test_large_headers_over_http2(size, options, authority):
    async with (
        http2_site(authority, page(b"", (b"x-huge", b"y" * size))) as (url, _),
        wreq_fetcher(authority, **options) as fetcher,
    ):
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(Request(url), user_agent=AGENT)
        assert caught.value.kind in ("too_large", "protocol")


async def test_a_large_body_over_http2(authority):
    limits = Limits(max_body=50_000)
    async with http2_site(authority, page(b"y" * 60_000)) as (url, _), wreq_fetcher(authority, limits) as fetcher:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(Request(url), user_agent=AGENT)
        assert caught.value.kind == "too_large"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda n: frame(HEADERS, END_HEADERS, n, b"\x88") + frame(RST_STREAM, 0, n, b"\0\0\0\2"), "reset"),
        (lambda n: frame(RST_STREAM, 0, n, b"\0\0\0\1"), "reset"),
        (lambda n: frame(GOAWAY, 0, 0, bytes(4) + b"\0\0\0\1" + b"TooLarge certificate"), "reset"),
        (page(b"short", (b"content-length", b"1000")), "protocol"),
        (lambda n: frame(DATA, 0, n, b"body without a head"), "protocol"),
        (lambda _: b"garbage" * 100, "protocol"),
    ],
    ids=["reset later", "reset at once", "go away", "wrong length", "no head", "garbage"],
)
async def test_broken_http2(answer, kind, authority):
    async with http2_site(authority, answer) as (url, _), wreq_fetcher(authority) as fetcher:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(Request(url), user_agent=AGENT)
        assert caught.value.kind == kind
