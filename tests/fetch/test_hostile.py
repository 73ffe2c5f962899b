"""Rows 20, 21, 23 and 28 of the fault matrix: what each hostile page comes to, with either client."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from silkline import Request
from silkline.errors import FetchError, FetchTimeout, HostUnreachable, ResponseTooLarge
from silkline.fetch.limits import LOOK_EVERY, Limits
from silkline.testing import LocalSite, Raw, SiteResponse
from tests.hostile_site.pages import hostile_pages

AGENT = "silkline-test/1"

TOO_LARGE = [
    "/giant", "/giant-declared", "/giant-chunked", "/million-links",
    "/endless-headers", "/endless-header", "/endless-status", "/huge-header", "/many-headers", "/cookie-flood",
    "/bomb/gzip", "/bomb/deflate", "/bomb/raw-deflate", "/bomb/br", "/bomb/zstd", "/bomb/gzip-gzip", "/bomb/nothing",
    "/nested/zstd-frames-br", "/nested/gzip-then-zeros",
]  # fmt: skip
SLOW = ["/slow-loris", "/slow-chunks", "/silent-body"]
LATE = ["/silent", "/slow-headers"]
RESET = ["/too-short", "/half-chunked", "/reset", "/reset-first", "/empty", "/half-head"]
PROTOCOL = ["/garbage", "/ssh", "/http-0.9", "/two-lengths", "/negative-length", "/bad-chunks"]
DECODE = ["/not-gzip", "/half-gzip", "/bomb/many-layers", "/bomb/window"]
DECODE += ["/nested/gzip-members-br", "/nested/gzip-members-gzip", "/nested/gzip-members"]


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


@pytest.mark.parametrize("path", ["/tiny-chunks", "/chunk-extensions", "/busy/small-chunks"])
async def test_chunks_that_only_keep_us_busy_are_given_up_as_soon_as_that_is_clear(path, open_fetcher, hostile):
    fetcher = open_fetcher(Limits(timeout=60))
    assert (await error_of(fetcher, hostile.at(path))).kind == "protocol"


@pytest.mark.parametrize("path", ["/early-hints", "/busy/early-hints", "/busy/continue"])
async def test_interim_responses_without_end_are_given_up_long_before_the_deadline(path, open_fetcher, hostile):
    """aiohttp took all of the event loop for them, and wreq most of its own thread until the deadline."""
    error = await error_of(open_fetcher(Limits(timeout=60)), hostile.at(path))
    assert error.kind == "flood"
    assert "interim responses and no final one" in str(error)


async def test_a_page_that_is_slow_to_begin_is_no_flood_whatever_its_host_sends_meanwhile(open_fetcher):
    """Bodies of the same host arrive by other connections, which are used again and again."""
    large, enough = b"x" * 2**20, asyncio.Event()

    async def late(wire, visit):
        await enough.wait()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")

    async with LocalSite({"/late": Raw(late), "/large": SiteResponse(large)}) as site:
        fetcher = open_fetcher()
        await fetcher.fetch(Request(site.at("/large")), user_agent=AGENT)  # its connection is kept, for the late page

        async def load(until):
            while time.monotonic() < until:
                response = await fetcher.fetch(Request(site.at("/large")), user_agent=AGENT)
                assert len(response.body) == len(large)

        waits = asyncio.create_task(fetcher.fetch(Request(site.at("/late")), user_agent=AGENT))
        until = time.monotonic() + 8 * LOOK_EVERY
        await asyncio.gather(*(load(until) for _ in range(3)))
        enough.set()
        assert (await waits).body == b"late"


async def test_deadlines_are_kept_while_no_descriptor_is_left_to_look_for_floods(open_fetcher):
    asked = asyncio.Event()

    async def silent(wire, visit):
        asked.set()
        await asyncio.sleep(600)

    async with LocalSite({"/silent": Raw(silent)}) as site:
        waits = asyncio.create_task(error_of(open_fetcher(Limits(timeout=3.0)), site.at("/silent")))
        arrival = asyncio.create_task(asked.wait())
        await asyncio.wait([waits, arrival], return_when=asyncio.FIRST_COMPLETED)
        assert arrival.done(), "the request did not arrive before its deadline"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            error = await waits
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert error.kind == "timeout"


async def test_some_interim_responses_are_skipped(fetch, hostile):
    assert (await fetch(hostile.at("/busy/some-early-hints"))).body == b"final"


async def test_a_body_of_many_chunks_is_no_flood(open_fetcher):
    async def chunks(wire, visit):
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(200):
            await wire.send(b"64\r\n" + b"x" * 100 + b"\r\n")
        await wire.send((b"fa0\r\n" + b"y" * 4_000 + b"\r\n") * 100 + b"0\r\n\r\n")

    async with LocalSite({"/": Raw(chunks)}) as site:
        assert len((await open_fetcher().fetch(Request(site.url), user_agent=AGENT)).body) == 420_000


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
    assert (await fetch(hostile.at("/nested/gzip-zeros-br"))).body == b"<p>inside</p>"


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
