"""What a fetch sends and brings back, with either client."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from base64 import b64encode

import brotli
import psutil
import pytest
import zstandard

from silkline import Request
from silkline.errors import ConfigError, FetchError, ForbiddenAddress, HostUnreachable
from silkline.fetch import aiohttp_fetcher, wreq_fetcher
from silkline.fetch.fetcher import Headers
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite, Raw, SiteResponse
from tests.fetch.conftest import AGENT, FETCHERS

PAGE = b"<p>silk</p>" * 5_000


def echo(visit):
    return SiteResponse(visit.head + visit.body, headers={"Content-Type": "text/plain"})


@pytest.fixture
async def site():
    routes = {
        "/": SiteResponse(PAGE, headers=[("X-One", "1"), ("Set-Cookie", "a=1"), ("x-one", "2"), ("Set-Cookie", "b=2")]),
        "/echo": echo,
        "/moved": SiteResponse(status=301, headers={"Location": "/"}),
        "/empty": SiteResponse(status=204),
        "/same": SiteResponse(status=304, headers={"Content-Length": "99999999999"}),
    }
    async with LocalSite(routes) as site:
        yield site


async def test_a_response(fetch, site):
    response = await fetch(site.url)
    assert (response.url, response.status, response.body, response.http_version) == (site.url, 200, PAGE, "HTTP/1.1")
    assert response.headers["content-LENGTH"] == str(len(PAGE))
    assert response.headers.get_all("x-ONE") == ["1", "2"]
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert response.headers["x-one"] == "1"
    assert response.headers.get("nothing") is None
    assert response.headers.get("nothing", "x") == "x"
    assert "X-One" in response.headers
    assert "nothing" not in response.headers
    with pytest.raises(KeyError):
        response.headers["nothing"]
    assert {name.lower() for name, _ in response.headers.pairs} == set(response.headers)
    assert response.elapsed > 0


def test_headers_keep_order_and_repeats():
    headers = Headers([("B", "1"), ("a", "2"), ("b", "3")])
    assert list(headers) == ["b", "a"]
    assert len(headers) == 2
    assert headers.pairs == (("B", "1"), ("a", "2"), ("b", "3"))
    assert headers == {"b": "1", "a": "2"}


async def test_statuses_are_answers(fetch, site):
    assert (await fetch(site.at("/nowhere"))).status == 404
    assert (await fetch(site.at("/moved"))).headers["location"] == "/"
    assert (await fetch(site.at("/empty"))).body == b""
    assert (await fetch(site.at("/same"))).status == 304
    assert (await fetch(site.url, method="HEAD")).body == b""


async def test_what_is_sent(fetch, site):
    await fetch(site.url)
    visit = site.visits[0]
    assert visit.headers["user-agent"] == AGENT
    assert visit.headers["accept-encoding"] == "gzip, deflate, br, zstd"
    assert visit.headers["accept"].startswith("text/html")
    assert visit.host == f"127.0.0.1:{site.port}"
    assert visit.headers.keys() <= {"user-agent", "accept", "accept-encoding", "host", "connection"}


async def test_everything_a_request_may_say(fetch, site):
    await fetch(
        site.at("/echo?q=%20a&b#fragment"),
        method="POST",
        body=b"\x00body",
        headers={"X-Mine": "ü", "accept": "text/plain", "User-Agent": "another/1"},
        cookies={"a": "1", "b": "2"},
        auth=("user", "pass:word"),
    )
    visit = site.visits[0]
    assert (visit.method, visit.path, visit.body) == ("POST", "/echo?q=%20a&b", b"\x00body")
    assert visit.headers["accept"] == "text/plain"
    assert visit.headers["user-agent"] == "another/1"
    assert visit.headers["cookie"] == "a=1; b=2"
    assert visit.headers["authorization"] == "Basic " + b64encode(b"user:pass:word").decode()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_methods(method, fetch, site):
    await fetch(site.at("/echo"), method=method, body=b"x")
    assert site.visits[0].method == method


async def test_user_and_password_in_a_url_are_sent_as_a_header_only(fetch, site):
    await fetch(f"http://us%40er:p%3Aw@127.0.0.1:{site.port}/echo")
    visit = site.visits[0]
    assert visit.headers["authorization"] == "Basic " + b64encode(b"us@er:p:w").decode()
    assert visit.path == "/echo"
    assert "@" not in visit.host


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"X": "a\r\nEvil: 1"}},
        {"headers": {"X\n": "a"}},
        {"headers": {"X Y": "a"}},
        {"headers": {"": "a"}},
        {"headers": {"Host": "other"}},
        {"headers": {"content-length": "5"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"cookies": {"a": "1; b=2"}},
        {"cookies": {"a": "1\r\nEvil: 1"}},
        {"cookies": {"a=b": "1"}},
    ],
    ids=str,
)
async def test_what_would_break_out_of_its_header_is_not_sent(fields, fetch, site):
    with pytest.raises(FetchError) as caught:
        await fetch(site.url, **fields)
    assert caught.value.kind == "bad_request"
    assert len(site.visits) == 0


async def test_a_strange_method_is_an_error_of_ours_or_sent(fetch, site, kind):
    if kind == "wreq":
        with pytest.raises(FetchError, match="PROPFIND"):
            await fetch(site.url, method="PROPFIND")
    else:
        await fetch(site.at("/echo"), method="PROPFIND")
        assert site.visits[0].method == "PROPFIND"


CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
    "identity": bytes,
    "utf-8": bytes,
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("chunked", [False, True])
async def test_codings(coding, chunked, fetch):
    packed = CODINGS[coding](PAGE)

    async def in_chunks(wire, visit):
        head = f"Content-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\nConnection: close"
        await wire.send(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        for start in range(0, len(packed), 50):
            piece = packed[start : start + 50]
            await wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await wire.send(b"0\r\nX-Trailer: 1\r\n\r\n")

    route = Raw(in_chunks) if chunked else SiteResponse(packed, headers={"Content-Encoding": coding})
    async with LocalSite({"/": route, "/none": SiteResponse(b"", headers={"Content-Encoding": coding})}) as site:
        response = await fetch(site.url)
        assert response.body == PAGE
        assert response.headers["content-encoding"] == coding
        assert (await fetch(site.at("/none"))).body == b""


async def test_connections_are_kept_and_shared(fetch, site):
    for name in ("127.0.0.1", "a.localhost"):
        for _ in range(5):
            await fetch(site.at("/", name))
    assert site.connections_made == 2


def _half_closed(port):
    """Connections of this process that the server has closed, and the client not yet."""
    ours = psutil.Process().net_connections("tcp")
    return [one for one in ours if one.raddr and one.raddr.port == port and one.status == psutil.CONN_CLOSE_WAIT]


async def test_a_connection_closed_by_the_server_meanwhile_is_replaced(fetch):
    async def once(wire, visit):
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")  # says nothing of closing, and closes

    async with LocalSite({"/": Raw(once)}) as site:
        for _ in range(5):
            assert (await fetch(site.url)).body == b"ok"
            while site.open_connections:  # noqa: ASYNC110 - the site has no event for it
                await asyncio.sleep(0.01)
            while _half_closed(site.port):  # noqa: ASYNC110 - the client has to hear of it too
                await asyncio.sleep(0.01)
        assert len(site.visits) == 5


async def test_a_hundred_at_once(fetch, site):
    responses = await asyncio.gather(*(fetch(site.at("/", f"h{n % 7}.localhost")) for n in range(100)))
    assert {response.body for response in responses} == {PAGE}


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"])
async def test_proxies_of_the_environment_are_not_used(variable, open_fetcher, site, monkeypatch):
    monkeypatch.setenv(variable, "http://127.0.0.1:1/")
    fetcher = open_fetcher()
    assert (await fetcher.fetch(Request(site.at("/", "a.localhost")), user_agent=AGENT)).status == 200


async def test_a_proxy_is_used_when_asked():
    """It looks the names up itself; addresses in URLs are checked all the same."""
    async with LocalSite({"*": "by proxy"}) as proxy:
        fetcher = WreqFetcher(guard=Guard(), proxy=proxy.url)
        request = Request("http://only-the-proxy-knows.example/page")
        assert (await fetcher.fetch(request, user_agent=AGENT)).body == b"by proxy"
        assert proxy.visits.paths == ["http://only-the-proxy-knows.example/page"]
        with pytest.raises(ForbiddenAddress):
            await fetcher.fetch(Request("http://127.0.0.1/"), user_agent=AGENT)
        await fetcher.close()
    with pytest.raises(ConfigError, match="not the URL of a proxy"):
        WreqFetcher(proxy="no proxy")


@pytest.mark.parametrize("at_once", [1, 3])
async def test_idle_connections_are_bounded_over_all_hosts(at_once, open_fetcher, monkeypatch):
    for module in (wreq_fetcher, aiohttp_fetcher):
        monkeypatch.setattr(module, "connections", lambda: 6)
    fetcher = open_fetcher()
    async with LocalSite({"/": "page"}, hosts=10) as site:
        for number in range(10):
            url = site.at("/", f"h{number}.localhost" if number % 2 else number)
            await asyncio.gather(*(fetcher.fetch(Request(url), user_agent=AGENT) for _ in range(at_once)))
        async with asyncio.timeout(30):
            while site.open_connections > 6:  # noqa: ASYNC110 - the site has no event for it
                await asyncio.sleep(0.01)


async def test_nobody_listens(fetch, site):
    await site.stop()
    with pytest.raises(HostUnreachable) as caught:
        await fetch(site.url)
    assert caught.value.kind == "connect"
    assert "127.0.0.1" in str(caught.value)


async def test_a_url_has_no_say_in_what_went_wrong(fetch, site):
    await site.stop()
    words = "/tls-certificate-handshake/TooLarge/TimedOut/UnexpectedEof/ConnectionReset?message: %22mine%22,b%22x%22"
    with pytest.raises(HostUnreachable) as caught:
        await fetch(site.at(words))
    assert caught.value.kind == "connect"
    assert "mine" not in str(caught.value)


async def test_a_requests_own_timeout_goes_before_the_limit(open_fetcher):
    async with LocalSite({"/": SiteResponse("late", delay=1.0)}) as site:
        short = open_fetcher(Limits(timeout=0.2))
        assert (await short.fetch(Request(site.url, timeout=60), user_agent=AGENT)).body == b"late"
        with pytest.raises(FetchError, match=r"within 0\.3 s"):
            await open_fetcher().fetch(Request(site.url, timeout=0.3), user_agent=AGENT)


@pytest.mark.parametrize("path", ["/before", "/middle"])
async def test_cancelling_drops_the_connection(path, open_fetcher):
    asked, left = asyncio.Event(), asyncio.Event()

    def stuck(start):
        async def play(wire, visit):
            await wire.send(start)
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

        return Raw(play)

    routes = {"/before": stuck(b""), "/middle": stuck(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "/": "next"}
    async with LocalSite(routes) as site:
        fetcher = open_fetcher()
        task = asyncio.create_task(fetcher.fetch(Request(site.at(path)), user_agent=AGENT))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left.wait()
        assert (await fetcher.fetch(Request(site.url), user_agent=AGENT)).body == b"next"


async def test_cancelling_wins_over_a_deadline_that_comes_at_the_same_time(open_fetcher):
    async with LocalSite({"/": SiteResponse("late", delay=60)}) as site:
        fetcher = open_fetcher(Limits(timeout=0.1))
        task = asyncio.create_task(fetcher.fetch(Request(site.url), user_agent=AGENT))
        while not any(deadline._error for deadline in fetcher._deadlines._deadlines):  # noqa: ASYNC110 - it is to be that moment
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_closing_it_closes_its_connections(kind, site):
    fetcher = FETCHERS[kind](guard=Guard(allow_private=True))
    for host in (0, "a.localhost"):
        await fetcher.fetch(Request(site.at("/", host)), user_agent=AGENT)
    assert site.open_connections == 2
    await fetcher.close()
    async with asyncio.timeout(30):
        while site.open_connections:  # noqa: ASYNC110 - the site has no event for it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0}, {"max_body": -1}, {"min_rate": -1}, {"min_rate_window": 0}, {"connect_timeout": 0}],
    ids=str,
)
def test_limits_refuse_nonsense(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)
