"""The arithmetic of capacity, and that it agrees with what real crawls take."""

from __future__ import annotations

import pytest

from silkline import Bury, Politeness, SyncFrontier
from silkline.errors import ConfigError
from silkline.frontier.crawl_server import measure_crawl
from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.hosts import StatusCounts
from silkline.ops import capacity
from silkline.ops.capacity import Workload, plan

TIME = 2
"""Bytes that the time of a request takes."""


def test_politeness_decides_how_fast_a_crawl_can_be():
    one_host = plan(Workload(urls=1_000_000, hosts=1, delay=1))
    assert one_host.workers == 1
    assert one_host.politest == pytest.approx(999_999)
    assert one_host.bound_by == "politeness"
    many = plan(Workload(urls=1_000_000, hosts=10_000, delay=1))
    assert many.politest == 99
    assert many.workers == pytest.approx(1_000_000 / 99 / 128, rel=0.02)


def test_a_target_decides_how_many_workers():
    slow = plan(Workload(urls=5_000_000, hosts=100_000, delay=1, target=12 * 3600))
    assert (slow.workers, slow.reachable, slow.bound_by, slow.drain) == (1, True, "the target", 43_200)
    fast = plan(Workload(urls=5_000_000, hosts=100_000, delay=1, target=600))
    assert fast.workers == 66
    assert fast.nodes == 3
    assert fast.shards == 64
    hopeless = plan(Workload(urls=5_000_000, hosts=1_000, delay=1, target=60))
    assert not hopeless.reachable
    assert hopeless.drain == hopeless.politest


def test_memory_by_filter_is_in_the_order_of_the_filters():
    need = plan(Workload(urls=10_000_000, hosts=1_000))
    assert need.memory["exact"] > need.memory["compact"]
    assert need.maxmemory == pytest.approx(need.memory["exact"] * 1.5, rel=0.01)


def test_answers_of_hosts_weigh_no_more_than_a_bound():
    few, many, more = (Workload(urls=10_000_000, hosts=hosts, pending=0) for hosts in (1_000, 100_000, 5_000_000))
    exact = SeenFilter.parse("exact")
    least = capacity.weigh(few, exact, answered=0)
    assert capacity.weigh(few, exact) - least == 1_000 * capacity.ANSWERS_BYTES
    assert capacity.weigh(many, exact) == capacity.weigh(more, exact) == least + 100_000 * capacity.ANSWERS_BYTES


@pytest.mark.parametrize(
    "wrong", [{"urls": 0}, {"hosts": 0}, {"hosts": 11}, {"payload": -1}, {"delay": -1}, {"target": -5}, {"latency": 0}]
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ConfigError):
        Workload(**{"urls": 10, "hosts": 5} | wrong)


def test_only_a_server_that_compresses_is_planned_so_and_only_long_queues():
    def queues(hosts, **more):
        return capacity.weigh(Workload(urls=1_000_000, hosts=hosts, **more), SeenFilter.parse("exact"))

    assert queues(1_000, compressed=True) < queues(1_000)
    assert queues(500_000, compressed=True) == queues(500_000)
    saved = queues(1_000) - queues(1_000, compressed=True)
    assert saved == pytest.approx(1_000_000 * 60 * (1 - capacity.COMPRESSED), rel=0.01)


@pytest.mark.parametrize(("depth", "compressed"), [(0, False), (1, True)])
def test_a_live_crawl_is_weighed_as_its_server_is_set(own_server, crawl, depth, compressed):
    server = own_server(list_compress_depth=depth)
    with SyncFrontier.open(server.url, crawl=crawl) as one:
        one.enqueue("https://h.example/")
    assert measure_crawl(server.url, crawl).compressed is compressed


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("seen", ["exact", "compact", "bloom:0.001,1000"])
@pytest.mark.parametrize(("hosts", "length"), [(50, 40), (20_000, 90)])
def test_what_is_expected_is_what_a_live_crawl_takes(own_server, crawl, seen, hosts, length, depth):
    server = own_server(list_compress_depth=depth)
    count, filler = 20_000, "0123456789abcdefghijklmnopqrstuvwxyz" * 3
    with SyncFrontier.open(server.url, crawl=crawl, seen=seen, politeness=Politeness(delay=0, concurrency=9999)) as one:
        for part in range(0, count, 1000):
            numbers = range(part, part + 1000)
            one.enqueue([f"https://h{n % hosts}.example/{n:08}{filler[: length - 9]}" for n in numbers])
        one.settle([(lease, Bury("status 503", 503)) for lease in one.claim(1000)])
        one.internal.add_answers({f"h{n}.example": StatusCounts(status_2xx=1, last=200) for n in range(hosts)})
        weight = measure_crawl(server.url, crawl)
        assert weight.answered == hosts
        assert weight.payload == pytest.approx(length + TIME, abs=1)
        stats = one.admin.stats()
        wish = Workload(
            urls=count,
            hosts=weight.hosts,
            payload=weight.payload,
            pending=stats.pending,
            dead=stats.dead,
            compressed=weight.compressed,
        )
        expected = capacity.weigh(wish, SeenFilter.parse(seen), answered=weight.answered) + capacity.SERVER_BYTES
        assert 0.75 < expected / weight.used < 1.5, (expected, weight.used)
