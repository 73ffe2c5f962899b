"""A crawl that is fed by the sitemaps of a site."""

from __future__ import annotations

import gzip
import time

import pytest

from silkline import Request, Scope
from silkline.errors import ConfigError
from silkline.testing import SiteResponse
from silkline.worker.feeds import sitemap_feed
from silkline.worker.feeds.feed_name import check_feed
from silkline.worker.feeds.sitemap_feed import SitemapFeed


def urlset(*urls, tag="urlset", inner="url"):
    entries = "".join(
        f"<{inner}><loc>{url}</loc>{f'<lastmod>{date}</lastmod>' if date else ''}</{inner}>"
        for url, _, date in (url.partition(" ") for url in urls)
    )
    return f"<?xml version='1.0'?><{tag} xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}</{tag}>"


def index(*urls):
    return urlset(*urls, tag="sitemapindex", inner="sitemap")


def xml(body):
    return SiteResponse(body, headers={"Content-Type": "application/xml"})


PAGES = {f"/{name}": f"<h1>{name}</h1>" for name in ("a", "b", "c", "d", "e")}


@pytest.fixture
async def site(serve):
    """A site with an index of three sitemaps: XML, gzip, plain text."""
    found = await serve(dict(PAGES))
    packed = gzip.compress(
        urlset(found.at("/b"), "http://elsewhere.example/x", found.at("/x.pdf"), "mailto:x").encode()
    )
    found.routes.update({
        "/index.xml": xml(index(found.at("/1.xml"), found.at("/2.xml.gz"), found.at("/3.txt"), "http://elsewhere.example/4.xml")),
        "/1.xml": xml(urlset(found.at("/a") + " 2026-01-31", found.at("/c") + " 2025-01-01", found.at("/d"))),
        "/2.xml.gz": SiteResponse(packed, headers={"Content-Type": "application/gzip"}),
        "/3.txt": SiteResponse(found.at("/e"), headers={"Content-Type": "text/plain"}),
    })  # fmt: skip
    return found


def paths(site):
    return sorted(visit.path for visit in site.visits if visit.path != "/robots.txt")


def crawl_of(new_crawl, *feeds, **settings):
    crawl = new_crawl(feeds=feeds, **settings)

    @crawl.handler
    def page(page):
        yield {"path": page.url.rpartition("/")[2], "depth": page.depth}

    @crawl.handler
    def other(page):
        yield {"other": page.url.rpartition("/")[2]}

    return crawl


async def test_an_index_leads_to_all_its_urls(new_crawl, run, site):
    crawl = crawl_of(new_crawl, f"sitemap:{site.at('/index.xml')}", scope=Scope(max_depth=1))
    done = await run(crawl)
    assert sorted(item["path"] for item in done.items) == ["a", "b", "c", "d", "e"]
    assert {item["depth"] for item in done.items} == {1}
    assert paths(site) == sorted([*PAGES, "/index.xml", "/1.xml", "/2.xml.gz", "/3.txt"])
    skipped = done.counters.skipped
    assert (skipped["sitemap of another site"], skipped["another site"]) == (1, 1)
    assert (skipped["file type"], skipped["not a web address"]) == (1, 1)
    assert done.stats.dead == 0
    before = len(site.visits)
    again = await run(crawl)  # within the same hour, nothing is read again
    assert len(site.visits) == before
    assert again.items == []


async def test_a_later_run_reads_it_again_also_behind_a_redirect(new_crawl, run, serve, monkeypatch):
    now = time.time()
    site = await serve(dict(PAGES))
    site.routes["/sitemap.xml"] = SiteResponse(status=301, headers={"Location": "/new.xml"})
    site.routes["/new.xml"] = xml(urlset(site.at("/a")))
    crawl = crawl_of(new_crawl, f"sitemap:{site.at('/sitemap.xml')}")
    await run(crawl)
    site.routes["/new.xml"] = xml(urlset(site.at("/a"), site.at("/b")))
    monkeypatch.setattr(sitemap_feed.time, "time", lambda: now + 3700)
    done = await run(crawl)
    assert [item["path"] for item in done.items] == ["b"]
    assert paths(site) == sorted(["/a", "/b", *2 * ["/new.xml", "/sitemap.xml"]])


