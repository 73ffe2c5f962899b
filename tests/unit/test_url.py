"""URLs: what is one, what is refused, and which spellings are one page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silkline.core.url import MAX_URL_BYTES, canonical_path, check_host, fingerprint, mask_passwords, parse
from silkline.errors import ConfigError, InvalidUrl, RequestError, RequestTooLarge

paths = st.text(st.sampled_from("/ab%4125zZ.-_~?&=#+ é"), max_size=30).map(lambda text: "/" + text)


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://Example.COM", "example.com", "/"),
        ("HTTP://example.com:80/a/../b?x=1#top", "example.com", "/b?x=1"),
        ("https://example.com:8443/", "example.com:8443", "/"),
        ("https://[::1]:8080/x", "[::1]:8080", "/x"),
        ("https://bücher.example/ü", "xn--bcher-kva.example", "/%C3%BC"),
        (" https://example.com/a b ", "example.com", "/a%20b"),
        ("https://0x7f.1/", "127.0.0.1", "/"),
        ("https://example.com./x", "example.com", "/x"),
        ("https://Example.com.:8443/x.", "example.com:8443", "/x."),
        ("https://localhost./", "localhost", "/"),
    ],
)
def test_a_url_is_read_as_a_browser_reads_it(url, host, path):
    address = parse(url)
    assert (address.host, address.path) == (host, path)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "empty"),
        ("/relative", "absolute"),
        ("example.com/x", "absolute"),
        ("ftp://example.com/", "ftp"),
        ("javascript:alert(1)", "javascript"),
        ("https://", "not a valid URL"),
        ("https://a b/", "not a valid URL"),
        ("https://a.example/\nb", "control"),
        ("https://a.example/\x00", "control"),
        ("https://a.example/\ud800", "not a valid URL"),
        (7, "string"),
        (b"https://a.example/", "string"),
        (None, "string"),
    ],
)
def test_anything_else_is_refused_with_a_reason(url, why):
    with pytest.raises(InvalidUrl, match=why):
        parse(url)


def test_a_url_may_have_8_kib_once_escaped_and_no_more():
    start = "https://a.example/"
    assert parse(start + "x" * (MAX_URL_BYTES - len(start)))
    for long in (start + "x" * MAX_URL_BYTES, start + "é" * 2000):
        with pytest.raises(RequestTooLarge):
            parse(long)


def test_user_and_password_are_kept_apart_from_the_host():
    address = parse("https://me:pass@a.example/x")
    assert (address.userinfo, address.host) == ("me:pass", "a.example")
    assert address.url == "https://me:pass@a.example/x"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/?b=2&a=1", "https://A.example:443?a=1&b=2"),
        ("https://a.example/%7euser", "https://a.example/~user"),
        ("https://a.example/%c3%bc", "https://a.example/ü"),
        ("https://a.example/x?", "https://a.example/x#y"),
        ("https://a.example/x?&a=1", "https://a.example/x?a=1&"),
        ("https://a.example./x", "https://a.example/x"),
    ],
)
def test_these_are_one_page(one, other):
    assert fingerprint(parse(one)) == fingerprint(parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/x", "http://a.example/x"),
        ("https://a.example/x", "https://a.example/X"),
        ("https://a.example/x", "https://a.example/x/"),
        ("https://a.example/x", "https://a.example:8443/x"),
        ("https://a.example/a%2Fb", "https://a.example/a/b"),
        ("https://a.example/?a=1", "https://a.example/?a=2"),
    ],
)
def test_these_are_two(one, other):
    assert fingerprint(parse(one)) != fingerprint(parse(other))


def test_method_body_and_seed_count_too():
    address = parse("https://a.example/")
    marks = {
        fingerprint(address),
        fingerprint(address, "POST"),
        fingerprint(address, "POST", b"a=1"),
        fingerprint(address, "GET", b"a=1"),
        fingerprint(address, seed=1),
    }
    assert len(marks) == 5
    assert fingerprint(address, "post") == fingerprint(address, "POST")


@given(paths)
def test_the_canonical_form_of_a_canonical_form_is_itself(path):
    once = canonical_path(parse(f"https://a.example{path}").path)
    assert canonical_path(once) == once
    assert canonical_path(parse(f"https://a.example{once}").path) == once


@given(st.text() | st.binary() | st.integers() | st.none())
def test_no_other_exception_escapes(anything):
    try:
        address = parse(anything)
    except RequestError:
        return
    assert parse(address.url) == address
    assert "\n" not in address.host


@pytest.mark.parametrize(
    "host", ["example.com", "example.com:8080", "a.example:443", "[::1]:80", "xn--bcher-kva.example"]
)
def test_a_host_is_written_as_in_its_urls(host):
    check_host(host)


@pytest.mark.parametrize(
    ("host", "hint"),
    [
        ("Example.com", "did you mean 'example.com'"),
        ("https://example.com/x", "did you mean 'example.com'"),
        ("example.com/", "did you mean 'example.com'"),
        ("example.com.", "did you mean 'example.com'"),
        ("me@example.com", "did you mean 'example.com'"),
        ("bücher.example", "did you mean 'xn--bcher-kva.example'"),
        ("", "got ''"),
        ("a b", "got 'a b'"),
        (7, "got 7"),
        (None, "got None"),
    ],
)
def test_another_spelling_of_a_host_is_refused_with_a_hint(host, hint):
    with pytest.raises(ConfigError, match=re.escape(hint)):
        check_host(host)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://ada:s3cret@a.example/x", "https://ada:***@a.example/x"),
        (
            "see http://:s3cret@a.example:8080/ and https://b:c@d.example/",
            "see http://:***@a.example:8080/ and https://b:***@d.example/",
        ),
        ("https://ada@a.example/x:y@z", "https://ada@a.example/x:y@z"),
        ("https://a.example/?mail=a:b@c", "https://a.example/?mail=a:b@c"),
        ("https://ada:s3@cret@a.example/", "https://ada:***@a.example/"),
    ],
)
def test_passwords_in_urls_are_masked_for_people(text, masked):
    assert mask_passwords(text) == masked
