"""Pages that are visited again, by a real worker from a real site."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from silkline import Crawl, Frontier, Request, Revisit, Worker
from silkline.errors import ConfigError
from silkline.testing import SiteResponse
from silkline.testing.site import redirect
from tests.worker.conftest import OPTIONS, ListSink, until

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
SECOND = "1s"


def take_all(crawl):
    @crawl.handler
    def parse(page):
        yield {"path": page.url.split("/", 3)[3], "visits": page.request.visit.visits if page.request.visit else 0}
        yield page.follow(page.css("a[href]"))

    return crawl


class Visiting:
    def __init__(self, worker, frontier, sink):
        self.worker, self.frontier, self.sink = worker, frontier, sink

    @property
    def counters(self):
        return self.worker.counters

    @property
    def items(self):
        return self.sink.items


@asynccontextmanager
async def visiting(crawl, url):
    """A worker on a crawl, which never ends by itself."""
    sink = ListSink()
    async with await Frontier.open(url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, sinks=[sink], options=OPTIONS, forever=True)
        running = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(60):
                yield Visiting(worker, frontier, sink)
        finally:
            worker.stop()
            await running


def conditional(visit, etag='"1"'):
    """A page that replies 304 if it was not changed."""
    same = visit.headers.get("if-none-match") == etag
    return SiteResponse(
        "" if same else "page", status=304 if same else 200, headers={"ETag": etag, "Last-Modified": DATE}
    )


async def test_a_page_comes_again_and_a_304_costs_no_handler(serve, valkey, new_crawl):
    site = await serve({"/": conditional})
    async with visiting(take_all(new_crawl(site.url, revisit=SECOND)), valkey.url) as run:
        await until(lambda: run.counters.not_modified >= 2)
    assert run.items == [{"path": "", "visits": 0}]
    first, second, *_ = site.visits.to(path="/")
    assert "if-none-match" not in first.headers
    assert (second.headers["if-none-match"], second.headers["if-modified-since"]) == ('"1"', DATE)
    assert second.at - first.at >= 0.9
    assert run.counters.revisited == run.counters.not_modified


async def test_a_change_reaches_the_handler_and_its_new_validators_are_stored(serve, valkey, new_crawl):
    tags = ['"1"', '"1"', '"2"']
    site = await serve({"/": lambda visit: conditional(visit, tags.pop(0) if len(tags) > 1 else tags[0])})
    async with visiting(take_all(new_crawl(site.url, revisit=SECOND)), valkey.url) as run:
        await until(lambda: run.counters.not_modified >= 2)
    assert [item["visits"] for item in run.items] == [0, 1], "how often it was read before"
    assert [visit.headers.get("if-none-match") for visit in site.visits.to(path="/")][:4] == [None, '"1"', '"1"', '"2"']


async def test_without_validators_the_handler_gets_the_page_each_time_unless_it_says_so(serve, valkey, new_crawl):
    site = await serve({"/": "<a href=/skip>same</a>", "/skip": "same"})
    crawl = new_crawl(site.url, revisit=SECOND)

    @crawl.handler
    def each(page):
        yield {"handler": "each"}
        yield page.follow("/skip", skipping)

    @crawl.handler(revisit=Revisit(SECOND, skip_unchanged=True))
    def skipping(page):
        yield {"handler": "skipping"}

    async with visiting(crawl, valkey.url) as run:
        await until(lambda: run.counters.unchanged >= 2)
    names = [item["handler"] for item in run.items]
    assert names.count("skipping") == 1
    assert names.count("each") >= 2


async def test_a_page_that_only_shows_the_time_is_similar(serve, valkey, new_crawl):
    words, visits = " ".join(f"word{number}" for number in range(500)), []
    site = await serve({"/": lambda visit: visits.append(visit) or f"<p>{words} {len(visits)}</p>"})
    crawl = take_all(new_crawl(site.url, revisit=Revisit(SECOND, similar=3, skip_unchanged=True)))
    async with visiting(crawl, valkey.url) as run:
        await until(lambda: run.counters.unchanged >= 1)
    assert len(run.items) == 1


async def test_a_handler_may_opt_out_and_then_its_pages_are_done(serve, valkey, new_crawl):
    site = await serve({"/": "<a href=/once>x</a>", "/once": "x"})
    crawl = new_crawl(site.url, revisit=SECOND)

    @crawl.handler
    def listing(page):
        yield page.follow("/once", once)

    @crawl.handler(revisit=False)
    def once(page):
        yield {"once": page.url}

    async with visiting(crawl, valkey.url) as run:
        await until(lambda: len(site.visits.to(path="/")) >= 3)
    assert len(site.visits.to(path="/once")) == 1
    assert len(run.items) == 1


async def test_a_redirect_is_followed_again_and_where_it_leads_now_is_found(serve, valkey, new_crawl):
    site = await serve({"/latest": redirect("/1"), "/1": "one", "/2": "two"})
    async with visiting(take_all(new_crawl(site.at("/latest"), revisit=SECOND)), valkey.url) as run:
        await until(lambda: run.items)
        site.routes["/latest"] = redirect("/2")
        await until(lambda: any(item["path"] == "2" for item in run.items))
        found = await run.frontier.admin.explain(site.at("/latest"))
    assert found.lease is None or found.lease.request.visit.changes == 1


async def test_a_page_that_fails_comes_again_later_each_time_and_is_buried_after_three_visits(serve, valkey, new_crawl):
    site = await serve({"/": "here"})
    async with visiting(take_all(new_crawl(site.url, revisit=SECOND)), valkey.url) as run:
        await until(lambda: run.items)
        site.routes["/"] = 410
        await until(lambda: run.counters.buried)
        [letter] = await run.frontier.admin.dead()
        stats = await run.frontier.admin.stats()
    assert (letter.reason, letter.request.visit.failures) == ("status 410", 2)
    assert (stats.delayed, stats.dead) == (0, 1)
    *_, one, two, three = site.visits.to(path="/")
    assert two.at - one.at > 1.5
    assert three.at - two.at > 3.5


async def test_a_page_that_is_back_starts_again_with_its_interval(serve, valkey, new_crawl):
    site = await serve({"/": "here"})
    async with visiting(take_all(new_crawl(site.url, revisit=SECOND)), valkey.url) as run:
        await until(lambda: run.items)
        site.routes["/"] = 404
        await until(lambda: run.counters.statuses[404])
        site.routes["/"] = "back"
        await until(lambda: len(run.items) > 2)
        assert run.items[-1]["visits"] >= 2
        assert not await run.frontier.admin.dead()


async def test_a_page_that_was_never_there_is_buried_at_once(serve, run, new_crawl):
    site = await serve({})
    done = await run(take_all(new_crawl(site.url, revisit=SECOND)))
    assert [letter.reason for letter in done.dead] == ["status 404"]


async def test_what_failed_in_the_handler_is_a_dead_letter_whose_next_attempt_reads_the_change(
    serve, valkey, new_crawl
):
    site = await serve({"/": lambda visit: conditional(visit, state["etag"])})
    state, crawl = {"etag": '"1"', "broken": False}, new_crawl(site.url, revisit=SECOND)

    @crawl.handler
    def parse(page):
        if state["broken"]:
            raise ValueError("not as it was")
        yield {"etag": page.headers["etag"]}

    async with visiting(crawl, valkey.url) as run:
        await until(lambda: run.items)
        state.update(etag='"2"', broken=True)
        await until(lambda: run.counters.buried)
        state["broken"] = False
        await run.frontier.admin.revive()
        await until(lambda: len(run.items) == 2)
    assert run.items[1] == {"etag": '"2"'}


async def test_a_form_is_sent_again_only_if_its_handler_says_so(serve, valkey, new_crawl):
    form = "<form method=post action={}><input name=a value=1></form>"
    site = await serve({"/": form.format("/order"), "/search": form.format("/find"), "/order": "ok", "/find": "found"})
    crawl = new_crawl([site.url, site.at("/search")], revisit=SECOND)

    @crawl.handler
    def forms(page):
        yield page.form("form").submit(found if page.url.endswith("/search") else ordered)

    @crawl.handler
    def ordered(page):
        yield {"url": page.url}

    @crawl.handler(revisit=SECOND)
    def found(page):
        yield {"url": page.url}

    async with visiting(crawl, valkey.url):
        await until(lambda: len(site.visits.to(path="/find")) >= 3 and len(site.visits.to(path="/")) >= 3)
    assert len(site.visits.to(path="/order")) == 1


async def test_requests_that_bypass_the_filter_do_not_multiply(serve, run, new_crawl):
    site = await serve({"/": "x"})
    done = await run(take_all(new_crawl([Request(site.url, dont_filter=True)] * 2, revisit=SECOND)))
    assert len(done.items) == 2
    assert done.stats.delayed == 0


async def test_a_request_that_expires_before_its_next_visit_has_none(serve, run, new_crawl):
    site = await serve({"/": "x"})
    done = await run(take_all(new_crawl(Request(site.url, expires=time.time() + 60), revisit="1h")))
    assert (len(done.items), done.stats.delayed, done.stats.dead) == (1, 0, 0)


async def test_the_headers_of_the_request_take_precedence(serve, valkey, new_crawl):
    site = await serve({"/": conditional})
    start = Request(site.url, headers={"if-none-match": '"mine"'})
    async with visiting(take_all(new_crawl(start, revisit=SECOND)), valkey.url):
        await until(lambda: len(site.visits.to(path="/")) >= 2)
    assert {visit.headers["if-none-match"] for visit in site.visits.to(path="/")} == {'"mine"'}


def test_a_wrong_revisit_of_a_crawl_or_a_handler_is_refused():
    with pytest.raises(ConfigError, match=r"every of a revisit must be an interval .* got 'often'"):
        Crawl("books", revisit="often")
    with pytest.raises(ConfigError, match="revisit must be an interval"):
        Crawl("books").handler(revisit=True)(print)
