"""Files that handlers download: stored once, complete or not at all, under names that no site chooses."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from silkline import Backoff, Frontier, Request, Scope
from silkline.errors import ConfigError
from silkline.fetch import AiohttpFetcher, Guard, HttpCache, Limits, WreqFetcher
from silkline.sinks import Files, open_sink
from silkline.sinks.downloads import store
from silkline.testing import Raw, SiteResponse, healing, page, redirect
from silkline.worker.crawl.crawl import FetchOptions
from tests.worker import downloader

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
PDF = b"%PDF-1.7\n" + b"%" * 900_000
NAME = re.compile(r"(?:[\w/-]+/)?([0-9a-f]{2})/(\1[0-9a-f]{62})\.[a-z0-9]+")


def found_in(folder):
    """The files by their path, without directories."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def name_of(content, extension, to=""):
    digest = hashlib.sha256(content).hexdigest()
    return f"{to}/{digest[:2]}/{digest}.{extension}".lstrip("/")


def crawl_of(new_crawl, site, tmp_path, downloads, **settings):
    """A crawl whose first page downloads something."""
    settings.setdefault("files", str(tmp_path / "files"))
    crawl = new_crawl([site.url], **settings)

    @crawl.handler
    def parse(page):
        return downloads(page)

    return crawl


async def test_equal_contents_are_one_file_and_a_url_is_fetched_once(run, serve, new_crawl, tmp_path):
    other = await serve({"/copy": SiteResponse(PNG, headers={"Content-Type": "text/html"})})
    html = f"<img src=/a.png><img src={other.at('/copy')}><img src='data:image/png;base64,xx'>"
    site = await serve(
        {"/": html + "<a href=/2>2</a>", "/2": html, "/a.png": PNG, "/b.pdf": SiteResponse(PDF, headers={})}
    )
    crawl = new_crawl([site.url], files=tmp_path / "files", scope=Scope(stay="host"))

    @crawl.handler
    def parse(page):
        yield page.download(page.css("img"), to="shop/images")
        yield page.download("/b.pdf")
        yield page.follow(page.css("a"))

    done = await run(crawl)
    image, document = name_of(PNG, "png", "shop/images"), name_of(PDF, "pdf")
    assert found_in(tmp_path / "files") == {image: PNG, document: PDF}
    items = {item["url"]: item for item in done.items}
    assert items == {
        site.at("/a.png"): of(site.at("/a.png"), image, PNG, "image/png"),
        other.at("/copy"): of(other.at("/copy"), image, PNG, "text/html"),
        site.at("/b.pdf"): of(site.at("/b.pdf"), document, PDF, "application/pdf"),
    }
    assert len(site.visits.to(path="/a.png")) == 1
    assert done.counters.skipped["not a web address"] == 2
    assert done.counters.bytes >= 2 * len(PNG) + len(PDF)
    assert (done.stats.done, done.stats.dead) == (5, 0)


def of(url, path, content, kind):
    digest = hashlib.sha256(content).hexdigest()
    return {"url": url, "path": path, "sha256": digest, "content_type": kind, "size": len(content)}


async def test_a_handler_that_is_named_gets_the_file(run, serve, new_crawl, tmp_path):
    site = await serve({"/": "", "/a.pdf": PDF})
    crawl = new_crawl([site.url], files=str(tmp_path))

    @crawl.handler
    def parse(page):
        yield page.download("/a.pdf", "pdf", document, meta={"sku": 7})

    @crawl.handler
    def document(page):
        assert page.body == b""
        yield {"sku": page.meta["sku"], "bytes": len((tmp_path / page.file.path).read_bytes())}

    assert (await run(crawl)).items == [{"sku": 7, "bytes": len(PDF)}]


async def test_a_link_with_a_named_handler_is_followed_whatever_its_file_type(run, serve, new_crawl):
    site = await serve(
        {"/": "<a href=/a.pdf>a</a><a href=/b.pdf>b</a>", "/a.pdf": PDF, "/b.pdf": redirect("/c.pdf"), "/c.pdf": PDF}
    )
    crawl = new_crawl([site.url])

    @crawl.handler
    def parse(page):
        yield page.follow(page.css("a"))
        yield page.follow(page.css("a"), document)

    @crawl.handler
    def document(page):
        yield {"bytes": len(page.body)}

    done = await run(crawl)
    assert done.items == [{"bytes": len(PDF)}] * 2
    assert done.counters.skipped["file type"] == 2


BOMB = gzip.compress(bytes(30 * 2**20))
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 0x1000 + b"\r\n"


async def endless(wire, visit):
    await wire.send(CHUNKED)
    while True:
        await wire.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


