"""Workers whose pages are rendered: what is counted, and what is left of a browser when its worker ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import psutil
import pytest

from silkline import Backoff, Crawl, FetchOptions, Frontier, Page, Politeness, Request, Worker, WorkerOptions
from silkline.errors import ConfigError
from silkline.fetch import BrowserOptions, HttpCache, Rendering
from silkline.fetch.browser.browser_needs import IN_A_ROW, MOST_PATTERNS, VALID, BrowserNeeds, pattern_of
from silkline.fetch.cache import CachingFetcher
from silkline.testing import LocalSite, Raw, SiteResponse
from tests.browser.conftest import browsers, need_chromium
from tests.worker.conftest import ListSink

LINKS = """<title>start</title><body><script>
  for (const path of ["/moved", "/static", "/plain"]) document.body.innerHTML += `<a href=${path}>${path}</a>`;
</script>"""


async def test_a_crawl_follows_links_that_only_a_browser_sees(valkey, crawl):
    need_chromium()
    script = "<script>document.title = 'after scripts'</script>"
    routes = {
        "/": LINKS,
        "/moved": "<script>location = '/target'</script>",
        "/target": f"<title>before</title>{script}",
        "/static": f"<title>before</title>{script}",
        "/plain": f"<title>before</title>{script}",
    }
    async with LocalSite(routes) as site:
        options = FetchOptions(allow_private=True)
        definition = Crawl(crawl, site.url, politeness=Politeness(delay=0), fetching=options)

        @definition.handler(render=True)
        def start(page):
            yield {"url": page.url, "title": page.text_of("title")}
            yield page.follow(page.css("a[href='/moved']"))
            yield page.follow(page.css("a[href='/static']"), static)
            yield page.follow(page.css("a[href='/plain']"), meta={"render": False})

        @definition.handler
        def static(page):
            yield {"url": page.url, "title": page.text_of("title")}

        sink = ListSink()
        async with await Frontier.open(valkey.url, crawl=crawl, **definition.arguments) as frontier:
            await frontier.enqueue(await definition.starts())
            counters = await Worker(definition, frontier, sinks=[sink]).run()
            assert await frontier.admin.dead() == []
        titles = {item["url"]: item["title"] for item in sink.items}
        assert titles == {
            site.at("/"): "start",
            site.at("/target"): "after scripts",
            site.at("/static"): "before",
            site.at("/plain"): "before",
        }
        assert counters.redirects == 1
        assert site.visits.paths.count("/robots.txt") == 1
    assert browsers() == []


async def test_a_page_in_the_browser_has_the_cookies_of_the_worker(valkey, crawl):
    need_chromium()
    script = "<h1></h1><script>fetch('/api').then(r => r.text()).then(t => document.querySelector('h1').innerText = t)</script>"
    routes = {
        "/": SiteResponse("<a href=/app>app</a>", headers={"Set-Cookie": "sid=ann; Path=/; HttpOnly"}),
        "/app": lambda visit: script if visit.headers.get("cookie") == "sid=ann" else "logged out",
        "/api": lambda visit: visit.headers.get("cookie", "logged out"),
    }
    async with LocalSite(routes) as site:
        definition = Crawl(crawl, site.url, politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

        @definition.handler
        def start(page):
            yield page.follow("/app", app)

        @definition.handler(render=Rendering(wait_for="h1:not(:empty)"))
        def app(page):
            yield {"says": page.text_of("h1")}

        sink = ListSink()
        async with await Frontier.open(valkey.url, crawl=crawl, **definition.arguments) as frontier:
            await frontier.enqueue(await definition.starts())
            await Worker(definition, frontier, sinks=[sink]).run()
    assert sink.items == [{"says": "sid=ann"}]


PROGRAM = """
import sys
from silkline import Crawl, FetchOptions, Politeness, WorkerOptions
from silkline.runtime.event_loop import run_async
from silkline.worker.process.process import work

