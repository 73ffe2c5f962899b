"""Pages in a real browser: what a handler gets, and pages that misbehave."""

from __future__ import annotations

import asyncio
import os
import signal

import psutil
import pytest

from silkline import Crawl, FetchOptions, Page, Request, testing
from silkline.core.url import parse
from silkline.errors import ConfigError, FetchError, FetchTimeout, LocalFailure, ResponseTooLarge
from silkline.fetch.browser import process, tabs
from silkline.fetch.browser import rendering as rendering_module
from silkline.fetch.browser.options import BrowserOptions, Rendering
from silkline.fetch.browser.rendering import header_of
from silkline.fetch.cookies.jar import LONGEST_LIFE, read_cookie
from silkline.testing import LocalSite, Raw, SiteResponse
from silkline.worker.crawl.page import Links
from tests.browser.conftest import AGENT, Rendered, browsers, need_chromium
from tests.worker.conftest import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


def page_of(response):
    """A page as a handler gets it."""
    crawl = Crawl("books")
    crawl.handlers.add(page_of)
    return Page(Request(response.url), response, "page_of", crawl.handlers, Links(crawl.scope))


SOON = Rendering(timeout=1.5)


async def test_a_page_is_as_it_is_after_its_scripts(rendered):
    script = "document.body.append(navigator.userAgent); history.pushState(0, '', '/shown?page=2')"
    rendered.site.routes |= {"/app.js": script, "/x.png": b"png", "/api": "{}"}
    body = "<!doctype html><title>é</title><body><img src=/x.png><script src=/app.js></script>"
    latin = SiteResponse(body.encode("latin-1"), headers={"Content-Type": "text/html; charset=iso-8859-1", "X-A": "1"})
    page = await rendered.page(latin)
    assert page.body.decode().startswith("<!DOCTYPE html><html><head><title>é</title>")
    assert AGENT in page.body.decode()
    assert (page.status, page.headers["x-a"], page.headers["content-type"]) == (200, "1", "text/html; charset=utf-8")
    assert page.url == rendered.site.at("/shown?page=2", "site.test")
    assert rendered.site.visits.paths == ["/", "/app.js"], "no image, and the document once"
    assert page.original.body == body.encode("latin-1")
    assert page.loaded > len(script)


async def test_what_is_no_page_needs_no_browser(rendered):
    rendered.site.routes |= {
        "/moved": SiteResponse("moved", status=302, headers={"Location": "/"}),
        "/gone": SiteResponse("<h1>gone</h1>", status=404),
        "/data": SiteResponse("[1]", headers={"Content-Type": "application/json"}),
    }
    before = rendered.renderer.pages
    for path, status in (("/moved", 302), ("/gone", 404), ("/data", 200)):
        assert (await rendered.page(path=path)).status == status
    assert rendered.renderer.pages == before


async def test_a_document_that_scripts_load_is_a_redirect_with_the_cookies_they_set(rendered):
    page = await rendered.page("<script>document.cookie = 'a=1'; location = '/next'</script>")
    assert (page.status, page.headers["location"]) == (302, rendered.site.at("/next", "site.test"))
    assert page.headers.get_all("set-cookie") == ["a=1; Path=/"]
    assert rendered.site.visits.paths == ["/"]


async def test_a_redirect_by_a_script_has_only_new_cookies_of_its_host(rendered):
    rendered.site.routes["/pixel"] = SiteResponse("", headers={"Set-Cookie": "secret=1"})
    pixel, target = (rendered.site.at(path, "shop.site.test") for path in ("/pixel", "/next"))
    cookies = "document.cookie = 'new=1; Path=/a'; document.cookie = 'wide=1; Domain=site.test'"
    body = (
        f"<script>{cookies}; const go = () => location = '{target}'</script><img src={pixel} onload=go() onerror=go()>"
    )
    page = await rendered.page(body, "/a/b", cookies={"old": "1"})
    assert page.headers["location"] == target
    assert sorted(page.headers.get_all("set-cookie")) == ["new=1; Path=/a", "wide=1; Path=/a; Domain=site.test"]


