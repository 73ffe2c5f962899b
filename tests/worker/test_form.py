"""Forms of pages: what is sent is what Chromium sends, and what cannot be sent has a clear error."""

from __future__ import annotations

import re
import shutil

import pytest

from silkline import Scope
from silkline.errors import ElementNotFound, FormError, RequestTooLarge
from silkline.testing import LocalSite, SiteResponse, page, run_handler
from silkline.worker.crawl.form import MOST_FIELDS

LOGIN = """
<form id=login action="/session?from=x" method=POST>
  <input type=hidden name=csrf value="a&b">
  <input name=user value="me"> <input type=password name=password>
  <input type=checkbox name=remember> <input type=checkbox name=news value=yes checked>
  <input type=radio name=plan value=free> <input type=radio name=plan value=paid checked>
  <select name=lang><option>de<option value=en>English<option disabled>fr</select>
  <select name=tags multiple><option>a<option selected>b<option selected>c</select>
  <textarea name=note>
  one
two</textarea>
  <input name=off disabled value=1>
  <input type=file name=photo> <input type=reset> <button type=button name=no value=1>no</button>
  <button name=go value=in>Log in</button> <input type=submit name=go value="Forgot password">
</form>
"""
SHOP = "https://shop.example/account/login?next=/"


def login(html=LOGIN, selector="#login", url=SHOP):
    return page(html, url=url).form(selector)


def test_the_fields_of_a_form_are_filled_in():
    request = login().submit("account", user="ann", password="päss", remember=True, lang="en", tags=["a"], plan="free")
    assert (request.method, request.url, request.handler) == ("POST", "https://shop.example/session?from=x", "account")
    assert request.body.decode() == (
        "csrf=a%26b&user=ann&password=p%C3%A4ss&remember=on&news=yes&plan=free&lang=en&tags=a&note=++one%0D%0Atwo&photo=&go=in"
    )
    assert request.headers == {
        "Content-Type": "application/x-www-form-urlencoded",
        "Referer": SHOP,
        "Origin": "https://shop.example",
    }
    assert request.depth == 1


def test_a_form_shows_its_fields_and_buttons():
    form = login()
    assert form.fields == {
        "csrf": "a&b", "user": "me", "password": "", "remember": None, "news": "yes", "plan": "paid", "lang": "de",
        "tags": ["b", "c"], "note": "  one\ntwo", "off": None, "photo": "",
    }  # fmt: skip
    assert form.buttons == ["go", "go"]
    assert (form.method, form.action) == ("POST", "https://shop.example/session?from=x")
    assert repr(form).startswith("<Form POST https://shop.example/session?from=x: csrf, user")


def test_fields_are_left_out_and_boxes_cleared():
    body = login().submit(None, {"note": None, "photo": None}, news=False, tags=[], csrf=None, plan=None).body
    assert body == b"user=me&password=&lang=de&go=in"


@pytest.mark.parametrize("button", ["Forgot password", False])
def test_a_button_is_chosen(button):
    end = login().submit(button=button).body.rpartition(b"&")[2]
    assert end == (b"go=Forgot+password" if button else b"photo=")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"usr": "ann"},
            r"the form '#login' on https://shop.example/account/login\?next=/ has no field 'usr'; its fields are 'csrf', 'user',",
        ),
        ({"go": "x"}, "has no field 'go'"),
        ({"lang": "it"}, "the field 'lang' .* can be 'de', 'en', 'fr', got 'it'"),
        ({"lang": ["de", "en"]}, "the field 'lang'"),
        ({"plan": "gold"}, "can be 'free', 'paid', got 'gold'"),
        ({"plan": True}, "is one of 'free', 'paid'; got True"),
        ({"news": "no"}, "can be 'yes', got 'no'"),
        ({"user": True}, "the field 'user' .* is no checkbox"),
        ({"user": ["a", "b"]}, "has 1 fields 'user', got 2 values"),
        ({"user": object()}, "the field 'user' must be text"),
        ({"photo": "x"}, "is for a file, which cannot be sent"),
        ({"button": "Register"}, "has no button 'Register'; its buttons are 'go', 'go'"),
    ],
)
def test_what_a_form_does_not_have_is_refused(fields, words):
    with pytest.raises(FormError, match=words):
        login().submit(**fields)


