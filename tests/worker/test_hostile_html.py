"""HTML on which a parser takes seconds and gigabytes: it ends as one page with a reason, and holds up nobody."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from selectolax.lexbor import LexborHTMLParser

from silkline.core.request import Request
from silkline.core.scope import Scope
from silkline.errors import HostileHtml
from silkline.fetch.fetcher import Headers, Response
from silkline.testing import SiteProcess, SiteResponse
from silkline.testing.handlers import AnyHandlers
from silkline.worker.crawl.page import Links, Page
from silkline.worker.parsing import Parser, Sandbox, check_now, is_small
from tests.hostile_site.costly import costly_pages, regular_page
from tests.hostile_site.pages import HOSTILE_SITE

HOSTILE = sorted(path for path in costly_pages() if "links" not in path and "large" not in path)
SOME = ["/costly/attributes", "/costly/formatting", "/costly/merged", "/costly/nested"]


@pytest.fixture(scope="module")
def hostile():
    with SiteProcess(HOSTILE_SITE) as site:
        yield site


def page_of(text, content_type="text/html; charset=utf-8"):
    response = Response("http://a.test/", 200, Headers([("Content-Type", content_type)]), text.encode(), 0.0)
    return Page(Request(response.url), response, "parse", AnyHandlers(), Links(Scope()))


@pytest.mark.parametrize("paths", [SOME, pytest.param(HOSTILE, marks=pytest.mark.long)], ids=["some", "all"])
async def test_a_page_that_costs_too_much_to_parse_is_buried_at_once(paths, hostile, run, new_crawl):
    crawl = new_crawl([hostile.at(path) for path in paths])

    @crawl.handler
    def parse(page):
        yield {"elements": len(page.css("*"))}

    done = await run(crawl)
    assert done.items == []
    assert {letter.url: letter.attempts for letter in done.dead} == {hostile.at(path): 1 for path in paths}
    assert all(letter.reason.startswith("hostile_html: parsing its ") for letter in done.dead), done.dead
    assert done.counters.errors["hostile_html"] == len(paths)


async def test_it_is_found_out_as_well_where_only_the_handler_knows_that_it_parses(hostile, run, new_crawl):
    """As plain text it is tried only when somebody asks for its elements; for XPath, another parser is tried."""
    plain = SiteResponse("<div>" * 100_000, headers={"Content-Type": "text/plain"})
    crawl = new_crawl(hostile.at("/costly/attributes"))
    asked = []

    @crawl.handler
    def parse(page):
        asked.append(page.url)
        yield {"n": len(page.xpath("//a"))}

    done = await run(crawl)
    assert [letter.reason.split(":")[0] for letter in done.dead] == ["hostile_html"]
    page = page_of(plain.body, "text/plain")
    with pytest.raises(HostileHtml, match="500,000 bytes"):
        page.css("div")
    with pytest.raises(HostileHtml):
        page_of("<a " + " ".join(f"x{n}" for n in range(40_000)) + ">").xpath("//a")


async def test_a_large_page_is_parsed_while_the_event_loop_continues():
    parser, page = Parser(), page_of(regular_page(5_000_000))
    await parser.prepare(page_of(regular_page(50_000)), "parse", "a.test")  # starts the process
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await parser.prepare(page, "parse", "a.test")
    ticking.cancel()
    parser.close()
    assert ticks > 100  # on the loop it would be a few
    assert len(page.css("h3")) == 5_000_000 // 290


async def test_what_a_handler_does_not_parse_is_not_parsed_for_it():
    parser, large = Parser(), regular_page(200_000)
    first, second, third = page_of(large), page_of(large), page_of(large)
    await parser.prepare(first, "parse", "a.test")
    assert first.tried == {"html"}
    parser.learn(first, "parse")  # the handler had no use for it
    await parser.prepare(second, "parse", "a.test")
    assert second.tried == set()
    second.xpath("//h3")
    parser.learn(second, "parse")
    await parser.prepare(third, "parse", "a.test")
    assert third.tried == {"xpath"}
    parser.close()


@pytest.mark.parametrize("size", [1_000, 11_000])
def test_an_ordinary_small_page_is_parsed_without_a_try(size):
    assert is_small(regular_page(size).encode())


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_an_ordinary_large_page_passes(size):
    check_now(regular_page(size).encode(), "html")
    check_now(regular_page(size).encode(), "xpath")


async def test_one_host_cannot_take_all_processes(hostile):
    """A host has one page tried at a time; the pages of another pass by."""
    sandbox = Sandbox()
    bad = b"<div>" * 400_000
    tries = [asyncio.create_task(sandbox.check(bad, "html", "hostile.test")) for _ in range(6)]
    await asyncio.sleep(0)
    await sandbox.check(regular_page(50_000).encode(), "html", "good.test")
    assert not all(one.done() for one in tries)
    for one in tries:
        one.cancel()
    await asyncio.gather(*tries, return_exceptions=True)
    sandbox.close()


TOKENS = [
    "<b/{}>", "<i/{}>", "<font/a{}>", "<a>", "<nobr>", "<div>", "</div>", "<p>", "</p>", "x", "</b>", "</i>",
    "<table>", "<td>", "</table>", "<ul>", "<li>", "</ul>", "<svg>", "</svg>", "<math>", "<template>", "</template>",
    "<select>", "<option>", "<object>", "</object>", "<button>", "<x{}>", "</z>", "<!--", "-->", "<br/a{}>",
    "<html/a{}>",
]  # fmt: skip


def generated(rng):
    """A page of a few patterns, each repeated often."""
    parts = []
    for _ in range(rng.randint(1, 5)):
        pattern = rng.choices(TOKENS, k=rng.randint(1, 6))
        parts += [token.format(number) for number in range(rng.randint(1, 4_000)) for token in pattern]
    return "".join(parts).encode()


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 100))])
async def test_what_passes_is_parsed_in_linear_time(seed):
    """Generated hostile pages: whatever the sandbox lets through, and whatever is too small for it, costs little."""
    rng = random.Random(seed)
    sandbox = Sandbox()
    for _ in range(4):
        html = generated(rng)
        small = html[: rng.randint(2_000, 30_000)]
        try:
            await sandbox.check(html, "html", "a.test")
        except HostileHtml:
            html = b""
        for page in (html, small if is_small(small) else b""):
            begun = time.thread_time()
            LexborHTMLParser(page, options=1)
            assert time.thread_time() - begun < 1.0 + 1e-6 * len(page)
    sandbox.close()
