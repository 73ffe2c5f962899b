from __future__ import annotations

from tests.scripts.waiting import GROUP, HOUR, START, call_record, open_group

NEVER = 315_360_000_000


def test_the_call_is_delayed_until_a_time_that_never_comes(shard, client):
    assert open_group(shard) == "added"
    ((member, due),) = client.zrange(f"{shard.root}:delayed", 0, -1, withscores=True)
    assert member.partition(b"\n")[2] == b"report\n0\n0\n0\n0\n" + shard.stored(call_record(f"https://{GROUP}"))
    assert due == START + HOUR + NEVER
    assert client.zrange(f"{shard.root}:groups", 0, -1, withscores=True) == [(GROUP.encode(), START + HOUR)]
    assert shard.get("accepted") == 1


def test_it_is_stored_once(shard):
    assert open_group(shard, call=("me", 7)) == "added"
    assert open_group(shard, call=("me", 7)) == "added"
    assert open_group(shard) == "open"
    assert shard.get("accepted") == 1


def test_a_unique_call_that_was_seen_is_not_stored(shard):
    mark = "5000000000000000000"
    assert open_group(shard, fingerprint=mark) == "added"
    shard.run("join_group", GROUP, "", "", "close")
    assert open_group(shard, fingerprint=mark) == "seen"


def test_there_must_be_room(make_shard):
    shard = make_shard(capacity=1)
    assert shard.run("tick", "report", "every 60", START + 1, "/=tick")[0] == b"added"
    assert open_group(shard) == "full"


def test_a_cancelled_crawl_refuses_it(shard):
    shard.run("set_state", "cancelled")
    assert open_group(shard) == "refused"
