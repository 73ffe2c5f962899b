import pytest

from silkline import Request
from silkline.errors import InvalidUrl
from silkline.worker.redirect import redirected

SECRET = Request(
    "https://a.example/x?y",
    method="POST",
    body=b"form",
    headers={"Authorization": "t", "Cookie": "c=1", "Content-Type": "f", "X-Mine": "1"},
    cookies={"s": "1"},
    auth=("u", "p"),
    meta={"m": 1},
    handler="h",
    depth=3,
    priority=2,
)


def test_the_target_keeps_what_the_request_was_for():
    target = redirected(SECRET, 307, "/z#top")
    assert target.url == "https://a.example/z"
    assert (target.handler, target.meta, target.depth, target.priority) == ("h", {"m": 1}, 3, 2)
    assert (target.method, target.body, target.cookies, target.auth) == ("POST", b"form", {"s": "1"}, ("u", "p"))
    assert target.redirects == ("https://a.example/x?y",)
    assert redirected(target, 307, "/q").redirects == ("https://a.example/x?y", "https://a.example/z")


@pytest.mark.parametrize("location", ["https://b.example/", "http://a.example/x", "https://a.example:444/x"])
def test_secrets_stay_within_the_origin(location):
    target = redirected(SECRET, 307, location, ["new=1; Path=/; Secure"])
    assert (target.cookies, target.auth) == ({"new": "1"} if location.startswith("https://a.") else {}, None)
    assert target.headers == {"Content-Type": "f", "X-Mine": "1"}


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
def test_a_post_becomes_a_get_as_in_browsers(status, method):
    target = redirected(SECRET, status, "/z")
    assert target.method == method
    assert bool(target.body) == (method == "POST") == ("Content-Type" in target.headers)


def test_where_a_form_was_stays_within_the_origin():
    form = Request(
        "https://a.example/", method="POST", headers={"Referer": "https://a.example/login?token=1", "Origin": "x"}
    )
    assert set(redirected(form, 307, "/z").headers) == {"Referer", "Origin"}
    assert set(redirected(form, 303, "/z").headers) == {"Referer"}
    assert redirected(form, 307, "https://b.example/").headers == {}


def test_other_methods_become_a_get_only_with_303():
    put = Request("https://a.example/", method="PUT", body=b"x")
    assert redirected(put, 302, "/z").method == "PUT"
    assert redirected(put, 303, "/z").method == "GET"
    assert redirected(Request("https://a.example/", method="HEAD"), 303, "/z").method == "HEAD"


def test_cookies_that_were_set_are_brought_along():
    request = Request("https://a.example/", cookies={"a": "1"})
    target = redirected(request, 302, "/", ["a=2; Path=/; Secure", "b = 3 ", "nonsense", "=x", f"long={'x' * 5000}"])
    assert target.cookies == {"a": "2", "b": "3"}
    flood = redirected(request, 302, "/", [f"c{i}=1" for i in range(10_000)])
    assert len(flood.cookies) < 100


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://a.example/", "data:text/html,x", "javascript:x", "http://"]
)
def test_only_the_web_is_followed(location):
    with pytest.raises(InvalidUrl):
        redirected(Request("https://a.example/"), 302, location)
