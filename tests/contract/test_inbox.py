"""Messages in keys of the user's own, on every kind of server."""

from __future__ import annotations

import pytest

from silkline import Frontier
from silkline.errors import ConfigError
from silkline.frontier.store.keys import InboxKeys
from tests.contract.frontiers import Awaited

HOLD = 10.0


@pytest.fixture(params=[Frontier, Awaited])
async def open_(request, any_server, crawl, clock):
    opened = []

    async def open_():
        opened.append(await request.param.open(any_server.url, crawl=crawl, clock=clock))
        return opened[-1]

    yield open_
    for frontier in opened:
        await frontier.close()


@pytest.fixture
def client(any_server):
    with any_server.client() as client:
        yield client


def data(messages):
    return [message.data for message in messages]


async def test_what_is_done_does_not_come_again_and_what_a_dead_taker_held_does(open_, client, crawl, clock):
    key = f"{crawl}:start_urls"
    client.rpush(key, *(f"m{number}" for number in range(6)))
    dead = (await open_()).inbox(key, hold=HOLD)
    alive = (await open_()).inbox(key, hold=HOLD)
    held = await dead.take(3)
    assert data(held) == [b"m0", b"m1", b"m2"]
    await dead.done(held[:1])
    rest = await alive.take(10)
    assert data(rest) == [b"m3", b"m4", b"m5"]
    await alive.done(rest)
    assert await alive.waiting() == 2
    assert await alive.take(10) == []
    clock.advance(HOLD)
    again = await alive.take(10)
    assert data(again) == [b"m1", b"m2"]
    await alive.done(again)
    await dead.done(held)  # it was only slow
    assert await alive.waiting() == 0
    keys = InboxKeys(key)
    assert [client.exists(one) for one in (key, keys.taken, keys.messages)] == [0, 0, 0]


async def test_what_a_taker_still_works_on_stays_with_it(open_, client, crawl, clock):
    key = f"{crawl}:start_urls"
    client.rpush(key, "slow", "lost")
    slow = (await open_()).inbox(key, hold=HOLD)
    other = (await open_()).inbox(key, hold=HOLD)
    held, _ = await slow.take(2)
    clock.advance(HOLD * 0.9)
    await slow.extend([held])
    clock.advance(HOLD * 0.9)
    assert data(await other.take(10)) == [b"lost"]
    await slow.done([held])
    await slow.extend([held])
    clock.advance(HOLD * 0.9)
    assert await other.take(10) == []
    assert await other.waiting() == 1


async def test_what_is_refused_is_put_aside_whole(open_, client, crawl, clock):
    key = f"{crawl}:start_urls"
    client.rpush(key, "good", "bad" * 50_000)
    inbox = (await open_()).inbox(key, hold=HOLD)
    good, bad = await inbox.take(2)
    await inbox.refuse([bad])
    await inbox.done([good, bad])
    clock.advance(HOLD)
    assert await inbox.take(2) == []
    assert await inbox.waiting() == 0
    assert client.lrange(InboxKeys(key).refused, 0, -1) == [bad.data]


async def test_the_first_key_comes_first_whenever_it_has_something(open_, client, crawl):
    keys = [f"{crawl}:{name}" for name in ("urgent", "{tagged}", "late")]
    inbox = (await open_()).inbox(keys, kind="zset")
    client.zadd(keys[2], {"late": 1})
    client.zadd(keys[1], {"low": 1, "high": 9})
    client.zadd(keys[0], {"urgent": 0})
    assert inbox.keys == tuple(keys)
    assert await inbox.waiting() == 4
    assert data(await inbox.take(2)) == [b"urgent", b"high"]
    client.zadd(keys[0], {"new": 0})
    taken = await inbox.take(9)
    assert data(taken) == [b"new", b"low", b"late"]
    assert [message.key for message in taken] == keys
    await inbox.done(taken)
    assert await inbox.waiting() == 2


async def test_a_set_is_read_whole(open_, client, crawl):
    inbox = (await open_()).inbox(f"{crawl}:set", kind="set")
    client.sadd(f"{crawl}:set", *range(20))
    some = await inbox.take(15)
    rest = await inbox.take(15)
    assert (len(some), len(rest)) == (15, 5)
    assert sorted(map(int, data(some + rest))) == list(range(20))


async def test_a_key_of_another_type_is_reported_in_words(open_, client, crawl):
    client.sadd(f"{crawl}:set", "x")
    inbox = (await open_()).inbox([f"{crawl}:list", f"{crawl}:set"])
    with pytest.raises(ConfigError, match=r":set' must be a list of messages, but it is a set"):
        await inbox.take(5)
    client.rpush(f"{crawl}:list", "good")
    assert data(await inbox.take(5)) == [b"good"]


async def test_braces_in_a_name_are_read_as_the_server_reads_them(open_, client, any_server, crawl):
    frontier = await open_()
    for name in ("{a}:b", "a:{b}:c}", "x{y", "}{z}"):
        client.rpush(f"{crawl}{name}", "m")
        inbox = frontier.inbox(f"{crawl}{name}")
        await inbox.done(await inbox.take(5))
        assert await inbox.waiting() == 0
    for name in ("a}b", "{}a"):
        if any_server.cluster:
            with pytest.raises(ConfigError, match="unmatched brace"):
                frontier.inbox(f"{crawl}{name}")
        else:
            client.rpush(f"{crawl}{name}", "m")
            assert data(await frontier.inbox(f"{crawl}{name}").take()) == [b"m"]


@pytest.mark.parametrize("wrong", [{"keys": []}, {"keys": ""}, {"keys": [7]}, {"kind": "hash"}, {"hold": 0}])
async def test_nonsense_is_refused(open_frontier, wrong):
    frontier = await open_frontier()
    with pytest.raises(ConfigError):
        frontier.inbox(**{"keys": "k", **wrong})
