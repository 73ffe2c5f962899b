from __future__ import annotations

import pytest

from silkline.frontier.admin_verbs.stats import activity
from silkline.frontier.verbs.history import COARSE, COUNTS, FINE


@pytest.fixture
def key(shard):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)
    return key


def report(shard, key, **counts):
    shard.run("add_history", " ".join(str(counts.get(name, 0)) for name in COUNTS), "", "", key=key)


def test_it_counts_the_workers_that_live_those_that_were_ordered_to_rest_and_those_lost_in_the_last_hour(
    shard, key, clock
):
    shard.run("join", "forgotten", 1000, "{}", key=key)
    clock.advance(3601)
    for name, expires in (("gone", 1000), ("one", 9000), ("two", 9000), ("three", 9000)):
        shard.run("join", name, expires, "{}", key=key)
    clock.advance(2)
    for name, order in (("gone", "quiet"), ("one", "quiet"), ("two", "stop")):
        shard.run("order", name, order, key=key)
    assert shard.run("activity", 2, 1, key=key)[:3] == [3, 2, 1]


def test_the_total_outlives_the_rings(shard, key, clock):
    report(shard, key, items=5)
    clock.advance(2 * 86_400)
    report(shard, key, items=2, pages=1)
    total = shard.run("activity", 2, 1, key=key)[3].split()
    assert dict(zip(COUNTS, map(int, total), strict=True)) == {**dict.fromkeys(COUNTS, 0), "items": 7, "pages": 1}


def test_it_reads_the_last_steps_the_oldest_first(shard, key, clock):
    clock.advance(COARSE.step - clock.now / 1000 % COARSE.step)
    for count in (1, 2):
        clock.advance(FINE.step)
        report(shard, key, pages=count)
    *_, last, first, second, third, before, now, alerts = shard.run("activity", 3, 2, key=key)
    assert int(last) == clock.now // (FINE.step * 1000)
    assert (first, before, alerts) == (b"", b"", b"")
    assert [text.split(b";")[2].split()[0] for text in (second, third, now)] == [b"1", b"2", b"3"]


def test_it_changes_nothing(shard, key):
    shard.run("join", "one", 9000, "{}", key=key)
    report(shard, key, pages=1)
    before = shard.dump()
    shard.send(activity(shard.layout.keys))
    assert shard.dump() == before


def test_it_returns_the_alerts_without_the_token_of_who_stored_them(shard, key):
    shard.run("feed_position", "alerts", 7, b'[{"rule":"a b"}]', key=key)
    assert shard.run("activity", 2, 1, key=key)[-1] == b'[{"rule":"a b"}]'