async def test_since_and_handler(new_crawl, run, site):
    feed = f"sitemap:{site.at('/1.xml')}#since=2026-01-01&handler=other"
    done = await run(crawl_of(new_crawl, feed))
    assert sorted(item["other"] for item in done.items) == ["a", "d"]
    assert done.counters.skipped["not changed since"] == 1


async def test_a_named_handler_gets_files_too(new_crawl, run, site):
    site.routes["/x.pdf"] = "a document"
    done = await run(crawl_of(new_crawl, f"sitemap:{site.at('/2.xml.gz')}#handler=other"))
    assert sorted(item["other"] for item in done.items) == ["b", "x.pdf"]
    assert "file type" not in done.counters.skipped


async def test_robots_txt_names_sitemaps_and_forbids_some(new_crawl, run, site):
    site.routes["/robots.txt"] = SiteResponse(
        f"User-agent: *\nDisallow: /2\nDisallow: /c\nSitemap: {site.at('/1.xml')}\nSitemap: {site.at('/2.xml.gz')}\n",
        headers={"Content-Type": "text/plain"},
    )
    done = await run(crawl_of(new_crawl, f"sitemap:{site.at('/robots.txt')}"))
    assert sorted(item["path"] for item in done.items) == ["a", "d"]
    assert paths(site) == ["/1.xml", "/a", "/d"]


BAD = {
    "/missing.xml": (SiteResponse(status=404), "404"),
    "/page.xml": (SiteResponse("<html></html>"), "begins with <html>"),
    "/bomb.xml": (xml("<!DOCTYPE x [<!ENTITY a 'x'>]><urlset><url><loc>&a;</loc></url></urlset>"), "declares entities"),
    "/robots.txt": (SiteResponse("User-agent: *\nAllow: /\n"), "names no sitemap"),
}


@pytest.mark.parametrize("path", BAD)
async def test_what_is_no_sitemap_becomes_a_dead_letter(new_crawl, run, serve, path):
    answer, words = BAD[path]
    site = await serve({path: answer})
    done = await run(crawl_of(new_crawl, f"sitemap:{site.at(path)}"))
    [letter] = done.dead
    assert words in letter.reason
    assert letter.url == site.at(path)


async def test_indexes_that_list_each_other_end(new_crawl, run, serve):
    def answer(visit):
        return xml(index(f"http://{visit.headers['host']}{visit.path}x"))

    site = await serve({"/i*": answer})
    done = await run(crawl_of(new_crawl, f"sitemap:{site.at('/i')}"))
    assert paths(site) == ["/i", "/ix", "/ixx", "/ixxx"]
    assert "below 3 others" in done.dead[0].reason


async def test_a_sitemap_larger_than_the_limit_of_pages_is_read(new_crawl, run, serve):
    padding = f"<!-- {'x' * 2**19} -->" * 34
    site = await serve({**PAGES})
    site.routes["/large.xml"] = xml(urlset(site.at("/a")).replace("</urlset>", padding + "</urlset>"))
    done = await run(crawl_of(new_crawl, f"sitemap:{site.at('/large.xml')}"))
    assert [item["path"] for item in done.items] == ["a"]


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ("sitemap:", "a feed of sitemaps is sitemap:URL"),
        ("sitemap:ftp://a.example/", "a feed of sitemaps is sitemap:URL"),
        ("sitemap:https://a.example/s.xml#until=1", "unknown option 'until'"),
        ("sitemap:https://a.example/s.xml#since=soon", "since must be a date"),
    ],
)
def test_wrong_names_are_reported(feed, words):
    with pytest.raises(ConfigError, match=words):
        check_feed(feed)


async def test_a_host_stands_for_its_robots_txt_and_a_handler_must_exist():
    feed = SitemapFeed("sitemap:shop.example", ["page"])
    [entry] = await feed.take(10)
    assert isinstance(entry.item, Request)
    assert entry.item.url == "https://shop.example/robots.txt"
    assert not await feed.ended()
    await feed.release([entry])
    assert len(await feed.take(10)) == 1
    with pytest.raises(ConfigError, match="the crawl has no handler 'x'; its handlers are page"):
        SitemapFeed("sitemap:shop.example#handler=x", ["page"])
