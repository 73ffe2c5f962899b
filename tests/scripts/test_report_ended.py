from __future__ import annotations

from tests.scripts.waiting import GROUP, HOUR, claim, join, open_group, report, taken, watch


def test_the_last_call_completes_the_group(shard):
    open_group(shard)
    join(shard, "..", "close")
    assert report(shard, "0d") == 0
    assert claim(shard) == []
    assert report(shard, "1d") == 1
    assert len(claim(shard)) == 1


def test_what_was_reported_before_has_no_effect(shard):
    open_group(shard)
    join(shard, "..", "close")
    for _ in range(3):
        assert report(shard, "0d", "0f") == 0
    assert report(shard, "1d", "1d") == 1
    assert report(shard, "1d") == 0
    assert len(claim(shard)) == 1


def test_an_overdue_group_is_a_dead_letter(shard, client, clock):
    open_group(shard)
    join(shard, "...", "close")
    report(shard, "1d")
    assert report(shard) == 0
    clock.advance(HOUR / 1000)
    assert report(shard) == 1
    (letter,) = client.hvals(f"{shard.root}:dead")
    assert letter.startswith(b"expired: 2 of the 3 calls that it waited for have not ended\n")
    assert client.keys(f"{shard.root}:group*") == []


def test_so_is_one_that_was_not_closed(shard, client, clock):
    open_group(shard)
    clock.advance(HOUR / 1000)
    report(shard)
    (letter,) = client.hvals(f"{shard.root}:dead")
    assert letter.startswith(b"expired: its group was not closed\n")


def test_a_call_that_waited_and_is_buried_has_ended_for_other_groups(shard):
    open_group(shard)
    watch(shard, GROUP, 5, batch="other")
    join(shard, "f", "close")
    assert taken(shard) == [f"{GROUP} other 5 f"]


def test_a_call_that_an_operator_has_dropped_is_not_enqueued(shard, client):
    open_group(shard)
    join(shard, ".", "close")
    client.delete(f"{shard.root}:delayed")
    assert report(shard, "0d") == 1
    assert claim(shard) == []
