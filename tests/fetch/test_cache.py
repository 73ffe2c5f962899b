"""The HTTP cache: what is replayed, what is not, and files that are damaged."""

import asyncio
import hashlib
import os
import time
from functools import partial

import pytest
import zstandard

from silkline import Request
from silkline.errors import ConfigError, FetchError
from silkline.fetch import Guard, HttpCache, WreqFetcher
from silkline.fetch.cache import DIGEST_BYTES, MAGIC, CachedResponse, CachingFetcher
from silkline.testing import LocalSite, SiteResponse, redirect
from silkline.worker.recording import record_into, recorded

AGENT = "silkline-test/1"
SECRETS = ("hunter2", "t0ken", "s3ssion")


@pytest.fixture
async def site():
    numbers = iter(range(1_000))
    routes = {
        "/": SiteResponse("<h1>Front</h1>", headers={"X-Kind": "lamp"}),
        "/count": lambda visit: str(next(numbers)),
        "/gone": 410,
        "/busy": SiteResponse("later", status=503),
        "/login": SiteResponse("", status=302, headers={"Location": "/in", "Set-Cookie": "id=s3ssion; Path=/"}),
        "/old": redirect("/"),
        "/in": SiteResponse("in", headers={"Set-Cookie": "id=s3ssion; HttpOnly"}),
    }
    async with LocalSite(routes) as started:
        yield started


@pytest.fixture
async def open_cached(tmp_path):
    opened = []

    def open_(**options):
        fetcher = WreqFetcher(guard=Guard(allow_private=True))
        opened.append(CachingFetcher(fetcher, HttpCache(tmp_path / "cache", **options)))
        return opened[-1]

    yield open_
    for fetcher in opened:
        await fetcher.close()


@pytest.fixture
def files(tmp_path):
    """The cached responses."""

    def files_():
        found = (tmp_path / "cache").glob("*/*")
        return sorted(path for path in found if path.is_file() and path.parent.name != "tmp")

    return files_


async def get_request(fetcher, request):
    return await fetcher.fetch(request, user_agent=AGENT)


async def get(fetcher, url, **fields):
    return await fetcher.fetch(Request(url, **fields), user_agent=AGENT)


async def test_a_page_is_fetched_once_and_replayed_as_it_was(site, open_cached):
    fetcher = open_cached()
    first = await get(fetcher, site.url)
    again = await get(open_cached(), site.url)
    assert not isinstance(first, CachedResponse)
    assert isinstance(again, CachedResponse)
    for name in ("url", "status", "body", "http_version"):
        assert getattr(again, name) == getattr(first, name)
    assert again.headers.pairs == first.headers.pairs
    assert again.headers["x-kind"] == "lamp"
    assert site.visits.paths == ["/"]
    offline = open_cached(offline=True)
    assert (await get(offline, site.url)).body == first.body
    assert site.visits.paths == ["/"]


@pytest.mark.parametrize(("path", "visits"), [("/gone", 1), ("/busy", 2), ("/old", 1), ("/in", 1), ("/login", 2)])
async def test_pages_that_another_attempt_may_find_are_not_replayed(path, visits, site, open_cached):
    """Nor is a redirect that sets cookies: their values are not stored."""
    fetcher = open_cached()
    statuses = {(await get(fetcher, site.at(path))).status for _ in range(2)}
    assert (len(statuses), len(site.visits)) == (1, visits)


async def test_only_get_and_head_are_cached_each_for_itself(site, open_cached, files):
    fetcher = open_cached()
    for _ in range(2):
        await get(fetcher, site.url, method="POST", body=b"password=hunter2")
    assert (len(site.visits), files()) == (2, [])
    assert (await get(fetcher, site.url)).body
    assert not (await get(fetcher, site.url, method="HEAD")).body
    await fetcher.fetch(Request(site.url), user_agent=AGENT, cut=5)
    whole = await get(fetcher, site.url)
    assert (len(site.visits), len(files()), whole.body) == (5, 3, b"<h1>Front</h1>")


async def test_an_archive_has_the_time_at_which_a_replayed_page_was_fetched(site, open_cached):
    exchanges = []
    record_into(exchanges)
    for _ in range(2):
        before = time.time()
        await recorded(partial(get_request, open_cached()))(Request(site.url))
    fetched, replayed = exchanges
    assert fetched.began <= replayed.began < before
    assert (replayed.body, replayed.is_decoded) == (b"<h1>Front</h1>", True)


async def test_an_old_page_is_fetched_again(site, open_cached):
    await get(open_cached(), site.at("/count"))
    assert (await get(open_cached(expires=3600.0), site.at("/count"))).body == b"0"
    assert (await get(open_cached(expires=1e-9), site.at("/count"))).body == b"1"
    assert (await get(open_cached(), site.at("/count"))).body == b"1"


async def test_offline_a_page_that_is_not_cached_fails_and_nothing_is_fetched(site, open_cached):
    await get(open_cached(), site.url)
    offline = open_cached(offline=True)
    with pytest.raises(FetchError, match=r"/gone is not in the cache .*; fetch it without --offline") as caught:
        await get(offline, site.at("/gone"))
    assert caught.value.kind == "not_cached"
    with pytest.raises(FetchError, match="only GET and HEAD without a body are cached"):
        await get(offline, site.url, method="POST")
    assert site.visits.paths == ["/"]


