"""Phrases: what is shortened comes back byte for byte, and what was stored once can always be read."""

from __future__ import annotations

from hashlib import blake2s

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from silkline.frontier.store.phrases import MARK, PAIRS, SINGLES
from silkline.frontier.store.record import restore, shorten

phrases = st.sampled_from(SINGLES + PAIRS)
pieces = (
    st.binary(max_size=4) | phrases | phrases.map(lambda phrase: phrase[:-1]) | phrases.map(lambda phrase: phrase[1:])
)
codes = st.lists(st.sampled_from([MARK, *(bytes([byte]) for byte in range(0xF0, 0x100))]), max_size=6).map(b"".join)


@given(st.lists(pieces | codes, max_size=12).map(b"".join))
@example(MARK)
@example(b"\xff" + MARK + MARK + b"\xf5")
def test_data_comes_back_as_it_was(data):
    assert restore(shorten(data)) == data


@pytest.mark.parametrize("phrase", SINGLES)
def test_what_most_records_have_takes_one_byte(phrase):
    assert len(shorten(phrase)) == 1


@pytest.mark.parametrize("phrase", PAIRS)
def test_every_other_phrase_takes_two_bytes(phrase):
    assert len(phrase) > 2
    assert len(shorten(phrase)) == 2
    assert restore(shorten(phrase)) == phrase


def test_every_phrase_has_a_code_of_its_own():
    table = SINGLES + PAIRS
    assert len({shorten(phrase) for phrase in table}) == len(table)


@pytest.mark.parametrize(
    ("table", "size", "digest"),
    [(SINGLES, 11, "ebe85ffd1c1f0c5a"), (PAIRS, 205, "0f6f10008b233db4")],
    ids=["singles", "pairs"],
)
def test_stored_records_depend_on_the_order_of_the_table(table, size, digest):
    """A phrase may be added at the end of PAIRS. Nothing before it may change."""
    assert blake2s(repr(table[:size]).encode(), digest_size=8).hexdigest() == digest


@pytest.mark.parametrize("short", [MARK, b"a" + MARK, MARK + b"\xf4"])
def test_an_unknown_code_is_refused(short):
    with pytest.raises(KeyError):
        restore(short)
