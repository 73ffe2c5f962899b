"""The dashboard below a path of another app."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from silkline.dashboard import app
from tests.dashboard.serving import TOKEN, Serving, Visitor


@pytest.fixture
def mounted(store):
    dashboard = app(store.url, token=TOKEN)

    @asynccontextmanager
    async def lifespan(_):
        yield
        await dashboard.close()

    async def home(_):
        return PlainTextResponse("mine")

    outer = Starlette(routes=[Route("/", home), Mount("/ops/silk", app=dashboard)], lifespan=lifespan)
    with Serving(outer) as serving:
        yield serving


def test_every_link_stays_below_the_path(mounted):
    visitor = Visitor(mounted.port, "/ops/silk")
    assert visitor.get("/hosts").headers["location"] == "/ops/silk/sign-in?next=%2Fops%2Fsilk%2Fhosts"
    assert visitor.sign_in(next="/ops/silk/hosts").headers["location"] == "/ops/silk/hosts"
    assert "Path=/ops/silk" in visitor.last_cookie
    for path in ("/", "/crawls", "/crawls/books", "/hosts?crawl=books", "/dead?crawl=books", "/workers", "/nowhere"):
        page = visitor.get(path)
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
        assert links
        assert [link for link in links if not link.startswith("/ops/silk/")] == []
    css = re.search(r'href="/ops/silk(/static/silkline.css[^"]*)"', visitor.get("/").text)[1]
    assert visitor.get(css).status == 200


def test_acts_work_and_lead_back(mounted, own_crawl):
    visitor = Visitor(mounted.port, "/ops/silk")
    visitor.sign_in()
    path = f"/crawls/{own_crawl.crawl}"
    done = visitor.post(f"{path}/pause", {"csrf": visitor.get(path).csrf})
    assert done.headers["location"] == f"/ops/silk{path}?said=paused"
    assert own_crawl.stats().state == "paused"


def test_the_outer_app_is_left_alone(mounted):
    answer = Visitor(mounted.port).get("/")
    assert answer.text == "mine"
    assert "content-security-policy" not in answer.headers