async def test_credentials_are_not_written(site, open_cached, files, tmp_path):
    fetcher = open_cached()
    own = {"Authorization": "Bearer t0ken", "X-Api-Key": "t0ken"}
    await get(fetcher, site.at("/in"), headers=own, cookies={"id": "s3ssion"}, auth=("me", "hunter2"))
    await get(fetcher, site.at("/in").replace("//", "//me:hunter2@"))
    await get(fetcher, site.at("/login"))
    stored = [file.read_bytes()[len(MAGIC) + DIGEST_BYTES :] for file in files()]
    plain = b"".join(zstandard.ZstdDecompressor().decompress(one) for one in stored)
    assert len(stored) == 3
    assert b"id=-; HttpOnly" in plain
    everything = plain + b"".join(path.read_bytes() + str(path).encode() for path in files())
    assert [secret for secret in SECRETS if secret.encode() in everything] == []
    (replayed,) = [await get(open_cached(offline=True), site.at("/login"))]
    assert replayed.headers["set-cookie"] == "id=-; Path=/"


async def test_a_new_password_finds_the_same_page_but_none_finds_another(site, open_cached):
    """So that a crawl with a login can be replayed."""
    fetcher = open_cached()
    for auth in (("me", "old"), ("me", "new"), None, None):
        await get(fetcher, site.at("/count"), auth=auth)
    assert len(site.visits) == 2


def emptied(file):
    file.write_bytes(b"")


def cut_in_half(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def one_bit_flipped(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def of_another_kind(file):
    file.write_bytes(b"<html>")


def with_the_right_checksum(file):
    file.write_bytes(MAGIC + hashlib.sha256(b"junk").digest() + b"junk")


def a_bomb(file):
    packing = zstandard.ZstdCompressor().compressobj(size=600 * 2**20)
    packed = b"".join(packing.compress(bytes(2**20)) for _ in range(600)) + packing.flush()
    file.write_bytes(MAGIC + hashlib.sha256(packed).digest() + packed)


@pytest.mark.parametrize(
    "damage", [emptied, cut_in_half, one_bit_flipped, of_another_kind, with_the_right_checksum, a_bomb]
)
async def test_a_damaged_file_is_replaced_and_logged_once(damage, site, open_cached, files, caplog):
    await get(open_cached(), site.url)
    await get(open_cached(), site.at("/gone"))
    for file in files():
        damage(file)
    with pytest.raises(FetchError, match=r"because its file is damaged \("):
        await get(open_cached(offline=True), site.url)
    caplog.clear()
    fetcher = open_cached()
    for path in ("/", "/gone"):
        await get(fetcher, site.at(path))
    assert [record.getMessage().count("is fetched again") for record in caplog.records] == [1]
    assert site.visits.paths == ["/", "/gone", "/", "/gone"]
    assert isinstance(await get(open_cached(offline=True), site.url), CachedResponse)


async def test_a_file_of_another_page_counts_as_damaged(site, open_cached, files):
    await get(open_cached(), site.url)
    (front,) = files()
    await get(open_cached(), site.at("/count"))
    (other,) = set(files()) - {front}
    front.replace(other)
    assert (await get(open_cached(), site.at("/count"))).body == b"1"


async def test_names_are_short_and_safe_whatever_the_url(site, open_cached, files, tmp_path):
    fetcher = open_cached()
    site.routes["/*"] = "x"
    for path in ("/" + "a" * 7_000, "/../../../../etc/passwd", "/%2e%2e/%00", "/a?" + "b=/&" * 1_000, "/\u202e"):
        await get(fetcher, site.at(path))
    assert len(files()) == 5
    assert {(len(file.parent.name), len(file.name)) for file in files()} == {(2, 62)}
    assert {path.name for path in tmp_path.iterdir()} == {"cache"}


async def test_pages_fetched_at_the_same_time_are_stored_whole(site, open_cached, files, tmp_path):
    fetchers = [open_cached() for _ in range(4)]
    await asyncio.gather(*(get(fetcher, site.at("/count")) for fetcher in fetchers for _ in range(8)))
    assert isinstance(await get(open_cached(offline=True), site.at("/count")), CachedResponse)
    assert len(files()) == 1
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


async def test_a_cache_that_cannot_be_written_is_logged_once_and_pages_are_still_fetched(
    site, open_cached, tmp_path, caplog
):
    fetcher = open_cached()
    (tmp_path / "cache" / "tmp").rmdir()  # as if the disk were full
    for path in ("/", "/count"):
        assert (await get(fetcher, site.at(path))).status == 200
    assert [record.getMessage().count("cannot be written to the cache") for record in caplog.records] == [1]


async def test_what_a_killed_process_left_is_deleted(site, open_cached, tmp_path):
    open_cached()
    left, recent = (tmp_path / "cache" / "tmp" / name for name in ("left", "recent"))
    left.write_bytes(b"x")
    recent.write_bytes(b"x")
    os.utime(left, (0, 0))
    open_cached()
    assert (left.exists(), recent.exists()) == (False, True)


def test_a_cache_is_for_its_user_only(open_cached, tmp_path):
    open_cached()
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"expires": 0}, "must be a number of seconds above 0"),
        ({"expires": "1d"}, "must be a number of seconds above 0"),
        ({"expires": 60.0, "offline": True}, "leave one out"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        HttpCache("cache", **options)


def test_a_cache_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match=r"file cannot be used: File exists"):
        HttpCache(tmp_path / "file").prepare()
    with pytest.raises(ConfigError, match="there is no cache"):
        HttpCache(tmp_path / "none", offline=True).prepare()
    assert not (tmp_path / "none").exists()
