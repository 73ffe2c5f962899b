"""Requests of Scrapy come back from the frontier as they went in."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from uuid import UUID

import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import FormRequest, JsonRequest, XmlRpcRequest

from silkline import Request
from silkline.core.url import parse
from silkline.errors import InvalidUrl, RequestError
from silkline.frontier.store import record as codec
from silkline.scrapy.convert.classes import UnstorableValue, UnusableRequest
from silkline.scrapy.convert.requests import from_dict, to_core, to_scrapy
from silkline.scrapy.convert.values import pack, unpack


class Spider(scrapy.Spider):
    name = "test"

    def parse_item(self, response, **kwargs): ...

    def failed(self, failure): ...

    def __hidden(self, response): ...

    @property
    def hidden(self):
        return self.__hidden


SPIDER = Spider()


class Special(scrapy.Request):
    attributes = (*scrapy.Request.attributes, "wish")

    def __init__(self, *args, wish=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.wish = wish


def stored(request):
    """Through the frontier's record, and back."""
    core = to_core(request, SPIDER)
    address = parse(core.url)
    record = codec.encode(core, address)
    record = record if isinstance(record, bytes) else record.encode()
    return to_scrapy(codec.decode(record, address.host, core.priority)[0], SPIDER)


U = "http://a.example/x"
REQUESTS = [
    scrapy.Request(U),
    scrapy.Request("https://a.example/?b=2&a=1#fragment"),
    scrapy.Request("HTTP://A.example:80/%7Euser/../x?q=a b|c&u=ü"),
    scrapy.Request("http://user:secret@a.example/x", headers={"Referer": "http://a.example/y"}),
    scrapy.Request(U, callback=SPIDER.parse_item, errback=SPIDER.failed, cb_kwargs={"a": (1, {"b"})}),
    scrapy.Request(U, callback=SPIDER.hidden),
    scrapy.Request(U, method="POST", body=b"\x00\xff", encoding="latin-1", flags=["x"]),
    scrapy.Request(U, headers={"Accept": ["a", "b"], "X": b"\xff", "Referer": "https://b.example/"}),
    scrapy.Request(U, headers={"Referer": "http://a.example/list?page=2", "Accept": "text/html"}),
    scrapy.Request(U, cookies={"a": "1"}),
    scrapy.Request(U, cookies=[{"name": "a", "value": "1", "domain": "a.example", "secure": True}]),
    scrapy.Request(U, meta={"depth": 3, "when": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "depths": [3]}),
    scrapy.Request(U, meta={"depth": "deep", 5: "five", "\x00": ["tuple", []]}),
    scrapy.Request(U, priority=-5, dont_filter=True),
    scrapy.Request(U, priority=2**40, meta={"big": 2**70}),
    FormRequest(U, formdata={"a": "1"}),
    JsonRequest(U, data={"a": [1]}, dumps_kwargs={"indent": 1}),
    XmlRpcRequest(U, methodname="wish", params=(1,)),
    Special(U, wish=Decimal("1.10")),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_comes_back_equal(request_):
    again = stored(request_)
    assert type(again) is type(request_)
    assert again.to_dict(spider=SPIDER) == request_.to_dict(spider=SPIDER)
    assert from_dict(request_.to_dict(spider=SPIDER)) == to_core(request_, SPIDER)


def test_only_what_differs_from_the_default_takes_room():
    request = scrapy.Request(U, meta={"depth": 2}, headers={"Referer": "http://a.example/listing/7"})
    core = to_core(request, SPIDER)
    assert len(codec.encode(core, parse(core.url))) <= 36
    assert codec.encode(to_core(scrapy.Request(U), SPIDER), parse(U)) == "\x01/x"


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (
            scrapy.Request(U, meta={"a": [{"b": scrapy.Selector(text="x")}]}),
            r"meta\['a'\]\[0\]\['b'\]: a .*Selector cannot",
        ),
        (scrapy.Request(U, cb_kwargs={"f": len}), r"cb_kwargs\['f'\]: a builtins.builtin_function_or_method cannot"),
        (
            scrapy.Request(U, callback=lambda response: None),
            "its callback .*<lambda> is not a method of the spider 'test'",
        ),
        (scrapy.Request(U, errback=Spider("other").failed), "its errback .* is not a method of the spider 'test'"),
        (scrapy.Request(U, meta={"self": (recursive := [], recursive.append(recursive))}), "nested deeper"),
    ],
)
def test_what_cannot_be_stored_is_named(request_, sentence):
    with pytest.raises(UnstorableValue, match=sentence):
        to_core(request_, SPIDER)


