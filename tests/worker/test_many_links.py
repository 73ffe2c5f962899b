"""Pages with more links than anybody can want: the cap ends the work, and what is remembered of them is bounded."""

from __future__ import annotations

import itertools
import time

import pytest

from silkline.core.request import Request
from silkline.core.scope import Scope
from silkline.core.url import parse
from silkline.fetch.fetcher import Headers, Response
from silkline.testing.handlers import AnyHandlers
from silkline.worker.crawl.page import MOST_REMEMBERED, Links, Page


def page_of(text, links, url="http://a.test/"):
    response = Response(url, 200, Headers([("Content-Type", "text/html; charset=utf-8")]), text.encode(), 0.0)
    return Page(Request(url), response, "parse", AnyHandlers(), links)


def remembered(links):
    return len(links._memory) + sum(map(len, links._memory.values()))


@pytest.mark.parametrize("href", ["/page/{}", "http://other.example/{}", "mailto:{}"])
def test_the_cap_on_links_ends_the_work(href):
    """Whether they are followed or not: of a million no more are looked at than the cap says."""
    numbers = itertools.count()
    links = Links(Scope(max_links=100))
    page = page_of("x", links)
    followed = page.follow(href.format(number) for number in itertools.islice(numbers, 1_000_000))
    assert len(followed) == (100 if href.startswith("/") else 0)
    assert next(numbers) <= 402
    assert page.skipped["too many links"] == 1
    assert page.follow("/one-more") is None
    assert remembered(links) <= 404


def test_links_that_are_left_out_are_counted():
    page = page_of("".join(f"<a href=/{n}>x</a>" for n in range(1_000)), Links(Scope(max_links=10)))
    assert len(page.follow(page.css("a"))) == 10
    assert page.skipped == {"too many links": 990}


def test_the_links_of_a_page_are_read_up_to_the_cap():
    page = page_of("".join(f"<a href=/{n}>x</a>" for n in range(1_000)), Links(Scope(max_links=10)))
    assert page.links() == [f"http://a.test/{n}" for n in range(40)]
    assert page.skipped == {"too many links": 960}


def test_pages_in_ever_new_folders_do_not_fill_the_memory():
    links = Links(Scope())
    for number in range(3 * MOST_REMEMBERED):
        page_of("x", links, f"http://a.test/{number}/").follow(["/home", "/about"])
    assert remembered(links) <= MOST_REMEMBERED + 4


def test_long_links_are_not_remembered():
    links = Links(Scope(max_url=100_000))
    page = page_of("x", links)
    assert page.follow("/" + "x" * 3_000).url.endswith("x")
    assert remembered(links) == 2  # where there is room for others


def test_a_long_fragment_does_not_make_a_link_too_long():
    page = page_of("x", Links(Scope()))
    assert page.follow("/page#" + "x" * 20_000).url == "http://a.test/page"
    assert page.follow("/" + "x" * 20_000) is None
    assert page.skipped == {"too long": 1}


def test_the_check_against_traps_takes_linear_time():
    """Eight times as many segments may take eight times as long, not sixty-four."""
    scope, home = Scope(max_url=10_000), parse("http://a.test/")

    def cost(segments):
        link = parse("http://a.test/" + "/".join(f"{number:x}" for number in range(segments)))
        best = 1.0
        for _ in range(5):
            begun = time.thread_time()
            for _ in range(20):
                assert scope.objection(link, home, 1) is None
            best = min(best, time.thread_time() - begun)
        return best

    assert cost(1_600) < 30 * cost(200)


def test_a_trap_is_still_seen():
    scope, home = Scope(), parse("http://a.test/")
    assert scope.objection(parse("http://a.test/a/b/a/b/a/b/a"), home, 1) == "trap"
    assert scope.objection(parse("http://a.test/a/b/a/b/a/b"), home, 1) is None
