from __future__ import annotations

import pytest

from silkline.frontier.verbs.history import COARSE, FINE, MOST_HANDLERS, OTHERS


@pytest.fixture
def add(shard):
    shard.run("create", b"settings", key=shard.layout.keys.settings)

    def add_(counts, levels="", handlers="", **options):
        return shard.run("add_history", counts, levels, handlers, key=shard.layout.keys.settings, **options)

    return add_


def test_one_step_of_each_ring_is_kept_as_text(add, shard, client, clock):
    add("1 2 3", "7 8")
    add("1 0 1000000000000000")
    fine, coarse = clock.now // (FINE.step * 1000), clock.now // (COARSE.step * 1000)
    assert client.hgetall(shard.layout.keys.history) == {
        f"fine:{fine % FINE.size}".encode(): f"{fine};7 8;2 2 1000000000000003".encode(),
        f"coarse:{coarse % COARSE.size}".encode(): f"{coarse};7 8;2 2 1000000000000003".encode(),
        b"total": b"2 2 1000000000000003",
    }


def test_new_counts_of_a_later_version_are_added_at_the_end(add, shard, client):
    add("1 2")
    add("1 2 3 4")
    assert {kept.split(b";")[-1] for kept in client.hvals(shard.layout.keys.history)} == {b"2 4 3 4"}


def test_the_rings_never_grow(add, shard, client, clock):
    for _ in range(2000):
        add("1 1")
        clock.advance(100)
    assert client.hlen(shard.layout.keys.history) <= FINE.size + COARSE.size + 1


def test_the_same_call_sent_twice_counts_once(add, shard, client):
    first = add("5", call=("client:0", 7))
    assert add("5", call=("client:0", 7)) == first
    assert {kept.split(b";")[-1] for kept in client.hvals(shard.layout.keys.history)} == {b"5"}


def test_there_is_no_history_of_nothing(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run("add_history", "1", "", "", key=shard.layout.keys.settings)


def test_handlers_are_counted_in_one_field_a_line_for_each(add, shard, client):
    add("1", handlers="1 2;list\n3 4;product\n")
    add("1", handlers="1 1000000000000000;product\n5;a;b\n")
    add("1")
    kept = client.hget(shard.layout.keys.history, "handlers")
    assert kept == b"1 2;list\n4 1000000000000004;product\n5;a;b\n"


def test_handlers_beyond_the_limit_are_counted_together(add, shard, client):
    for number in range(MOST_HANDLERS + 3):
        add("1", handlers=f"1;handler{number}\n1;handler0\n")
    lines = client.hget(shard.layout.keys.history, "handlers").decode().splitlines()
    assert len(lines) == MOST_HANDLERS + 1
    assert (lines[0], lines[-1]) == (f"{MOST_HANDLERS + 4};handler0", f"3;{OTHERS}")


def test_handlers_of_the_same_call_sent_twice_count_once(add, shard, client):
    for _ in range(2):
        add("5", handlers="7;parse\n", call=("client:0", 7))
    assert client.hget(shard.layout.keys.history, "handlers") == b"7;parse\n"
