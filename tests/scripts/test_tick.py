from __future__ import annotations

START = 1_800_000_000_000


def tick(shard, after, *, schedule="every 60", host="report"):
    """Enqueue a tick this many milliseconds after the start, and return such times, too."""
    word, newest, time = shard.run("tick", host, schedule, after and START + after, "/=tick")
    return word.decode(), int(newest) and int(newest) - START, int(time) - START


def test_a_tick_is_delayed_until_its_time(shard, client):
    assert tick(shard, 60_000) == ("added", 60_000, 0)
    ((member, due),) = client.zrange(f"{shard.root}:delayed", 0, -1, withscores=True)
    assert (member.partition(b"\n")[2], due) == (b"report\n0\n0\n0\n0\n" + shard.stored("/=tick"), START + 60_000)
    assert shard.get("accepted") == 1


def test_only_a_newer_tick_is_added(shard):
    answers = [tick(shard, due)[0] for due in (60_000, 60_000, 120_000, 60_000, 180_000)]
    assert answers == ["added", "seen", "added", "seen", "added"]
    assert tick(shard, 60_000, host="other")[0] == "added"
    assert shard.get("accepted") == 4


def test_without_a_time_it_only_reads(shard, client):
    assert tick(shard, 0) == ("seen", 0, 0)
    assert client.exists(f"{shard.root}:ticks") == 0
    tick(shard, 60_000)
    assert tick(shard, 0) == ("seen", 60_000, 0)


def test_schedules_do_not_share_their_newest_tick_but_no_time_is_used_twice(shard, client):
    assert tick(shard, 3_600_000, schedule="every 3600")[0] == "added"
    assert tick(shard, 3_540_000)[0] == "added"
    assert tick(shard, 3_600_000) == ("seen", 3_600_000, 0)
    assert tick(shard, 3_660_000)[0] == "added"
    assert client.hget(f"{shard.root}:ticks", "report") == b"1800003660000 every 60\n1800003600000 every 3600"


def test_a_task_has_at_most_eight_schedules(shard, client):
    for number in range(20):
        tick(shard, 60_000 + number, schedule=f"every {number}")
    lines = client.hget(f"{shard.root}:ticks", "report").split(b"\n")
    assert len(lines) == 8
    assert lines[0] == b"1800000060019 every 19"


def test_a_full_shard_has_no_room_for_a_tick(make_shard):
    shard = make_shard(capacity=1)
    assert tick(shard, 60_000)[0] == "added"
    assert tick(shard, 120_000) == ("full", 60_000, 0)


def test_a_cancelled_crawl_refuses_ticks(shard):
    shard.run("set_state", "cancelled")
    assert tick(shard, 60_000) == ("refused", 0, 0)
