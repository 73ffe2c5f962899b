"""A primary that dies, and a sentinel that makes its replica the primary."""

from __future__ import annotations

import asyncio
import time

import pytest

from silkline import Admission, Politeness
from silkline.core.errors import LeaseLost, StoreUnavailable
from tests.chaos.subject import crawl_all, open_subject
from tests.servers_matrix.topologies import Watched

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number}.example/" for number in range(20)]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_failover_loses_nothing_that_the_replica_had(crawl, kind):
    with Watched() as watched:
        frontier = await open_subject(kind, url=watched.url, crawl=crawl, politeness=AT_ONCE, shards=2)
        producer = await open_subject(kind, url=watched.url, crawl=crawl)
        await frontier.enqueue(URLS)
        held = await frontier.claim(5)
        watched.wait_for_replica()
        watched.primary.kill()
        await asyncio.to_thread(watched.wait_for_failover)
        for lease in held:
            await frontier.complete(lease)
        assert sorted(await crawl_all(frontier)) == sorted(set(URLS) - {lease.url for lease in held})
        waiting = asyncio.create_task(frontier.claim(1, wait=60))
        await asyncio.sleep(0.2)
        enqueued = time.monotonic()
        await producer.enqueue("https://late.example/")
        [lease] = await waiting
        assert time.monotonic() - enqueued < 3  # the bell rings on the new primary
        await frontier.complete(lease)
        stats = await frontier.stats()
        assert stats.conserved
        assert stats.done == len(URLS) + 1
        await frontier.close()
        await producer.close()


async def test_what_the_replica_had_not_got_yet_can_be_enqueued_again(crawl):
    with Watched() as watched:
        frontier = await open_subject("async", url=watched.url, crawl=crawl, politeness=AT_ONCE, lease=1)
        await frontier.enqueue(URLS[:10])
        watched.wait_for_replica()
        watched.cut_replica_off()
        await frontier.enqueue(URLS[10:])
        held = await frontier.claim(20)
        watched.primary.kill()
        watched.replica.thaw()
        await asyncio.to_thread(watched.wait_for_failover)
        answers = await frontier.enqueue(URLS)
        assert answers[:10] == [Admission.SEEN] * 10
        for lease in held:
            with pytest.raises(LeaseLost):
                await frontier.complete(lease)
        assert sorted(await crawl_all(frontier)) == sorted(URLS)
        assert (await frontier.stats()).conserved
        await frontier.close()


async def test_a_service_that_nobody_watches(crawl):
    with Watched() as watched, pytest.raises(StoreUnavailable, match="another"):
        await open_subject("async", url=watched.url.replace("/main/", "/another/"), crawl=crawl)
