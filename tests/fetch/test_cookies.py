"""Cookies: which are kept and sent, and that no site can make them many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silkline import Request
from silkline.core.url import parse
from silkline.fetch.cookies.jar import LONGEST_LIFE, MOST_BYTES, MOST_BYTES_OF_SITE, MOST_OF_SITE, CookieJar, read_date
from silkline.fetch.cookies.requests import MOST_CARRIED_BYTES, carried, with_cookies
from silkline.fetch.fetcher import make_headers
from silkline.testing import Clock

HOME = "https://shop.example.com/a/b?c=/d"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def jar(clock):
    return CookieJar(lambda: clock.seconds)


def sent(jar, url):
    return "; ".join(f"{one.name}={one.value}" for one in jar.cookies_for(parse(url)))


def stored(jar, *lines, url=HOME):
    jar.store(parse(url), lines)
    return jar


@pytest.mark.parametrize(
    ("line", "gets", "does_not"),
    [
        ("a=1", ["https://shop.example.com/a/x", "https://shop.example.com/a", "http://shop.example.com:8080/a/"],
         ["https://shop.example.com/", "https://shop.example.com/ab", "https://x.shop.example.com/a/", "https://example.com/a/"]),
        ("a=1; Path=/", ["https://shop.example.com/", "https://shop.example.com/x"], ["https://example.com/"]),
        ("a=1; Path=/a/b", ["https://shop.example.com/a/b", "https://shop.example.com/a/b/c", "https://shop.example.com/a/b?d"],
         ["https://shop.example.com/a/bc", "https://shop.example.com/a/"]),
        ("a=1; Path=nonsense", ["https://shop.example.com/a/x"], ["https://shop.example.com/"]),
        ("a=1; Domain=example.com; Path=/", ["https://example.com/", "https://www.example.com/", "https://a.b.example.com/"],
         ["https://badexample.com/", "https://example.com.evil.example/", "https://example.org/"]),
        ("a=1; domain=.Shop.EXAMPLE.com; path=/", ["https://shop.example.com/", "https://x.shop.example.com/"], ["https://example.com/"]),
        ("a=1; Secure; Path=/", ["https://shop.example.com/"], ["http://shop.example.com/"]),
        ("a=1; Path=/; Path=/z", ["https://shop.example.com/z"], ["https://shop.example.com/"]),
        ("__Host-a=1; Secure; Path=/", ["https://shop.example.com/"], ["https://x.shop.example.com/"]),
        ("a=1; HttpOnly; SameSite=Strict; Path=/; Priority=High", ["https://shop.example.com/"], []),
    ],
)  # fmt: skip
def test_a_cookie_goes_where_a_browser_sends_it(jar, line, gets, does_not):
    stored(jar, line)
    assert len(jar) == 1
    assert {url: bool(sent(jar, url)) for url in [*gets, *does_not]} == dict.fromkeys(gets, True) | dict.fromkeys(
        does_not, False
    )


@pytest.mark.parametrize(
    "line",
    [
        "a", "", "=1", " = ; Path=/", "a\x001=1", "a=1\x7f", f"a={'x' * 4096}", "a=\xff\xfe",
        "a=1; Domain=other.example", "a=1; Domain=x.shop.example.com", "a=1; Domain=com",
        "a=1; SameSite=None", "__Secure-a=1", "__Host-a=1; Secure", "__Host-a=1; Path=/",
        "__HOST-a=1; Secure; Path=/; Domain=shop.example.com", "a=1; Max-Age=0", "a=1; Max-Age=-5",
        "a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
    ],
)  # fmt: skip
def test_what_browsers_ignore_is_not_stored(jar, line):
    assert len(stored(jar, line)) == 0


@pytest.mark.parametrize(
    ("url", "line", "kept", "other"),
    [
        ("https://shop.example.co.uk/", "a=1; Domain=co.uk", False, "https://bank.co.uk/"),
        ("https://me.github.io/", "a=1; Domain=github.io", False, "https://you.github.io/"),
        ("https://github.io/", "a=1; Domain=github.io", True, "https://you.github.io/"),
        ("https://x.www.ck/", "a=1; Domain=ck", False, "https://y.ck/"),
        ("https://a.intranet/", "a=1; Domain=intranet", False, "https://b.intranet/"),
        ("http://127.0.0.1:8080/", "a=1; Domain=127.0.0.1", True, "http://1.127.0.0.1.example/"),
        ("http://127.0.0.1/", "a=1; Domain=0.0.1", False, "http://1.0.0.1/"),
        ("http://[::1]:8080/", "a=1", True, "http://[::2]:8080/"),
    ],
)
def test_no_cookie_is_for_a_public_suffix(jar, url, line, kept, other):
    stored(jar, line, url=url)
    assert (len(jar), bool(sent(jar, url)), sent(jar, other)) == (kept, kept, "")


def test_plain_http_cannot_set_or_hide_secure_cookies(jar):
    plain = HOME.replace("https", "http")
    assert len(stored(jar, "a=1; Secure", "__Secure-b=1; Secure", url=plain)) == 0
    stored(jar, "a=1; Secure; Path=/; Domain=example.com")
    for line in ("a=2; Path=/; Domain=example.com", "a=2; Path=/", "a=2; Path=/a"):
        stored(jar, line, url=plain)
    assert sent(jar, HOME) == "a=1"
    assert sent(stored(jar, "a=2; Path=/; Domain=example.com"), HOME) == "a=2"


def test_longer_paths_come_first_and_then_older_cookies(jar):
    stored(jar, "old=1; Path=/", "deep=1", "new=1; Path=/", "old=2; Path=/")
    assert sent(jar, HOME) == "deep=1; old=2; new=1"
    assert sent(stored(jar, "deep=2; Path=/"), HOME) == "deep=1; old=2; new=1; deep=2"


def test_cookies_expire_and_are_deleted(jar, clock):
    stored(
        jar,
        "a=1; Max-Age=10",
        "b=1; Expires=Fri, 15-Jan-27 08:00:05 GMT",
        "c=1; Max-Age=999999999",
        "d=1; Expires=soon",
    )
    assert sent(jar, HOME) == "a=1; b=1; c=1; d=1"
    clock.advance(7)
    assert sent(jar, HOME) == "a=1; c=1; d=1"
    assert sent(stored(jar, "c=; Max-Age=0"), HOME) == "a=1; d=1"
    clock.advance(LONGEST_LIFE)
    assert (sent(jar, HOME), len(jar)) == ("d=1", 1)
    stored(jar, "d=1; Max-Age=0")
    assert (len(jar), jar.size, bool(jar.sites)) == (0, 0, False)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1792567680.0),
        ("Wed, 21-Oct-26 07:28:00 GMT", 1792567680.0),
        ("Wed Oct 21 07:28:00 2026", 1792567680.0),
        ("21 octobre 2026 7:28:0", 1792567680.0),
        ("Wed, 21 Oct 2026", None),
        ("Wed, 32 Oct 2026 07:28:00 GMT", None),
        ("Wed, 21 Oct 2026 24:28:00 GMT", None),
        ("Wed, 21 Oct 1600 07:28:00 GMT", None),
        ("tomorrow", None),
    ],
)
def test_dates_are_read_tolerantly(text, time):
    assert read_date(text) == time


@given(st.text(max_size=200))
def test_any_line_is_read_without_an_error(line):
    jar = CookieJar()
    stored(jar, line, f"a={line}", f"a=1; {line}", f"a=1; Expires={line}", f"a=1; Domain={line}", f"a=1; Path=/{line}")
    sent(jar, HOME)


def test_text_is_sent_with_the_bytes_that_came(jar):
    wire = "a=" + "käse".encode().decode("latin-1")
    assert sent(stored(jar, wire), HOME) == "a=käse"


def test_values_are_not_shown(jar):
    stored(jar, "sid=secret")
    assert "secret" not in repr(jar) + repr(list(jar)) + str(jar.cookies_for(parse(HOME)))


# ── bounds ──


def test_a_site_with_ten_thousand_cookies_keeps_the_newest(jar):
    for number in range(10_000):
        stored(jar, f"c{number}=1; Path=/; Domain=example.com", url=f"https://h{number % 50}.example.com/")
    assert len(jar) == MOST_OF_SITE
    assert sent(jar, HOME).startswith(f"c{10_000 - MOST_OF_SITE}=1")
    assert len(stored(CookieJar(), *(f"d{number}=1" for number in range(10_000)))) == MOST_OF_SITE


def test_large_cookies_are_bounded_by_their_bytes(jar):
    for number in range(1_000):
        stored(jar, f"c{number}={'x' * 4000}; Path=/")
    assert 0 < len(jar) < 20
    assert len(sent(jar, HOME)) < MOST_BYTES_OF_SITE


def test_the_jar_forgets_the_sites_that_it_has_not_used_for_longest(jar):
    stored(jar, "mine=1; Path=/")
    for number in range(2_000):
        stored(jar, *(f"c{one}={'x' * 3000}" for one in range(10)), url=f"https://site-{number}.example/")
        if number % 100 == 0:
            assert sent(jar, HOME) == "mine=1"
    assert jar.size <= MOST_BYTES
    assert sent(jar, "https://site-0.example/") == ""
    assert jar.size == sum(one.size for one in jar)


# ── requests ──


def test_the_cookies_of_a_request_replace_those_of_the_jar(jar):
    stored(jar, "a=1", "b=2; Path=/", "a=3; Path=/")
    request = with_cookies(Request(HOME, cookies={"b": "own", "x": "y z"}, headers={"X-A": "1"}), jar)
    assert make_headers(request, "me", None)["Cookie"] == "b=own; x=y z; a=1; a=3"
    own = Request(HOME, headers={"cookie": "only=1"})
    assert with_cookies(own, jar) is own
    elsewhere = Request("https://other.example/")
    assert with_cookies(elsewhere, jar) is elsewhere


@pytest.mark.parametrize(
    ("there", "lines", "cookies"),
    [
        ("https://shop.example.com/a/z", ["new=1"], {"own": "1", "new": "1"}),
        ("https://shop.example.com/z", ["new=1"], {"own": "1"}),
        ("https://shop.example.com/a/z", ["own=2", "own=; Max-Age=0; Path=/x"], {"own": "2"}),
        ("https://shop.example.com/a/z", ["own=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], {}),
        ("https://shop.example.com/a/z", ["own=2; Domain=com", "own=3; Domain=other.example"], {"own": "1"}),
        ("https://www.example.com/", ["new=1; Domain=example.com; Path=/", "here=1; Path=/"], {"new": "1"}),
        ("https://other.example/", ["new=1; Path=/", "bad=1; Domain=other.example"], {}),
        ("http://shop.example.com/a/", ["new=1; Secure", "open=1"], {"open": "1"}),
    ],
)
def test_the_target_of_a_redirect_gets_the_cookies_that_were_set_for_it(there, lines, cookies):
    assert carried({"own": "1"}, parse(HOME), parse(there), lines) == cookies


def test_a_redirect_carries_a_bounded_number_of_cookies():
    lines = [f"c{number}={'x' * 3000}" for number in range(10_000)]
    found = carried({}, parse(HOME), parse(HOME), lines)
    assert 0 < sum(map(len, found.values())) < MOST_CARRIED_BYTES