def test_a_form_that_is_not_there_is_an_error():
    with pytest.raises(ElementNotFound, match=r"no element matches '#signup' on https://shop.example/"):
        login(selector="#signup")
    with pytest.raises(FormError, match="'p' matches a <p> without a form"):
        login("<p>x</p>", "p")
    assert login(f"<div id=box>{LOGIN}</div>", "#box").method == "POST"


def test_a_form_is_followed_within_the_scope():
    form = "<form method=post action={}><input name=a></form>"
    for action, reason in [("https://other.example/", "another site"), ("javascript:send()", "not a web address")]:
        here = page(form.format(action), url=SHOP)
        assert here.form().submit(a=1) is None
        assert here.skipped == {reason: 1}
    long = page("<form><input name=a></form>", url=SHOP)
    assert long.form().submit(a="x" * Scope().max_url) is None


def test_a_form_in_a_handler_has_the_handler_of_its_page():
    def enter(page):
        yield page.form("#login").submit(user="ann")

    (request,) = run_handler(enter, page(LOGIN, url=SHOP)).links
    assert (request.handler, request.method) == ("enter", "POST")


@pytest.mark.parametrize(
    ("here", "there", "referer", "origin"),
    [
        ("https://a.example/p?q#f", "/x", "https://a.example/p?q", "https://a.example"),
        ("https://u:p@a.example/p", "https://b.a.example/x", "https://a.example/", "https://a.example"),
        ("https://a.example/p", "http://a.example/x", None, "null"),
    ],
)
def test_a_form_says_where_it_was(here, there, referer, origin):
    headers = login(f"<form method=post action={there}>", "form", here).submit().headers
    assert (headers.get("Referer"), headers["Origin"]) == (referer, origin)


def test_equal_forms_are_equal_requests():
    html = "<form method=post enctype=multipart/form-data><input name=a value=1>"
    first, second, other = (login(html, "form").submit(a=value) for value in ("x", "x", "y"))
    assert first == second
    assert first.body != other.body
    mark = re.fullmatch(r"multipart/form-data; boundary=(\S+)", first.headers["Content-Type"])[1]
    assert first.body.count(mark.encode()) == 2


# ── bad input ──


def test_a_form_with_ten_thousand_fields_is_refused():
    with pytest.raises(FormError, match=r"has more than 5,000 fields; send those that matter with page.follow"):
        login("<form id=login>" + "<input name=a>" * 10_000)
    assert len(login("<form id=login>" + "<input name=a>" * MOST_FIELDS).fields["a"]) == MOST_FIELDS


def test_a_form_that_is_too_large_for_the_queue_is_refused_where_it_is_filled_in():
    with pytest.raises(RequestTooLarge):
        login().submit(user="".join(chr(33 + number % 90) for number in range(70_000)))


def test_a_page_of_nested_elements_is_read_once():
    html = "<div>" * 3_000 + "<form id=login>" + "<fieldset disabled><div>" * 1_000 + "<input name=a>" * 1_000
    assert login(html).fields == {"a": None}


# ── as a browser ──

