"""Workers whose server comes back without its last writes: every page is crawled all the same."""

from __future__ import annotations

import asyncio
import logging

import pytest

from silkline import Politeness
from silkline.worker.options import WorkerOptions
from tests.servers_matrix.topologies import Watched
from tests.worker.conftest import Run, until

CHAINS, LENGTH = 12, 40
OPTIONS = WorkerOptions(concurrency=16, lease=1.5, drain=5.0)
PATHS = {f"/{chain}/{number}" for chain in range(CHAINS) for number in range(LENGTH)}


def chains():
    """A site of chains: each page links to the next one only, and to the first page of each chain."""

    def answer(visit):
        _, chain, number = visit.path.split("/")
        following = f"<a href=/{chain}/{int(number) + 1}>next</a>" if int(number) + 1 < LENGTH else ""
        return following + "".join(f"<a href=/{one}/0>{one}</a>" for one in range(CHAINS))

    return {"/*": answer, "/robots.txt": 404}


def make_run(new_crawl, site, url, **settings):
    crawl = new_crawl([site.at("/0/0")], politeness=Politeness(delay=0, concurrency=CHAINS), **settings)

    @crawl.handler
    def collect(page):
        yield {"path": page.url.partition(str(site.port))[2]}
        yield page.follow(page.css("a"))

    return Run(crawl, url)


def crawled(run):
    return {item["path"] for item in run.items}


async def test_a_restart_that_costs_the_last_writes_costs_no_page(serve, own_server, new_crawl, caplog):
    site, server = await serve(chains(), latency=0.005), own_server()
    run = make_run(new_crawl, site, server.url)
    with caplog.at_level(logging.WARNING):
        going = asyncio.create_task(run.go(options=OPTIONS))
        await until(lambda: len(run.items) > 60)
        await asyncio.to_thread(server.snapshot)
        kept = len(run.items)
        await until(lambda: len(run.items) > kept + 150)
        await asyncio.to_thread(server.roll_back)
        await asyncio.wait_for(going, 100)
    assert crawled(run) == PATHS
    assert run.stats.losses == 1
    assert run.stats.conserved
    assert "the server lost its last writes" in caplog.text


@pytest.mark.long
async def test_a_failover_to_a_replica_that_was_behind_costs_no_page(serve, new_crawl):
    site = await serve(chains(), latency=0.005)
    with Watched(down_after=3000) as watched:
        run = make_run(new_crawl, site, watched.url)
        going = asyncio.create_task(run.go(options=OPTIONS))
        await until(lambda: len(run.items) > 60)
        await asyncio.to_thread(watched.wait_for_replica)
        await asyncio.to_thread(watched.cut_replica_off)
        kept = len(run.items)
        await until(lambda: len(run.items) > kept + 150)
        watched.primary.kill()
        watched.replica.thaw()
        await asyncio.to_thread(watched.wait_for_failover)
        await asyncio.wait_for(going, 100)
    assert crawled(run) == PATHS
    assert run.stats.losses == 1
