from __future__ import annotations

import pytest

KEY = "{shop}:requests"
ASIDE, REFUSED = f"{KEY}:silkline", f"{KEY}:silkline:refused"


@pytest.fixture
def queue(client):
    client.delete(KEY, ASIDE, REFUSED)
    return client


@pytest.fixture
def set_aside(shard, queue):
    def run(done, name, most, *refused):
        return [part.decode() for part in shard.run("source_take", done, name, most, *refused, key=KEY)]

    return run


def test_batches_of_a_list_come_from_its_right_end(queue, set_aside):
    queue.lpush(KEY, *"abcde")
    assert set_aside("", "one", 2) == ["one", "a", "", "b", ""]
    assert queue.lrange(KEY, 0, -1) == [b"e", b"d", b"c"]
    assert set_aside("one", "two", 2) == ["two", "c", "", "d", ""]
    assert set_aside("two", "three", 2) == ["three", "e", ""]
    assert set_aside("three", "four", 2) == []
    assert not queue.exists(KEY, ASIDE, REFUSED)


def test_batches_of_a_sorted_set_come_with_the_lowest_score_first(queue, set_aside):
    queue.zadd(KEY, {"low": 5, "high": -7.5, "middle": 0})
    assert set_aside("", "one", 2) == ["one", "high", "-7.5", "middle", "0"]
    assert queue.zrange(KEY, 0, -1) == [b"low"]
    assert set_aside("one", "two", 2) == ["two", "low", "5"]


def test_a_batch_that_is_not_through_is_handed_out_again(queue, set_aside):
    """To the same call sent twice, and to somebody who comes after a crash."""
    queue.lpush(KEY, *"abc")
    first = set_aside("", "one", 2)
    assert set_aside("", "one", 2) == first
    assert set_aside("", "another", 2) == first
    assert set_aside("never heard of", "another", 2) == first
    assert queue.llen(KEY) == 1
    assert set_aside("one", "two", 2) == ["two", "c", ""]
    assert set_aside("one", "two", 2) == ["two", "c", ""], "sent twice"
    assert set_aside("one", "other", 2) == ["two", "c", ""], "one who is late takes nothing from the others"


def test_what_was_refused_is_kept(queue, set_aside):
    queue.lpush(KEY, *"abc")
    set_aside("", "one", 3)
    assert set_aside("one", "two", 3, 1, 3) == []
    assert queue.lrange(REFUSED, 0, -1) == [b"a", b"c"]
