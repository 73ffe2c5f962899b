"""What people push, read as requests."""

from __future__ import annotations

import json

import pytest
from scrapy import Spider

from silkline.scrapy.convert.messages import BadMessage, as_requests, read_message, unreadable_message


class Shop(Spider):
    name = "shop"
    thing = "no method"

    def parse_thing(self, response): ...

    def failed(self, failure): ...


@pytest.fixture
def read():
    spider = Shop()

    def read(message, encoding="utf-8"):
        return read_message(spider, message if isinstance(message, bytes) else json.dumps(message).encode(), encoding)

    read.spider = spider
    return read


def test_a_url_is_a_request_that_is_not_filtered(read):
    for data in (b"http://e.com/a?b=1", b"  http://e.com/a?b=1\r\n"):
        request = read(data)
        assert (request.url, request.method, request.dont_filter) == ("http://e.com/a?b=1", "GET", True)
    assert read("http://e.com/ä".encode("latin-1"), "latin-1").url == "http://e.com/%C3%A4"


def test_an_object_may_have_every_field_of_a_request(read):
    request = read({
        "url": "http://e.com/a", "method": "put", "meta": {"n": [1, {"x": None}]}, "headers": {"X-A": "b", "X-L": ["1", 2]},
        "cookies": {"c": "d"}, "body": "ä", "priority": -5, "callback": "parse_thing", "errback": "failed",
        "cb_kwargs": {"k": 1}, "dont_filter": False, "encoding": "latin-1", "flags": ["f"],
    })  # fmt: skip
    assert (request.url, request.method, request.body) == ("http://e.com/a", "PUT", b"\xe4")
    assert request.meta == {"n": [1, {"x": None}]}
    assert request.headers.to_unicode_dict() == {"X-A": "b", "X-L": "1,2"}
    assert (request.cookies, request.priority, request.cb_kwargs) == ({"c": "d"}, -5, {"k": 1})
    assert (request.callback, request.errback) == (read.spider.parse_thing, read.spider.failed)
    assert (request.dont_filter, request.encoding, request.flags) == (False, "iso8859-1", ["f"])


def test_fields_that_are_null_are_as_if_they_were_not_there(read):
    request = read({"url": "http://e.com/", "method": None, "meta": None, "headers": None, "callback": None})
    assert (request.method, request.meta, request.callback) == ("GET", {}, None)


def test_what_else_is_there_is_form_data(read):
    assert read({"url": "http://e.com/a?x=1", "k": "v w", "n": [1, 2]}).url == "http://e.com/a?x=1&k=v+w&n=1&n=2"
    assert read({"url": "http://e.com/a#top", "k": True}).url == "http://e.com/a?k=true#top"
    post = read({"url": "http://e.com/a?x=1", "method": "post", "k": "ä"})
    assert (post.url, post.body) == ("http://e.com/a?x=1", b"k=%C3%A4")
    assert post.headers["Content-Type"] == b"application/x-www-form-urlencoded"
    own = read({"url": "http://e.com/", "method": "POST", "k": "v", "headers": {"content-type": "x/y"}})
    assert own.headers.getlist("Content-Type") == [b"x/y"]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (b"not a url", "it is not a request: not an absolute URL"),
        (b"mailto:a@e.com", "it is not a request: "),
        (b"http://", "it is not a request: "),
        (b"\xff\xfe", "it is not valid utf-8"),
        (b'{"url": "http://e.com/"', "it is not valid JSON"),
        (b"123", "it is a JSON int; a message is a URL, or"),
        (["http://e.com/"], "it is a JSON list; a message is a URL, or"),
        ("http://e.com/", "it is a JSON str; a message is a URL, or"),
        ({"meta": {}}, 'it has no "url"'),
        ({"url": ""}, 'it has no "url"'),
        ({"url": 3}, 'it has no "url"'),
        ({"url": "http://e.com/", "meta": []}, 'its "meta" must be an object, got []'),
        ({"url": "http://e.com/", "priority": "high"}, 'its "priority" must be a whole number, got "high"'),
        ({"url": "http://e.com/", "priority": True}, 'its "priority" must be a whole number, got true'),
        ({"url": "http://e.com/", "headers": ["A: b"]}, 'its "headers" must be an object'),
        ({"url": "http://e.com/", "headers": {"A": {}}}, 'its header "A" must be a string, a number or a list'),
        ({"url": "http://e.com/", "cookies": "a=b"}, 'its "cookies" must be an object, or a list'),
        ({"url": "http://e.com/", "body": {"a": 1}}, 'its "body" must be a string'),
        ({"url": "http://e.com/", "dont_filter": "yes"}, 'its "dont_filter" must be true or false'),
        (
            {"url": "http://e.com/", "callback": "no_such"},
            "its callback 'no_such' is not a public method of the spider",
        ),
        ({"url": "http://e.com/", "callback": "thing"}, "its callback 'thing' is not a public method of the spider"),
        ({"url": "http://e.com/", "errback": "_set_crawler"}, "its errback '_set_crawler' is not a public method"),
        ({"url": "http://e.com/", "encoding": "utf-9"}, 'its "encoding" is unknown'),
        ({"url": "http://e.com/", "flags": "f"}, 'its "flags" must be a list of strings'),
        ({"url": "http://e.com/", "k": {"a": 1}}, '"k" is form data and must be a string'),
        ({"url": "http://e.com/", "k": None}, '"k" is form data and must be a string'),
        ({"url": "http://e.com/", "method": "POST", "body": "b", "k": "v"}, "it has both a body and form data (k)"),
    ],
)
def test_what_is_no_request_is_reported_why(read, message, why):
    with pytest.raises(BadMessage) as raised:
        read(message)
    assert str(raised.value).startswith(why), raised.value


def test_what_a_spider_answers_may_be_one_or_several_or_nothing(read):
    request = read(b"http://e.com/")
    assert as_requests(request) == [request]
    assert as_requests([request, request]) == as_requests(iter((request, request))) == [request, request]
    assert as_requests(None) == as_requests([]) == as_requests(()) == []
    for wrong in (7, "http://e.com/", [None], [request, {}]):
        with pytest.raises(BadMessage, match="make_request_from_data returned a"):
            as_requests(wrong)


def test_a_message_that_cannot_be_read_is_kept_whole():
    request = unreadable_message("shop:{1}/start urls", b"\xff{")
    assert request.body == b"\xff{"
    assert request.url == "https://message.invalid/shop%3A%7B1%7D%2Fstart%20urls"
    assert request.dont_filter


@pytest.mark.parametrize("url", [b"data:text/html,<p>", b"file:///tmp/page.html", b"ftp://e.com/", b"S3://bucket/key"])
def test_a_url_of_another_scheme_is_a_request_that_scrapy_may_download(read, url):
    assert read(url).url.lower().startswith(url[:5].lower().decode())
