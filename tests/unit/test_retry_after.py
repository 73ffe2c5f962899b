"""Retry-After: what a site that is busy may ask for."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from silkline.core.retries import retry_after

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
        ("Sun Nov  6 08:50:37 1994", 60),
        ("Sun, 06 Nov 1994 09:50:37 +0100", 60),
    ],
)
def test_it_holds_seconds_or_a_date(header, seconds):
    assert retry_after(header, NOW) == seconds


@pytest.mark.parametrize("header", ["86401", "1" + "0" * 18, "9" * 60, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_nobody_is_left_alone_for_more_than_a_day(header):
    assert retry_after(header, NOW) == 86_400
    assert retry_after(header, NOW, most=30) == 30


@pytest.mark.parametrize(
    "header",
    [None, "", "  ", "0", "-5", "1e18", "inf", "nan", "soon", "1.5", "٣", "²", "9" * 5000, "Sun, 06 Nov 1994 08:49:37 GMT",
     "Sat, 01 Jan 1994 00:00:00 GMT", "Sun, 99 Nov 1994 08:50:37 GMT", "1 2", "10\r\nSet-Cookie: x", "\0"],
)  # fmt: skip
def test_what_makes_no_sense_or_says_at_once_is_no_answer(header):
    assert retry_after(header, NOW) is None


@given(st.text(max_size=80))
def test_whatever_it_holds_the_answer_is_a_time_that_can_be_waited_for(header):
    seconds = retry_after(header, NOW)
    assert seconds is None or 0 < seconds <= 86_400
