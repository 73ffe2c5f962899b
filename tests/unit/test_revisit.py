"""Intervals, validators and simhashes of revisits."""

from __future__ import annotations

import random

import pytest

from silkline import Revisit
from silkline.core.revisit import LastVisit, Validators, conditional_headers, is_similar, likeness, validators
from silkline.core.units import format_duration, parse_duration
from silkline.errors import ConfigError

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400), (" 7D ", 604_800), ("2w", 1_209_600)]
)
def test_durations_are_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1 hour", "-1h", "1h30m", "nan", "1e3"])
def test_what_is_no_duration_is_not_read(text):
    assert parse_duration(text) is None


def test_durations_are_shown_with_the_unit_that_fits():
    assert [format_duration(one) for one in (45, 60, 90, 3600, 5400, 86_400, 604_800)] == [
        "45 s", "1 min", "90 s", "1 h", "90 min", "1 d", "7 d"
    ]  # fmt: skip


def test_a_fixed_interval_stays():
    revisit = Revisit.of("1h")
    assert revisit.next_interval(None, changed=False) == 3600
    assert revisit.next_interval(17, changed=True) == 3600


def test_an_adaptive_interval_grows_without_changes_and_shrinks_with_them_within_its_bounds():
    revisit = Revisit("1h", min="15m", max="3h")
    visits, interval = (True, False, False, False, True, True, True, True, True), None
    intervals = [interval := revisit.next_interval(interval, changed=changed) for changed in visits]
    assert intervals == [3600, 5400, 8100, 10_800, 5400, 2700, 1350, 900, 900]


def test_an_interval_follows_bounds_that_the_file_has_changed():
    assert Revisit("1h", max="2h").next_interval(86_400, changed=False) == 7200


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("soon",), "every of a revisit must be an interval of at least a second, such as"),
        ((0,), "every of a revisit"),
        ((True,), "every of a revisit"),
        (("1h", "2h"), "min <= every <= max"),
        (("1h", None, "30m"), "min <= every <= max"),
    ],
)
def test_wrong_intervals_are_refused(arguments, said):
    with pytest.raises(ConfigError, match=said):
        Revisit(*arguments)


def test_a_wrong_similarity_or_kind_is_refused():
    with pytest.raises(ConfigError, match="similar must be a number of bits"):
        Revisit("1h", similar=65)
    with pytest.raises(ConfigError, match="revisit must be an interval"):
        Revisit.of(["1h"])


def test_validators_are_sent_back_as_they_came():
    kept = validators('W/"a-1"', DATE)
    headers = conditional_headers(LastVisit(etag=kept.etag, modified=kept.modified))
    assert headers == {"If-None-Match": 'W/"a-1"', "If-Modified-Since": DATE}


@pytest.mark.parametrize(
    ("etag", "modified"),
    [
        (None, None),
        ("", ""),
        ("no quotes", "yesterday"),
        ('"' + "x" * 200 + '"', "Sun, 06 Nov 1994 08:49:37 CET"),
        ('"a"\r\nX: y', "Sun, 06 Nov 94 08:49:37 GMTxx"),
        ('"é"', "Xxx, 06 Nov 1994 08:49:37 GMT"),
        ('"\x00"', "Sun, 99 Nov 1994 08:49:37 GMT"),
    ],
)
def test_validators_that_could_not_be_sent_back_are_left_out(etag, modified):
    assert validators(etag, modified) == Validators()


def text_of(words):
    return ("<html><body><p>" + "</p><p>".join(words) + "</p></body></html>").encode()


def test_pages_with_almost_the_same_words_have_similar_hashes_and_others_have_not():
    rng = random.Random(7)
    words = [f"word{rng.randrange(5000)}" for _ in range(600)]
    other = [f"word{rng.randrange(5000)}" for _ in range(600)]
    changed = [*words[:300], "17:03", *words[301:]]
    assert is_similar(likeness(text_of(words)), likeness(text_of(changed)), 3)
    assert not is_similar(likeness(text_of(words)), likeness(text_of(other)), 10)


def test_markup_does_not_count_and_a_page_without_words_is_like_none():
    assert likeness(b"<p class=a>one two</p>") == likeness(b"<div id='b'>one  two</div>")
    assert likeness(b"<p></p>") == 0
    assert not is_similar(0, 0, 32)


def test_hostile_bodies_are_read_in_bounded_time():
    for body in (b"<" * 3_000_000, b"a " * 2_000_000, b"<!--" * 500_000, bytes(2_000_000)):
        likeness(body)
