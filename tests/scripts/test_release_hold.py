from __future__ import annotations

from tests.scripts.locks import Locks


def test_a_place_that_is_given_back_is_free_and_nothing_stays(shard, client):
    locks = Locks(shard)
    locks.hold("one")
    assert locks.release("one") == 1
    assert client.hkeys(locks.keys.locks) == [b"token"]
    assert not client.exists(locks.keys.lock_ends)
    assert locks.hold("two")[0]


def test_sent_twice_it_does_not_free_the_place_of_the_next_holder(shard):
    locks = Locks(shard)
    locks.hold("one")
    assert locks.release("one") == 1
    locks.hold("two")
    assert locks.release("one") == 0
    assert locks.hold("three")[0] is None


def test_a_holder_whose_time_is_over_has_nothing_to_give_back(shard, clock):
    locks = Locks(shard)
    locks.hold("one")
    clock.advance(1)
    assert locks.release("one") == 0
