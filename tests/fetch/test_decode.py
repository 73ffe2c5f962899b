"""Content codings: whatever was encoded comes out, in steps of bounded work, and nothing else is believed."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from silkline.errors import FetchError, ResponseTooLarge
from silkline.fetch.decode import PIECE, Decoding
from silkline.fetch.limits import DeadlineTimer, Limits, read_body
from tests.hostile_site.bombs import bomb

PACK = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
codings = st.lists(st.sampled_from(sorted(PACK)), max_size=3)


CAP = 16 * 2**20


def unpack(codings, pieces):
    decoding = Decoding(", ".join(codings), CAP)
    out = [decoded for piece in pieces for decoded in decoding.feed(piece)]
    decoding.finish()
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


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_decoded_in_small_steps_and_only_as_far_as_somebody_reads(coding):
    decoding = Decoding(coding, CAP)
    sizes = [len(piece) for piece, _ in zip(decoding.feed(bomb(coding)), range(10), strict=False)]
    assert max(sizes) <= 2 * PIECE  # brotli rounds up


@pytest.mark.parametrize(
    ("codings", "kind", "ends"),
    [
        ("gzip, br", "gzip-zeros-br", b"<p>inside</p>"),
        ("gzip, br", "gzip-members-br", "decode"),
        ("gzip, gzip", "gzip-members-gzip", "decode"),
        ("zstd, br", "zstd-frames-br", "too_large"),
        ("gzip, gzip", "gzip-gzip", "too_large"),
        ("deflate, gzip, br", "gzip-zeros-br", "decode"),
    ],
)
def test_what_passes_between_two_codings_counts_too(codings, kind, ends, monkeypatch):
    """The work behind a body is bounded by the cap, not by what comes out in the end."""
    cap, work = 2**20, []
    decoding = Decoding(codings, cap)
    for decoder in decoding._chain:
        monkeypatch.setattr(decoder, "feed", counted(decoder.feed, work))
    out = b""
    try:
        for decoded in decoding.feed(bomb(kind)):
            out += decoded
            if len(out) > cap:  # as the reader of a body does
                raise ResponseTooLarge(f"{len(out)}")
        decoding.finish()
    except FetchError as error:
        out = error.kind
    assert out == ends
    assert sum(work) < 3 * (cap + 2 * PIECE)


def counted(feed, work):
    def feed_(data):
        for piece in feed(data):
            work.append(len(piece))
            yield piece

    return feed_


@pytest.mark.parametrize("coding", sorted(PACK))
@pytest.mark.parametrize("tail", [b"\0", b"\x1f\x8b", b"<p>"])
def test_what_follows_the_end_of_a_body_is_ignored_or_an_error(coding, tail):
    """And how the network cuts it into pieces makes no difference."""
    packed, ends = PACK[coding](b"one") + tail * 1_000, set()
    for size in (7, len(packed)):
        try:
            ends.add(unpack([coding], cut(packed, size)))
        except FetchError as error:
            ends.add(error.kind)
    assert ends in ({b"one"}, {"decode"})


async def test_other_tasks_run_while_a_body_is_decoded():
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def one_piece():
        await asyncio.sleep(0)
        yield gzip.compress(bytes(CAP))

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    before = turns
    with DeadlineTimer(Limits()).over("a.test", None) as watch:
        body = await read_body(one_piece(), "gzip", Limits(), watch)
    assert len(body.whole()) == CAP
    assert turns - before > 3  # the piece itself takes one
    counting.cancel()
