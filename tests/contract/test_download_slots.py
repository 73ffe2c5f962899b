"""A request may wait in the queue of a download slot instead of that of its host."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from silkline import Admission, Bury, Politeness, Release, Request, RetryIn
from silkline.core.lease import State
from tests.contract.frontiers import hosts_of, page, urls

GENTLE = Politeness(delay=10, concurrency=1)


def slotted(number, slot, host="render.example", **fields):
    return page(number, host, download_slot=slot, **fields)


async def test_a_slot_takes_the_place_of_the_host(open_crawl, clock):
    frontier = await open_crawl(politeness=GENTLE, lease=1000)
    await frontier.enqueue([slotted(1, "a"), slotted(2, "a"), slotted(3, "b"), page(4, "render.example")])
    leases = await frontier.claim(10)
    assert sorted(hosts_of(leases)) == ["a", "b", "render.example"]
    assert {lease.host: lease.url for lease in leases} == {
        "a": "https://render.example/1",
        "b": "https://render.example/3",
        "render.example": "https://render.example/4",
    }
    clock.advance(10)
    assert await frontier.claim(10) == [], "the slot has one place"
    await frontier.settle([(lease, Release()) for lease in leases if lease.host == "b"])
    await frontier.complete(leases[hosts_of(leases).index("a")])
    assert sorted(urls(await frontier.claim(10))) == ["https://render.example/2", "https://render.example/3"]


async def test_hosts_may_share_a_slot_also_with_the_host_of_its_name(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=9), lease=1000)
    await frontier.enqueue(
        [page(1, "shop.example"), slotted(2, "shop.example"), slotted(3, "shop.example", "x.example")]
    )
    found = []
    for _ in range(3):
        found += urls(await frontier.claim(10))
        clock.advance(10)
    assert found == ["https://shop.example/1", "https://render.example/2", "https://x.example/3"]


@pytest.mark.parametrize("shards", [1, 8])
async def test_it_stays_with_the_request(open_crawl, shards):
    frontier = await open_crawl(shards=shards)
    requests = [slotted(number, f"slot-{number % 3}", meta={"n": number}) for number in range(6)]
    assert set(await frontier.enqueue(requests)) == {Admission.ADDED}
    assert set(await frontier.enqueue(requests)) == {Admission.SEEN}
    leases = await frontier.claim(10)
    assert sorted((lease.request.meta["n"], lease.host) for lease in leases) == [(n, f"slot-{n % 3}") for n in range(6)]
    verdicts = [RetryIn(0), Release(), Bury("gone"), RetryIn(0), Release(), Bury("gone")]
    await frontier.settle(list(zip(leases, verdicts, strict=True)))
    assert sorted(letter.host for letter in await frontier.admin.dead()) == sorted(hosts_of([leases[2], leases[5]]))
    assert await frontier.admin.revive() == 2
    again = await frontier.claim(10)
    assert sorted(again_request(lease) for lease in again) == sorted(again_request(lease) for lease in leases)
    await frontier.settle([(again[0], RetryIn(5))])
    assert await frontier.forget(again[0].request) == 1


def again_request(lease):
    return lease.url, lease.host, lease.request.download_slot, lease.request.meta["n"]


async def test_operators_see_it_as_a_host(open_crawl):
    frontier = await open_crawl()
    await frontier.enqueue([slotted(1, "proxy-1"), slotted(2, "proxy-1"), page(3)])
    assert {(state.host, state.queued) for state in await frontier.admin.hosts()} == {("proxy-1", 2), ("a.example", 1)}
    await frontier.admin.pause("proxy-1")
    found = await frontier.admin.explain(slotted(2, "proxy-1"))
    assert (found.state, found.host.host) == (State.READY, "proxy-1")
    assert hosts_of(await frontier.claim(10)) == ["a.example"]
    await frontier.admin.resume("proxy-1")
    [first, _] = await frontier.claim(10)
    assert (await frontier.admin.explain(first.request)).state is State.LEASED
    assert await frontier.admin.cancel("proxy-1") == 0


async def test_the_same_page_in_a_slot_is_another_request(open_crawl):
    frontier = await open_crawl()
    await frontier.enqueue([slotted(1, "a", dont_filter=True), page(2, "render.example")])
    assert len(await frontier.claim(10)) == 2
    assert (await frontier.admin.explain(slotted(1, "a"))).state is State.LEASED
    assert (await frontier.admin.explain(page(1, "render.example"))).state is None


async def test_a_slot_that_is_the_host_is_none(open_crawl):
    frontier = await open_crawl()
    await frontier.enqueue(slotted(1, "render.example"))
    [lease] = await frontier.claim()
    assert lease.request == page(1, "render.example")


@pytest.mark.parametrize("slot", ["", "A", "a b", "a/b", "a|b", "3", "x" * 254, 7, b"a"])
async def test_a_slot_that_could_be_no_host_is_refused(open_crawl, slot):
    frontier = await open_crawl()
    admissions = await frontier.enqueue(replace(page(1), download_slot=slot))
    assert admissions == [Admission.REFUSED]
    assert admissions.refusals[0].reason.startswith("download_slot must be written as a host in URLs")


async def test_robots_txt_is_that_of_the_host(open_crawl):
    frontier = await open_crawl()
    await frontier.enqueue(Request("https://render.example/1", download_slot="proxy-1"))
    [lease] = await frontier.claim()
    assert (await frontier.robots(lease.url, lock=10, lease=lease)).state == "yours"
    await frontier.keep_robots(lease.url, b"User-agent: *", fresh=100)
    assert (await frontier.robots(lease.url, lock=10, lease=lease)).text == b"User-agent: *"