async def test_a_cookie_of_the_browser_keeps_what_protects_it():
    cookie = {"name": "__Secure-sid", "value": "1", "domain": ".site.test", "path": "/", "expires": 9e9, "secure": True}
    stored = read_cookie(header_of(cookie), parse("https://site.test/"), 0.0)
    assert stored is not None
    assert (stored.domain, stored.subdomains, stored.secure, stored.expires) == ("site.test", True, True, LONGEST_LIFE)


async def test_all_that_a_page_loads_from_its_host_has_the_cookies_of_the_request(rendered):
    rendered.site.routes["/api"] = lambda visit: visit.headers.get("cookie", "logged out")
    script = "fetch('/api').then(reply => reply.text()).then(text => document.body.innerHTML = `<h1>${text}</h1>`)"
    how = Rendering(wait_for="h1", timeout=60)
    page = await rendered.page(f"<body><script>{script}</script>", "/a/b", rendering=how, cookies={"sid": "ann"})
    assert b"<h1>sid=ann</h1>" in page.body


@pytest.mark.parametrize("visitor", [{"session": "bob"}, {"session": False}, {"cookies": {"sid": "bob"}}])
async def test_what_is_cached_for_a_visitor_is_not_shown_to_another_one(rendered, visitor):
    private = {"Cache-Control": "max-age=600"}
    rendered.site.routes["/me"] = lambda visit: SiteResponse(visit.headers.get("cookie", ""), headers=private)
    script = "fetch('/me').then(reply => reply.text()).then(text => document.body.innerHTML = `<h1>${text}</h1>`)"
    how = Rendering(wait_for="h1", timeout=60)
    ann = {"headers": {"Cookie": "sid=ann"}} if "session" in visitor else {"cookies": {"sid": "ann"}}
    assert b"sid=ann" in (await rendered.page(f"<body><script>{script}</script>", rendering=how, **ann)).body
    assert b"sid=ann" not in (await rendered.page(rendering=how, **visitor)).body


async def test_a_page_that_sets_a_cookie_and_loads_itself_again(rendered):
    body = "<script>if (document.cookie) document.write('<h1>in</h1>'); else {document.cookie = 'a=1'; location.reload()}</script>"
    page = await rendered.page(body)
    assert b"<h1>in</h1>" in page.body
    assert [visit.headers.get("cookie") for visit in rendered.site.visits] == [None, "a=1"]


async def test_cookies_of_a_request_reach_its_scripts(rendered):
    cookies = {"a": "1", "__Host-b": "2"}  # the browser accepts the second one over HTTPS only
    page = await rendered.page("<script>document.write(`[${document.cookie}]`)</script>", cookies=cookies)
    assert b"[a=1]" in page.body


LEAVE = """<body><script>
  document.cookie = "a=1"; localStorage.a = 1; sessionStorage.a = 1; window.name = "a";
  history.pushState(0, "", "/left"); history.pushState(0, "", "/left/again");
  addEventListener("pagehide", () => { sessionStorage.b = 1; localStorage.b = 1; document.cookie = "b=1" });
  setInterval(() => { sessionStorage.c = 1; document.cookie = "c=1" }, 1);
  const opening = indexedDB.open("a");
  opening.onsuccess = () => caches.open("a").then(done, done);
  function done() { document.body.innerHTML = "<b id=left></b>" }
</script>"""
FIND = """<body><script>
  (async () => {
    const found = [document.cookie, Object.keys(localStorage), Object.keys(sessionStorage), window.name, history.length < 3,
      (await indexedDB.databases()).length, window.caches ? (await caches.keys()).length : 0];
    document.body.innerHTML = `<pre>${JSON.stringify(found)}</pre>`;
  })()
</script>"""


