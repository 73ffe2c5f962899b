from __future__ import annotations

import json

import pytest

from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.user_keys.inbox import MOST_BYTES
from tests.scripts.inbox import act, take

FILL = {
    "list": lambda client, key, words: client.rpush(key, *words),
    "set": lambda client, key, words: client.sadd(key, *words),
    "zset": lambda client, key, words: client.zadd(key, {word: -number for number, word in enumerate(words)}),
    "stream": lambda client, key, words: [client.xadd(key, {"url": word}) for word in words],
}
WORDS = [b"a", b"b", b"c", b"d"]


@pytest.fixture(params=["{}:start_urls", "{{{}}}:urls"])
def inbox(crawl, request):
    return InboxKeys(request.param.format(crawl))


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
    assert kind == "stream" or client.exists(inbox.key) == 0
    assert kind != "stream" or client.xlen(inbox.key) == 0
    assert client.hgetall(inbox.messages) == dict(zip(first[::2] + second[::2], got, strict=True))
    assert client.zrange(inbox.taken, 0, -1) == [b"t1*3", b"t2*1"]


@pytest.mark.parametrize("kind", FILL)
def test_any_kind_is_taken_for_what_it_is(shard, client, inbox, kind):
    FILL[kind](client, inbox.key, WORDS)
    assert sorted(messages(take(shard, inbox, 9, "t1", "any"))) == WORDS


def test_an_entry_of_a_stream_with_several_fields_is_an_array(shard, client, inbox):
    client.xadd(inbox.key, {"url": "https://a.example/", "priority": 5})
    [message] = messages(take(shard, inbox, 9, "t1", "any"))
    assert json.loads(message) == ["url", "https://a.example/", "priority", "5"]


def test_a_huge_message_is_put_aside_and_only_its_beginning_is_taken(shard, client, inbox):
    huge = b"x" * (MOST_BYTES + 1)
    client.rpush(inbox.key, "a", huge, "b", b"y" * MOST_BYTES)
    reply = messages(take(shard, inbox, 9, "t1"))
    assert reply == [b"a", b"\0oversized 1048577\0" + b"x" * 1000, b"b", b"y" * MOST_BYTES]
    assert client.lrange(inbox.refused, 0, -1) == [huge]


def test_a_reply_is_cut_by_its_size(shard, client, inbox):
    client.rpush(inbox.key, *[b"x" * 900_000] * 10)
    assert len(messages(take(shard, inbox, 9, "t1"))) == 5
    assert client.llen(inbox.key) == 5


def test_a_message_that_was_extended_does_not_come_with_its_group(shard, client, inbox, clock):
    client.rpush(inbox.key, *WORDS)
    take(shard, inbox, 3, "t1", hold=10_000)
    clock.advance(9)
    act(shard, inbox, "inbox_extend", [b"t1:2"], 10_000)
    clock.advance(1)
    assert take(shard, inbox, 3, "t2")[::2] == [b"t1:1", b"t1:3", b"t2:1"]
    clock.advance(9)
    assert take(shard, inbox, 3, "t3")[::2] == [b"t1:2"]


def test_what_earlier_versions_have_taken_comes_again(shard, client, inbox, clock):
    client.hset(inbox.messages, mapping={"old:1": "a", "old:2": "b"})
    client.zadd(inbox.taken, {"old:1": clock.now, "old:2": clock.now + 5000})
    assert take(shard, inbox, 3, "t1") == [b"old:1", b"a"]
    clock.advance(5)
    assert take(shard, inbox, 3, "t2") == [b"old:2", b"b"]


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
    assert client.zscore(inbox.taken, "t1*2") is None


def test_a_key_of_another_type_is_reported_and_left_alone(shard, client, inbox):
    client.set(inbox.key, "x")
    assert take(shard, inbox, 1, "t1") == b"string"
    assert client.get(inbox.key) == b"x"
    client.delete(inbox.key)
    client.sadd(inbox.key, "x")
    assert take(shard, inbox, 1, "t1") == b"set"


def test_of_nothing_it_takes_nothing(shard, client, inbox):
    assert take(shard, inbox, 1000, "t1") == []
    assert client.exists(inbox.taken, inbox.messages) == 0