redis, name, url = sys.argv[1:]
crawl = Crawl(name, url, politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

@crawl.handler(render=True)
def page(page):
    print(page.text_of("h1"), flush=True)

run_async(work(crawl, redis, options=WorkerOptions(lease=1.0)))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
async def test_no_browser_outlives_its_worker(valkey, crawl, number):
    """After SIGTERM, the page in progress is completed first."""
    need_chromium()
    asked, ready = asyncio.Event(), asyncio.Event()

    async def slow(wire, _):
        asked.set()
        await ready.wait()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\n\r\ndocument.write('<h1>complete</h1>')")

    async with LocalSite({"/": "<script src=/slow></script>", "/slow": Raw(slow)}) as site:
        async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0)) as frontier:
            await frontier.enqueue([site.url])
        command = [sys.executable, "-c", PROGRAM, valkey.url, crawl, site.url]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220 - it does not wait
        await asyncio.wait_for(asked.wait(), 100)
        left = browsers(worker.pid)
        assert left
        worker.send_signal(number)
        if number == signal.SIGTERM:
            ready.set()
        out, _ = await asyncio.to_thread(worker.communicate, timeout=100)
        assert (worker.returncode, out) == ((0, b"complete\n") if number == signal.SIGTERM else (-number, b""))
        _, alive = await asyncio.to_thread(psutil.wait_procs, left, 60)
        assert alive == []
        ready.set()


async def test_how_a_page_is_rendered_is_decided_by_its_request_its_handler_and_its_crawl():
    shop, fast = Rendering(wait_for=".price"), Rendering(timeout=5)
    crawl = Crawl("books", render=shop)
    crawl.handlers.add(lambda_named("first"))
    crawl.handlers.add(lambda_named("own"), render=fast)
    crawl.handlers.add(lambda_named("never"), render=False)
    url = "https://books.example/"
    assert crawl.rendering_of(Request(url)) is shop
    assert crawl.rendering_of(Request(url, handler="own")) is fast
    assert crawl.rendering_of(Request(url, handler="own", meta={"render": False})) is None
    assert crawl.rendering_of(Request(url, handler="never")) is None
    assert crawl.rendering_of(Request(url, handler="never", meta={"render": True})) is shop
    plain = Crawl("books")
    plain.handlers.add(lambda_named("first"))
    assert plain.rendering_of(Request(url)) is None
    assert plain.rendering_of(Request(url, meta={"render": True})) == Rendering()


def lambda_named(name):
    def handler(page):
        pass

    handler.__name__ = name
    return handler


@pytest.mark.long
async def test_a_rendered_page_is_cached_beside_the_static_one(tmp_path):
    need_chromium()
    async with LocalSite({"/": "<script>document.write('<h1>' + Math.random() + '</h1>')</script>"}) as site:
        fetching = FetchOptions(allow_private=True, cache=HttpCache(tmp_path))
        crawl = Crawl("books", site.url, fetching=fetching)
        crawl.handlers.add(lambda_named("first"), render=True)
        crawl.handlers.add(lambda_named("static"))
        fetcher = crawl.open_fetcher()
        assert isinstance(fetcher, CachingFetcher)
        requests = [Request(site.url), Request(site.url, handler="static"), Request(site.url)]
        rendered, static, again = [await fetcher.fetch(request, user_agent="a") for request in requests]
        assert b"<h1>0." in rendered.body
        assert b"<h1>0." not in static.body
        assert again.body == rendered.body
        await fetcher.close()


async def test_a_worker_without_a_browser_does_not_start(monkeypatch, tmp_path):
    crawl = Crawl("books", fetching=FetchOptions(browser=BrowserOptions(executable=tmp_path / "none")))
    crawl.handlers.add(lambda_named("first"), render=True)
    with pytest.raises(ConfigError, match="there is no program"):
        crawl.open_fetcher()
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    monkeypatch.delitem(sys.modules, "silkline.fetch.browser.renderer", raising=False)
    monkeypatch.delitem(sys.modules, "silkline.fetch.browser.rendering", raising=False)
    with pytest.raises(ConfigError, match=r"rendering pages needs Playwright: pip install 'silkline\[browser\]'"):
        crawl.open_fetcher()


async def crawl_with(valkey, crawl, site, handler, render, paths):
    """Crawl some pages one after the other; return the items and the worker."""
    definition = Crawl(
        crawl,
        [site.at(path) for path in paths],
        politeness=Politeness(delay=0),
        fetching=FetchOptions(allow_private=True),
        retries=Backoff(max_attempts=1),
    )
    definition.handler(render=render)(handler)
    sink = ListSink()
    async with await Frontier.open(valkey.url, crawl=crawl, **definition.arguments) as frontier:
        await frontier.enqueue(await definition.starts())
        worker = Worker(definition, frontier, sinks=[sink], options=WorkerOptions(concurrency=1))
        await worker.run()
        dead = {letter.url.removeprefix(site.url[:-1]) for letter in await frontier.admin.dead()}
    return {item["path"]: item["price"] for item in sink.items}, dead, worker