@pytest.mark.parametrize("url", ["data:,x", "file:///x", "ftp://a.example/", "about:blank"])
def test_only_the_web_is_crawled(url):
    with pytest.raises(InvalidUrl, match=f"not {url.partition(':')[0]}:"):
        to_core(scrapy.Request(url), SPIDER)


def test_a_stored_request_is_data_and_nothing_else():
    fields = {"url": U, "_class": "os.system", "command": "true"}
    with pytest.raises(UnusableRequest, match=r"os\.system is not a subclass"):
        to_scrapy(from_dict(fields), SPIDER)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.dates(),
    st.datetimes(), st.decimals(allow_nan=False), st.uuids(), st.timedeltas(), st.times(),
)  # fmt: skip
hashable = st.one_of(st.integers(), st.text(), st.binary(), st.tuples(st.integers(), st.text()))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(hashable, inner), st.sets(hashable),
        st.frozensets(hashable), st.dictionaries(st.sampled_from(["\x00", "a"]), inner),
    ),
    max_leaves=10,
)  # fmt: skip


@given(values)
def test_values_come_back_equal_and_of_the_same_type(value):
    again = unpack(pack(value, "meta"))
    assert again == value
    assert type(again) is type(value)


def test_uuids_and_the_like_keep_their_type():
    value = {"id": UUID(int=5), "price": Decimal("1.50"), "pair": (1, 2), "seen": frozenset({1})}
    assert repr(unpack(pack(value, "meta"))) == repr(value)


def test_what_a_browser_must_do_is_stored_by_name():
    page_method = pytest.importorskip("scrapy_playwright.page").PageMethod
    shot = page_method("screenshot", path="a.png", full_page=True)
    shot.result = object()  # of an attempt before
    methods = {"click": page_method("click", "a.more", position={"x": 1}), "shot": shot}
    found = stored(scrapy.Request(U, meta={"playwright": True, "playwright_page_methods": methods}))
    called = {key: (one.method, one.args, one.kwargs) for key, one in found.meta["playwright_page_methods"].items()}
    assert called == {
        "click": ("click", ("a.more",), {"position": {"x": 1}}),
        "shot": ("screenshot", (), {"path": "a.png", "full_page": True}),
    }
    for wrong, sentence in (
        (page_method(print), r"meta\['m'\]\[0\]: it calls a function"),
        (page_method("evaluate", object()), r"meta\['m'\]\[0\]\.args\[0\]: a builtins\.object cannot be stored"),
    ):
        with pytest.raises(UnstorableValue, match=sentence):
            stored(scrapy.Request(U, meta={"m": [wrong]}))


@pytest.mark.parametrize("name", ["_impl_obj", "__class__", "a.b", 7])
def test_only_public_methods_of_a_page_are_called(name):
    with pytest.raises(RequestError, match="is not a public method of a page"):
        unpack({"\x00": ["PageMethod", [name, [], {}]]})


class ProductItem(scrapy.Item):
    name, price, currency, category, sku = (scrapy.Field() for _ in range(5))


class Angebot(scrapy.Item):
    """Its fields have names that the table of phrases does not have."""

    bezeichnung, preis, waehrung, warengruppe, artikelnr = (scrapy.Field() for _ in range(5))


@pytest.mark.parametrize(("cls", "share"), [(ProductItem, 0.34), (Angebot, 0.41)])
def test_a_request_with_an_item_is_much_shorter_than_its_pickle(cls, share):
    values = ("Round glass shelf", "100.00", "EUR", "storage", "SL-100000")
    request = scrapy.Request(
        "https://shop.example/storage/round-glass-shelf-100000",
        callback=SPIDER.parse_item,
        headers={"Referer": "https://shop.example/storage/"},
        meta={"depth": 1, "item": cls(zip(sorted(cls.fields), values, strict=True))},
    )
    core = to_core(request, SPIDER)
    pickled = pickle.dumps(request.to_dict(spider=SPIDER), protocol=-1)
    assert len(codec.encode(core, parse(core.url))) <= share * len(pickled)
    assert stored(request).to_dict(spider=SPIDER) == request.to_dict(spider=SPIDER)


def test_the_arguments_of_a_handler_are_those_of_the_callback():
    request = Request(U, handler="parse_item", args={"category": "lamps"})
    assert to_scrapy(request, SPIDER).cb_kwargs == {"category": "lamps"}
