"""A server without memory left: what takes memory is FULL, what gives it back still works."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from silkline import Admission, Budget, Politeness, Release, SyncFrontier
from silkline.frontier.verbs.hosts import StatusCounts
from tests.servers import binary

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number % 5}.example/{number}" for number in range(40)]
NEW = [f"https://new{number}.example/" for number in range(5)]


@pytest.fixture(params=["valkey", "redis-7.0", "redis-6.2"])
def server(request, own_server):
    if binary(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return own_server(request.param)


@contextmanager
def no_memory_left(server):
    with server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
        yield
        client.config_set("maxmemory", 0)


@pytest.mark.parametrize("seen", ["exact", "compact", "bloom"])
def test_enqueue_is_full_and_leases_can_still_be_taken_and_ended(server, seen):
    with SyncFrontier.open(server.url, crawl="c", politeness=AT_ONCE, seen=seen) as frontier:
        frontier.enqueue(URLS)
        with no_memory_left(server):
            assert frontier.enqueue(NEW) == [Admission.FULL] * 5
            leases = frontier.claim(20)
            assert len(leases) == 20
            assert frontier.extend(leases) == []
            frontier.complete(leases[0])
            frontier.retry(leases[1], reason="an error", status=503)
            frontier.retry(leases[2], after=0.001, reason="an error")
            frontier.retry(leases[3], after=0.001, block_host=True)
            frontier.retry(leases[8], after=0.001, slow_host=True)
            frontier.release(leases[4])
            frontier.bury(leases[5], "no use")
            assert frontier.complete(leases[6], NEW).postponed == [leases[6]]
            frontier.admin.set_host("h1.example", delay=0, concurrency=5)
            frontier.admin.pause()
            frontier.admin.resume()
            assert frontier.admin.revive() == 1
            frontier.bury(leases[7], "no use")
            assert frontier.admin.purge() == 1
            if seen != "bloom":
                assert frontier.forget(leases[0].url) == 1
            assert frontier.admin.stats().conserved
            assert not frontier.finished()
            with SyncFrontier.open(server.url, crawl="c") as another:
                another.complete(another.claim(1)[0])
        assert frontier.enqueue(NEW) == [Admission.ADDED] * 5
        assert frontier.enqueue(NEW) == [Admission.SEEN] * 5
        assert frontier.admin.stats().conserved


def test_links_go_to_disk_and_return(server, tmp_path):
    with SyncFrontier.open(server.url, crawl="c", politeness=AT_ONCE, overflow=tmp_path / "overflow") as frontier:
        frontier.enqueue(URLS[0])
        with no_memory_left(server):
            [lease] = frontier.claim(1)
            outcome = frontier.complete(lease, NEW)
            assert outcome.links == [Admission.FULL] * 5
            assert not outcome.postponed
            assert frontier.admin.stats().overflow == 5
            assert not frontier.finished()
        found = []
        while not frontier.finished():
            for lease in frontier.claim(10, wait=0.2):
                frontier.complete(lease)
                found.append(lease.url)
        assert sorted(found) == NEW


def test_a_budget_can_be_spent_over_several_shards(server):
    with SyncFrontier.open(server.url, crawl="c", politeness=AT_ONCE, shards=3, budget=Budget(pages=25)) as frontier:
        frontier.enqueue(URLS)
        with no_memory_left(server):
            while leases := frontier.claim(4):
                for lease in leases:
                    frontier.complete(lease)
            assert frontier.admin.stats().done == 25
            assert frontier.finished()


def test_answers_that_find_no_room_are_forgotten(server):
    told = {"h1.example": StatusCounts(status_2xx=1, last=200)}
    with SyncFrontier.open(server.url, crawl="c") as frontier:
        with no_memory_left(server):
            frontier.internal.add_answers(told)
            assert frontier.admin.hosts("h1.example")[0].answers is None
        frontier.internal.add_answers(told)
        assert frontier.admin.hosts("h1.example")[0].answers.total == 1


def test_a_robots_txt_that_finds_no_room_is_no_disaster(server):
    url = "https://h1.example/"
    with SyncFrontier.open(server.url, crawl="c") as frontier:
        with no_memory_left(server):
            assert frontier.robots(url, lock=0.2).state == "yours"
            assert not frontier.keep_robots(url, b"User-agent: *", crawl_delay=9)
            assert frontier.admin.hosts("h1.example")[0].delay == 9, "the delay it asks for holds all the same"
            assert frontier.robots(url).state in ("fetching", "yours")
        while frontier.robots(url, lock=0.2).state == "fetching":
            pass
        assert frontier.keep_robots(url, b"User-agent: *")
        assert frontier.robots(url).text == b"User-agent: *"


@pytest.mark.parametrize("how", ["extend", "settle"])
def test_a_worker_that_returns_withdraws_its_strike(server, how):
    with SyncFrontier.open(server.url, crawl="c", politeness=AT_ONCE) as frontier:
        frontier.enqueue(URLS[0])
        frontier.claim(1, lease=0.001)
        [lease] = frontier.claim(1, wait=10, lease=0.001)
        [again] = frontier.claim(1, wait=60)
        assert (lease.crashes, again.crashes) == (0, 1)
        with no_memory_left(server):
            lost = frontier.extend([lease]) if how == "extend" else frontier.settle([(lease, Release())]).lost
            assert lost == [lease]
        frontier.release(again)
        assert [one.crashes for one in frontier.claim(1)] == [0]
