from __future__ import annotations

from tests.scripts.locks import Locks


def test_a_hold_that_is_renewed_lasts(shard, clock):
    locks = Locks(shard)
    locks.hold("one")
    for _ in range(5):
        clock.advance(0.9)
        assert locks.renew("one") == 1
        assert locks.hold("two") == (None, 1000)


def test_a_hold_that_is_over_cannot_be_renewed_even_if_it_is_free(shard, clock, client):
    locks = Locks(shard)
    locks.hold("one")
    clock.advance(1)
    assert locks.renew("one") == 0
    assert locks.renew("nobody", "lock:b") == 0
    locks.hold("two")
    before = client.hgetall(locks.keys.locks)
    assert locks.renew("one") == 0
    assert client.hgetall(locks.keys.locks) == before


def test_only_the_place_of_the_holder_is_renewed(shard, clock):
    locks = Locks(shard)
    for holder in ("one", "two"):
        locks.hold(holder, "semaphore:a", places=2)
    clock.advance(0.5)
    locks.renew("two", "semaphore:a", ttl=2000)
    clock.advance(0.5)
    assert locks.hold("three", "semaphore:a", places=2)[0]
    assert locks.hold("four", "semaphore:a", places=2) == (None, 1000)