async def test_a_tab_is_used_again_for_the_same_site_and_nothing_is_left_in_it(rendered, monkeypatch):
    monkeypatch.setattr(tabs, "PARK_TIMEOUT", 60)
    browser = await rendered.renderer.process.get()
    rendering = Rendering(wait_for="pre", timeout=60)
    fresh = (await rendered.page(FIND, host="127.0.0.1", rendering=rendering)).body
    assert b'["",[],[],"",' in fresh
    before = len(browser.contexts)
    for _ in range(2):
        await rendered.page(LEAVE, "/leave", host="127.0.0.1", rendering=Rendering(wait_for="#left", timeout=60))
        found = (await rendered.page(FIND, host="127.0.0.1", rendering=rendering)).body
        assert found == fresh
    assert len(browser.contexts) == before


async def test_a_tab_with_frames_windows_or_actions_is_not_used_again(rendered, monkeypatch):
    monkeypatch.setattr(tabs, "PARK_TIMEOUT", 60)
    browser = await rendered.renderer.process.get()
    rendered.site.routes["/frame"] = "frame"

    async def nothing(_):
        pass

    host = "c.localhost"
    for body, rendering in (
        ("<iframe src=/frame></iframe>", Rendering(timeout=60)),
        ("<script>window.open('/frame')</script>", Rendering(timeout=60, wait_for="networkidle")),
        ("<h1>here</h1>", Rendering(timeout=60, actions=nothing)),
    ):
        contexts = {id(context) for context in browser.contexts}
        await rendered.page(body, host=host, rendering=rendering)
        assert {id(context) for context in browser.contexts} <= contexts


async def test_waiting_for_an_element(rendered):
    body = "<script>setTimeout(() => document.body.innerHTML = '<b class=price>1</b>', 200)</script>"
    page = await rendered.page(body, rendering=Rendering(wait_for=".price", timeout=60))
    assert b"price" in page.body
    with pytest.raises(FetchTimeout, match=r"not complete in the browser within 2 s \(wait_for='.never'\)"):
        await rendered.page(body, rendering=Rendering(wait_for=".never", timeout=2))
    with pytest.raises(FetchError, match="cannot be rendered"):
        await rendered.page(body, rendering=Rendering(wait_for="p[", timeout=60))


async def endless(wire, _):
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\n\r\n")
    while True:
        await wire.send(b"// " + b"x" * 60_000 + b"\n")


async def silent(wire, _):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<script>while (true) alert('!')</script>", "not complete"),
        pytest.param("<script>while (true);</script>", "not complete", marks=pytest.mark.long),
        ("<script src=/silent></script>", "not complete"),
        ("<script src=/endless></script>", "loads more than 1048576 bytes"),
        ("<body><script>document.body.append('x'.repeat(2e6))</script>", "the limit is 1048576"),
    ],
    ids=["alerts", "loop", "silent", "endless", "large"],
)
async def test_pages_without_end(rendered, body, error):
    rendered.site.routes |= {"/endless": Raw(endless), "/silent": Raw(silent)}
    with pytest.raises((FetchTimeout, ResponseTooLarge), match=error):
        await rendered.page(body, rendering=SOON if error == "not complete" else None)
    assert b"<h1>" in (await rendered.page("<h1>next</h1>")).body, "the next page is not affected"


async def test_windows_and_downloads_come_to_nothing(rendered):
    rendered.site.routes["/file"] = SiteResponse(b"x" * 9, headers={"Content-Disposition": "attachment; filename=f"})
    body = (
        "<body><script>for (let i = 0; i < 5; i++) window.open('/file?' + i);"
        "const a = document.createElement('a'); a.href = '/file'; a.download = 'f'; document.body.append(a); a.click()</script>"
        "<h1>here</h1>"
    )
    page = await rendered.page(body, rendering=Rendering(timeout=60, wait_for="networkidle"))
    assert b"<h1>here</h1>" in page.body or page.status == 302


