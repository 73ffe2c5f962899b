"""Spiders on a cluster of three nodes, and behind a sentinel whose primary dies."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

from silkline import SyncFrontier
from silkline.frontier.store.layout import shard_of
from silkline.testing import LocalSite
from tests.scrapy.processes import lines, until
from tests.servers_matrix.topologies import Watched

SHARDS = 64
"""The default on a cluster."""
PAGES = 8
PRODUCTS = 120


def node_of(cluster, crawl, site):
    shard = shard_of(f"127.0.0.1:{site.port}", SHARDS)
    return cluster.node_with(f"silkline:{{{crawl}:{shard}}}:ledger")


def test_two_spiders_crawl_sites_that_are_on_all_nodes_of_a_cluster(scrapy, cluster, crawl, out):
    """Every page once. The first page of the first site links to the other sites."""
    links = "".join(f"<a href=/{number}>a page</a>" for number in range(PAGES))
    with ExitStack() as running:
        sites, nodes = [], set()
        while len(nodes) < len(cluster.nodes):
            sites.append(running.enter_context(LocalSite({"/": links, "/*": "<h1>a page</h1>"}, latency=0.02)))
            nodes.add(node_of(cluster, crawl, sites[-1]))
        sites[0].routes["/"] = links + "".join(f"<a href={site.url}>a site</a>" for site in sites)
        command = ("crawl", "chain", "-a", f"site={sites[0].url}")
        settings = {"SCHEDULER_PERSIST": True, "CONCURRENT_REQUESTS": 4}
        spiders = [scrapy(*command, url=cluster.url, settings=settings) for _ in range(2)]
        for spider in spiders:
            assert spider.wait() == 0, spider.log
            assert "ERROR" not in spider.log, spider.log
        expected = {site.at(path) for site in sites for path in ("/", *(f"/{number}" for number in range(PAGES)))}
    assert Counter(item["url"] for item in lines(out)) == Counter(expected)
    with SyncFrontier.open(cluster.url, crawl=crawl) as frontier:
        stats = frontier.admin.stats()
        assert (stats.done, stats.ready, stats.leased, stats.dead) == (len(expected), 0, 0, 0)
        assert frontier.layout.settings.shards == SHARDS


def test_a_spider_continues_when_a_sentinel_promotes_the_replica(scrapy, out):
    with Watched(down_after=1000) as watched, LocalSite({"/": "a list", "/*": "<h1>title</h1>"}, latency=0.03) as site:
        spider = scrapy(
            *("crawl", "catalog", "-a", f"site={site.url}", "-a", f"products={PRODUCTS}"),
            url=watched.url,
            settings={"SILKLINE_LEASE": 2, "CONCURRENT_REQUESTS": 2},
        )
        until(lambda: len(lines(out)) > 20 or not spider.running)
        watched.primary.kill()
        assert len(lines(out)) < PRODUCTS, "the spider was faster"
        watched.wait_for_failover()
        assert spider.wait() == 0, spider.log
        assert watched.failovers == 1
    found = {item["number"]: item for item in lines(out)}
    assert found.keys() == set(range(PRODUCTS))
    assert all(item["name"] == f"product {number}" for number, item in found.items())
