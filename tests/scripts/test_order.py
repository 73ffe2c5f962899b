from __future__ import annotations

import pytest


@pytest.fixture
def order(shard):
    shard.run("create", b"settings", key=shard.layout.keys.settings)
    shard.run("join", "one", 30_000, "", key=shard.layout.keys.settings)

    def order_(worker, order=""):
        return shard.run("order", worker, order, key=shard.layout.keys.settings)

    return order_


def test_it_answers_what_stands(order):
    assert order("one") == b"work"
    assert order("one", "quiet") == b"quiet"
    assert order("one", "stop") == b"stop"
    assert order("one") == b"stop"
    assert order("one", "work") == b"work"
    assert order("two", "stop") == b"unknown"


def test_orders_go_with_the_workers_they_were_for(order, shard, client, clock):
    keys = shard.layout.keys
    order("one", "stop")
    clock.advance(3700)
    shard.run("join", "two", 30_000, "", key=keys.settings)
    assert client.exists(keys.orders) == 0
    order("two", "quiet")
    shard.run("leave", "two", key=keys.settings)
    assert client.exists(keys.orders) == 0
