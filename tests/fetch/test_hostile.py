"""Rows 20, 21, 23 and 28 of the fault matrix: what each hostile page comes to, with either client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from silkline import Request
from silkline.core.errors import FetchError, FetchTimeout, HostUnreachable, ResponseTooLarge
from silkline.testing import LocalSite, Raw
from silkline.testing.site.hostile import hostile_pages
from silkline.worker.fetch.fetcher import Limits

AGENT = "silkline-test/1"

TOO_LARGE = [
    "/giant", "/giant-declared", "/giant-chunked", "/million-links",
    "/endless-headers", "/endless-header", "/endless-status", "/huge-header", "/many-headers", "/cookie-flood",
    "/bomb/gzip", "/bomb/deflate", "/bomb/raw-deflate", "/bomb/br", "/bomb/zstd", "/bomb/gzip-gzip", "/bomb/nothing",
]  # fmt: skip
SLOW = ["/slow-loris", "/slow-chunks", "/silent-body"]
LATE = ["/silent", "/slow-headers"]
RESET = ["/too-short", "/half-chunked", "/reset", "/reset-first", "/empty", "/half-head"]
PROTOCOL = ["/garbage", "/ssh", "/http-0.9", "/two-lengths", "/negative-length", "/bad-chunks"]
DECODE = ["/not-gzip", "/half-gzip", "/bomb/many-layers", "/bomb/window"]


async def error_of(fetcher, url):
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(Request(url), user_agent=AGENT)
    assert "wreq" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize("path", TOO_LARGE)
async def test_too_large(path, open_fetcher, hostile):
    error = await error_of(open_fetcher(), hostile.at(path))
    assert (type(error), error.kind) == (ResponseTooLarge, "too_large")


@pytest.mark.parametrize("path", SLOW)
async def test_too_slow_is_cut_after_the_window_long_before_the_deadline(path, open_fetcher, hostile):
    limits = Limits(timeout=600, min_rate_window=0.5)
    error = await error_of(open_fetcher(limits), hostile.at(path))
    assert (type(error), error.kind) == (FetchTimeout, "slow")


@pytest.mark.parametrize("path", LATE)
async def test_too_late(path, open_fetcher, hostile):
    error = await error_of(open_fetcher(Limits(timeout=0.5)), hostile.at(path))
    assert (type(error), error.kind) == (FetchTimeout, "timeout")
    assert "0.5 s" in str(error)


@pytest.mark.parametrize("path", RESET)
async def test_cut_off(path, open_fetcher, hostile):
    error = await error_of(open_fetcher(), hostile.at(path))
    assert (type(error), error.kind) == (HostUnreachable, "reset")


@pytest.mark.parametrize("path", PROTOCOL)
async def test_not_http(path, open_fetcher, hostile):
    error = await error_of(open_fetcher(), hostile.at(path))
    assert (type(error), error.kind) == (FetchError, "protocol")


@pytest.mark.parametrize("path", DECODE)
async def test_not_what_the_coding_says(path, open_fetcher, hostile):
    error = await error_of(open_fetcher(), hostile.at(path))
    assert (type(error), error.kind) == (FetchError, "decode")


async def test_chunks_that_only_keep_us_busy_end(open_fetcher, hostile, kind):
    fetcher = open_fetcher(Limits(timeout=2, min_rate_window=1))
    crumbs = await error_of(fetcher, hostile.at("/tiny-chunks"))
    extensions = await error_of(fetcher, hostile.at("/chunk-extensions"))
    if kind == "wreq":
        assert (crumbs.kind, extensions.kind) == ("protocol", "protocol")
    else:  # aiohttp gathers small chunks and skips extensions by itself, so only time ends them
        assert (crumbs.kind, extensions.kind) == ("timeout", "slow")


async def test_more_than_the_length_says_is_not_taken_for_the_page(open_fetcher, hostile, kind):
    fetcher = open_fetcher()
    if kind == "wreq":
        assert (await fetcher.fetch(Request(hostile.at("/too-long")), user_agent=AGENT)).body == b"short"
    else:
        assert (await error_of(fetcher, hostile.at("/too-long"))).kind == "protocol"
    # and what is left over is no answer to the next request
    assert (await fetcher.fetch(Request(hostile.at("/status/200")), user_agent=AGENT)).body == b"OK"


async def test_only_the_layers_that_are_named_are_unpacked(fetch, hostile):
    assert (await fetch(hostile.at("/packed-twice"))).body == b"<p>inside</p>"
    assert (await fetch(hostile.at("/bomb/one-layer"))).body.startswith(b"\x1f\x8b")
    assert (await fetch(hostile.at("/unknown-coding"))).body == b"<p>plain</p>"


async def test_words_of_a_response_stay_words(fetch, hostile):
    assert (await fetch(hostile.at("/policy"))).headers["referrer-policy"] == "os.system"
    assert (await fetch(hostile.at("/retry-after/1e18"))).headers["Retry-After"] == "1" + "0" * 18
    assert len((await fetch(hostile.at("/some-cookies"))).headers.get_all("set-cookie")) == 60


async def test_no_redirect_is_followed(fetch, hostile):
    hostile.forget()
    for name in ("loop", "file", "ftp", "data", "script", "private", "nowhere", "nonsense", "across", "3"):
        assert (await fetch(hostile.at(f"/redirect/{name}"))).status == 302
    assert len(hostile.visits) == 10


async def test_a_failure_costs_one_request(open_fetcher, hostile):
    """One claim of a host is one request, so a client must not try again by itself."""
    fetcher = open_fetcher()
    for path in ("/status/200", *RESET):
        hostile.forget()
        with suppress(FetchError):
            await fetcher.fetch(Request(hostile.at(path)), user_agent=AGENT)
        assert hostile.visits.paths == [path]


@pytest.mark.parametrize("path", ["/giant", "/giant-declared", "/giant-chunked", "/slow-loris"])
async def test_a_page_given_up_has_no_connection(path, open_fetcher):
    async with LocalSite(hostile_pages()) as site:
        fetcher = open_fetcher(Limits(timeout=1, max_body=100_000))
        await error_of(fetcher, site.at(path))
        async with asyncio.timeout(30):
            while site.open_connections:  # noqa: ASYNC110 - the site has no event for it
                await asyncio.sleep(0.01)


async def test_caps_are_kept(open_fetcher):
    async def headers(wire, visit):
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Filler: " + b"y" * 30_000 + b"\r\n\r\nok")

    async with LocalSite({"/at": "x" * 1000, "/over": "x" * 1001, "/headers": Raw(headers)}) as site:
        fetcher = open_fetcher(Limits(max_body=1000, max_headers=31_000))
        assert len((await fetcher.fetch(Request(site.at("/at")), user_agent=AGENT)).body) == 1000
        assert (await error_of(fetcher, site.at("/over"))).kind == "too_large"
        assert (await fetcher.fetch(Request(site.at("/headers")), user_agent=AGENT)).body == b"ok"
        for cap in (15_000, 2_000):
            assert (await error_of(open_fetcher(Limits(max_headers=cap)), site.at("/headers"))).kind == "too_large"


async def test_who_is_fast_enough_may_be_slow(open_fetcher):
    async def steady(wire, visit):
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1500\r\n\r\n")
        for _ in range(15):
            await wire.send(b"x" * 100)
            await asyncio.sleep(0.1)

    async with LocalSite({"/": Raw(steady)}) as site:
        fetcher = open_fetcher(Limits(min_rate=100, min_rate_window=0.5))
        assert len((await fetcher.fetch(Request(site.url), user_agent=AGENT)).body) == 1500


BOMBER = Path(__file__).with_name("bomber.py")


@pytest.mark.parametrize("paths", [["gzip", "deflate", "raw-deflate", "gzip-gzip"], ["br"], ["zstd"]], ids=str)
def test_bombs_do_not_fill_the_memory(paths, hostile, kind):
    """A gibibyte wants out of each; the process must not have grown by more than a few times the cap of 16 MiB."""
    command = [sys.executable, str(BOMBER), kind, *(hostile.at(f"/bomb/{path}") for path in paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    grown = json.loads(done.stdout)["grown"]
    assert grown < 128 * 2**20  # four at once; a brotli window alone takes 16 MiB of each


def test_giants_do_not_fill_the_memory(hostile, kind):
    urls = [hostile.at(path) for path in ("/giant", "/giant-chunked", "/endless-headers", "/endless-header")]
    done = subprocess.run([sys.executable, str(BOMBER), kind, *urls], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["grown"] < 128 * 2**20


@pytest.mark.parametrize("path", ["/giant", "/bomb/gzip", "/bomb/br", "/small"])
async def test_only_the_beginning_is_read_where_that_is_enough(path, open_fetcher, kind):
    async with LocalSite({**hostile_pages(), "/small": "x" * 1_000, "/giant": b"y" * 3_000_000}) as site:
        fetcher = open_fetcher(Limits(max_body=20_000))
        response = await fetcher.fetch(Request(site.at(path)), user_agent="a/1", cut=10_000)
        assert len(response.body) == (1_000 if path == "/small" else 10_000)
