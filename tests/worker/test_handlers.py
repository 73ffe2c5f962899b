"""Handlers of every kind, what they yield and how they steer."""

import asyncio
import dataclasses

import attrs
import msgspec
import pydantic
import pytest

from silkline import Backoff, Crawl, Drop, Frontier, Request, Retries, RetryLater
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.audit import why_paused_itself
from silkline.testing import SiteResponse
from silkline.worker.process.run import resume_if_it_paused_itself
from tests.worker.conftest import Run, until


async def test_ten_lines_crawl_a_shop(serve, run, new_crawl):
    site = await serve(
        {
            "/": "<h3><a href=/a>A</a></h3><h3><a href=/b>B</a></h3><li class=next><a href='/2'>next</a>",
            "/2": "<h3><a href=/c>C</a></h3>",
            "/*": lambda visit: f"<h1>{visit.path}</h1>",
        }
    )
    crawl = new_crawl(site.url)

    @crawl.handler
    async def listing(page):
        for link in page.css("h3 a"):
            yield page.follow(link, product)
        yield page.follow(page.css_first("li.next a"))

    @crawl.handler
    async def product(page):
        yield {"title": page.css_first("h1").text()}

    done = await run(crawl)
    assert sorted(item["title"] for item in done.items) == ["/a", "/b", "/c"]
    assert done.stats.done == 5
    assert (done.counters.pages, done.counters.items, done.stats.dead) == (5, 3, 0)


def plain(page):
    return {"kind": "function"}


def generator(page):
    yield {"kind": "generator"}


async def coroutine(page):
    return [{"kind": "coroutine"}, None]


async def async_generator(page):
    yield [{"kind": "async generator"}]


@pytest.mark.parametrize("handler", [plain, generator, coroutine, async_generator])
async def test_a_handler_may_be_any_kind_of_function(serve, run, new_crawl, handler):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)
    crawl.handler(handler)
    done = await run(crawl)
    assert done.items == [{"kind": handler.__name__.replace("plain", "function").replace("_", " ")}]


@dataclasses.dataclass
class Data:
    n: int


@attrs.define
class Attrs:
    n: int


class Pydantic(pydantic.BaseModel):
    n: int


class Struct(msgspec.Struct):
    n: int


async def test_items_may_be_of_any_kind(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)

    @crawl.handler
    def each(page):
        yield {"n": 1}
        yield from (Data(2), Attrs(3), Pydantic(n=4), Struct(5))

    done = await run(crawl)
    assert done.items == [{"n": n} for n in range(1, 6)]
    assert len({record.key for record in done.sink.records}) == 5
    assert {record.url for record in done.sink.records} == {site.url}


async def test_a_page_that_is_dropped_leaves_nothing(serve, run, new_crawl):
    site = await serve({"/": "<a href=/x>"})
    crawl = new_crawl(site.url)

    @crawl.handler
    def parse(page):
        yield {"n": 1}
        yield page.follow("/x")
        raise Drop("not this one")

    done = await run(crawl)
    assert (done.items, done.stats.done, done.stats.dead, done.counters.dropped) == ([], 1, 0, 1)
    assert site.visits.paths == ["/robots.txt", "/"]


async def test_a_handler_asks_for_the_page_again(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)
    seen = []

    @crawl.handler
    def parse(page):
        seen.append(page.url)
        if len(seen) < 3:
            raise RetryLater(after=0.01)
        yield {"tries": len(seen)}

    done = await run(crawl)
    assert done.items == [{"tries": 3}]
    assert done.counters.retried == 2


@pytest.mark.parametrize("attempts", [1, 2])
async def test_an_error_in_a_handler_is_buried_with_its_line_and_its_traceback(attempts, serve, run, new_crawl):
    site = await serve({"/": "x"})
    retries = Retries(backoff=Backoff(steps=(0.01, 0.01)), handler_attempts=attempts)
    crawl = new_crawl(site.url, retries=retries)

    @crawl.handler
    def parse(page):
        yield {"n": 1}
        raise ZeroDivisionError("by nought")

    done = await run(crawl)
    assert done.items == []
    (letter,) = done.dead
    line = parse.__code__.co_firstlineno + 3
    assert letter.reason == f"handler parse: ZeroDivisionError (test_handlers.py:{line}): by nought"
    detail = letter.history[-1].detail
    assert "in parse" in detail
    assert 'raise ZeroDivisionError("by nought")' in detail
    assert "silkline/worker" not in detail
    assert done.counters.errors["ZeroDivisionError"] == letter.attempts == attempts


