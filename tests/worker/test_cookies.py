"""Cookies of a crawl: carried from page to page, as by a browser, and forms that need them."""

from __future__ import annotations

import asyncio

import pytest

from silkline import FetchOptions, Request, Scope
from silkline.core.request import check
from silkline.errors import RequestError
from silkline.fetch import HttpCache
from silkline.testing import SiteResponse, redirect
from silkline.worker.worker import page_fetch
from tests.worker.conftest import Run, until


class Shop:
    """A site whose orders are shown to users who have logged in with a form. Its sessions rotate at the login."""

    def __init__(self):
        self.logins = 0

    def routes(self):
        return {
            "/": self.front,
            "/login": self.login,
            "/orders": self.orders,
            "/orders/*": self.orders,
        }

    def front(self, visit):
        form = (
            "<form id=login method=post action=login><input type=hidden name=csrf value=c1><input name=user>"
            "<input type=password name=password><button name=go value=1>Log in</button></form>"
        )
        return SiteResponse(form, headers=[("Set-Cookie", "sid=anonymous; Path=/; HttpOnly"), ("Set-Cookie", "old=1")])

    def login(self, visit):
        if visit.headers.get("cookie") != "sid=anonymous; old=1" or visit.body != b"csrf=c1&user=ann&password=pw&go=1":
            return SiteResponse("no", status=403)
        self.logins += 1
        cookies = [("Set-Cookie", "sid=ann; Path=/"), ("Set-Cookie", "old=; Max-Age=0")]
        return SiteResponse("", status=302, headers=[("Location", "/orders"), *cookies])

    def orders(self, visit):
        if visit.headers.get("cookie") != "sid=ann":
            return redirect("/")
        return "<a href=/orders/1>1</a><a href=/orders/2>2</a>" if visit.path == "/orders" else "<h1>an order</h1>"


@pytest.fixture
async def shop(serve):
    return await serve(Shop().routes())


def take_orders(crawl):
    @crawl.handler
    def front(page):
        yield page.form("#login").submit(orders, user="ann", password="pw")

    @crawl.handler
    def orders(page):
        yield page.follow(page.css("a"), order)

    @crawl.handler
    def order(page):
        yield {"order": page.url.rpartition("/")[2]}

    return crawl


async def test_a_login_by_a_form_lasts_for_the_crawl(shop, run, new_crawl):
    done = await run(take_orders(new_crawl(shop.url)))
    assert sorted(item["order"] for item in done.items) == ["1", "2"]
    assert done.stats.dead == 0
    assert "cookie" not in shop.visits.to(path="/robots.txt")[0].headers


async def test_cookies_are_kept_for_their_site_only(serve, run, new_crawl):
    def page(visit):
        return SiteResponse("x", headers={"Set-Cookie": "a=1; Path=/"})

    site = await serve({"//127.0.0.2/*": "x", "/*": page}, hosts=2)
    crawl = new_crawl([site.at("/1")], scope=Scope(stay="anywhere"))

    @crawl.handler
    def first(page):
        yield page.follow([site.at("/2"), f"http://{site.hosts[1]}/2"], rest)
        yield page.follow(site.at("/3"), rest, session=False)
        yield page.follow(site.at("/4"), rest, cookies={"b": "2"})
        yield page.follow(site.at("/5"), rest, headers={"Cookie": "c=3"})

    @crawl.handler
    def rest(page):
        pass

    await run(crawl)
    got = {(visit.host == site.hosts[0], visit.path): visit.headers.get("cookie") for visit in site.visits}
    assert got[True, "/2"] == "a=1"
    assert got[False, "/2"] is None
    assert got[True, "/3"] is None
    assert got[True, "/4"] == "b=2; a=1"
    assert got[True, "/5"] == "c=3"


async def test_a_request_without_a_session_leaves_no_cookies(serve, run, new_crawl):
    site = await serve({"/*": lambda visit: SiteResponse("x", headers={"Set-Cookie": "a=1; Path=/"})})
    crawl = new_crawl([Request(site.at("/1"), session=False)])

    @crawl.handler
    def first(page):
        if page.url.endswith("/1"):
            yield page.follow("/2")

    await run(crawl)
    assert site.visits.to(path="/2")[0].headers.get("cookie") is None


async def test_cookies_are_switched_off(shop, run, new_crawl):
    fetching = FetchOptions(allow_private=True, cookies=False)
    done = await run(take_orders(new_crawl(shop.url, fetching=fetching)))
    assert done.items == []
    assert [visit.headers.get("cookie") for visit in shop.visits] == [None] * len(shop.visits)


async def test_a_redirect_that_another_worker_follows_has_its_cookies(serve, valkey, new_crawl):
    """The first worker ends after the redirect, and with it its cookies."""
    site = await serve(
        {
            "/": SiteResponse("", status=302, headers=[("Location", "/in"), ("Set-Cookie", "sid=1; Path=/")]),
            "/in": lambda visit: visit.headers.get("cookie", "nothing"),
        }
    )
    crawl = new_crawl(site.url)
    stop, begin = [], asyncio.Event()

    @crawl.middleware
    async def stopping(request, call_next):
        await begin.wait()
        response = await call_next(request)
        for worker in stop:
            worker.stop()
        return response

    @crawl.handler
    def page(page):
        yield {"cookie": page.text}

    first = Run(crawl, valkey.url)
    going = asyncio.create_task(first.go())
    await until(lambda: first.worker)
    stop.append(first.worker)
    begin.set()
    await going
    stop.clear()
    assert [visit.path for visit in site.visits if visit.path != "/robots.txt"] == ["/"]
    second = await Run(crawl, valkey.url).go()
    assert second.items == [{"cookie": "sid=1"}]


async def test_cookies_are_no_part_of_the_cache(serve, new_crawl, tmp_path):
    """Pages are fetched in any order, and replayed in another one; replayed pages set no cookies."""
    site = await serve(
        {"/*": lambda visit: SiteResponse(visit.headers.get("cookie", "-"), headers={"Set-Cookie": "a=1; Path=/"})}
    )

    async def bodies(*paths, **options):
        crawl = new_crawl(fetching=FetchOptions(allow_private=True, cache=HttpCache(tmp_path, **options)))
        fetcher = crawl.fetching.open()
        fetch = page_fetch(crawl, fetcher)
        found = [(await fetch(Request(site.at(path)))).body for path in paths]
        await fetcher.close()
        return found

    assert await bodies("/1", "/2") == [b"-", b"a=1"]
    assert await bodies("/2", "/1", offline=True) == [b"a=1", b"-"]
    assert await bodies("/1", "/3") == [b"-", b"-"]


async def test_a_cookie_comes_back_with_the_same_bytes(serve, new_crawl):
    value = "käse ✓"
    headers = [("Set-Cookie", f"a={value.encode().decode('latin-1')}; Path=/"), ("Set-Cookie", 'b="x, y"; Path=/')]
    site = await serve(
        {
            "/1": SiteResponse("x", headers=headers),
            "/2": lambda visit: visit.headers.get("cookie", "").encode("latin-1").decode(),
        }
    )
    crawl = new_crawl()
    fetcher = crawl.fetching.open()
    fetch = page_fetch(crawl, fetcher)
    await fetch(Request(site.at("/1")))
    assert (await fetch(Request(site.at("/2")))).body.decode() == f'a={value}; b="x, y"'
    await fetcher.close()


def test_a_session_is_checked():
    with pytest.raises(RequestError, match="session must be"):
        check(Request("https://a.example/", session=5))