async def test_a_tab_that_crashes_fails_its_page_only(rendered):
    browser = await rendered.renderer.process.get()
    failing = asyncio.create_task(rendered.page("<script src=/silent></script>", "/slow"))
    rendered.site.routes["/silent"] = Raw(silent)
    await until(lambda: "/silent" in rendered.site.visits.paths)
    for found in browsers(None, "--type=renderer"):
        found.kill()
    with pytest.raises(FetchError, match="crashed its tab") as caught:
        await failing
    assert caught.value.kind == "crash"
    assert await rendered.renderer.process.get() is browser


async def test_a_browser_that_dies_is_started_again_and_its_page_is_rendered(rendered):
    starts = rendered.renderer.process.starts
    rendered.site.routes["/silent"] = Raw(silent)
    rendering = asyncio.create_task(rendered.page("<h1>here</h1><script src=/silent></script>"))
    await until(lambda: "/silent" in rendered.site.visits.paths)
    rendered.site.routes["/silent"] = ""
    os.kill(rendered.renderer.process.pid, signal.SIGKILL)
    assert b"<h1>here</h1>" in (await rendering).body
    assert rendered.renderer.process.starts == starts + 1
    assert rendered.site.visits.paths.count("/") == 1, "the document is not fetched again"


@pytest.mark.long
async def test_a_driver_that_dies_is_started_again_too(rendered):
    await rendered.page("<h1>here</h1>")
    for found in browsers(None, "run-driver"):
        found.kill()
    assert b"<h1>here</h1>" in (await rendered.page("<h1>here</h1>")).body


async def test_a_cancelled_page_leaves_nothing_and_nothing_is_left_at_the_end():
    need_chromium()
    async with LocalSite({"/silent": Raw(silent)}) as site:
        rendered = Rendered(site)
        before = set(browsers())
        rendering = asyncio.create_task(rendered.page("<script src=/silent></script>"))
        await until(lambda: "/silent" in site.visits.paths)
        rendering.cancel()
        await asyncio.wait([rendering])
        assert not (await rendered.renderer.process.get()).contexts
        mine = set(browsers()) - before
        assert mine
        await rendered.fetcher.close()
        _, alive = await asyncio.to_thread(psutil.wait_procs, mine, 60)
        assert alive == []
        with pytest.raises(LocalFailure, match="the browser is closed"):
            await rendered.renderer.process.get()


