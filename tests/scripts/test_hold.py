from __future__ import annotations

import pytest

from tests.scripts.locks import Locks


@pytest.fixture
def locks(shard):
    return Locks(shard)


def test_one_holder_has_a_lock_until_its_time_is_over(locks, clock):
    first, ms = locks.hold("one")
    assert ms == 1000
    clock.advance(0.4)
    assert locks.hold("two") == (None, 600)
    clock.advance(0.599)
    assert locks.hold("two") == (None, 1)
    clock.advance(0.001)
    second, _ = locks.hold("two")
    assert second > first


def test_a_holder_that_asks_again_keeps_its_place_and_its_token(locks, clock):
    first, _ = locks.hold("one")
    clock.advance(0.25)
    assert locks.hold("one") == (first, 750)


def test_a_semaphore_has_as_many_holders_as_it_has_places(locks, clock):
    tokens = [locks.hold(f"h{number}", "semaphore:a", places=3, ttl=1000 + number)[0] for number in range(4)]
    assert None not in tokens[:3]
    assert tokens[:3] == sorted(set(tokens[:3]))
    assert tokens[3] is None
    assert locks.hold("other", "semaphore:b", places=1)[0] > tokens[2]
    clock.advance(1)
    assert locks.hold("late", "semaphore:a", places=3)[0]
    assert locks.hold("later", "semaphore:a", places=3) == (None, 1)


def test_tokens_grow_even_if_the_server_has_lost_them(locks, client, clock):
    before, _ = locks.hold("one")
    clock.advance(0.001)
    client.delete(locks.keys.locks, locks.keys.lock_ends)
    after, _ = locks.hold("two")
    assert after > before


def test_a_clock_that_is_set_back_does_not_prolong_a_hold(locks, clock):
    locks.hold("one", ttl=1000)
    clock.advance(-3600)
    assert locks.hold("two") == (None, 1000)
    clock.advance(1)
    assert locks.hold("two")[0]


def test_what_is_over_is_dropped(locks, client, clock):
    for number in range(60):
        locks.hold("one", f"lock:{number}")
    assert client.zcard(locks.keys.lock_ends) == 60
    clock.advance(1)
    for number in range(7):
        locks.hold("one", f"lock:new-{number}")
    assert client.zcard(locks.keys.lock_ends) == 7
    assert client.hlen(locks.keys.locks) == 8, "and the last token"


def test_hostile_names_are_only_names(locks):
    for name in ("lock:token", "lock:\n", "lock: a 1 2 3", "lock:}{", "lock:é", "lock:%s"):
        assert locks.hold("one", name)[0]
        assert locks.hold("two", name)[0] is None
