from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def bury(make_shard):
    """Buries requests, one a reason and host, and answers the shard."""
    shard = make_shard(politeness=Politeness(delay=0))

    def bury_(*pairs):
        offers = [shard.offer(f"https://{host}/{number}-{reason}") for number, (reason, host) in enumerate(pairs)]
        shard.send(enqueue_command(shard.keys, offers))
        for reason, _ in pairs:
            reply = shard.run("claim", 1, 5000, 0)
            shard.run("settle", 0, reply[3], "bury", 0, reason, "", "")
        return shard

    return bury_


def test_the_reply_holds_the_largest_groups_first(bury):
    shard = bury(("x", "a.example"), ("y", "a.example"), ("x", "b.example"))
    assert shard.run("groups", "reason", 5, "") == [3, b"x", b"2", b"y", b"1"]
    assert shard.run("groups", "host", 1, "") == [3, b"a.example", b"2"]
    assert shard.run("groups", "host", 1, "b.example") == [3, b"b.example", b"1"]
    assert shard.run("groups", "host", 1, "c.example") == [3, b"c.example", b"0"]
    assert shard.run("groups", "reason", 1, "y") == [3, b"y", b"1"]
    assert shard.run("groups", "reason", 1, "z") == [3, b"z", b"0"]


def test_an_old_crawl_has_letters_that_are_not_counted(bury, client):
    shard = bury(("x", "a.example"), ("y", "a.example"))
    client.delete(f"{shard.root}:dead_reasons", f"{shard.root}:dead_hosts")
    client.hdel(f"{shard.root}:ledger", "counted")
    assert shard.run("groups", "reason", 5, "") == [2]
    bury(("z", "b.example"))
    assert shard.run("groups", "reason", 5, "") == [3, b"z", b"1"]
    assert shard.run("revive", 0, 100, "-inf", "+inf", "", "", "", "", "purge") == b"3 3"
    assert shard.run("groups", "reason", 5, "") == [0]
    assert shard.get("counted") == 0


@pytest.mark.parametrize("ends", ["purge", "dead limit"])
def test_letters_that_an_earlier_version_counted_leave_the_group_of_that_time(bury, client, ends):
    hosts = [f"h{number}.example" for number in range(3)]
    reasons = [f"dns: no address for {host}" for host in hosts]
    shard = bury(*zip(reasons, hosts, strict=True))
    assert shard.run("groups", "reason", 5, "") == [3, "dns: no address for …".encode(), b"3"]
    client.delete(f"{shard.root}:dead_reasons")
    client.zadd(f"{shard.root}:dead_reasons", dict.fromkeys(reasons, 1))  # as an earlier version counts them
    bury(("dns: no address for new.example", "new.example"))
    assert shard.run("groups", "reason", 1, "")[0] == 4
    if ends == "purge":
        shard.run("revive", 0, 100, "-inf", "+inf", "", "", "", "", "purge")
        assert shard.run("groups", "reason", 5, "") == [0]
    else:
        shard.run("set_dead_limit", 1, "{}")
        assert shard.run("groups", "reason", 5, "") == [1, "dns: no address for …".encode(), b"1"]
    assert shard.get("counted") == shard.run("groups", "reason", 5, "")[0]


def test_names_beyond_the_limit_are_counted_together_and_none_falls_below_what_is_there(bury, client):
    shard = bury()
    client.zadd(f"{shard.root}:dead_reasons", {f"r{number}": 2 for number in range(1000)})
    bury(("one", "a.example"), ("two", "a.example"), ("r5", "a.example"))
    assert client.zscore(f"{shard.root}:dead_reasons", "") == 2
    assert client.zscore(f"{shard.root}:dead_reasons", "r5") == 3
    assert b"" not in shard.run("groups", "reason", 2000, "")[1::2]
    client.zrem(f"{shard.root}:dead_reasons", "r1", "r2")
    bury(("two", "a.example"))
    assert client.zscore(f"{shard.root}:dead_reasons", "two") == 1
    shard.run("revive", 0, 100, "-inf", "+inf", "", "two", "", "", "purge")
    assert client.zscore(f"{shard.root}:dead_reasons", "two") is None
    assert client.zscore(f"{shard.root}:dead_reasons", "") == 1


def test_the_letters_of_a_host_are_known_whether_they_are_counted_apart_or_not(bury, client):
    shard = bury(("x", "a.example"), ("y", "a.example"), ("x", "b.example"))
    client.delete(f"{shard.root}:dead_hosts")
    assert shard.run("groups", "host", 1, "a.example") == [3, b"a.example", b"2"]
    client.delete(f"{shard.root}:dead_by_host")
    assert shard.run("groups", "host", 1, "a.example") == [3, b"a.example", b"0"], "as an older version left it"
