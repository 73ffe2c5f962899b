"""`meta["download_slot"]` is the queue of a request: for render services, and for slots per proxy."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest
import scrapy as scrapy_library

from silkline import SyncFrontier
from silkline.core.url import is_host
from silkline.scrapy.convert.requests import to_core, to_scrapy
from silkline.scrapy.convert.slots import AutomaticSlot, queue_name
from silkline.testing.site import LocalSite, SiteResponse, redirect
from tests.scrapy.conftest import both_versions, every_version
from tests.scrapy.processes import HERE, lines

SITES, PAGES = 6, 4


class Together:
    """Answers nobody until *most* different slots are in progress, and notes how many requests of a slot were at once."""

    def __init__(self, most, slot_of):
        self._most, self._slot_of = most, slot_of
        self._lock = threading.Lock()
        self.busy, self.greatest = Counter(), Counter()
        self.met = False

    async def __call__(self, visit):
        slot = self._slot_of(visit)
        with self._lock:
            self.busy[slot] += 1
            self.greatest[slot] = max(self.greatest[slot], self.busy[slot])
            self.met = self.met or sum(count > 0 for count in self.busy.values()) == self._most
        while not self.met:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)
        with self._lock:
            self.busy[slot] -= 1
        return "<p>rendered"


@pytest.fixture
def run(scrapy):
    def start(spider, version, **environment):
        folder = HERE / "spiders"
        return scrapy("runspider", str(folder / f"{spider}.py"), version=version, folder=folder, **environment)

    return start


@every_version
def test_a_render_service_gets_pages_of_all_sites_at_once_and_one_of_each(run, out, version):
    """If all requests waited in the queue of the service, it would never see two at once: each site has one place."""
    together = Together(SITES, lambda visit: urlsplit(parse_qs(urlsplit(visit.path).query)["url"][0]).hostname)
    with LocalSite({"/render": together}) as service:
        workers = [run("rendering", version, SERVICE=service.url.rstrip("/"), SITES=SITES, PAGES=PAGES) for _ in "ab"]
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].log
        assert len(service.visits) == SITES * PAGES
    assert set(together.greatest.values()) == {1}, "of a site, both workers together"
    expected = [f"http://site-{site}.example/{number}" for site in range(SITES) for number in range(PAGES)]
    assert sorted(item["url"] for item in lines(out)) == sorted(expected)
    assert all("ERROR" not in worker.log for worker in workers)


@both_versions
def test_a_middleware_that_sends_a_page_elsewhere_costs_its_site_one_turn(run, out, open_crawl, version):
    with LocalSite({"/render": "<p>rendered"}) as service:
        worker = run("rendering", version, SERVICE=service.url.rstrip("/"), SITES=2, PAGES=3)
        assert worker.wait() == 0, worker.log
    with open_crawl() as frontier:
        assert frontier.admin.stats().done == 6, "not twelve"
    assert worker.stats["scheduler/dequeued/redis"] == 12


@every_version
def test_slots_of_proxies_are_kept_and_those_of_the_downloader_do_not_count(run, open_crawl, version):
    """Without the slots, no two pages of the site would be in progress at once."""
    together = Together(6, lambda visit: int(visit.path.rpartition("/")[2]) % 6)
    routes = {"/held/*": together, "/links": "links", "/broken": SiteResponse("broken", 503)}
    with LocalSite(routes, hosts=2) as site:
        site.routes["/moved"] = redirect(site.at("/missing/moved", host=1))
        there = {"SITE": site.at("", host=0), "OTHER": site.at("", host=1)}
        worker = run("proxied", version, **there)
        assert worker.wait() == 0, worker.log
        hosts = [urlsplit(site.at("/", host=number)).netloc for number in (0, 1)]
    assert set(together.greatest.values()) == {1}
    with open_crawl() as frontier:
        buried = {urlsplit(letter.url).path: letter.host for letter in frontier.admin.dead()}
        assert buried == {"/missing/moved": hosts[1], "/missing/copied": hosts[1], "/broken": hosts[0]}


@both_versions
def test_the_limits_of_download_slots_are_stored_for_all_workers(run, open_crawl, version):
    with LocalSite({"/render": "<p>rendered"}) as service:
        worker = run("rendering", version, SERVICE=service.url.rstrip("/"), SITES=2, PAGES=3, CONCURRENCY=4)
        assert worker.wait() == 0, worker.log
    with open_crawl() as frontier:
        hosts = {host.host: host.concurrency for host in frontier.admin.hosts("site-0.example", "site-1.example")}
    assert hosts == {"site-0.example": 1, "site-1.example": 4}


@pytest.fixture
def open_crawl(valkey, crawl):
    return lambda: SyncFrontier.open(valkey.url, crawl=crawl, create=False)


class Spider(scrapy_library.Spider):
    name = "test"


def test_a_slot_comes_back_as_it_was_and_names_a_queue():
    spider = Spider()
    for slot, queue in {"proxy-1": "proxy-1", "a.example": "a.example", "Proxy #1": queue_name("Proxy #1")}.items():
        request = scrapy_library.Request("https://b.example/", meta={"download_slot": slot, "depth": 2})
        stored = to_core(request, spider)
        assert stored.download_slot == queue
        assert to_scrapy(stored, spider).meta == request.meta


@pytest.mark.parametrize("slot", ["b.example", AutomaticSlot("a.example"), None])
def test_the_slot_of_the_host_is_none(slot):
    request = scrapy_library.Request("https://b.example/", meta={"download_slot": slot})
    stored = to_core(request, Spider())
    assert stored.download_slot is None
    if isinstance(slot, AutomaticSlot):
        assert stored.meta == {}


@pytest.mark.parametrize(
    "slot", ["", "3", "A", "a b", "xn--", "http://proxy:8080", "ü" * 300, "..", "\udc80", "[::1]", "a:1"]
)
def test_every_slot_has_a_queue_of_its_own(slot):
    name = queue_name(slot)
    assert is_host(name)
    assert len(name) < 100
    assert name != queue_name(slot + "x")
