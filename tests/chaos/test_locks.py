"""Holders of locks are killed and frozen, on each kind of server: others go on, and no two have the same place."""

from __future__ import annotations

import pytest

from silkline import SyncFrontier
from tests.chaos.processes import Process


class Locker(Process):
    program = "locker.py"

    def proceed(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def locker(any_server, crawl):
    started = []

    def start(do, **settings):
        started.append(Locker(do=do, url=any_server.url, crawl=crawl, **settings))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def frontier(any_server, crawl):
    with SyncFrontier.open(any_server.url, crawl=crawl) as opened:
        yield opened


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("places", [1, 3])
def test_the_place_of_a_killed_holder_is_free_after_its_time(locker, frontier, places, is_async):
    processes = [locker("hold", places=places, ttl=1.0, is_async=is_async) for _ in range(places)]
    tokens = [int(one.read()) for one in processes]
    assert len(set(tokens)) == places
    processes[0].kill()
    lock = frontier.semaphore("a", places, 60) if places > 1 else frontier.lock("a", 60)
    with lock as held:
        assert held.token > max(tokens)
        assert lock.acquire(wait=0) is None or places > 1  # holders that are alive may be slow, but never share a place
        for one in processes[1:]:
            one.proceed()
            assert one.read() in ("held\n", "lost\n")


def test_a_frozen_holder_learns_that_it_has_lost_its_lock(locker, frontier):
    holder = locker("hold", places=1, ttl=1.0)
    token = int(holder.read())
    holder.freeze()
    with frontier.lock("a", 60) as held:
        assert held.token > token
        holder.proceed()
        holder.thaw()
        assert holder.read() == "lost\n"
        assert holder.read() == "LockLost\n"
        assert not held.lost


def test_an_idle_holder_keeps_its_lock_by_renewing_it(locker, frontier, any_server):
    holder = locker("hold", places=1, ttl=6.0)
    holder.read()
    key = frontier.layout.keys.lock_ends
    with any_server.client() as client:
        first = client.zscore(key, "lock:a")
        while client.zscore(key, "lock:a") == first:
            assert frontier.lock("a").acquire(wait=0.05) is None
    holder.proceed()
    assert holder.read() == "held\n"


def test_nothing_is_counted_twice_or_forgotten_while_a_holder_is_killed(locker, frontier):
    [start] = frontier.admin.hosts("count.example")
    victim = locker("count", times=10**6, ttl=3.0)
    lines = [victim.read() for _ in range(3)]
    others = [locker("count", times=5, ttl=60.0) for _ in range(2)]  # they may be slow on a busy machine
    theirs = others[0].read()
    victim.kill()
    lines += victim.process.stdout.read().splitlines(keepends=True)
    theirs += "".join(one.process.stdout.read() for one in others)
    assert theirs == "counted\n" * 10
    counted, was_late = lines.count("counted\n") + 10, "LockLost\n" in lines  # on a machine that is very busy
    [state] = frontier.admin.hosts("count.example")
    assert was_late or counted <= state.delay - start.delay <= counted + 1  # the victim may have died before it told


def test_a_burst_of_ten_lets_ten_start_in_all_processes_together(locker):
    processes = [locker("start", times=19, burst=10) for _ in range(3)]
    assert sum(int(one.read()) for one in processes) == 10
