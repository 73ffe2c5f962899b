"""Unpacking, bit by bit: whatever is packed comes out, in pieces of bounded size, and nothing else is believed."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from silkline.core.errors import FetchError
from silkline.testing.site.bombs import bomb
from silkline.worker.fetch.decode import PIECE, Unpacking

PACK = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
codings = st.lists(st.sampled_from(sorted(PACK)), max_size=3)


def unpack(codings, pieces):
    out = []
    unpacking = Unpacking(", ".join(codings), out.append)
    for piece in pieces:
        unpacking.feed(piece)
    unpacking.finish()
    assert all(len(piece) <= 2 * PIECE for piece in out)
    return b"".join(out)


def cut(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(st.binary(max_size=2_000), codings, st.integers(1, 500))
def test_what_was_packed_comes_out(data, codings, size):
    packed = data
    for coding in codings:
        packed = PACK[coding](packed)
    assert unpack(codings, cut(packed, size)) == data


def test_servers_that_leave_out_the_zlib_header_are_understood():
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(b"silk" * 1_000) + packer.flush()
    assert unpack(["deflate"], cut(packed, 1)) == b"silk" * 1_000


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_several_members_in_a_row(coding):
    packed = PACK[coding](b"one ") + PACK[coding](b"two")
    for size in (1, 7, 1_000):
        assert unpack([coding], cut(packed, size)) == b"one two"


def test_what_follows_a_gzip_body_is_ignored():
    assert unpack(["gzip"], [gzip.compress(b"one") + b"\0\0\0"]) == b"one"


@given(st.sampled_from(sorted(PACK)), st.integers(1, 60))
def test_half_a_body_is_no_body(coding, missing):
    packed = PACK[coding](bytes(range(256)) * 40)
    with pytest.raises(FetchError) as caught:
        unpack([coding], [packed[:-missing]])
    assert caught.value.kind == "decode"


@given(st.sampled_from(sorted(PACK)), st.binary(min_size=1, max_size=200), st.integers(1, 50))
def test_nonsense_is_an_error_of_ours_or_nothing(coding, data, size):
    with suppress(FetchError):  # and nothing else
        unpack([coding], cut(data, size))


class Enough(Exception):
    """More than anybody wants."""


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_stops_when_it_is_enough(coding):
    out = []

    def take(piece):
        out.append(len(piece))
        if sum(out) > 4 * PIECE:
            raise Enough

    with pytest.raises(Enough):
        Unpacking(coding, take).feed(bomb(coding))
    assert max(out) <= 2 * PIECE  # brotli rounds up
    assert len(out) <= 10
