"""A request may be completed with a result, which is kept for a while."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from silkline import Complete, Politeness, Request, RetryIn
from silkline.errors import ConfigError, LeaseLost, RequestError
from silkline.frontier.verbs import results
from tests.contract.frontiers import Awaited, page

URL = "https://a.example/1"


async def claimed(frontier, *requests):
    await frontier.enqueue(requests)
    leases = await frontier.claim(len(requests))
    assert len(leases) == len(requests)
    return leases


@pytest.mark.parametrize("value", [None, 0, "", [1, "2"], {"sku": "a", "price": 9.5}, "\n\0ü", 2**62])
async def test_a_result_is_returned_until_it_expires(open_crawl, clock, value):
    frontier = await open_crawl()
    [lease] = await claimed(frontier, URL)
    assert await frontier.result(URL) is None
    await frontier.complete(lease, result=value, keep=60)
    found = await frontier.result(URL)
    assert (found.value, found.completed) == (value, clock.seconds)
    clock.advance(59)
    assert (await frontier.result(URL)).value == value
    clock.advance(1)
    assert await frontier.result(URL) is None


@pytest.mark.parametrize("shards", [1, 8])
async def test_each_request_has_its_own(open_crawl, shards):
    frontier = await open_crawl(shards=shards)
    posts = [Request(URL, method="POST", body=body) for body in (b"a", b"b")]
    slotted = Request("https://b.example/", download_slot="proxy-1")
    requests = [*(page(number, f"{number}.example") for number in range(20)), Request(URL), *posts, slotted]
    leases = await claimed(frontier, *requests)
    await frontier.settle([(lease, Complete(result=[lease.url, lease.request.body.decode()])) for lease in leases])
    for request in requests:
        assert (await frontier.result(request)).value == [request.url, request.body.decode()]
    assert await frontier.result("https://b.example/") is None, "it waited in its slot"


async def test_a_request_that_is_completed_again_has_the_last_result(open_crawl):
    frontier = await open_crawl()
    for number in (1, 2):
        [lease] = await claimed(frontier, Request(URL, dont_filter=True))
        await frontier.complete(lease, result=number)
    assert (await frontier.result(URL)).value == 2
    [lease] = await claimed(frontier, Request(URL, dont_filter=True))
    await frontier.complete(lease)
    assert (await frontier.result(URL)).value == 2


async def test_links_are_stored_and_counts_add_up(open_crawl):
    frontier = await open_crawl()
    [lease] = await claimed(frontier, URL)
    await frontier.complete(lease, ["https://a.example/2"], result="ok")
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready, stats.leased) == (1, 1, 0)


async def test_who_has_lost_the_lease_stores_no_result(open_crawl, clock):
    frontier = await open_crawl(lease=5)
    [late] = await claimed(frontier, URL)
    clock.advance(6)
    [lease] = await frontier.claim(1)
    with pytest.raises(LeaseLost):
        await frontier.complete(late, result="late")
    assert await frontier.result(URL) is None
    await frontier.complete(lease, result="in time")
    assert (await frontier.result(URL)).value == "in time"


async def test_only_a_completed_request_has_a_result(open_crawl):
    frontier = await open_crawl()
    [lease] = await claimed(frontier, URL)
    await frontier.settle([(lease, RetryIn(0))])
    assert await frontier.result(URL) is None
    assert await frontier.result("https://elsewhere.example/") is None


async def test_results_take_a_limited_amount_of_memory(open_crawl, clock, monkeypatch):
    monkeypatch.setattr(results, "RESULTS_MEMORY", 20_000)
    monkeypatch.setattr("silkline.testing.memory.crawl.RESULTS_MEMORY", 20_000)
    frontier = await open_crawl()
    urls = [f"https://a.example/{number}" for number in range(40)]
    for url in urls:
        [lease] = await claimed(frontier, url)
        await frontier.complete(lease, result="x" * 1000)
        clock.advance(1)
    kept = [bool(await frontier.result(url)) for url in urls]
    assert kept == sorted(kept), "the oldest are dropped first"
    assert 14 <= sum(kept) <= 18


async def test_a_caller_may_wait(open_crawl):
    frontier, worker = await open_crawl(), await open_crawl()
    [lease] = await claimed(frontier, URL)

    assert await frontier.result(URL, wait=0.01) is None
    async with asyncio.TaskGroup() as both:
        blocking = isinstance(frontier, Awaited)
        answer = (
            asyncio.to_thread(frontier._frontier.result, URL, wait=60) if blocking else frontier.result(URL, wait=60)
        )
        waiting = both.create_task(answer)
        await asyncio.sleep(0)
        both.create_task(worker.complete(lease, result="done"))
    assert waiting.result().value == "done"


async def test_a_wait_ends_when_the_request_is_buried(open_crawl):
    frontier, worker = await open_crawl(), await open_crawl()
    blocking = isinstance(frontier, Awaited)
    waiting = asyncio.create_task(
        asyncio.to_thread(frontier._frontier.result, URL, wait=60) if blocking else frontier.result(URL, wait=60)
    )
    async with asyncio.timeout(30):
        while not waiting.done():
            [lease] = await claimed(worker, Request(URL, dont_filter=True))
            await worker.bury(lease, "no")
            await asyncio.sleep(0.01)
    assert waiting.result() is None


async def test_what_cannot_be_stored_is_refused_and_the_lease_continues(open_crawl):
    frontier = await open_crawl()
    [lease] = await claimed(frontier, URL)
    with pytest.raises(RequestError, match="the result takes 70002 bytes, the cap is 65536: store it in a sink"):
        await frontier.complete(lease, result="x" * 70_000)
    with pytest.raises(RequestError, match="the result cannot be stored as JSON"):
        await frontier.complete(lease, result=object())
    with pytest.raises(ConfigError, match="keep must be from"):
        await frontier.complete(lease, result=1, keep=0)
    with pytest.raises(RequestError, match="expected a URL or a Request, got 7"):
        await frontier.result(7)
    with pytest.raises(ConfigError, match="wait must be at least 0"):
        await frontier.result(URL, wait=-1)
    await frontier.complete(lease, result=Decimal("9.50"))
    assert (await frontier.result(URL)).value == "9.50"


async def test_hosts_of_requests_without_a_result_are_served_first(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([f"https://{host}.example/{number}" for number in range(2) for host in "ab"])
    one, other = await frontier.claim(2)
    await frontier.settle([(one, Complete(result=1)), (other, Complete())])
    assert [lease.host for lease in await frontier.claim(2)] == [other.host, one.host]
