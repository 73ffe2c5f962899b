"""A browser as a download handler, through scrapy-playwright."""

from __future__ import annotations

import pytest

from silkline import SyncFrontier
from silkline.testing.site import LocalSite, SiteResponse, healing
from tests.scrapy.processes import HERE, lines, until

browsing = pytest.importorskip("tests.scrapy.spiders.browsing", reason="scrapy-playwright is not installed")
pytestmark = pytest.mark.skipif(browsing.CHROMIUM is None, reason="chromium is not installed")


def written(*links, title="page"):
    """A page whose links only a browser sees."""
    script = "".join(f"document.write('<a href={link}>{link}</a>');" for link in links)
    return f"<title>{title}</title><h1>a page</h1><script>{script}</script>"


@pytest.fixture
def browse(scrapy, tmp_path):
    def start(**options):
        flags = [flag for name, value in options.items() for flag in ("-a", f"{name}={value}")]
        return scrapy("runspider", str(HERE / "spiders" / "browsing.py"), *flags, folder=tmp_path)

    return start


def test_a_browser_follows_links_and_every_lease_is_settled(browse, out, valkey, crawl):
    """Pages that failed, were retried or had a callback of their own are closed: the browser may open two at a time."""
    well = ["/told", "/shout", "/a", "/held/1", "/held/2", "/held/busy/1", "/held/busy/2", "/held/busy/3"]
    busy = SiteResponse("<h1>busy</h1>", status=503)
    gone = [f"/held/missing/{number}" for number in range(3)]
    pages = {"/": written(*well, *gone), "/a": written("/", "/b"), "/b": written("/told")}
    pages |= {path: written(title=path.strip("/")) for path in well if path != "/a"}
    pages |= {f"/held/busy/{number}": healing(busy, written(title="well again")) for number in (1, 2, 3)}
    pages |= dict.fromkeys(gone, SiteResponse("<h1>gone</h1>", status=404))
    with LocalSite(pages) as site:
        run = browse(site=site.at("/"))
        assert run.wait() == 0, run.log
        titles = {item["url"].removeprefix(site.url.rstrip("/")): item["title"] for item in lines(out)}
    assert titles.keys() == {"/", "/b", *well}
    assert len(lines(out)) == len(titles)
    assert (titles["/told"], titles["/shout"], titles["/held/1"]) == ("told", "SHOUT", "held/1")
    assert titles["/held/busy/1"] == "well again"
    assert "meta['playwright_page_methods'][1]: it calls a function" in run.log
    assert run.log.count("cannot be stored") == 1
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        stats = frontier.admin.stats()
        assert (stats.pending, stats.leased) == (0, 0)
        assert {letter.reason for letter in frontier.admin.dead()} == {"HTTP status 404"}
        assert stats.dead == len(gone)


def test_a_browsing_worker_that_is_killed_loses_nothing(browse, out, valkey, crawl):
    paths = {f"/{number}": written(f"/{2 * number + 1}", f"/{2 * number + 2}") for number in range(7)}
    paths |= {f"/{number}": written(title=str(number)) for number in range(7, 15)}
    with LocalSite(paths, latency=0.1) as site:
        run = browse(site=site.at("/0"))
        until(lambda: len(lines(out)) >= 3)
        run.kill()
        again = browse()
        assert again.wait() == 0, again.log
        reached = {item["url"].removeprefix(site.url.rstrip("/")) for item in lines(out)}
    assert reached == paths.keys()
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        stats = frontier.admin.stats()
    assert (stats.pending, stats.leased, stats.dead, stats.done) == (0, 0, 0, 15)
