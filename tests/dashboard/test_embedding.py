"""The dashboard below a path of another app: one of Starlette's, and one of FastAPI's."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from silkline.core.lease import State
from silkline.dashboard import app
from tests.dashboard.serving import TOKEN, Reader, Serving, Visitor, patient

BASE = "/silkline"
PATHS = (
    "/", "/?range=day", "/crawls", "/crawls/books", "/crawls/books/cancel", "/crawls/books/remove", "/hosts?crawl=books",
    "/host?crawl=books&host=shop.example", "/requests", "/requests?crawl=books&state=ready", "/requests?url=https://shop.example/page/8", "/dead?crawl=books",
    "/dead/revive?crawl=books", "/dead/purge?crawl=books", "/workers", "/redis", "/audit", "/nowhere",
    "/dead?crawl=books&status=many",
)  # fmt: skip


def of_starlette(dashboard, lifespan):
    async def home(_):
        return PlainTextResponse("mine")

    return Starlette(routes=[Route("/", home), Mount(BASE, app=dashboard)], lifespan=lifespan)


def of_fastapi(dashboard, lifespan):
    mine = FastAPI(lifespan=lifespan)

    @mine.get("/", response_class=PlainTextResponse)
    async def home():
        return "mine"

    mine.mount(BASE, dashboard)
    return mine


@pytest.fixture(scope="module", params=[of_starlette, of_fastapi])
def mounted(request, store):
    dashboard = patient(app(store.url, token=TOKEN))

    @asynccontextmanager
    async def lifespan(_):
        yield
        await dashboard.close()

    with Serving(request.param(dashboard, lifespan)) as serving:
        yield serving


@pytest.fixture
def visitor(mounted):
    somebody = Visitor(mounted.port, BASE)
    assert somebody.sign_in().status == 303
    return somebody


def addresses(page):
    """Wherever a page leads to, or sends something; but for places within it, and pages that were crawled."""
    reader = Reader()
    reader.feed(page.text)
    found = [value for _, name, value in reader.attributes if name in ("href", "src", "action", "data-base")]
    return [address for address in found if not re.match(r"#|https://\w+\.example/", address)]


def led_to(answer):
    """Where an answer leads, below the path."""
    location = answer.headers["location"]
    assert location.startswith(f"{BASE}/"), location
    return location.removeprefix(BASE)


def test_signing_in_stays_below_the_path(mounted):
    stranger = Visitor(mounted.port, BASE)
    assert stranger.get("/hosts").headers["location"] == f"{BASE}/sign-in?next=%2Fsilkline%2Fhosts"
    assert f'action="{BASE}/sign-in"' in stranger.get("/sign-in").text
    assert stranger.sign_in(next=f"{BASE}/hosts").headers["location"] == f"{BASE}/hosts"
    assert f"Path={BASE};" in f"{stranger.last_cookie};"
    assert led_to(stranger.post("/sign-out", {"csrf": stranger.get("/").csrf})) == "/"
    assert f"Path={BASE};" in f"{stranger.last_cookie};"


@pytest.mark.parametrize("path", PATHS)
def test_every_address_on_every_page_stays_below_the_path(visitor, path):
    found = addresses(visitor.get(path))
    assert len(found) > 10
    assert [address for address in found if not f"{address}/".startswith(f"{BASE}/")] == []


@pytest.mark.parametrize(
    "path", ["/", "/crawls", "/crawls/books", "/hosts?crawl=books", "/workers", "/dead?crawl=books"]
)
def test_what_a_page_refreshes_stays_below_the_path_too(visitor, path):
    live = visitor.get(path, Silkline_Live="1")
    assert live.status == 200
    assert "data-live" in live.text
    assert "<nav" not in live.text
    assert [address for address in addresses(live) if not address.startswith(f"{BASE}/")] == []


def test_static_files_and_what_machines_ask(visitor, mounted):
    static = [address for address in addresses(visitor.get("/")) if "/static/" in address]
    assert {address.partition("?")[0].rpartition("/")[2] for address in static} == {
        "icon.svg", "silkline.css", "silkline.js",
    }  # fmt: skip
    outside = Visitor(mounted.port)
    for address in static:
        answer = outside.get(address)
        assert (answer.status, "max-age" in answer.headers["cache-control"]) == (200, True)
    assert outside.get(f"{BASE}/healthz").text == "ok\n"
    assert outside.get(f"{BASE}/readyz").text == "ok\n"
    assert outside.get(f"{BASE}/metrics", Accept="*/*").status == 401
    assert outside.get(f"{BASE}/metrics", Accept="*/*", Authorization=f"Bearer {TOKEN}").status == 200


def test_without_the_last_slash_one_is_led_in(mounted):
    assert Visitor(mounted.port).get(BASE).headers["location"].endswith(f"{BASE}/")


def test_forms_work_and_lead_back(visitor, own_crawl):
    name = own_crawl.crawl
    csrf = {"csrf": visitor.get(f"/crawls/{name}").csrf}
    assert led_to(visitor.post(f"/crawls/{name}/pause", csrf)) == f"/crawls/{name}?said=paused"
    assert own_crawl.admin.stats().state == "paused"
    led_to(visitor.post(f"/crawls/{name}/resume", csrf))
    host = {**csrf, "crawl": name, "host": "a.example"}
    assert led_to(visitor.post("/host/pause", host)) == f"/host?crawl={name}&host=a.example&said=paused"
    asked = visitor.get(f"/dead/revive?crawl={name}&status=503")
    [action] = re.findall(r'action="([^"]*/dead/revive)"', asked.text)
    assert action == f"{BASE}/dead/revive"
    done = visitor.post("/dead/revive", {**csrf, "crawl": name, "status": "503"})
    assert "Dead letters revived: 8" in visitor.get(led_to(done)).words
    url = {**csrf, "crawl": name, "url": "https://a.example/new"}
    assert "Enqueued." in visitor.get(led_to(visitor.post("/requests/add", url))).words
    assert own_crawl.admin.explain("https://a.example/new").state is State.READY
    removed = visitor.post(f"/crawls/{name}/remove", {**csrf, "name": name})
    assert led_to(removed) == "/crawls?said=removed"


def test_the_outer_app_is_left_alone(mounted):
    answer = Visitor(mounted.port).get("/")
    assert answer.text == "mine"
    assert "content-security-policy" not in answer.headers
    assert Visitor(mounted.port).get("/crawls").status == 404
