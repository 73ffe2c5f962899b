"""A browser is impersonated in TLS, HTTP/2 and the order of headers, as a server sees it."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from contextlib import asynccontextmanager

import pytest

from silkline import Crawl, FetchOptions, Frontier, Politeness, Request, Worker
from silkline.errors import ConfigError, FetchError, ForbiddenAddress, ResponseTooLarge
from silkline.fetch import Guard, Limits, WreqFetcher
from silkline.testing import LocalSite, Raw, SiteResponse
from tests.fetch.certificates import Authority
from tests.fetch.http2 import PREFACE, Http2, page

AGENT = "silkline-test/1"
GREASE = {f"{byte:x}a{byte:x}a" for byte in range(16)}
CHROME_CIPHERS = [
    "1301",
    "1302",
    "1303",
    "c02b",
    "c02f",
    "c02c",
    "c030",
    "cca9",
    "cca8",
    "c013",
    "c014",
    "009c",
    "009d",
    "002f",
    "0035",
]
FIREFOX_CIPHERS = ["1301", "1303", "1302", "c02b", "c02f", "cca9", "cca8", "c02c", "c030"]
CHROME_SETTINGS = {1: 65536, 2: 0, 4: 6291456, 6: 262144}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


class Hello:
    """A ClientHello: its ciphers, the numbers of its extensions, and the protocols it offers."""

    def __init__(self, record):
        place = 5 + 4 + 2 + 32  # the heads of record and message, version, random
        place += 1 + record[place]
        size = int.from_bytes(record[place : place + 2], "big")
        self.ciphers = [record[at : at + 2].hex() for at in range(place + 2, place + 2 + size, 2)]
        place += 2 + size
        place += 1 + record[place] + 2
        self.extensions, self.protocols = [], []
        while place < len(record):
            kind, size = (int.from_bytes(record[at : at + 2], "big") for at in (place, place + 2))
            self.extensions.append(kind)
            if kind == 16:
                self.protocols = _names(record[place + 6 : place + 4 + size])
            place += 4 + size


def _names(data):
    names = []
    while data:
        names.append(data[1 : 1 + data[0]].decode())
        data = data[1 + data[0] :]
    return names


class WatchedHttp2(Http2):
    """Keeps what a client sends first: the preface of HTTP/2 and its settings."""

    def data_received(self, data):
        self._log.append(bytes(data))
        super().data_received(data)


@asynccontextmanager
async def watched(authority, *protocols):
    """A TLS server behind a relay that reads what each client says first. Yields its URL, the hellos and the server's log."""
    hellos, log, still_open = [], [], set()
    loop = asyncio.get_running_loop()

    def serve():
        return WatchedHttp2(page(gzip.compress(b"ok"), (b"content-encoding", b"gzip")), log, still_open)

    tls = authority.server("127.0.0.1", alpn=protocols)
    if protocols == ("h2",):
        server = await loop.create_server(serve, "127.0.0.1", 0, ssl=tls)
        port, stop = server.sockets[0].getsockname()[1], server.close
    else:
        site = await LocalSite({"/": Raw(lambda wire, visit: _answer(wire, visit, log))}, tls=tls).__aenter__()
        port, stop = site.port, None
    tasks = set()

    async def relay(reader, writer):
        tasks.add(asyncio.current_task())
        head = await reader.readexactly(5)
        hello = head + await reader.readexactly(int.from_bytes(head[3:], "big"))
        hellos.append(Hello(hello))
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        outer.write(hello)
        await asyncio.gather(_pipe(reader, outer), _pipe(inner, writer))

    front = await asyncio.start_server(relay, "127.0.0.1", 0)
    yield f"https://127.0.0.1:{front.sockets[0].getsockname()[1]}/", hellos, log
    front.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    for transport in still_open:
        transport.abort()
    if stop:
        stop()
    else:
        await site.__aexit__(None, None, None)


async def _answer(wire, visit, log):
    log.append(visit)
    await wire.send(SiteResponse("ok").encode(closing=True))


