"""Arguments of handlers, and bodies of followed requests."""

from __future__ import annotations

import datetime as dt

import pytest

from silkline import Crawl, Request
from silkline.errors import ConfigError, RequestError
from silkline.testing import page, redirect, run_handler

SHOP = "https://shop.example/"


def listing(page):
    yield page.follow("/lamp", product, args={"category": "lamps", "place": 3})


def product(page, category, *, place=0):
    yield {"title": page.text_of("h1"), "category": category, "place": place}


def start(page):
    yield page.follow("/lamp", product)


async def test_a_handler_gets_its_arguments_also_after_a_redirect(serve, run, new_crawl):
    site = await serve(
        {
            "/": "x",
            "/lamp": redirect("/lamp/1"),
            "/lamp/1": "<h1>Lamp</h1>",
        }
    )
    crawl = new_crawl(site.url)
    crawl.handler(listing)
    crawl.handler(product)
    done = await run(crawl)
    assert done.items == [{"title": "Lamp", "category": "lamps", "place": 3}]


async def test_a_start_request_may_have_arguments(serve, run, new_crawl):
    site = await serve({"/": "<h1>Lamp</h1>"})
    crawl = new_crawl([Request(site.url, args={"category": None})])
    crawl.handler(product)
    assert (await run(crawl)).items == [{"title": "Lamp", "category": None, "place": 0}]


def test_a_start_url_without_the_arguments_of_its_handler_is_refused():
    crawl = Crawl("shop", start=[SHOP])
    crawl.handler(product)
    with pytest.raises(ConfigError, match=r"cannot start at https://shop.example/: .* no arguments .*'category'"):
        crawl.check_ready()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            {"categroy": "lamps"},
            r"product\(page, category, \*, place=0\).*'categroy'.*missing a required argument: 'category'",
        ),
        ({"category": 1, "colour": 2}, "unexpected keyword argument 'colour'"),
        ({"page": 1, "category": 2}, "multiple values for argument 'page'"),
        ({"category": dt.date(2026, 1, 1)}, r"args\['category'\] has a date, but arguments are stored"),
        ({"category": {"a": [{1: 2}]}}, r"args\['category'\] has the key 1"),
        ({1: 2}, "the key 1"),
        (["lamps"], "args must be a dict"),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_passed(args, words):
    crawl = Crawl("shop")
    crawl.handler(listing)
    crawl.handler(product)
    for known in (crawl, None):
        with pytest.raises(RequestError, match=words):
            page(url=SHOP, crawl=known).follow("/lamp", product, args=args)
        with pytest.raises(RequestError, match=words):
            page(url=SHOP, crawl=known).follow([Request(SHOP + "lamp", args=args)], product)


def test_a_link_to_a_handler_that_needs_arguments_needs_them():
    crawl = Crawl("shop")
    crawl.handler(start)
    crawl.handler(product)
    with pytest.raises(RequestError, match="no arguments besides the page"):
        run_handler(start, page(url=SHOP, crawl=crawl))
    with pytest.raises(RequestError, match="no arguments besides the page"):
        run_handler(start, page(url=SHOP))


def test_a_handler_is_tested_with_its_arguments():
    lamp = page("<h1>Lamp</h1>")
    assert run_handler(product, lamp, args={"category": "lamps"}).items[0]["category"] == "lamps"
    assert run_handler(product, lamp).items[0]["category"] == "lamps"
    request = Request(SHOP, args={"category": "chairs"})
    assert run_handler(product, page("<h1>Chair</h1>", url=SHOP, request=request)).items[0]["category"] == "chairs"
    with pytest.raises(RequestError, match="no arguments besides the page"):
        run_handler(product, page("<h1>Lamp</h1>"))
    with pytest.raises(RequestError, match="has a object"):
        run_handler(product, lamp, args={"category": object()})


def test_arguments_nested_without_end_are_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(RequestError, match="nested too deeply"):
        page(url=SHOP).follow("/lamp", product, args={"category": loop})


# ── bodies ──


def followed(**options):
    return page(url=SHOP).follow("/search", "results", **options)


def test_json_becomes_the_body_of_a_post():
    request = followed(json={"query": "lämp", "page": 2})
    assert (request.method, request.body) == ("POST", '{"query":"lämp","page":2}'.encode())
    assert request.headers == {"Content-Type": "application/json"}
    assert followed(json=None).body == b"null"


def test_data_becomes_the_fields_of_a_form():
    request = followed(data={"q": "a lämp & more~*", "n": 5, "tags": ["x", "y"], "none": None, "new": True})
    assert request.body == b"q=a+l%C3%A4mp+%26+more%7E*&n=5&tags=x&tags=y&new=true"
    assert request.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    assert followed(data=[("a", 1), ("b", "two\nlines"), ("a", 2)]).body == b"a=1&b=two%0D%0Alines&a=2"


def test_the_method_and_the_type_may_be_given():
    request = followed(json=[], method="PUT", headers={"content-type": "application/vnd.api+json", "X-A": "b"})
    assert (request.method, request.headers) == ("PUT", {"content-type": "application/vnd.api+json", "X-A": "b"})


def test_a_request_keeps_its_headers_and_its_method():
    given = Request(SHOP + "search", method="PATCH", headers={"X-Token": "t"})
    request = page(url=SHOP).follow(given, "results", json=1)
    assert (request.method, request.body) == ("PATCH", b"1")
    assert request.headers == {"X-Token": "t", "Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"json": object()}, "cannot be written as JSON"),
        ({"json": 1, "data": {}}, "one of json=, data= and body="),
        ({"data": {}, "body": b"x"}, "one of json=, data= and body="),
        ({"data": "a=b"}, "data must be a dict of fields"),
        ({"data": 5}, "data must be a dict of fields"),
        ({"data": ["ab", "abc"]}, "data must be a dict of fields"),
        ({"data": {"a": object()}}, "the field 'a' must be text"),
        ({"data": {1: "a"}}, "the name of a field must be text"),
    ],
)
def test_a_body_that_cannot_be_sent_is_refused(options, words):
    with pytest.raises(RequestError, match=words):
        followed(**options)


async def test_bodies_arrive(serve, run, new_crawl):
    bodies = []

    def search(visit):
        bodies.append((visit.method, visit.headers["content-type"], visit.body))
        return "<p>found"

    site = await serve({"/": "x", "/search": search})
    crawl = new_crawl(site.url)

    @crawl.handler
    def first(page):
        for number in (1, 2):
            yield page.follow("/search", results, json={"page": number}, args={"number": number})
        yield page.follow("/search", results, data={"page": 3}, args={"number": 3})

    @crawl.handler
    def results(page, number):
        yield {"number": number}

    done = await run(crawl)
    assert sorted(item["number"] for item in done.items) == [1, 2, 3]
    assert sorted(bodies) == [
        ("POST", "application/json", b'{"page":1}'),
        ("POST", "application/json", b'{"page":2}'),
        ("POST", "application/x-www-form-urlencoded", b"page=3"),
    ]
