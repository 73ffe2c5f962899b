from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def queue(make_shard):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1000))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(1200)]))
    return shard


def references(shard, state="ready"):
    return [f"{state}:{reference.decode()}" for reference in shard.run("requests", state, "", 1000, "")[2::3]]


def left(shard, client):
    return client.lrange(f"{shard.root}:queue:0:a.example", 0, -1)


def test_the_same_call_sent_twice_acts_once_and_answers_the_same(queue):
    some = references(queue)[:3]
    assert queue.run("drop", "", *some, call=("c:1", 3)) == b"3"
    before = queue.dump()
    assert queue.run("drop", "", *some, call=("c:1", 3)) == b"3"
    assert queue.dump() == before
    assert queue.run("drop", "", *some, call=("c:1", 4)) == b"0"


def test_a_request_is_found_where_it_has_moved_to(queue, client):
    chosen = references(queue)[600]
    for wanted in (300, 150):
        queue.run("claim", wanted, 5000, 0)
    queue.run("drop", "", chosen)
    assert b"/600" not in left(queue, client)
    assert len(left(queue, client)) == 749


def test_one_that_moved_too_far_is_left_alone(queue, client):
    chosen = references(queue)[999]
    queue.run("claim", 600, 5000, 0)
    assert queue.run("drop", "", chosen) == b"0"
    assert queue.get("queued") == 600


def test_a_host_without_requests_leaves_its_place(shard, client):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    assert shard.run("drop", "", *references(shard)) == b"1"
    assert client.exists(f"{shard.root}:ready", f"{shard.root}:waiting", f"{shard.root}:queue:0:a.example") == 0
    assert (shard.get("queued"), shard.get("discarded")) == (0, 1)


def test_a_host_whose_highest_lane_is_dropped_is_placed_by_the_next_one(shard, client):
    offers = [shard.offer(f"https://a.example/{lane}", f"{lane} 0 - -") for lane in (5, 0)]
    shard.send(enqueue_command(shard.keys, offers))
    before = client.zscore(f"{shard.root}:ready", "a.example")
    assert shard.run("drop", "", references(shard)[0]) == b"1"
    assert client.zscore(f"{shard.root}:ready", "a.example") > before
    assert client.hget(f"{shard.root}:lanes", "a.example") is None


def test_nonsense_drops_nothing(queue):
    for wrong in ("", "ready:", "ready:0:0:2:ab:b.example", "delayed:1:2:3", "delayed:0:0:1", "leased:1"):
        assert queue.run("drop", "", wrong) == b"0"
    assert queue.get("queued") == 1200