@pytest.mark.parametrize(
    ("own", "attempts"), [({"retries": [0.01, 0]}, 3), ({"retries": []}, 1), ({"max_attempts": 2}, 2)]
)
@pytest.mark.parametrize("fails", ["site", "handler"])
async def test_a_request_has_its_own_retries(own, attempts, fails, serve, run, new_crawl):
    site = await serve({"/": "x", "/own": SiteResponse("x", status=500) if fails == "site" else "x"})
    crawl = new_crawl(site.url, retries=Retries(backoff=Backoff(base=0.001, max_attempts=5)))

    @crawl.handler
    def parse(page):
        if page.url.endswith("/own"):
            raise KeyError("price")
        yield page.follow("/own", **own)

    done = await run(crawl)
    (letter,) = done.dead
    assert letter.attempts == attempts
    assert site.visits.paths.count("/own") == attempts
    assert letter.request.retries == (tuple(own["retries"]) if "retries" in own else None)
    assert letter.request.max_attempts == own.get("max_attempts")


async def test_an_exception_of_a_handler_costs_one_fetch_whatever_the_backoff(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01, 0.01])

    @crawl.handler
    def parse(page):
        raise KeyError("price")

    done = await run(crawl)
    assert ([visit.path for visit in site.visits if visit.path == "/"], done.stats.dead) == (["/"], 1)


async def test_an_element_that_is_missing_fails_the_page_and_is_counted_for_its_handler(serve, run, new_crawl, caplog):
    site = await serve({"/1": "<h1>One</h1><p class=price> 9\n €</p>", "/2": "<h1>Two</h1>"})
    crawl = new_crawl([site.at("/1"), site.at("/2")])

    @crawl.handler
    def product(page):
        yield {"title": page.one("h1").text(), "price": page.text_of(".price")}

    done = await run(crawl)
    assert done.items == [{"title": "One", "price": "9 €"}]
    (letter,) = done.dead
    place = f"test_handlers.py:{product.__code__.co_firstlineno + 2}"
    reason = f"handler product: ElementNotFound ({place}): no element matches '.price' on {site.at('/2')}"
    assert (letter.reason, letter.attempts) == (reason, 1)
    (logged,) = [record for record in caplog.records if record.name == "silkline.worker.failures"]
    assert logged.getMessage().partition("\n")[0] == reason
    counts = done.counters.handlers["product"]
    assert (counts.pages, counts.exceptions) == (1, 1)


async def test_failures_of_one_kind_are_logged_once_with_their_traceback_and_then_counted(
    serve, run, new_crawl, caplog
):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{number}") for number in range(40)])

    @crawl.handler
    def parse(page):
        if page.url.endswith("7"):
            raise LookupError(page.url)
        float(page.url)

    await run(crawl)
    told = [record.getMessage() for record in caplog.records if record.name == "silkline.worker.failures"]
    first = parse.__code__.co_firstlineno
    of_float = [text for text in told if text.startswith(f"handler parse: ValueError (test_handlers.py:{first + 4}): ")]
    assert ["Traceback" in text for text in of_float] == [True, False]
    assert "10 pages have failed with it" in of_float[1]
    (other,) = [text for text in told if text not in of_float]
    assert other.startswith(f"handler parse: LookupError (test_handlers.py:{first + 3}): http")