async def test_a_browser_that_is_missing_is_named(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="there is no program /no/chromium"):
        process.find_program(BrowserOptions(executable="/no/chromium"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs Chromium, which was not found; install it .apt install chromium"):
        process.find_program(BrowserOptions())


async def test_a_program_that_is_no_browser_is_a_failure_of_this_machine():
    async with LocalSite() as site:
        rendered = Rendered(site, executable="/bin/true")
        with pytest.raises(LocalFailure, match="the browser cannot be started: /bin/true has ended at once"):
            await rendered.page("<h1>here</h1>")
        await rendered.fetcher.close()


async def test_a_sandbox_works_or_is_named():
    """It does not work for root, and in many containers."""
    need_chromium()
    async with LocalSite() as site:
        rendered = Rendered(site, sandbox=True)
        try:
            works = b"<h1>" in (await rendered.page("<h1>here</h1>")).body
        except LocalFailure as error:
            works = "Chromium's sandbox does not work here" in str(error) and "sandbox=False" in str(error)
        assert works
        await rendered.fetcher.close()


async def test_settings_that_are_wrong():
    for wrong in (
        {"wait_for": ""},
        {"timeout": 0},
        {"block": "image"},
        {"block": ("images",)},
        {"capture": "/a"},
        {"actions": print},
    ):
        with pytest.raises(ConfigError):
            Rendering(**wrong)
    for wrong in ({"pages": 0}, {"executable": "a", "channel": "b"}, {"max_bytes": 0}):
        with pytest.raises(ConfigError):
            BrowserOptions(**wrong)
    with pytest.raises(ConfigError, match="render must be"):
        Rendering.of("yes")
    with pytest.raises(ConfigError, match="to render pages: render=True"):
        FetchOptions(browser=True)


API = SiteResponse('{"price": 3}', headers={"Content-Type": "application/json"})


async def test_json_responses_are_captured(rendered):
    rendered.site.routes |= {
        "/api/price": API,
        "/api/text": "text",
        "/other": API,
        "/api/large": SiteResponse(b'"' + b"x" * 500_000 + b'"', headers={"Content-Type": "application/json"}),
    }
    body = """<body><script>
      (async () => {
        for (const path of ["/api/price?id=1", "/other", "/api/text", "/api/price?id=2", "/api/large"]) await (await fetch(path)).text();
        document.body.innerHTML = "<b id=end></b>";
      })()
    </script>"""
    found = await rendered.page(body, rendering=Rendering(wait_for="#end", timeout=60, capture=["/api/*"]))
    page = page_of(found)
    assert [one.json() for one in page.captured("/api/price*")] == [{"price": 3}, {"price": 3}]
    assert [one.url.partition("/api")[2] for one in page.captured()] == ["/price?id=1", "/price?id=2", "/large"]
    assert [one.status for one in page.captured("*/api/price?id=2")] == [200]
    assert page.captured("/none") == []


@pytest.mark.long
async def test_captured_responses_are_bounded(rendered, monkeypatch):
    monkeypatch.setattr(rendering_module, "MOST_CAPTURED", 2)
    rendered.site.routes["/api"] = API
    body = """<body><script>
      Promise.all([1, 2, 3, 4].map((number) => fetch("/api"))).then(() => document.body.innerHTML = "<b id=end></b>")
    </script>"""
    found = await rendered.page(body, rendering=Rendering(wait_for="#end", timeout=60, capture=["/api*"]))
    assert len(found.captured) <= 2
    monkeypatch.setattr(rendering_module, "MOST_CAPTURED_BYTES", 2 * len(API.body) - 1)
    found = await rendered.page(body, rendering=Rendering(wait_for="#end", timeout=60, capture=["/api*"]))
    assert len(found.captured) <= 1


async def test_actions_click_type_and_load_other_documents(rendered):
    rendered.site.routes["/result?q=lamp"] = "<h1>lamp</h1>"
    form = "<form action=/result><input name=q><button>Search</button></form>"

    async def search(page):
        await page.fill("input[name=q]", "lamp")
        await page.click("button")
        await page.wait_for_selector("h1")

    page = await rendered.page(form, rendering=Rendering(actions=search, timeout=60))
    assert b"<h1>lamp</h1>" in page.body
    assert page.url == rendered.site.at("/result?q=lamp", "site.test")
    assert (page.status, rendered.site.visits.paths) == (200, ["/", "/result?q=lamp"])

    async def impatient(page):
        await page.click("#none", timeout=100)

    with pytest.raises(FetchError, match=r"cannot be rendered: Page.click: Timeout 100ms exceeded"):
        await rendered.page(form, rendering=Rendering(actions=impatient, timeout=60))

    async def wrong(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rendered.page(form, rendering=Rendering(actions=wrong, timeout=60))


async def test_a_screenshot_shows_the_whole_page(rendered):
    body = "<body style='margin: 0; background: red'><div style='height: 3000px; width: 10px'></div>"
    page = page_of(await rendered.page(body, rendering=Rendering(screenshot=True, timeout=60)))
    image = page.screenshot()
    assert image.startswith(b"\x89PNG")
    width, height = int.from_bytes(image[16:20]), int.from_bytes(image[20:24])
    assert (width, height) == (1280, 3000)
    with pytest.raises(ConfigError, match="there is no screenshot of"):
        page_of(await rendered.page(body)).screenshot()


async def test_what_was_not_rendered_has_nothing_captured():
    with pytest.raises(
        ConfigError, match=r"was not rendered; write @crawl.handler\(render=Rendering\(capture=\['/api/\*'\]\)\)"
    ):
        testing.page("<h1>static</h1>").captured("/api/*")
