from __future__ import annotations

import pytest

from tests.scripts.locks import Locks


@pytest.fixture
def locks(shard):
    return Locks(shard)


@pytest.mark.parametrize("interval", [100, 1000 / 3, 1e9 / 7, 0.7])
def test_a_burst_lets_exactly_as_many_start_and_then_one_per_interval(locks, clock, interval):
    assert [locks.permit(interval=interval, burst=10) for _ in range(10)] == [0] * 10
    wait = locks.permit(interval=interval, burst=10)
    assert wait == max(1, -(-interval // 1))
    if interval < 1:  # of which several are restored in a millisecond
        return
    clock.advance((wait - 1) / 1000)
    assert locks.permit(interval=interval, burst=10) == 1
    clock.advance(0.001)
    assert locks.permit(interval=interval, burst=10) == 0
    assert locks.permit(interval=interval, burst=10) > 0


def test_no_more_than_the_burst_is_saved_up(locks, clock):
    clock.advance(3600)
    assert [locks.permit(burst=3) for _ in range(4)] == [0, 0, 0, 100]
    clock.advance(3600)
    assert [locks.permit(burst=3) for _ in range(4)] == [0, 0, 0, 100]


def test_a_call_that_is_sent_twice_takes_one_permit(locks):
    for _ in range(3):
        assert locks.permit(burst=2, call=("c:1", 7)) == 0
    assert [locks.permit(burst=2) for _ in range(2)] == [0, 100]


def test_a_refused_call_takes_nothing_and_may_succeed_later(locks, clock):
    locks.permit()
    for _ in range(50):
        assert locks.permit(call=("c:1", 7)) == 100
    clock.advance(0.1)
    assert locks.permit(call=("c:1", 7)) == 0


def test_a_clock_that_is_set_back_delays_by_no_more_than_the_interval(locks, clock):
    assert [locks.permit(burst=2) for _ in range(2)] == [0, 0]
    clock.advance(-3600)
    assert locks.permit(burst=2) == 100
    clock.advance(0.1)
    assert [locks.permit(burst=2) for _ in range(2)] == [0, 100]


def test_limiters_that_are_at_rest_are_dropped(locks, client, clock):
    for number in range(30):
        locks.permit(f"limiter:{number}", interval=10)
    clock.advance(0.01)
    for number in range(3):
        locks.permit(f"limiter:new-{number}", interval=1000)
    assert client.hlen(locks.keys.locks) == 3