async def test_messages_that_differ_from_page_to_page_are_one_group(serve, run, new_crawl, valkey):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{number}") for number in range(20)])

    @crawl.handler
    def parse(page):
        float(page.url)

    done = await run(crawl)
    group = f"handler parse: ValueError (test_handlers.py:{parse.__code__.co_firstlineno + 2})"
    async with await Frontier.open(valkey.url, crawl=crawl.name) as frontier:
        assert await frontier.admin.dead_groups() == [(group, 20)]
        examples = await frontier.admin.dead_examples([group, "another"])
    assert list(examples) == [group]
    assert examples[group] in done.dead


async def test_a_handler_that_fails_on_every_page_pauses_the_crawl(serve, run, new_crawl, valkey, caplog):
    site = await serve({"/*": "x"})
    retries = Retries(pause_after=10)
    crawl = new_crawl([site.at(f"/{number}") for number in range(500)], retries=retries)

    @crawl.handler
    def parse(page):
        page.css_first("h1").text()

    done = await run(crawl)
    assert done.stats.state == "paused"
    assert 10 <= done.stats.dead < 100
    assert done.stats.ready + done.stats.delayed + done.stats.dead == 500  # some wait for robots.txt
    line = parse.__code__.co_firstlineno + 2
    why = f"the last 10 pages of handler parse all failed with AttributeError (test_handlers.py:{line})"
    assert any(record.getMessage().startswith(why) for record in caplog.records)
    async with await Frontier.open(valkey.url, crawl=crawl.name) as frontier:
        assert why_paused_itself(await frontier.admin.audit()) == why
        assert await resume_if_it_paused_itself(frontier, "me") == why
        assert await resume_if_it_paused_itself(frontier, "me") is None
        assert (await frontier.admin.stats()).state == "open"


@pytest.mark.parametrize("pause_after", [10, None])
async def test_a_page_that_succeeds_ends_a_streak_and_none_pauses_for_nothing(pause_after, serve, run, new_crawl):
    site = await serve({"/*": "x"})
    retries = Retries(pause_after=pause_after)
    crawl = new_crawl([site.at(f"/{number}") for number in range(60)], retries=retries)
    seen = []

    @crawl.handler
    def parse(page):
        seen.append(page.url)
        if pause_after is None or len(seen) % 10:
            page.css_first("h1").text()

    done = await run(crawl)
    assert (done.stats.state, len(seen)) == ("open", 60)


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (lambda page, category, /: None, "category"),
        (lambda: None, "too many positional arguments"),
        (lambda *, page: None, "page"),
    ],
)
def test_a_handler_that_cannot_be_called_with_a_page_is_refused_at_once(handler, words):
    with pytest.raises(ConfigError, match="cannot be called with a page and further arguments by name") as refusal:
        Crawl("books").handler(name="parse")(handler)
    assert words in str(refusal.value)
    assert f"(test_handlers.py:{handler.__code__.co_firstlineno})" in str(refusal.value)


async def _price(page):
    return {"price": 3}


async def _prices(page):
    yield {"price": 3}