async def _pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except (OSError, ssl.SSLError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def fetcher_as(authority, browser, **options):
    fetcher = WreqFetcher(guard=Guard(allow_private=True), verify=authority.file, impersonate=browser, **options)
    try:
        yield fetcher
    finally:
        await fetcher.close()


def settings_of(log):
    sent = b"".join(data for data in log if isinstance(data, bytes)).removeprefix(PREFACE)
    assert sent[3] == 4
    payload = sent[9 : 9 + int.from_bytes(sent[:3], "big")]
    pairs = [payload[at : at + 6] for at in range(0, len(payload), 6)]
    return {int.from_bytes(pair[:2], "big"): int.from_bytes(pair[2:], "big") for pair in pairs}


async def test_chrome_over_http2(authority):
    async with watched(authority, "h2") as (url, hellos, log), fetcher_as(authority, "chrome") as fetcher:
        response = await fetcher.fetch(Request(url), user_agent=AGENT)
    assert (response.http_version, response.body) == ("HTTP/2", b"ok")
    [hello] = hellos
    assert hello.ciphers[0] in GREASE
    assert hello.ciphers[1:] == CHROME_CIPHERS
    assert hello.protocols == ["h2", "http/1.1"]
    assert settings_of(log) == CHROME_SETTINGS


async def test_firefox_is_another_browser_and_nothing_is_impersonated_by_default(authority):
    async with watched(authority, "http/1.1") as (url, hellos, log):
        for browser in ("firefox", None):
            async with fetcher_as(authority, browser) as fetcher:
                await fetcher.fetch(Request(url), user_agent=AGENT)
    firefox, none = hellos
    assert firefox.ciphers[: len(FIREFOX_CIPHERS)] == FIREFOX_CIPHERS
    assert firefox.protocols == ["h2", "http/1.1"]
    assert none.protocols == ["http/1.1"]
    assert none.ciphers[0] not in GREASE
    assert "Firefox/" in log[0].headers["user-agent"]
    assert log[1].headers["user-agent"] == AGENT


async def test_without_http2_a_browser_offers_only_http_1(authority):
    async with (
        watched(authority, "h2", "http/1.1") as (url, hellos, _),
        fetcher_as(authority, "chrome", http2=False) as fetcher,
    ):
        assert (await fetcher.fetch(Request(url), user_agent=AGENT)).http_version == "HTTP/1.1"
    assert hellos[0].protocols == ["http/1.1"]
    assert hellos[0].ciphers[1:] == CHROME_CIPHERS


@asynccontextmanager
async def heads():
    """A server that keeps the heads of requests as they arrive; yields its URL and the heads."""
    found = []

    async def serve(reader, writer):
        found.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", found


async def test_headers_have_the_names_and_the_order_of_the_browser(authority):
    request_headers = {"Accept-Language": "de", "X-Mine": "1"}
    async with heads() as (url, found), fetcher_as(authority, "chrome") as fetcher:
        request = Request(url, headers=request_headers, cookies={"a": "b"}, meta={})
        await fetcher.fetch(request, user_agent=AGENT)
        await fetcher.fetch(Request(url, meta={"impersonate": "safari"}), user_agent=AGENT)
        await fetcher.fetch(Request(url, meta={"impersonate": ""}), user_agent=AGENT)
    chrome, safari, none = ([line.partition(":")[0] for line in head] for head in found)
    assert chrome == [
        "Host", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "Upgrade-Insecure-Requests", "User-Agent", "Accept",
        "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-User", "Sec-Fetch-Dest", "Accept-Encoding", "Accept-Language", "Cookie",
        "Priority", "x-mine",
    ]  # fmt: skip
    assert "Accept-Language: de" in found[0]
    assert safari[:4] == ["Host", "Sec-Fetch-Dest", "User-Agent", "Accept"]
    assert "sec-ch-ua" not in safari
    assert f"user-agent: {AGENT}" in [line.replace("User-Agent", "user-agent") for line in found[2]]
    assert "sec-ch-ua" not in none


async def test_an_unknown_browser_is_refused_with_those_that_exist(authority):
    message = r"no browser 'netscape' to impersonate; use chrome, edge, firefox, .* such as 'chrome\d+'"
    with pytest.raises(ConfigError, match=message):
        FetchOptions(impersonate="netscape")
    with pytest.raises(ConfigError, match=r"no browser 'chrome12' .* newest of its versions are chrome\d+, "):
        FetchOptions(impersonate="chrome12")
    with pytest.raises(ConfigError, match="leave user_agent out"):
        FetchOptions(impersonate="chrome", user_agent="me")
    async with fetcher_as(authority, None) as fetcher:
        with pytest.raises(FetchError, match=message) as refused:
            await fetcher.fetch(Request("http://127.0.0.1:8080/", meta={"impersonate": "netscape"}), user_agent=AGENT)
    assert refused.value.kind == "bad_request"


async def test_a_fetch_that_fails_over_http2_closes_the_connection(authority):
    limits = Limits(max_body=1)
    async with watched(authority, "h2") as (url, _, log), fetcher_as(authority, "chrome", limits=limits) as fetcher:
        for _ in range(2):
            with pytest.raises(ResponseTooLarge):
                await fetcher.fetch(Request(url), user_agent=AGENT)
        assert log.count("h2") == 2


async def test_the_guard_holds_for_a_browser():
    fetcher = WreqFetcher(impersonate="chrome")
    with pytest.raises(ForbiddenAddress):
        await fetcher.fetch(Request("http://127.0.0.1:8080/"), user_agent=AGENT)
    await fetcher.close()


async def test_robots_txt_is_fetched_as_by_the_browser_and_obeyed_as_the_crawl(valkey, crawl):
    robots = f"User-agent: {crawl}\nDisallow: /no\n"
    async with LocalSite({"/": "yes", "/no": "no"}, robots=robots) as site:
        own = Crawl(
            crawl,
            [site.url, site.at("/no")],
            politeness=Politeness(delay=0),
            fetching=FetchOptions(allow_private=True, impersonate="chrome"),
        )
        own.handler(lambda page: None, name="page")
        async with await Frontier.open(valkey.url, crawl=crawl, **own.arguments) as frontier:
            await frontier.enqueue(await own.starts())
            await Worker(own, frontier).run()
        assert [visit.path for visit in site.visits] == ["/robots.txt", "/"]
        assert all("Chrome/" in visit.headers["user-agent"] for visit in site.visits)
