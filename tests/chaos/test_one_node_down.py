"""A cluster of three real nodes, one of which is frozen or killed while workers crawl a site."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from silkline import Complete, Crawl, Frontier, Politeness, Scope, SyncFrontier, Worker
from silkline.core.url import parse
from silkline.errors import PartlyUnavailable
from silkline.testing import LocalSite
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions
from silkline.worker.worker import AHEAD
from tests.chaos.subject import open_subject
from tests.cli.processes import Running
from tests.cli.sites import write_crawl
from tests.servers_matrix.topologies import wait_until

AT_ONCE = Politeness(delay=0, concurrency=4)
HOSTS, PAGES = 30, 12
SHARDS = 12


def pages():
    links = "".join(f"<a href=/{number}>x</a>" for number in range(1, PAGES))
    return {"/": links, **{f"/{number}": "page" for number in range(1, PAGES)}}


def node_of(cluster, layout, url):
    """The node that has the shard of a URL."""
    return cluster.node_with(layout.shard_of(parse(url).host).ledger)


class Outage:
    """Takes a node away from a crawl that is running, and gives it back when the pages of all other shards are fetched."""

    def __init__(self, cluster, site, layout, *, frozen):
        self.victim = cluster.nodes[1]
        self.cluster, self.site, self.frozen = cluster, site, frozen
        urls = [site.at(path, host) for host in range(HOSTS) for path in pages()]
        self.healthy = {url for url in urls if node_of(cluster, layout, url) is not self.victim}
        self.sick = set(urls) - self.healthy
        assert self.healthy
        assert self.sick

    def seen(self):
        return {f"http://{visit.host}{visit.path}" for visit in self.site.visits}

    def _last_is_sick(self):
        visit = self.site.visits[-1]
        return f"http://{visit.host}{visit.path}" in self.sick

    def run(self, seconds=100):
        wait_until(lambda: len(self.seen()) >= HOSTS, "the crawl is going on", seconds)
        wait_until(self._last_is_sick, "a page of the node is being fetched", seconds)
        self.victim.freeze() if self.frozen else self.victim.kill()
        try:
            wait_until(lambda: self.healthy <= self.seen(), "all pages of the other nodes are fetched", seconds)
            assert not self.sick <= self.seen()
        finally:
            self.victim.thaw() if self.frozen else self.victim.start()
        wait_until(self.cluster._all_agree, "the cluster is whole again")


async def run_through(outage, worker):
    task = asyncio.create_task(worker.run())
    try:
        await asyncio.to_thread(outage.run)
        return await asyncio.wait_for(task, 100)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "killed"])
async def test_a_node_that_is_down_stops_only_its_own_shards(cluster, crawl, frozen, caplog, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 1.0)
    with LocalSite(pages(), hosts=HOSTS, latency=0.15) as site:
        starts = [site.at("/", number) for number in range(HOSTS)]
        fetching = FetchOptions(allow_private=True, obey_robots=False)
        crawled = Crawl(crawl, starts, politeness=AT_ONCE, fetching=fetching)

        @crawled.handler
        def page(page):
            yield page.follow(page.css("a"))

        url = f"{cluster.url}?socket_timeout=1"
        async with await Frontier.open(url, crawl=crawl, shards=SHARDS, **crawled.arguments) as frontier:
            await frontier.enqueue(starts)
            worker = Worker(crawled, frontier, options=WorkerOptions(concurrency=12, lease=5.0))
            with caplog.at_level(logging.ERROR):
                await run_through(Outage(cluster, site, frontier.layout, frozen=frozen), worker)
            stats = await frontier.admin.stats()
            assert (stats.done, stats.dead, stats.conserved) == (HOSTS * PAGES, 0, True)
            assert not caplog.records
            assert await frontier.finished()


class CrossLinked:
    """A crawl whose pages all have a link to a page of one node, and a worker on it while that node is down."""

    def __init__(self, cluster, site, frontier, crawled):
        self.cluster, self.site, self.frontier = cluster, site, frontier
        self.victim = cluster.nodes[1]
        self.worker = Worker(crawled, frontier, options=WorkerOptions(concurrency=4, lease=5.0))
        hosts = [site.at("/", number) for number in range(HOSTS)]
        self.sick = [url for url in hosts if node_of(cluster, frontier.layout, url) is self.victim]
        self.urls = {f"{url}{number}" for url in set(hosts) - set(self.sick) for number in range(PAGES)}

    def seen(self):
        return {f"http://{visit.host}{visit.path}" for visit in self.site.visits}

    async def run(self, until, what):
        """Let it crawl what it can, then give the node back; answers how many pages were fetched meanwhile."""
        await self.frontier.enqueue(sorted(self.urls))
        self.victim.kill()
        task = asyncio.create_task(self.worker.run())
        try:
            try:
                await asyncio.to_thread(wait_until, lambda: until(self), what, 60)
                fetched = len(self.seen())
            finally:
                self.victim.start()
            await asyncio.to_thread(wait_until, self.cluster._all_agree, "the cluster is whole again")
            await asyncio.wait_for(task, 100)
            return fetched
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def cross_linked(cluster, crawl, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 1.0)
    far = []
    with LocalSite({"/*": lambda _: f"<a href={far[0]}>far</a>"}, hosts=HOSTS) as site:
        fetching = FetchOptions(allow_private=True, obey_robots=False)
        scope = Scope(stay="anywhere")
        crawled = Crawl(crawl, [site.at("/")], politeness=AT_ONCE, fetching=fetching, scope=scope)

        @crawled.handler
        def page(page):
            yield page.follow(page.css("a"))

        async with await Frontier.open(cluster.url, crawl=crawl, shards=SHARDS, **crawled.arguments) as frontier:
            subject = CrossLinked(cluster, site, frontier, crawled)
            far.append(subject.sick[0])
            yield subject
            stats = await frontier.admin.stats()
            assert (stats.done, stats.rescued, stats.conserved) == (len(subject.urls) + 1, 0, True)
            assert len(site.visits) == len(subject.urls) + 1


async def test_pages_with_a_link_to_a_node_that_is_down_wait_aside(cross_linked):
    fetched = await cross_linked.run(lambda crawl: crawl.urls <= crawl.seen(), "all that can be fetched is")
    assert fetched == len(cross_linked.urls)


@pytest.mark.parametrize(("bound", "most"), [("MOST_ASIDE", 30), ("MOST_ASIDE_LINKS", 30)])
async def test_not_more_pages_wait_aside_than_may(cross_linked, bound, most, monkeypatch):
    monkeypatch.setattr(f"silkline.runtime.settling.{bound}", most)
    fetched = await cross_linked.run(lambda crawl: crawl.worker.trouble, "the worker claims nothing more")
    assert fetched <= most + (AHEAD + 1) * 4


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_what_other_shards_did_is_reported_with_the_leases_that_wait(cluster, crawl, kind, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.3)
    urls = [f"https://h{number}.example/" for number in range(40)]
    frontier = await open_subject(kind, url=cluster.url, crawl=crawl, shards=SHARDS, politeness=AT_ONCE, lease=60)
    await frontier.enqueue(urls)
    leases = await frontier.claim(40)
    assert len(leases) == 40
    with SyncFrontier.open(cluster.url, crawl=crawl, create=False) as other:
        layout = other.layout
    victim = cluster.nodes[1]
    sick = {lease for lease in leases if node_of(cluster, layout, lease.url) is victim}
    victim.kill()
    try:
        with pytest.raises(PartlyUnavailable) as caught:
            await frontier.extend(leases)
        assert set(caught.value.leases) == sick
        assert caught.value.result == []
        with pytest.raises(PartlyUnavailable) as caught:
            await frontier.settle([(lease, Complete()) for lease in leases])
        assert set(caught.value.leases) == sick
        assert caught.value.result.lost == []
        assert await frontier.claim(5) == []  # the other shards have nothing left
    finally:
        victim.start()
    wait_until(cluster._all_agree, "the cluster is whole again")
    assert await complete_patiently(frontier, sick) == []
    stats = await frontier.admin.stats()
    assert (stats.done, stats.leased) == (40, 0)
    await frontier.close()


async def complete_patiently(frontier, leases):
    """Until the node is back, which is asked once a second; returns the leases that were lost."""
    deadline, lost = time.monotonic() + 30, []
    while True:
        try:
            return lost + (await frontier.settle([(lease, Complete()) for lease in leases])).lost
        except PartlyUnavailable as error:
            assert time.monotonic() < deadline
            leases, lost = error.leases, lost + error.result.lost
            await asyncio.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "killed"])
def test_a_run_outlives_a_node_that_goes_again_and_again(cluster, crawl, tmp_path, frozen):
    hosts, count = 60, 20
    links = "".join(f"<a href=/{number}>x</a>" for number in range(1, count))
    routes = {"/": links, **{f"/{number}": "page" for number in range(1, count)}}
    with LocalSite(routes, hosts=hosts, latency=0.2) as site:
        starts = [site.at("/", number) for number in range(hosts)]
        file = write_crawl(tmp_path / "pages.py", crawl, starts)
        words = ("run", file, "-o", "items.jsonl", "--workers", 2, "--concurrency", 8, "--redis", cluster.url)
        run = Running(*words, cwd=tmp_path)
        stop = threading.Event()
        disturber = threading.Thread(target=disturb, args=(cluster, site, stop, frozen))
        disturber.start()
        try:
            code = run.end(400)
        finally:
            stop.set()
            disturber.join()
            run.close()
    assert code == 0, run.err
    assert "died" not in run.err
    items = (tmp_path / "items.jsonl").read_text().splitlines()
    assert len(items) >= hosts * count
    with SyncFrontier.open(cluster.url, crawl=crawl, create=False) as frontier:
        stats = frontier.admin.stats()
        assert (stats.done, stats.dead, stats.conserved) == (hosts * count, 0, True)


def disturb(cluster, site, stop, frozen):
    """Take the nodes away in turn, for some seconds each."""
    for number in range(4):
        before = len(site.visits)
        while len(site.visits) < before + 100:
            if stop.wait(0.1):
                return
        victim = cluster.nodes[number % 3]
        victim.freeze() if frozen else victim.kill()
        stop.wait(9)
        victim.thaw() if frozen else victim.start()
        wait_until(cluster._all_agree, "the cluster is whole again")
