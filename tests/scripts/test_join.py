from __future__ import annotations

import pytest


def join(shard, worker, info="", expires=30_000):
    return shard.run("join", worker, expires, info, key=shard.layout.keys.settings)


@pytest.fixture
def crawl_hash(shard):
    shard.run("create", b"settings", key=shard.layout.keys.settings)


def test_it_stores_when_a_worker_joined_when_it_spoke_and_what_it_reported(shard, client, clock, crawl_hash):
    began = clock.now
    assert join(shard, "one", '{"pid": 1}') == 0
    clock.advance(2)
    assert join(shard, "one") == 0
    keys = shard.layout.keys
    assert client.hgetall(keys.infos) == {b"one": f'{began} {began + 2000} {{"pid": 1}}'.encode()}
    assert client.zrange(keys.workers, 0, -1, withscores=True) == [(b"one", began + 32_000)]


def test_those_who_are_silent_for_an_hour_are_struck_off_a_hundred_per_call(shard, client, clock, crawl_hash):
    for number in range(150):
        join(shard, f"w{number}")
    clock.advance(3630)
    assert join(shard, "new") == 0
    assert client.zcard(shard.layout.keys.workers) == client.hlen(shard.layout.keys.infos) == 51
    assert join(shard, "new") == 0
    assert client.hkeys(shard.layout.keys.infos) == [b"new"]


def test_the_same_call_sent_twice_is_the_same_as_once(shard, client, crawl_hash):
    join(shard, "one")
    before = client.hgetall(shard.layout.keys.infos)
    assert join(shard, "one") == 0
    assert client.hgetall(shard.layout.keys.infos) == before


def test_nobody_joins_a_crawl_that_is_not_there(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        join(shard, "one")
