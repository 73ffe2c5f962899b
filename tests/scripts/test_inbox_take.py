from __future__ import annotations

import pytest

from silkline.frontier.store.keys import InboxKeys

FILL = {
    "list": lambda client, key, words: client.rpush(key, *words),
    "set": lambda client, key, words: client.sadd(key, *words),
    "zset": lambda client, key, words: client.zadd(key, {word: -number for number, word in enumerate(words)}),
}
WORDS = [b"a", b"b", b"c", b"d"]


@pytest.fixture(params=["{}:start_urls", "{{{}}}:urls"])
def inbox(crawl, request):
    return InboxKeys(request.param.format(crawl))


def take(shard, inbox, wanted, ticket, kind="list", hold=10_000):
    return shard.run("inbox_take", inbox.root, kind, wanted, hold, ticket, key=inbox.key)


def messages(reply):
    return reply[1::2]


@pytest.mark.parametrize("kind", FILL)
def test_messages_come_in_order_and_are_kept_as_taken(shard, client, inbox, kind):
    FILL[kind](client, inbox.key, WORDS)
    first = take(shard, inbox, 3, "t1", kind)
    second = take(shard, inbox, 3, "t2", kind)
    assert first[::2] == [b"t1:1", b"t1:2", b"t1:3"]
    assert second[::2] == [b"t2:1"]
    got = messages(first) + messages(second)
    assert got == WORDS or (kind == "set" and sorted(got) == WORDS)
    assert client.exists(inbox.key) == 0
    assert client.hgetall(inbox.messages) == dict(zip(first[::2] + second[::2], got, strict=True))
    assert client.zcard(inbox.taken) == 4


def test_the_same_message_twice_is_two(shard, client, inbox):
    client.rpush(inbox.key, "a", "a")
    assert messages(take(shard, inbox, 5, "t1")) == [b"a", b"a"]
    assert client.hlen(inbox.messages) == 2


def test_a_call_sent_again_answers_the_same(shard, client, inbox):
    client.rpush(inbox.key, *WORDS)
    first = take(shard, inbox, 2, "t1")
    assert take(shard, inbox, 2, "t1") == first
    assert client.llen(inbox.key) == 2


def test_what_nobody_saw_through_in_time_comes_again_before_what_is_new(shard, client, inbox, clock):
    client.rpush(inbox.key, *WORDS)
    first = take(shard, inbox, 2, "t1", hold=10_000)
    clock.advance(9.999)
    assert messages(take(shard, inbox, 1, "t2")) == [b"c"]
    clock.advance(0.001)
    again = take(shard, inbox, 3, "t3")
    assert again[:4] == first
    assert messages(again)[2:] == [b"d"]
    assert take(shard, inbox, 3, "t4") == []
    assert client.zscore(inbox.taken, "t1:1") == clock.now + 10_000


def test_a_key_of_another_type_is_told_and_left_alone(shard, client, inbox):
    client.set(inbox.key, "x")
    assert take(shard, inbox, 1, "t1") == b"string"
    assert client.get(inbox.key) == b"x"
    client.delete(inbox.key)
    client.sadd(inbox.key, "x")
    assert take(shard, inbox, 1, "t1") == b"set"


def test_of_nothing_it_takes_nothing(shard, client, inbox):
    assert take(shard, inbox, 1000, "t1") == []
    assert client.exists(inbox.taken, inbox.messages) == 0