PRICE = "<script>document.body.innerHTML = '<b class=price>3</b>'</script>"


async def test_auto_renders_what_lacks_something_and_remembers_it(valkey, crawl):
    need_chromium()
    handled = []

    def price(page):
        handled.append((page.path, page.css_first(".price") is not None))
        yield {"path": page.path, "price": page.text_of(".price")}

    Page.path = property(lambda page: page.url[page.url.index("/", 8) :])
    scripted = {f"/scripted/{number}": f"<body>{PRICE}" for number in range(2)}
    static = {f"/static/{number}": "<b class=price>4</b>" for number in range(2)}
    never = {f"/never/{number}": "<body>" for number in range(5)}
    try:
        async with LocalSite(scripted | static | never) as site:
            routes = [*scripted, *static, *never]
            prices, dead, worker = await crawl_with(valkey, crawl, site, price, "auto", routes)
            assert sorted(site.visits.paths) == sorted(["/robots.txt", *routes]), "each document is fetched once"
    finally:
        del Page.path
    assert prices == dict.fromkeys(scripted, "3") | dict.fromkeys(static, "4")
    assert dead == set(never)
    times = {path: [found for one, found in handled if one == path] for path in routes}
    assert sorted(times[path] for path in scripted) == [[False, True], [True]], "the second one was rendered at once"
    assert [times[path] for path in static] == [[True]] * 2
    assert sorted(len(times[path]) for path in never) == [1, 1, 2, 2, 2], "after three, rendering is given up"
    assert worker.counters.bytes > 0


@pytest.mark.long
async def test_auto_renders_pages_without_a_given_element(valkey, crawl):
    need_chromium()
    handled = []

    def price(page):
        handled.append(page.url)
        yield {"path": page.url, "price": len(page.css(".price"))}

    rendering = Rendering(when="auto", needs=".price", wait_for=".price", timeout=60)
    async with LocalSite({"/": f"<body>{PRICE}"}) as site:
        prices, dead, _ = await crawl_with(valkey, crawl, site, price, rendering, ["/"])
        assert (prices, dead) == ({site.url: 1}, set())
        assert handled == [site.url], "the handler saw only the rendered page"


def test_needs_are_by_host_handler_and_pattern_for_a_limited_time():
    now = [0.0]
    needs = BrowserNeeds(lambda: now[0])
    lamp, table, other = (
        Request(f"https://shop.example{path}", handler="product") for path in ("/en/lamp-1", "/en/x", "/en/")
    )
    needs.note(lamp, helped=True)
    assert needs.needs_browser(table)
    for request in (other, Request(table.url, handler="b"), Request("https://b.example/en/x", handler="product")):
        assert not needs.needs_browser(request)
    now[0] = VALID
    assert not needs.needs_browser(table)
    for _ in range(IN_A_ROW):
        assert not needs.is_hopeless(lamp)
        needs.note(lamp, helped=False)
    assert needs.is_hopeless(table)
    for number in range(MOST_PATTERNS + 10):
        needs.note(Request(f"https://{number}.example/"), helped=True)
    assert len(needs._known) == MOST_PATTERNS
    assert pattern_of("/a/12/b-3?x=1") == pattern_of("/a/77/c") == "/a/#/*"
    for wrong in ({"when": "ever"}, {"needs": ".a"}):
        with pytest.raises(ConfigError):
            Rendering(**wrong)


async def test_cookies_that_scripts_set_are_kept_for_later_pages(valkey, crawl):
    """A login in the browser is one for pages that are fetched without it too."""
    need_chromium()
    login = "<script>document.cookie = 'token=7; path=/; max-age=1000'; document.cookie = 'old=1; path=/x'</script><a href=/account>a</a>"
    async with LocalSite({"/": login, "/account": "<h1>account</h1>"}) as site:
        definition = Crawl(crawl, site.url, politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

        @definition.handler(render=True)
        def start(page):
            yield page.follow(page.css("a"), account)

        @definition.handler
        def account(page):
            yield {"title": page.text_of("h1")}

        sink = ListSink()
        async with await Frontier.open(valkey.url, crawl=crawl, **definition.arguments) as frontier:
            await frontier.enqueue(await definition.starts())
            await Worker(definition, frontier, sinks=[sink]).run()
        assert sink.items == [{"title": "account"}]
        assert [visit.headers.get("cookie") for visit in site.visits.to(path="/account")] == ["token=7"]