TOO_LARGE = {
    "declared": PDF,
    "endless": Raw(endless),
    "compressed": SiteResponse(BOMB, headers={"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
async def test_a_file_above_its_limit_is_a_dead_letter_and_leaves_nothing(run, serve, new_crawl, tmp_path, kind):
    site = await serve({"/": "", "/large": TOO_LARGE[kind], "/small": b"x" * 100})
    crawl = crawl_of(new_crawl, site, tmp_path, lambda page: page.download(["/large", "/small"], max_bytes=800_000))
    done = await run(crawl)
    [letter] = done.dead
    assert letter.url == site.at("/large")
    assert letter.reason.startswith("too_large: ")
    assert letter.reason.endswith("; larger files need a higher max_bytes")
    assert found_in(tmp_path / "files") == {name_of(b"x" * 100, "txt"): b"x" * 100}


async def test_a_file_may_be_larger_than_a_page(run, serve, new_crawl, tmp_path):
    site = await serve({"/": "", "/large": PDF})
    options = FetchOptions(allow_private=True, limits=Limits(max_body=100_000))
    crawl = crawl_of(new_crawl, site, tmp_path, lambda page: page.download("/large"), fetching=options)
    assert (await run(crawl)).items[0]["size"] == len(PDF)


async def test_a_file_that_breaks_off_is_fetched_again(run, serve, new_crawl, tmp_path):
    async def half(wire, visit):
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(PDF) + PDF[:600_000])
        wire.close()

    site = await serve({"/": "", "/a": healing(Raw(half), PDF), "/b": healing(503, PNG)})
    crawl = crawl_of(new_crawl, site, tmp_path, lambda page: page.download(["/a", "/b"]))
    done = await run(crawl)
    assert found_in(tmp_path / "files") == {name_of(PDF, "pdf"): PDF, name_of(PNG, "png"): PNG}
    assert (done.stats.done, len(done.items)) == (3, 2)


async def test_a_site_chooses_neither_names_nor_folders(run, serve, new_crawl, tmp_path):
    headers = {"Content-Type": "../../etc/x", "Content-Disposition": 'attachment; filename="/etc/passwd"'}
    hostile = ["/..%2f..%2fetc%2fpasswd", "/a/.%2e/x.php", "/%00.sh", "/x.tar.gz/..;/y.exe"]
    site = await serve({"/": "", "/*": lambda visit: SiteResponse(visit.path.encode() + b"\x00", headers=headers)})
    crawl = crawl_of(new_crawl, site, tmp_path, lambda page: page.download(hostile, to="all"))
    done = await run(crawl)
    assert len(done.items) == len(hostile)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files"]
    for path, content in found_in(tmp_path / "files").items():
        assert NAME.fullmatch(path)[2] == hashlib.sha256(content).hexdigest()
        assert path.startswith("all/")
        assert path.endswith(".bin")


@pytest.mark.parametrize("name", ["..", "../x", "/etc", "a/../b", ".hidden", "a//b", "a/", "a\n", "ä", "a" * 300, 7])
def test_a_folder_is_below_the_files_of_the_crawl(name):
    with pytest.raises(ConfigError, match="to must be the name of a folder within the crawl's files"):
        page("").download("/x", to=name)


@pytest.mark.parametrize("given", ["postgresql://x/y", "", 7, Files])
def test_files_go_to_a_folder_or_an_object_store(given, new_crawl):
    with pytest.raises(ConfigError, match="files"):
        new_crawl(files=given)


def test_the_settings_of_an_object_store_are_not_shown():
    assert "hush" not in repr(Files("s3://bucket/x?secret_access_key=hush"))


async def test_robots_and_deny_apply_to_files_and_redirects_keep_them(run, serve, new_crawl, tmp_path):
    other = await serve({"/real.png": PNG})
    site = await serve(
        {"/": "", "/a": redirect(other.at("/real.png")), "/private/b": PNG, "/denied": PNG},
        robots="User-agent: *\nDisallow: /private/",
    )
    crawl = crawl_of(
        new_crawl,
        site,
        tmp_path,
        lambda page: page.download(["/a", "/private/b", "/denied"]),
        scope=Scope(stay="host", deny=["/denied"]),
    )
    done = await run(crawl)
    assert [item["url"] for item in done.items] == [other.at("/real.png")]
    assert done.counters.skipped["denied"] == 1
    assert {visit.path for visit in site.visits} == {"/robots.txt", "/", "/a"}


async def test_files_that_cannot_be_stored_wait_and_cost_no_attempt(run, serve, new_crawl, tmp_path, monkeypatch):
    monkeypatch.setattr("silkline.worker.throttling.AGAIN", 0.1)
    site = await serve({"/": "", "/a": PNG, "/b": PDF})
    files = tmp_path / "files"
    files.write_text("a file is in the way")
    crawl = crawl_of(
        new_crawl, site, tmp_path, lambda page: page.download(["/a", "/b"]), retries=Backoff(max_attempts=2)
    )
    running = asyncio.create_task(run(crawl))
    while len(site.visits.to(path="/a")) < 4:  # noqa: ASYNC110 - more often than a page may fail
        await asyncio.sleep(0.01)
    files.unlink()
    done = await running
    assert len(done.items) == 2
    assert done.stats.dead == 0
    assert done.counters.errors["local: files"] >= 2
    assert set(found_in(files)) == {name_of(PNG, "png"), name_of(PDF, "pdf")}


FETCHERS = {
    "one that keeps bodies in memory": lambda _: AiohttpFetcher(guard=Guard(allow_private=True)),
    "wreq": lambda _: WreqFetcher(guard=Guard(allow_private=True), limits=Limits(max_body=500_000)),
}


@pytest.mark.parametrize("fetcher", FETCHERS)
async def test_files_are_archived_as_far_as_pages_may_be_large(run, serve, new_crawl, tmp_path, fetcher):
    site = await serve({"/": "", "/a": PNG, "/b": PDF})
    options = FetchOptions(allow_private=True, fetcher=FETCHERS[fetcher])
    crawl = crawl_of(new_crawl, site, tmp_path, lambda page: page.download(["/a", "/b"]), fetching=options)
    archive = open_sink(tmp_path / "x.warc.gz")
    await run(crawl, sinks=[archive])
    await archive.close()
    with (tmp_path / "x.warc.gz").open("rb") as file:
        stored = {
            record.rec_headers.get_header("WARC-Target-URI"): (
                record.rec_headers.get_header("WARC-Truncated"),
                record.raw_stream.read(),
            )
            for record in ArchiveIterator(file, check_digests="raise")
            if record.rec_type == "response"
        }
    assert stored[site.at("/a")] == (None, PNG)
    assert stored[site.at("/b")] == (("length", PDF[:500_000]) if fetcher == "wreq" else (None, PDF))
    assert set(found_in(tmp_path / "files")) == {name_of(PNG, "png"), name_of(PDF, "pdf")}


async def test_files_come_from_the_cache_too(run, serve, new_crawl, tmp_path):
    site = await serve({"/": "", "/a": PDF})
    for turn in range(2):
        options = FetchOptions(allow_private=True, cache=HttpCache(tmp_path / "cache"))
        crawl = crawl_of(
            new_crawl, site, tmp_path, lambda page: page.download("/a"), fetching=options, files=f"{tmp_path}/{turn}"
        )
        crawl.name += str(turn)
        assert len((await run(crawl)).items) == 1
        assert found_in(tmp_path / str(turn)) == {name_of(PDF, "pdf"): PDF}
    assert len(site.visits.to(path="/a")) == 1


async def test_a_large_file_is_not_held_in_memory(serve, tmp_path):
    size = 24 * 2**20
    site = await serve({"/": SiteResponse(bytes(size))})
    files = store.open_store(Files(str(tmp_path)))

    class Watched(store.Spool):
        most_held = 0

        def add(self, piece):
            super().add(piece)
            self.most_held = max(self.most_held, self._held)

    spool = Watched(size, files)
    fetcher = WreqFetcher(guard=Guard(allow_private=True))
    response = await fetcher.download(Request(site.url), user_agent="x", into=spool)
    assert (response.body, response.file.size) == (b"", size)
    assert spool.most_held < 2 * store.IN_MEMORY
    assert [path.stat().st_size for path in (tmp_path / store.UNFINISHED).iterdir()] != []
    spool.discard()
    assert list((tmp_path / store.UNFINISHED).iterdir()) == []
    await fetcher.close()
    files.close()


async def test_a_worker_that_is_killed_leaves_no_part_of_a_file_and_loses_none(valkey, crawl, serve, tmp_path):
    contents = {
        "/middle": b"m" * downloader.MIDDLE,
        "/before": b"b" * downloader.BEFORE,
        "/after": b"a" * downloader.AFTER,
    }
    site = await serve({"/": "", **contents})
    files, out = tmp_path / "files", tmp_path / "items.jsonl"
    prepared = downloader.make(crawl, site.url, str(files))
    async with await Frontier.open(valkey.url, crawl=crawl, **prepared.arguments) as frontier:
        await frontier.enqueue([site.url])
        command = [sys.executable, "-m", "tests.worker.downloader", valkey.url, crawl, site.url, files, out]
        done = await asyncio.to_thread(
            subprocess.run, list(map(str, command)), check=True, timeout=200, stdout=subprocess.PIPE
        )
        codes = json.loads(done.stdout)
        stats = await frontier.admin.stats()
    assert codes[-1] == 0
    assert codes.count(-signal.SIGKILL) == 3
    assert (stats.done, stats.dead) == (4, 0)
    assert found_in(files) == {name_of(content, "txt", "a"): content for content in contents.values()}
    sizes = {json.loads(line)["size"] for line in out.read_text().splitlines()}
    assert sizes == set(map(len, contents.values()))
