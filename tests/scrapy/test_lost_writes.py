"""A spider whose server comes back without its last writes crawls every page all the same."""

from __future__ import annotations

from silkline.testing.site import LocalSite
from tests.scrapy.processes import lines, until

CHAINS, LENGTH = 6, 14


def answer(visit):
    """Of chains of pages: each links to the next one only, and to the first of each chain."""
    _, chain, number = visit.path.split("/")
    following = f"<a href=/{chain}/{int(number) + 1}>next</a>" if int(number) + 1 < LENGTH else ""
    return following + "".join(f"<a href=/{one}/0>{one}</a>" for one in range(CHAINS))


def test_a_restart_that_costs_the_last_writes_costs_no_page(scrapy, own_server, out):
    server = own_server()
    with LocalSite({"/*": answer, "/robots.txt": 404}, latency=0.01) as site:
        run = scrapy(
            "crawl",
            "mishaps",
            "-a",
            f"urls={site.at('/0/0')}",
            url=server.url,
            settings={"SILKLINE_LEASE": 2, "CONCURRENT_REQUESTS": 2},
        )
        until(lambda: len(site.visits) > 20)
        server.snapshot()
        kept = len(site.visits)
        until(lambda: len(site.visits) > kept + 30)
        server.roll_back()
        assert run.wait() == 0, run.log
        reached = {item["url"].partition(str(site.port))[2] for item in lines(out)}
    assert reached == {f"/{chain}/{number}" for chain in range(CHAINS) for number in range(LENGTH)}
    assert "the server lost its last writes" in run.log
