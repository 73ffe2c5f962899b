from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def shard(make_shard):
    return make_shard(politeness=Politeness(delay=0, concurrency=100))


@pytest.fixture
def messages(client):
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe("ours", "theirs")
        while len(client.pubsub_channels("*s")) < 2:
            pass
        pubsub.get_message(timeout=5)
        pubsub.get_message(timeout=5)

        def read():
            message = pubsub.get_message(timeout=5)
            return message and (message["channel"].decode(), message["data"])

        yield read


def settle(shard, verb, delay, reason, status, record):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/1")]))
    [token] = shard.run("claim", 1, 5000, 0)[3::2]
    assert shard.run("settle", 0, token, verb, delay, reason, status, record) == b""


def complete(shard, value):
    settle(shard, "complete", 60_000, "id", 10_000, value)


def awaited(client, shard):
    return client.get(f"{shard.root}:awaited:id")


def test_the_processes_that_wait_are_noted_while_they_wait(shard, client):
    assert shard.run("await_result", "id", "ours", 5000) is None
    assert shard.run("await_result", "id", "theirs", 2000) is None
    assert shard.run("await_result", "id", "ours", 3000) is None
    assert awaited(client, shard).split() == [b"ours", b"theirs"]
    assert 3000 < client.pttl(f"{shard.root}:awaited:id") <= 5000, "the longest wait"
    assert shard.run("await_result", "id", "theirs", 9000) is None
    assert 5000 < client.pttl(f"{shard.root}:awaited:id") <= 9000


def test_each_of_them_gets_the_result(shard, client, clock, messages):
    for channel in ("ours", "theirs"):
        shard.run("await_result", "id", channel, 5000)
    complete(shard, b'{"a":\n1}')
    assert sorted([messages(), messages()]) == [
        ("ours", b'id\n%d\n{"a":\n1}' % clock()),
        ("theirs", b'id\n%d\n{"a":\n1}' % clock()),
    ]
    assert awaited(client, shard) is None


def test_a_long_result_must_be_read(shard, messages):
    shard.run("await_result", "id", "ours", 5000)
    complete(shard, b'"%s"' % (b"x" * 5000))
    assert messages() == ("ours", b"id\n+")


def test_a_burial_is_published_too(shard, client, messages):
    shard.run("await_result", "id", "ours", 5000)
    settle(shard, "bury", "id", "no", "", "")
    assert messages() == ("ours", b"id\n")
    assert awaited(client, shard) is None


def test_a_burial_by_strikes_is_published_too(shard, client, messages):
    shard.run("await_result", "id", "ours", 60_000)
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/1")]))
    for _ in range(3):
        assert awaited(client, shard)
        [token] = shard.run("claim", 1, 5000, 0, "alone")[3::2]
        assert shard.run("settle", 0, token, "strike", "id", "its process ended", "", "") == b""
    assert messages() == ("ours", b"id\n")


def test_a_result_that_is_there_is_returned_and_no_process_is_noted(shard, client, clock):
    complete(shard, b"1")
    assert shard.run("await_result", "id", "ours", 5000) == [b"%d" % clock(), b"1"]
    assert awaited(client, shard) is None
    clock.advance(61)
    assert shard.run("await_result", "id", "ours", 5000) is None


def test_the_note_does_not_grow_without_limit(shard, client):
    for number in range(1000):
        shard.run("await_result", "id", f"a-process-{number:06}", 5000)
    assert len(awaited(client, shard)) < 9000
