"""The pages in a real browser: live, with keys, on a phone, and without scripts."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone

import pytest
from playwright.sync_api import expect, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount

from silkline import Request, SyncFrontier
from silkline.core.proxy_health import ProxyCounts, ProxyReport
from silkline.dashboard import app
from silkline.dashboard.slow_queries import SlowQueries
from silkline.frontier.admin_verbs.audit import A_WORKER
from silkline.frontier.verbs.hosts import StatusCounts
from tests.dashboard.serving import TOKEN, Serving

PATHS = (
    "/", "/?range=day", "/crawls", "/crawls/hostile", "/hosts?crawl=hostile", "/host?crawl=hostile&host=evil.example",
    "/requests", "/requests?crawl=hostile", "/requests?crawl=hostile&state=ready", "/requests?crawl=hostile&state=delayed",
    "/requests?url=https://evil.example/%3Cscript%3E", "/dead?crawl=hostile", "/dead/revive?crawl=hostile",
    "/workers", "/redis", "/audit", "/tasks", "/tasks?crawl=hostile",
    "/proxies", "/proxies?crawl=hostile",
)  # fmt: skip


expect.set_options(timeout=50_000)  # a busy machine takes its time; what never comes fails all the same


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox"] if os.geteuid() == 0 else [],  # as root it has no sandbox to run in
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens pages, each as a visitor of its own. What a page complains about makes the test fail."""
    contexts, complaints = [], []

    def open_(address, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(50_000)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def signed_in(open_page, locked_dashboard):
    page = open_page(f"{locked_dashboard.address}/crawls")
    expect(page).to_have_url(re.compile("/sign-in"))
    page.get_by_label("Your name").fill("mira")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/crawls$"))
    return page


def expect_change(page, own_crawl):
    """The page of a crawl shows more requests, when there are some, by itself."""
    ready = page.locator(".legend .ready b")
    expect(ready).to_have_text("4")
    page.evaluate("window.same = true")
    own_crawl.enqueue([f"https://c.example/{number}" for number in range(30)])
    expect(ready).to_have_text("34")
    assert page.evaluate("window.same"), "without loading the page anew"


def cookies(page):
    """Those that the browser has stored, once there are any: it does so after the script that sets one has run."""
    while not (stored := page.context.cookies()):
        page.wait_for_timeout(10)
    return stored


def test_numbers_change_by_themselves(open_page, open_dashboard, own_crawl):
    page = open_page(f"{open_dashboard.address}/?crawl={own_crawl.crawl}")
    expect_change(page, own_crawl)
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Paused")).to_be_visible()


def test_below_a_path_of_another_app_numbers_change_and_keys_lead_everywhere(open_page, store, own_crawl):
    dashboard = app(store.url)

    @asynccontextmanager
    async def lifespan(_):
        yield
        await dashboard.close()

    with Serving(Starlette(routes=[Mount("/silkline", app=dashboard)], lifespan=lifespan)) as serving:
        base = f"{serving.address}/silkline"
        page = open_page(f"{base}/?crawl={own_crawl.crawl}")
        expect_change(page, own_crawl)
        page.keyboard.press("t")
        assert [cookie["path"] for cookie in cookies(page)] == ["/silkline"]
        for key, path in (("c", "/crawls"), ("t", "/tasks"), ("w", "/workers"), ("o", "/")):
            page.keyboard.press("g")
            page.keyboard.press(key)
            expect(page).to_have_url(re.compile(f"^{re.escape(base + path)}([?]|$)"))
        page.keyboard.press("/")
        page.keyboard.type("https://c.example/7")
        page.keyboard.press("Enter")
        expect(page.locator(".sentence")).to_contain_text("ready")
        page.close()


def test_search_with_the_keyboard_explains(open_page, open_dashboard):
    page = open_page(open_dashboard.address)
    page.keyboard.press("/")
    page.keyboard.type("https://paused.example/page/3")
    page.keyboard.press("Enter")
    expect(page.locator(".sentence")).to_contain_text("The host is paused (by jonas@ops")


def test_keys_lead_everywhere(open_page, open_dashboard):
    page = open_page(open_dashboard.address)
    for key, title in (("c", "Crawls"), ("s", "Redis"), ("h", "Hosts")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_contain_text(title)
    page.keyboard.press("j")
    page.keyboard.press("j")
    name = page.locator("tr.here a").first.inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(name)
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()


def test_revive_all_that_match_a_filter(signed_in, own_crawl):
    page = signed_in
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_label("Crawl", exact=True).select_option(own_crawl.crawl)
    expect(page.locator("h1")).to_contain_text(own_crawl.crawl)
    page.get_by_role("link", name="HTTP 503").click()
    page.get_by_role("link", name="Revive all matching this filter…").click()
    expect(page.locator("h1")).to_contain_text("Revive 8 dead letters?")
    assert own_crawl.admin.stats().dead == 16
    page.get_by_role("button", name="Revive 8 dead letters").click()
    expect(page.get_by_role("status")).to_have_text("Dead letters revived: 8")
    assert own_crawl.admin.stats().dead == 8


def test_nothing_hostile_runs_and_no_page_is_wider_than_the_screen(open_page, open_dashboard, hostile):
    """What the policy refuses would be complained about, and `open_page` looks after that."""
    page = open_page(open_dashboard.address)
    wide = []
    for path in PATHS:
        page.goto(open_dashboard.address + path)
        for summary in page.locator("details:not([open]) > summary").all()[:3]:
            summary.click()
        for width in (390, 700, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append((path, width))
    assert page.evaluate("typeof pwned") == "undefined"
    assert wide == []


def test_tasks_with_every_column_fit(open_page, open_dashboard, own_crawl):
    cron = {"rate": 12.5, "schedule": "cron 0 9 * * mon-fri Europe/Berlin", "next": 1.8e9}
    own_crawl.internal.join("w-1", info={"tasks": {"send_newsletter": cron}})
    own_crawl.admin.set_host("send_newsletter", delay=0.0002)
    own_crawl.enqueue([Request(f"https://send_newsletter/{n}", handler="send_newsletter") for n in range(1200)])
    page = open_page(f"{open_dashboard.address}/tasks?crawl={own_crawl.crawl}")
    expect(page.get_by_role("row").filter(has_text="send_newsletter")).to_contain_text("1,200")
    for width in (390, 641, 700, 840, 1060, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width


WORKS = ProxyReport("http://good.example:8080", "worked", counts=ProxyCounts(980, 20, 49, 1200 * 980))
FAILS = ProxyReport(
    "socks5://" + "long-name." * 6 + "example:1080#2", "failed", "it wants another user or password (status 407)"
)


def share(crawl, *reports):
    """Report as a worker does."""
    crawl.internal.share_proxies("w-1", 0, (7200.0, 7200.0), reports)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_health_of_proxies_is_a_table_that_fits_and_changes_by_itself(open_page, open_dashboard, own_crawl, width):
    page = open_page(
        f"{open_dashboard.address}/proxies?crawl={own_crawl.crawl}", viewport={"width": width, "height": 844}
    )
    expect(page.get_by_role("heading", name="No proxies")).to_be_visible()
    share(own_crawl, WORKS, FAILS)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("long-name.example:1080#2")
    for told in ("resting", "it wants another user or password (status 407)"):
        expect(rows.first.get_by_text(told)).to_be_visible()
    for told in ("ready", "98%", "1.2 s"):
        expect(rows.last.get_by_text(told, exact=True)).to_be_visible()
    expect(page.locator(".lede")).to_contain_text("1 of 2 proxies ready, 1 resting, 98%")
    share(own_crawl, FAILS._replace(event="worked"))
    expect(page.locator(".lede")).to_contain_text("2 of 2 proxies ready, 0 resting")
    for narrow in (width, 700 if width == 1280 else 390):
        page.set_viewport_size({"width": narrow, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == narrow


@pytest.mark.parametrize("width", [1280, 390])
def test_what_each_handler_did_is_a_table_that_fits(open_page, open_dashboard, width):
    page = open_page(f"{open_dashboard.address}/crawls/books", viewport={"width": width, "height": 844})
    row = page.get_by_role("row").filter(has_text="product")
    for told in ("28,000", "18 ms", "2.27 s"):
        expect(row.get_by_text(told)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_answers_of_a_host_are_a_bar_and_words_at_every_width(open_page, open_dashboard):
    page = open_page(f"{open_dashboard.address}/hosts?crawl=books")
    row = page.get_by_role("row").filter(has_text="library.example")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        expect(row.get_by_text("60 % 2xx · 2 % 3xx · 30 % 4xx · 6 % 5xx · 2 % failed")).to_be_visible()
        bar = row.locator(".mix svg")
        assert bar.get_attribute("aria-hidden") == "true", "the words are read, not the bar"
        parts = [rect.bounding_box() for rect in bar.locator("rect").all()]
        whole = bar.bounding_box()["width"]
        assert whole > 80
        assert [round(100 * part["width"] / whole) for part in parts] == [60, 2, 30, 6, 2]
        colors = {rect.evaluate("one => getComputedStyle(one).fill") for rect in bar.locator("rect").all()}
        assert len(colors) == 5
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Sort by").select_option("trouble")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("sort=trouble"))
    expect(page.locator("tbody tr").first).to_contain_text("library.example")


def test_new_answers_show_up_by_themselves(open_page, open_dashboard, own_crawl):
    page = open_page(f"{open_dashboard.address}/host?crawl={own_crawl.crawl}&host=a.example")
    expect(page.locator("#host")).to_contain_text("None yet.")
    own_crawl.internal.add_answers({"a.example": StatusCounts(status_2xx=3, status_4xx=1, last=404)})
    expect(page.locator("#host .legend")).to_contain_text("4xx 25%")


def test_on_a_phone_the_menu_opens(open_page, open_dashboard):
    page = open_page(open_dashboard.address, viewport={"width": 390, "height": 844}, has_touch=True)
    link = page.get_by_role("link", name="Hosts")
    expect(link).to_be_hidden()
    page.get_by_text("Menu", exact=True).click()
    link.click()
    expect(page.locator("h1")).to_contain_text("Hosts")


def test_dark_is_chosen_and_kept(open_page, open_dashboard):
    page = open_page(open_dashboard.address)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.keyboard.press("t")
    dark = page.evaluate(paper)
    assert dark != light
    assert [cookie["value"] for cookie in cookies(page)] == ["dark"]
    page.reload()
    assert page.evaluate(paper) == dark
    assert open_page(open_dashboard.address, color_scheme="dark").evaluate(paper) == dark


def test_without_scripts_all_can_be_read_and_done(open_page, open_dashboard):
    page = open_page(f"{open_dashboard.address}/dead?crawl=books", java_script_enabled=False)
    page.get_by_label("Status").fill("404")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("status=404"))
    expect(page.locator("main")).to_contain_text("HTTP 404")


def test_a_count_that_takes_long_appears_by_itself(open_page, store, own_crawl):
    dashboard = app(store.url)
    dashboard.slow_queries = SlowQueries(patience=0)
    with Serving(dashboard) as serving:
        page = open_page(f"{serving.address}/dead/revive?crawl={own_crawl.crawl}&status=503")
        page.evaluate("document.body.dataset.same = 'yes'")
        expect(page.get_by_role("heading", name="Revive 8 dead letters?")).to_be_visible()
        assert page.evaluate("document.body.dataset.same") == "yes", "it was not loaded anew"


def test_rows_are_selected_and_dropped(signed_in, locked_dashboard, own_crawl):
    page = signed_in
    own_crawl.enqueue([f"https://many.example/{number}" for number in range(70)])
    page.goto(f"{locked_dashboard.address}/requests?crawl={own_crawl.crawl}&state=ready&host=many.example")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("tbody tr")).to_have_count(20)
    page.get_by_label("Select all rows").check()
    expect(page.locator("td.pick input:checked")).to_have_count(20)
    page.get_by_label("Select https://many.example/69", exact=True).uncheck()
    page.get_by_label("Yes, drop the selected requests").check()
    page.get_by_role("button", name="Drop").click()
    expect(page.get_by_role("status")).to_have_text("Requests dropped: 19")
    expect(page.locator("tbody tr")).to_have_count(50)
    assert own_crawl.admin.hosts("many.example")[0].queued == 51


def test_a_selection_is_not_lost_when_the_page_refreshes(signed_in, locked_dashboard, own_crawl):
    page = signed_in
    page.goto(f"{locked_dashboard.address}/requests?crawl={own_crawl.crawl}&state=ready")
    expect(page.locator("tbody tr")).to_have_count(4)
    box = page.locator("td.pick input").first
    box.check()
    page.locator("h1").click()
    with page.expect_response(lambda response: "/requests" in response.url):
        own_crawl.enqueue("https://new.example/")
    page.wait_for_timeout(200)
    expect(box).to_be_checked()
    box.uncheck()
    page.locator("h1").click()
    expect(page.locator("tbody tr")).to_have_count(5)


@pytest.mark.parametrize("width", [1280, 390])
def test_lists_of_requests_fit_the_screen(signed_in, locked_dashboard, own_crawl, width):
    page = signed_in
    page.set_viewport_size({"width": width, "height": 844})
    own_crawl.enqueue([f"https://{'long-name-' * 5}{n}.example/{'deep/' * 30}" for n in range(5)])
    page.goto(f"{locked_dashboard.address}/requests?crawl={own_crawl.crawl}&state=ready")
    expect(page.locator("tbody tr")).to_have_count(9)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box, link = page.locator("td.pick").last.bounding_box(), page.locator("td.lead a").last.bounding_box()
    assert box["x"] + box["width"] <= link["x"] + 20, "the box is beside its row"


def test_times_are_those_of_the_viewer_with_utc_in_the_title(open_page, open_dashboard, store):
    with SyncFrontier.open(store.url, crawl="books", create=False) as frontier:
        letter = frontier.admin.dead(limit=1)[0]
    page = open_page(f"{open_dashboard.address}/dead/letter?crawl=books&id={letter.id}", timezone_id="Asia/Kolkata")
    here = datetime.fromtimestamp(letter.last, timezone(timedelta(hours=5, minutes=30)))
    buried = page.locator("dt:text-is('Buried') + dd time")
    expect(buried).to_have_text(here.strftime("%Y-%m-%d %H:%M:%S"))
    assert buried.get_attribute("title") == datetime.fromtimestamp(letter.last, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def test_charts_have_the_times_of_the_viewer(open_page, open_dashboard, own_crawl):
    page = open_page(f"{open_dashboard.address}/?crawl={own_crawl.crawl}", timezone_id="Asia/Kolkata")
    here, label = timezone(timedelta(hours=5, minutes=30)), page.locator("#chart-1 [data-clock]").first

    def told():
        return datetime.fromtimestamp(int(label.get_attribute("data-clock")), here).strftime("%H:%M")

    assert label.inner_text() == told()
    page.keyboard.press("p")
    page.locator("#chart-1 svg").hover(position={"x": 1, "y": 10})
    expect(page.locator("#tip")).to_have_text(re.compile(f"^{told()} · done"))
    page.keyboard.press("p")
    expect_change(page, own_crawl)
    page.keyboard.press("p")
    assert label.inner_text() == told(), "after a refresh too"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_crawl_in_trouble_has_a_reason_and_a_link_until_it_recovers(open_page, open_dashboard, own_crawl, width):
    name = own_crawl.crawl
    own_crawl.admin.pause()
    own_crawl.internal.append_audit(f"{A_WORKER}the last 50 pages of handler {'long_' * 30} all failed", "pause")
    page = open_page(open_dashboard.address, viewport={"width": width, "height": 844})
    notice = page.locator("p.trouble").filter(has_text=name)
    expect(notice).to_contain_text("paused itself with 4 waiting requests, because the last 50 pages of handler long_")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = notice.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert notice.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert box["y"] < page.locator(".tiles").bounding_box()["y"], "it comes first"
    row = page.get_by_role("row").filter(has_text=name)
    expect(row.get_by_text("paused itself")).to_be_visible()
    notice.get_by_role("link", name="Dead letters").click()
    expect(page).to_have_url(re.compile(f"/dead[?]crawl={name}"))
    page.go_back()
    own_crawl.admin.resume()
    own_crawl.internal.join("w-1")
    page.reload()
    expect(notice).to_have_count(0)


def test_names_of_hosts_are_not_broken_in_the_middle(open_page, open_dashboard, own_crawl):
    name = "shop3.a-long-name-of-a-publisher.example:8088"
    own_crawl.enqueue([f"https://{name}/{number}" for number in range(9)])
    own_crawl.admin.set_host(name, block_until=time.time() + 86_400)
    page = open_page(f"{open_dashboard.address}/hosts?crawl={own_crawl.crawl}")
    link = page.get_by_role("link", name=name)
    assert link.inner_text().replace("\n", "") == name
    assert link.bounding_box()["height"] < 60, "two lines at most"
    headings = page.locator("th").all_inner_texts()
    assert "Blocked" in headings
    assert not {"CPU", "robots.txt", "Responses"} & set(headings), "columns without a value are left out"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
