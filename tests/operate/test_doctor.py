"""The doctor's judgement, finding by finding, on facts made up; tests/cli/test_doctor.py has real servers."""

from __future__ import annotations

import msgspec
import pytest

from silkline.frontier.transport.server_info import Server, ServerInfo, SlowEvent
from silkline.ops.doctor import examine

HEALTHY = ServerInfo(
    where="redis://10.0.0.7:6379/0",
    server=Server("Valkey", (9, 1, 2), "noeviction", cluster=False),
    info={"used_memory": 10, "maxmemory": 100, "aof_enabled": 1, "role": "master"},
    config={
        "appendfsync": "everysec", "appendonly": "yes", "list-compress-depth": "1", "maxclients": "10000",
        "maxmemory-policy": "noeviction", "save": "", "set-max-intset-entries": "512", "timeout": "0",
    },
    offset=0.01,
    doubt=0.001,
    user="silkline",
    open_to_all=False,
    cluster=None,
    slow_commands=[SlowEvent("claim", 0.02, 60), SlowEvent("KEYS", 2.0, 3700)],
    latency_events=[SlowEvent("fork", 0.4, 3700)],
)  # fmt: skip


def ill(**changes):
    """The healthy server, but for some changes; those of info and config are merged."""
    for name in ("info", "config"):
        changes[name] = getattr(HEALTHY, name) | changes.get(name, {})
    return msgspec.structs.replace(HEALTHY, **changes)


def test_a_healthy_server_is_fine_in_every_respect():
    findings = examine([HEALTHY])
    assert {finding.grade for finding in findings} == {"fine"}
    assert {finding.check for finding in findings} == {
        "version", "eviction", "persistence", "memory", "clock", "latency", "slow log", "access", "compression",
    }  # fmt: skip


def redis(*version):
    return Server("Redis", version, "noeviction", cluster=False)


CASES = [
    ({"server": redis(6, 0, 16)}, "bad", "version", "too old"),
    ({"info": {"role": "slave"}}, "bad", "role", "replica"),
    ({"info": {"loading": 1}}, "bad", "role", "loading"),
    ({"config": {"maxmemory-policy": "allkeys-lru"}}, "bad", "eviction", "evicts requests"),
    (
        {
            "server": Server("Redis", (7, 2), "allkeys-lru", cluster=False, unlimited=True),
            "config": {"maxmemory-policy": ""},
        },
        "warn",
        "eviction",
        "as soon as maxmemory is set",
    ),
    ({"config": {"maxmemory-policy": "volatile-ttl"}}, "warn", "eviction", "take effect twice"),
    ({"info": {"evicted_keys": 12}}, "bad", "eviction", "12 keys were evicted"),
    ({"info": {"aof_last_write_status": "err"}}, "bad", "persistence", "failed"),
    ({"info": {"rdb_last_bgsave_status": "err"}}, "bad", "persistence", "failed"),
    ({"info": {"aof_delayed_fsync": 31}}, "warn", "persistence", "31 writes"),
    ({"info": {"latest_fork_usec": 800_000}}, "warn", "persistence", "0.8 s"),
    ({"doubt": 0.03}, "warn", "latency", "60.0 ms"),
    ({"slow_commands": [SlowEvent("KEYS", 0.7, 60), SlowEvent("settle", 0.06, 9)]}, "warn", "slow log", "2 commands"),
    ({"slow_commands": [SlowEvent("KEYS", 0.7, 60)]}, "warn", "slow log", "a command took longer than 50 ms"),
    ({"config": {"slowlog-log-slower-than": "-1"}}, "warn", "slow log", "not recorded"),
    ({"latency_events": [SlowEvent("aof-fsync-always", 0.3, 60)]}, "warn", "latency", "aof-fsync-always: 300 ms"),
    ({"config": {"appendfsync": "no"}}, "warn", "persistence", "power cut"),
    ({"info": {"aof_enabled": 0}, "config": {"appendonly": "no"}}, "warn", "persistence", "restart"),
    ({"info": {"aof_enabled": 0}, "config": {"appendonly": "no", "save": "60 1"}}, "warn", "persistence", "snapshots"),
    ({"info": {"used_memory": 80}}, "warn", "memory", "80%"),
    ({"info": {"used_memory": 95}}, "bad", "memory", "95%"),
    ({"info": {"maxmemory": 0}}, "warn", "memory", "no limit"),
    ({"info": {"used_memory": 2**30, "maxmemory": 2**40, "mem_fragmentation_ratio": 2.5}}, "warn", "memory", "2.5"),
    ({"offset": -2.0}, "warn", "clock", "behind"),
    ({"offset": 9.0}, "bad", "clock", "ahead"),
    ({"open_to_all": True}, "bad", "access", "no password"),
    ({"open_to_all": True, "config": {"protected-mode": "yes"}}, "warn", "access", "no password"),
    ({"user": "default"}, "warn", "access", "default user"),
    ({"cluster": {"cluster_state": "fail", "cluster_slots_fail": "5461"}}, "bad", "cluster", "5,461 slots"),
    ({"config": {"list-compress-depth": "0"}}, "warn", "compression", "1.4 to 2 times the memory"),
    ({"config": {"set-max-intset-entries": "128"}}, "warn", "compression", "seen filter"),
    ({"info": {"connected_clients": 9000}}, "warn", "clients", "9,000 of 10,000"),
    ({"info": {"rejected_connections": 3}}, "warn", "clients", "rejected"),
    ({"config": {"timeout": "300"}}, "warn", "clients", "idle"),
]


@pytest.mark.parametrize(("changes", "grade", "check", "words"), CASES)
def test_what_is_wrong_is_found_with_its_fix_and_comes_first(changes, grade, check, words):
    found = [finding for finding in examine([ill(**changes)]) if finding.grade in ("bad", "warn")]
    assert found[0].grade == grade
    assert [finding.check for finding in found] == [check]
    assert words in found[0].text
    assert found[0].fix


def test_doubt_about_a_clock_is_not_held_against_it():
    [clock] = [finding for finding in examine([ill(offset=3.0, doubt=2.9)]) if finding.check == "clock"]
    assert clock.grade == "fine"


def test_what_may_not_be_asked_is_unknown_and_not_bad():
    bare = msgspec.structs.replace(
        HEALTHY, config={}, offset=None, user=None, open_to_all=None, slow_commands=None, latency_events=None
    )
    grades = {finding.check: finding.grade for finding in examine([bare])}
    assert grades["compression"] == grades["clock"] == grades["slow log"] == "unknown"
    assert "bad" not in grades.values()


def test_nodes_of_a_cluster_are_named():
    sick = ill(where="10.0.0.8:6379", cluster={"cluster_state": "fail"})
    well = ill(where="10.0.0.9:6379", cluster={"cluster_state": "ok", "cluster_known_nodes": "6"})
    findings = examine([well, sick])
    assert (findings[0].where, findings[0].check) == ("10.0.0.8:6379", "cluster")


def test_every_event_of_the_latency_monitor_has_a_remedy():
    for event, words in (
        ("fork", "huge pages"),
        ("aof-stat", "disk"),
        ("command", "SLOWLOG"),
        ("a new one", "processor"),
    ):
        [found] = [one for one in examine([ill(latency_events=[SlowEvent(event, 0.2, 1)])]) if one.grade == "warn"]
        assert words in found.fix
    [advice] = [one for one in examine([ill(config={"latency-monitor-threshold": "0"})]) if one.fix]
    assert (advice.grade, "latency-monitor-threshold 100" in advice.fix) == ("fine", True)
