"""Redis: lists and streams on every kind of server."""

from __future__ import annotations

import json

import pytest
import redis

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks import open_sink
from tests.sinks.making import record


@pytest.mark.parametrize("option", ["", "?type=stream"])
async def test_every_kind_of_server_takes_items(any_server, option, crawl):
    sink = open_sink(f"redis:{crawl}{option}", redis=any_server.url)
    await sink.write([record(0), record(1)])
    await sink.write([record(2)])
    await sink.close()
    with any_server.client() as client:
        if option:
            assert [json.loads(fields[b"item"])["n"] for _, fields in client.xrange(crawl)] == [0, 1, 2]
        else:
            assert [json.loads(line) for line in client.lrange(crawl, 0, -1)] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_a_redis_that_goes_away_is_found_again(own_server):
    server = own_server(requirepass="hush", appendonly="yes", appendfsync="always")
    url = f"unix://:hush@{server.socket}"
    sink = open_sink("redis:items", redis=url)
    await sink.write([record(0)])
    server.kill()
    with pytest.raises(SinkUnavailable, match="cannot be reached") as refused:
        await sink.write([record(1)])
    assert "hush" not in str(refused.value)
    server.start()
    await sink.write([record(1)])
    await sink.close()
    with server.client() as client:
        assert client.llen("items") == 2
    with pytest.raises(ConfigError, match="does not allow it"):
        open_sink("redis:items", redis=f"unix://:wrong@{server.socket}")


def test_a_key_of_another_type_is_refused(valkey, crawl):
    with redis.Redis.from_url(valkey.url) as client:
        client.set(crawl, "text")
    with pytest.raises(ConfigError, match="is a string, not a list"):
        open_sink(f"redis:{crawl}", redis=valkey.url)


async def test_a_redis_without_memory_is_unavailable(own_server):
    server = own_server()
    sink = open_sink("redis:items", redis=server.url)
    with server.client() as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(SinkUnavailable, match=r"OOM|maxmemory"):
            await sink.write([record(0)])
        client.config_set("maxmemory", 0)
    await sink.write([record(0)])
    await sink.close()


async def test_the_embedded_server_takes_items_too(tmp_path):
    sink = open_sink("redis:items", redis=f"embedded:{tmp_path}")
    await sink.write([record(0)])
    await sink.close()


@pytest.mark.parametrize("option", ["?maxlen=3", "?type=stream&maxlen=3"])
async def test_only_the_newest_items_stay(any_server, option, crawl):
    sink = open_sink(f"redis:{crawl}{option}", redis=any_server.url)
    await sink.write([record(0), record(1)])
    await sink.write([record(number) for number in range(2, 7)])
    await sink.close()
    with any_server.client() as client:
        lines = (
            [fields[b"item"] for _, fields in client.xrange(crawl)]
            if "stream" in option
            else client.lrange(crawl, 0, -1)
        )
    assert [json.loads(line)["n"] for line in lines] == [4, 5, 6]


@pytest.mark.parametrize("maxlen", ["0", "-1", "many", "", "1e5", "9" * 5000, "²"])
def test_a_maxlen_that_is_no_number_of_items_is_refused(valkey, maxlen):
    with pytest.raises(ConfigError, match="the option maxlen of redis:items must be a number of items above 0"):
        open_sink(f"redis:items?maxlen={maxlen}", redis=valkey.url)
