"""Handlers of every kind, what they yield and how they steer."""

import asyncio
import dataclasses

import attrs
import msgspec
import pydantic
import pytest

from silkline import Crawl, Drop, Request, RetryLater
from silkline.core.errors import ConfigError


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
    assert (done.tally.pages, done.tally.items, done.stats.dead) == (5, 3, 0)


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
    assert (done.items, done.stats.done, done.stats.dead, done.tally.dropped) == ([], 1, 0, 1)
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
    assert done.tally.retried == 2


async def test_an_error_in_a_handler_is_tried_again_then_buried_with_its_traceback(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01])

    @crawl.handler
    def parse(page):
        yield {"n": 1}
        raise ZeroDivisionError("by nought")

    done = await run(crawl)
    assert done.items == []
    (letter,) = done.dead
    assert letter.reason == "gave up after 2 attempts: handler parse: ZeroDivisionError: by nought"
    detail = letter.history[-1].detail
    assert "in parse" in detail
    assert 'raise ZeroDivisionError("by nought")' in detail
    assert "silkline/worker" not in detail
    assert done.tally.errors["ZeroDivisionError"] == 2


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
        (_mute, "Mute: (it cannot say what)"),
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
    assert letter.reason == f"gave up after 2 attempts: {place}: {told}"


async def test_an_item_that_cannot_be_stored_names_its_field(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01])

    @crawl.handler
    def parse(page):
        return {"fine": 1, "bad": {"worse": object()}}

    done = await run(crawl)
    assert "bad.worse" in done.dead[0].reason


async def test_nonsense_from_a_handler_is_told(serve, run, new_crawl):
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


async def test_a_request_names_its_handler_and_nothing_else(serve, run, new_crawl):
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

    done = await run(crawl)
    assert done.items == [{"by": "second"}]
    assert sorted(letter.reason for letter in done.dead) == [
        "no handler is named '__init__' in the crawl's file",
        "no handler is named 'os.system' in the crawl's file",
    ]
    assert lambda_free


def _first(page):
    yield {"by": "first"}


async def test_what_follow_takes(serve, run, new_crawl):
    site = await serve(
        {
            "/": "<base href='/deep/'><a id=e href='e'>e</a><img src=/i.html>",
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
        with pytest.raises(ConfigError, match="no handler of this crawl"):
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
    assert done.tally.skipped == {"another site": 1, "file type": 1}
    assert done.stats.done == 2


def test_a_crawl_refuses_nonsense_at_once():
    with pytest.raises(ConfigError, match="has no handler"):
        Crawl("x", "https://a.example").check_ready()
    with pytest.raises(ConfigError, match="politeness must be a Politeness"):
        Crawl("x", politeness=3)
    with pytest.raises(ConfigError, match="the crawl 'x' cannot start at 'nonsense': not an absolute URL"):
        Crawl("x", "nonsense")
    with pytest.raises(ConfigError, match="unknown setting colour"):
        Crawl("x", colour="red")
    crawl = Crawl("x")
    crawl.handler(plain)
    with pytest.raises(ConfigError, match="two handlers named"):
        crawl.handler(name="plain")(generator)
    with pytest.raises(ConfigError, match="function with a name"):
        crawl.handler(lambda page: None)
