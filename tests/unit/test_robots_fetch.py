"""What comes of fetching a robots.txt."""

from __future__ import annotations

import pytest

from silkline.core.robots import MAX_BYTES
from silkline.core.robots_fetch import RobotsFetch, ask_again_after

ORIGIN = "https://a.example:8443"
TEXT = b"User-agent: *\nDisallow: /\n"


@pytest.fixture
def fetch():
    return RobotsFetch(ORIGIN)


def test_it_begins_at_the_root_of_the_origin(fetch):
    assert fetch.url == "https://a.example:8443/robots.txt"


@pytest.mark.parametrize("status", [200, 203, 206])
def test_a_good_answer_is_the_file(fetch, status):
    fetch.answered(status, TEXT)
    assert (fetch.url, fetch.text) == (None, TEXT)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 499])
def test_without_one_there_are_no_rules(fetch, status):
    fetch.answered(status, b"Disallow: /")
    assert (fetch.url, fetch.text) == (None, b"")


@pytest.mark.parametrize("status", [429, 500, 503, 599, 100, 0, 999])
def test_a_server_in_trouble_has_reported_nothing(fetch, status):
    fetch.answered(status, TEXT)
    assert (fetch.url, fetch.text, fetch.reason) == (None, None, f"HTTP {status}")


def test_no_answer_has_reported_nothing_either(fetch):
    fetch.failed("timed out")
    assert (fetch.url, fetch.text, fetch.reason) == (None, None, "timed out")


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/r.txt", "https://a.example:8443/r.txt"),
        ("r.txt", "https://a.example:8443/r.txt"),
        ("//b.example/", "https://b.example/"),
        ("http://b.example/x y#z", "http://b.example/x%20y"),
    ],
)
def test_a_redirect_is_followed_wherever_it_leads(fetch, location, leads_to):
    fetch.answered(301, b"moved", location)
    assert fetch.url == leads_to
    fetch.answered(200, TEXT)
    assert (fetch.url, fetch.text) == (None, TEXT)


def test_five_hops_are_followed_and_the_sixth_counts_as_no_file(fetch):
    for hop in range(5):
        fetch.answered(302, b"", f"/{hop}")
        assert fetch.url == f"{ORIGIN}/{hop}"
    fetch.answered(302, b"", "/5")
    assert (fetch.url, fetch.text) == (None, b"")


@pytest.mark.parametrize(
    "location", [None, "", "file:///etc/passwd", "ftp://b.example/", "https://[::1", "http://" + "a" * 9000]
)
def test_a_redirect_that_leads_nowhere_counts_as_no_file(fetch, location):
    fetch.answered(301, b"", location)
    assert (fetch.url, fetch.text) == (None, b"")


def test_what_fails_on_the_way_is_unreachable(fetch):
    fetch.answered(301, b"", "/there")
    fetch.failed("reset")
    assert (fetch.url, fetch.text) == (None, None)
    fetch = RobotsFetch(ORIGIN)
    fetch.answered(301, b"", "/there")
    fetch.answered(503)
    assert fetch.text is None


def test_no_more_than_the_limit_is_taken(fetch):
    fetch.answered(200, b"x" * 18 + b"\n" + TEXT * 100_000)
    assert len(fetch.text) <= MAX_BYTES
    assert fetch.text.endswith(b"\n")


def test_it_is_asked_again_soon_at_first_and_then_ever_later():
    assert [ask_again_after(attempt) for attempt in (1, 2, 3, 4, 5, 8, 9, 10**6)] == [
        30,
        60,
        120,
        240,
        480,
        3600,
        3600,
        3600,
    ]
