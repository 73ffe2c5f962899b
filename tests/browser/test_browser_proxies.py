"""What a rendered page loads goes through the proxies of the crawl too, and still through the guard."""

from __future__ import annotations

import asyncio
import socket

import pytest

from silkline import Crawl, FetchOptions
from silkline.errors import ConfigError
from silkline.fetch.browser.guard_proxy import GuardProxy
from silkline.fetch.browser.upstream import ProxyDial
from silkline.fetch.guard import Guard, read_target
from silkline.fetch.limits import Limits
from silkline.fetch.proxies import Proxies
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite
from tests.browser.conftest import Names, Rendered, need_chromium
from tests.proxies import ProxyServer

LOGIN = ("mira", "p@ss:word")


def own_guard():
    return Guard(resolver=Names(), forbid=lambda found: None if str(found) == "127.0.0.1" else "private")


def login_url(proxy, scheme=None):
    return f"{scheme or proxy.kind}://mira:p%40ss%3Aword@{proxy.place}"


async def ask(urls, *heads):
    """Send these requests on one connection each through the proxies; return what comes back."""
    guard = own_guard()
    fetcher = WreqFetcher(Limits(), guard=guard, proxy=urls)
    proxy = GuardProxy(ProxyDial(guard, fetcher.proxies))
    proxy.begin(10**6, list)
    port = int((await proxy.start()).rpartition(":")[2])
    replies = []
    for head in heads:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        first, *more = head.split("|")
        writer.write(first.encode() + b"\r\n\r\n")
        reply = await reader.readuntil(b"\r\n\r\n")
        for one in more:
            writer.write(one.encode() + b"\r\n\r\n")
            reply += await reader.readuntil(b"\r\n\r\n")
        replies.append(reply.decode())
        writer.close()
    await proxy.close()
    await fetcher.close()
    return replies, proxy


@pytest.mark.parametrize(
    ("kind", "scheme", "login"),
    [("http", "http", None), ("http", "http", LOGIN), ("socks5", "socks5", None), ("socks5", "socks5h", LOGIN)],
)
async def test_connections_go_through_each_kind_of_proxy(kind, scheme, login):
    async with LocalSite({"/a": "a"}) as site, ProxyServer(kind, login=login) as proxy:
        url = login_url(proxy, scheme) if login else f"{scheme}://{proxy.place}"
        place = f"site.test:{site.port}"
        tunnel = f"CONNECT {place} HTTP/1.1|GET /a HTTP/1.1\r\nHost: {place}"
        plain = f"GET http://{place}/a HTTP/1.1\r\nHost: {place}\r\nX-Plain: 1"
        replies, _ = await ask(url, tunnel, plain)
        assert [reply.count(" 200 ") for reply in replies] == [2, 1]
        assert site.visits.paths == ["/a", "/a"]
        assert "proxy-authorization" not in site.visits[-1].headers
        host = "127.0.0.1" if scheme == "socks5" else "site.test"
        assert proxy.targets == [f"{host}:{site.port}"] * 2


async def test_the_guard_holds_before_a_proxy_is_asked():
    async with ProxyServer() as proxy:
        heads = [f"CONNECT {host}:443 HTTP/1.1" for host in ("127.0.0.2", "[::1]", "169.254.169.254", "printer.local")]
        replies, guarded = await ask(proxy.url, *heads)
        assert all(" 403 " in reply for reply in replies)
        assert proxy.targets == []
        assert len(guarded.refused) == 4


async def test_a_dead_proxy_is_not_the_fault_of_the_page():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with LocalSite({"/a": "a"}) as site, ProxyServer() as proxy:
            tunnel = f"CONNECT site.test:{site.port} HTTP/1.1|GET /a HTTP/1.1\r\nHost: site.test"
            replies, _ = await ask([dead, proxy.url], tunnel, tunnel, tunnel)
            assert all(reply.count(" 200 ") == 2 for reply in replies)


@pytest.mark.parametrize("behavior", ["garbage", "closes", "refuses", "error page"])
async def test_a_proxy_that_makes_no_connection_is_an_error_of_the_request(behavior):
    async with ProxyServer(behavior=behavior) as proxy:
        (reply,), _ = await ask(proxy.url, "CONNECT site.test:443 HTTP/1.1")
        assert " 502 " in reply


async def test_a_wrong_login_is_named_without_the_password():
    async with ProxyServer("socks5", login=LOGIN) as proxy:
        guard = own_guard()
        fetcher = WreqFetcher(Limits(), guard=guard, proxy=f"socks5h://mira:wrong@{proxy.place}")
        dial = ProxyDial(guard, fetcher.proxies)
        with pytest.raises(Exception, match="it wants another user or password") as caught:
            await dial(read_target("https://site.test/"), tunnel=True)
        assert "wrong" not in str(caught.value)
        await fetcher.close()


async def test_a_page_and_all_that_it_loads_come_through_the_proxy():
    need_chromium()
    script = "document.body.innerHTML = '<h1>here</h1>'"
    async with (
        LocalSite({"/": "<body><script src=/app.js></script>", "/app.js": script}) as site,
        ProxyServer(login=LOGIN) as proxy,
    ):
        rendered = Rendered(site, proxy=login_url(proxy))
        assert b"<h1>here</h1>" in (await rendered.page()).body
        await rendered.fetcher.close()
        assert proxy.targets == [f"site.test:{site.port}"] * 2
        assert site.visits.paths == ["/", "/app.js"]


async def test_what_a_page_of_a_session_loads_comes_through_the_proxy_of_the_session():
    need_chromium()
    routes = {"/": "<body><script src=/app.js></script>", "/app.js": "document.title = 'here'"}
    async with LocalSite(routes) as site, ProxyServer() as one, ProxyServer() as other:
        rendered = Rendered(site, proxy=Proxies([one.url, other.url], rotate="session"))
        place = f"site.test:{site.port}"
        for number in range(4):
            before = one.targets.count(place)
            await rendered.page(session=f"session-{number}")
            assert one.targets.count(place) - before in (0, 2)
        await rendered.fetcher.close()
        assert one.targets.count(place) + other.targets.count(place) == 8


def test_the_proxy_of_a_fetcher_of_the_user_is_refused():
    options = FetchOptions(proxy="http://proxy.example:8080", fetcher=lambda _: object())
    with pytest.raises(ConfigError, match="cannot be used by the browser"):
        Crawl("books", fetching=options, render=True).open_fetcher()
