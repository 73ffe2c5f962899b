"""`silkline.testing.page` and `run_handler`: unit tests of handlers."""

import asyncio
from dataclasses import dataclass

import pytest

from silkline import Crawl, Drop, Request, RetryLater, Scope
from silkline.errors import ConfigError, ElementNotFound, InvalidItem, InvalidUrl
from silkline.testing import page, run_handler

HTML = "<h1>Lamp</h1><a href=/chair>Chair</a><a href=https://other.example/>Other</a>"


def plain(page):
    return {"title": page.text_of("h1")}


def generator(page):
    yield {"title": page.text_of("h1")}
    yield page.follow(page.css("a"))


async def coroutine(page):
    await asyncio.sleep(0)
    return [{"title": page.text_of("h1")}]


async def async_generator(page):
    await asyncio.sleep(0)
    yield {"title": page.text_of("h1")}
    yield page.follow("/chair", "plain", meta={"from": page.url}, priority=5)


@pytest.mark.parametrize("handler", [plain, generator, coroutine, async_generator])
def test_a_handler_of_any_kind_runs(handler):
    assert run_handler(handler, page(HTML)).items == [{"title": "Lamp"}]


async def test_an_async_test_may_run_a_handler_too():
    assert run_handler(async_generator, page(HTML)).items == [{"title": "Lamp"}]
    with pytest.raises(ElementNotFound):
        run_handler(coroutine, page("nothing"))


def test_the_links_are_requests_of_the_handler_and_others_are_counted():
    result = run_handler(generator, page(HTML, url="https://shop.example/lamp"))
    assert [(link.url, link.handler, link.depth) for link in result.links] == [
        ("https://shop.example/chair", "generator", 1)
    ]
    assert result.skipped == {"another site": 1}
    (link,) = run_handler(async_generator, page(HTML, url="https://shop.example/lamp")).links
    assert (link.handler, link.meta, link.priority) == ("plain", {"from": "https://shop.example/lamp"}, 5)


def test_a_page_of_a_crawl_has_its_scope_and_the_names_of_its_handlers():
    crawl = Crawl("shop", scope=Scope(stay="anywhere", deny=["chair"]))
    crawl.handler(name="everything")(generator)
    result = run_handler(generator, page(HTML, crawl=crawl))
    assert [(link.url, link.handler) for link in result.links] == [("https://other.example/", "everything")]
    assert result.skipped == {"denied": 1}
    with pytest.raises(ConfigError, match="'plain' is not a handler of this crawl"):
        run_handler(plain, page(HTML, crawl=crawl))


@dataclass
class Lamp:
    watts: object


@pytest.mark.parametrize("error", [Drop("sold out"), RetryLater(3.0), KeyError("price")])
def test_what_a_handler_raises_is_raised(error):
    def raises(page):
        raise error

    with pytest.raises(type(error)) as caught:
        run_handler(raises, page())
    assert caught.value is error


def test_an_item_that_cannot_be_stored_is_an_error():
    assert run_handler(lambda page: Lamp(5), page()).items == [Lamp(5)]
    with pytest.raises(InvalidItem, match="watts"):
        run_handler(lambda page: Lamp(object()), page())


def test_a_page_has_the_response_and_the_request_that_it_is_given():
    json = page(b'{"price": 9}', url="https://api.example/1", status=201, headers={"Content-Type": "application/json"})
    assert (json.json(), json.status, json.url, json.is_html) == ({"price": 9}, 201, "https://api.example/1", False)
    latin = page("<h1>café</h1>".encode("latin-1"), headers={"content-type": "text/html; charset=latin-1"})
    assert latin.text_of("h1") == "café"
    deep = page(request=Request("https://shop.example/", depth=3, meta={"category": "lamps"}))
    assert (deep.depth, deep.meta) == (3, {"category": "lamps"})


def test_a_page_needs_a_url_of_the_web():
    with pytest.raises(InvalidUrl):
        page(url="lamp")


def test_a_missing_element_names_the_selector_and_the_url():
    lamp = page("<h1> A\n  <b>lamp</b> </h1><p></p>", url="https://shop.example/lamp")
    assert (lamp.text_of("h1"), lamp.text_of("p"), lamp.one("b").text()) == ("A lamp", "", "lamp")
    for missing in (lamp.one, lamp.text_of):
        with pytest.raises(ElementNotFound) as caught:
            missing(".price")
        assert str(caught.value) == "no element matches '.price' on https://shop.example/lamp"
        assert (caught.value.selector, caught.value.url) == (".price", "https://shop.example/lamp")