@pytest.mark.parametrize(
    ("forgetful", "words"),
    [
        (lambda page: [_price(page)], "write await before _price(…)"),
        (lambda page: [_prices(page)], "write async for … in _prices(…)"),
        (lambda page: _price(page)["price"], "is an await missing?"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine '_price' was never awaited:RuntimeWarning")
async def test_a_forgotten_await_is_reported_as_that(forgetful, words, serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)

    @crawl.handler
    def parse(page):
        yield from forgetful(page)

    (letter,) = (await run(crawl)).dead
    assert words in letter.reason
    assert letter.reason.startswith("handler parse: TypeError (test_handlers.py:")


class Mute(Exception):
    def __str__(self):
        return self.nothing


async def _cancelled():
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


async def _mute():
    raise Mute


@pytest.mark.parametrize(
    ("trap", "told"),
    [
        (_cancelled, "CancelledError: a task that it waited for was cancelled"),
        (_mute, "Mute: (its message cannot be read)"),
    ],
)
@pytest.mark.parametrize("where", ["handler", "middleware"])
async def test_an_odd_error_of_the_users_code_costs_an_attempt_as_any_other(trap, told, where, serve, run, new_crawl):
    """Nobody wants the worker to stop: the page must not be given back for nothing, again and again."""
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/bad"), site.at("/good")], retries=[0.01])

    @crawl.handler
    async def parse(page):
        if where == "handler" and page.url.endswith("bad"):
            await trap()
        yield {"n": 1}

    @crawl.middleware
    async def around(request, call_next):
        if where == "middleware" and request.url.endswith("bad"):
            await trap()
        return await call_next(request)

    done = await run(crawl)
    assert done.items == [{"n": 1}]
    (letter,) = done.dead
    place = "handler parse" if where == "handler" else "fetching"
    assert letter.reason.startswith(f"{place}: {told.partition(':')[0]} (test_handlers.py:")
    assert letter.reason.endswith(told.partition(": ")[2])
    assert letter.attempts == (1 if where == "handler" else 2)


async def test_an_item_that_cannot_be_stored_names_its_field(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01])

    @crawl.handler
    def parse(page):
        return {"fine": 1, "bad": {"worse": object()}}

    done = await run(crawl)
    assert "bad.worse" in done.dead[0].reason


async def test_nonsense_from_a_handler_is_reported(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01])

    @crawl.handler
    def parse(page):
        yield 42

    done = await run(crawl)
    assert "a handler yields items" in done.dead[0].reason


@pytest.mark.parametrize(
    ("nonsense", "word"),
    [
        (lambda page: Request([page.url]), "a URL must be a string, not list"),
        (lambda page: [Request(page.url), Request([page.url])], "a URL must be a string, not list"),
        (lambda page: Request(page.url, priority="high"), "priority must be an integer"),
        (lambda page: page.follow("/x", priority="high"), "priority must be an integer"),
        (lambda page: page.follow(["/x"], meta={1: 2}), "meta must be a dict whose keys are strings"),
    ],
)
async def test_a_request_that_means_nothing_is_its_handlers_fault_and_nobody_elses(
    nonsense, word, serve, run, new_crawl
):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/bad"), site.at("/good")], retries=[0.01])

    @crawl.handler
    def parse(page):
        yield nonsense(page) if page.url.endswith("bad") else {"n": 1}

    done = await run(crawl)
    assert done.items == [{"n": 1}]
    (letter,) = done.dead
    assert word in letter.reason
    assert "Traceback" in letter.history[-1].detail


async def test_a_request_names_its_handler_and_nothing_else(serve, valkey, new_crawl):
    """A name out of the queue is looked up among the handlers, never imported."""
    site = await serve({"/*": "x"})
    crawl = new_crawl(
        [
            Request(site.at("/1"), handler="second"),
            Request(site.at("/2"), handler="os.system"),
            Request(site.at("/3"), handler="__init__"),
        ]
    )
    crawl.handler(lambda_free := _first)

    @crawl.handler(name="second")
    def other(page):
        yield {"by": "second"}

    done = Run(crawl, valkey.url)
    working = asyncio.create_task(done.go())
    await until(lambda: done.worker and len(done.worker.unmet_needs.waiting) == 2 and done.items)
    assert done.worker.unmet_needs.waiting == {"handler:__init__": 1, "handler:os.system": 1}
    done.worker.stop()
    await working
    assert done.items == [{"by": "second"}]
    assert (done.stats.done, done.stats.delayed, done.dead) == (1, 2, [])
    assert lambda_free


def _first(page):
    yield {"by": "first"}


async def test_what_follow_takes(serve, run, new_crawl):
    site = await serve(
        {
            "/": "<Base href='/deep/'><a id=e href='e'>e</a><img src=/i.html>",
            "/*": "x",
        }
    )
    crawl = new_crawl(site.url)
    asked = []

    @crawl.handler
    def start(page):
        yield page.follow(page.css_first("#e"), leaf, meta={"by": "element"}, priority=3)
        yield page.follow("href?q=1#fragment", leaf)
        yield page.follow(page.css_first("img"), "leaf")
        yield page.follow(Request("r", meta={"by": "request"}), leaf)
        yield page.follow([page.css_first("#e"), None, "/list"], leaf)
        yield page.follow(None)
        yield page.follow(page.css_first("nothing"))
        for nowhere in ("mailto:a@b.example", "javascript:void(0)", "http://", "tel:1"):
            assert page.follow(nowhere) is None
        assert page.skipped["not a web address"] == 4
        with pytest.raises(ConfigError, match="not a handler of this crawl"):
            page.follow("/x", "nobody")
        with pytest.raises(ConfigError, match="follow takes"):
            page.follow(7)

    @crawl.handler
    def leaf(page):
        asked.append((page.url.removeprefix(site.url), page.meta.get("by"), page.request.priority, page.depth))

    await run(crawl)
    assert sorted(asked, key=str) == [
        ("deep/e", "element", 3, 1),
        ("deep/href?q=1", None, 0, 1),
        ("deep/r", "request", 0, 1),
        ("i.html", None, 0, 1),
        ("list", None, 0, 1),
    ]


async def test_links_out_of_scope_are_counted_not_followed(serve, run, new_crawl):
    site = await serve({"/": "<a href='http://other.example/'>x</a><a href=/f.pdf>y</a><a href=/ok>z</a>", "/ok": ""})
    crawl = new_crawl(site.url)

    @crawl.handler
    def parse(page):
        assert page.links() in ([], ["http://other.example/", site.at("/f.pdf"), site.at("/ok")])
        yield page.follow(page.links())

    done = await run(crawl)
    assert done.counters.skipped == {"another site": 1, "file type": 1}
    assert done.stats.done == 2


def test_a_crawl_refuses_nonsense_at_once():
    with pytest.raises(ConfigError, match="has no handler"):
        Crawl("x", "https://a.example").check_ready()
    with pytest.raises(ConfigError, match="politeness must be a Politeness"):
        Crawl("x", politeness=3)
    with pytest.raises(ConfigError, match="the crawl 'x' cannot start at 'nonsense': not an absolute URL"):
        Crawl("x", "nonsense")
    with pytest.raises(ConfigError, match="unknown setting color"):
        Crawl("x", color="red")
    crawl = Crawl("x")
    crawl.handler(plain)
    with pytest.raises(ConfigError, match="two handlers are named"):
        crawl.handler(name="plain")(generator)
    with pytest.raises(ConfigError, match="function with a name"):
        crawl.handler(lambda page: None)


async def test_what_workers_do_is_counted_by_handler(serve, new_crawl, run):
    """Listing pages, products that fail, and a link that is dead, each with its own handler."""

    links = "<a href=/p/0></a><a href=/p/1></a><a href=/p/2></a><a href=/gone></a>"
    site = await serve({"/": links, "/p/*": "<h1>x</h1>", "/gone": SiteResponse(status=404)})
    crawl = new_crawl([site.at("/")], retries=Retries(backoff=Backoff(base=0.01, cap=0.01), handler_attempts=2))

    @crawl.handler
    async def listing(page):
        await asyncio.sleep(0.06)
        yield page.follow(page.css("a"), product)

    @crawl.handler
    def product(page):
        if page.url.endswith("/2"):
            raise KeyError("price")
        return [{"url": page.url}, {"more": page.url}]

    ended = await run(crawl)
    async with await Frontier.open(run.url, crawl=crawl.name, create=False) as frontier:
        found = await frontier.admin.handlers()
    assert list(found) == ["product", "listing"]
    assert {name: one.numbers for name, one in found.items()} == {
        name: one.numbers for name, one in ended.counters.handlers.items()
    }
    first, second = found["listing"], found["product"]
    assert (first.pages, first.items, first.failures, first.dead, first.timing.count) == (1, 0, 0, 0, 1)
    assert 0.05 < first.p50 <= first.p95
    assert (second.pages, second.items, second.timing.count) == (2, 4, 4)
    assert (second.failures, second.exceptions, second.dead) == (3, 2, 2)  # twice the exception, once the 404
    assert second.dead == ended.stats.dead
    assert sum(one.failures for one in found.values()) == ended.counters.retried + ended.counters.buried