FORMS = {
    "login": LOGIN,
    "get": "<form action='/find?old=1#top'><input name=q value='a b&amp;c~*é'><input type=hidden name=_charset_><input type=submit></form>",
    "no action": "<form method=post><input name=a value=1><input type=image name=map><button>later</button></form>",
    "multipart": (
        "<form method=post enctype=multipart/form-data action=/up><input name='a\"b' value=1><input type=file name=f>"
        "<textarea name=t>x\ny</textarea><button formaction=/other>go</button></form>"
    ),
    "plain": "<form method=post enctype=text/plain action=/up><input name=a value='1 2'><input name=b value=é></form>",
    "button decides": (
        "<form action=/up><input name=a value=1><button formmethod=post formenctype=multipart/form-data name=b value=2>x</form>"
    ),
    "outside": "<form id=f method=post action=/x></form><input name=a value=1 form=f><form><input name=b></form><button form=f name=c>",
    "torn": (
        "<table><form method=post action=/x><tr><td><input name=a value=1></td></tr><tr><td><input name=b value=2>"
        "<button name=c>x</button></td></tr></form></table><input name=d value=3>"
    ),
    "fieldset": (
        "<form method=post><fieldset disabled><legend><input name=a value=1></legend><legend><input name=b value=2></legend>"
        "<input name=c value=3><fieldset><legend><input name=d value=4></legend></fieldset></fieldset><input name=e value=5></form>"
    ),
    "options": (
        "<form method=post><select name=a><option disabled>0<option> one  two </select><select name=b></select>"
        "<select name=c><optgroup disabled><option>1</optgroup><option selected>2<option selected>3</select>"
        "<select name=d multiple><option value=''>none<option selected disabled>x</select></form>"
    ),
    "values": (
        "<form method=post><input type=color name=a><input type=range name=b><input type=nonsense name=c value='x&#10;y'>"
        "<input type=hidden name=d value='x&#10;y'><input name='' value=1><input type=checkbox name=e checked disabled>"
        "<datalist><input name=f value=1></datalist><input type=TEXT name=g></form>"
    ),
    "latin": "<meta charset=iso-8859-1><form method=post><input name=a value='é&#8364;&#1041;'></form>",
    "accept": "<form method=post accept-charset='nonsense windows-1251'><input name=a value='é&#1041;'></form>",
    "nested": "<form id=o method=post action=/o><div></form><form id=i method=post action=/i><input name=a value=1></form></div>",
    "base": "<base href='/deep/er/'><form method=post action=x><input name=a value=1></form>",
}


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


SUBMIT = """() => {
    const form = [...document.forms].find(form => form.elements.length) || document.forms[0];
    const button = [...document.querySelectorAll("input, button")].find(
        one => one.form === form && ["submit", "image"].includes(one.type));
    form.requestSubmit(button);
}"""


def encoded(name):
    return FORMS[name].encode("cp1252" if name == "latin" else "utf-8", "replace")


def headers_of(name):
    return {"Content-Type": "text/html" if name == "latin" else "text/html; charset=utf-8"}


def next_visit(site, before):
    """The request of the form. It has arrived when the browser shows the next page."""
    return next(visit for visit in site.visits[before:] if "favicon" not in visit.path)


def as_received(visit):
    return _comparable(visit.method, visit.path, visit.headers, visit.body)


def as_sent(request, site):
    headers = {name.lower(): value for name, value in request.headers.items()}
    return _comparable(request.method, request.url.removeprefix(site.rstrip("/")), headers, request.body)


def _comparable(method, path, headers, body):
    """A request without what may differ: the boundary."""
    content_type = headers.get("content-type")
    if found := re.search(r"boundary=(\S+)", content_type or ""):
        content_type, body = "multipart", body.replace(found[1].encode(), b"MARK")
    return method, path, content_type, body.rstrip(b"\r\n"), headers.get("referer"), headers.get("origin")


def test_chromium_sends_the_same(chromium):
    numbers = dict(enumerate(FORMS))

    def serve(visit):
        found = re.fullmatch(r"/form/(\d+)", visit.path)
        content = encoded(numbers[int(found[1])]) if found and visit.method == "GET" else b"ok"
        return SiteResponse(content, headers=headers_of(numbers[int(found[1])]) if found else {})

    with LocalSite({"/*": serve}) as site:
        context = chromium.new_context()
        browser = context.new_page()
        browser.set_default_timeout(50_000)
        for number, name in numbers.items():
            url = site.at(f"/form/{number}")
            browser.goto(url)
            before = len(site.visits)
            with browser.expect_navigation():
                browser.evaluate(SUBMIT)
            by_browser = next_visit(site, before)
            request = (
                page(encoded(name), url=url, headers=headers_of(name))
                .form("#i" if name == "nested" else "form")
                .submit()
            )
            assert as_sent(request, site.url) == as_received(by_browser), name
        context.close()
