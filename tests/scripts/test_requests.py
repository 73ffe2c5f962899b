from __future__ import annotations

import pytest

from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def add(shard, clock):
    def add_(*urls, after=None):
        options = "" if after is None else f"0 {clock.now + after} - -"
        shard.send(enqueue_command(shard.keys, [shard.offer(url, options) for url in urls]))

    return add_


def look(shard, state, host="", most=1000, position=""):
    """Returns the next position, the entries read, and (reference, time, entry) of each."""
    following, read, *rest = shard.run("requests", state, host, most, position)
    return following.decode(), read, [tuple(rest[i : i + 3]) for i in range(0, len(rest), 3)]


def test_a_ready_request_is_named_by_its_place_and_its_digest(shard, add):
    add("https://a.example/1", "https://a.example/2")
    following, read, [(first, time, entry), (second, _, _)] = look(shard, "ready")
    assert (following, read, time) == ("", 2, b"")
    assert entry == b"a.example\n0\n0\n0\n0\n" + shard.stored("1")
    assert first.startswith(b"0:0:4:")
    assert second.startswith(b"0:1:4:")
    assert first.endswith(b":a.example")


def test_a_queue_is_read_a_page_at_a_time(shard, add):
    add(*(f"https://a.example/{number}" for number in range(5)))
    for host in ("a.example", ""):
        position, seen = look(shard, "ready", host, 2)[::2]
        assert len(seen) == 2
        assert position
        position, more = look(shard, "ready", host, 2, position)[::2]
        position, rest = look(shard, "ready", host, 2, position)[::2]
        assert position == ""
        assert [entry[-1:] for _, _, entry in (*seen, *more, *rest)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_full_page_at_the_end_has_no_next_one(shard, add):
    add("https://a.example/1", "https://b.example/1")
    assert look(shard, "ready", most=2)[0] == ""
    assert look(shard, "ready", "a.example", most=1)[0] == ""
    add("https://a.example/2", "https://b.example/2", after=5000)
    assert look(shard, "delayed", most=2)[0] == ""
    shard.run("claim", 2, 5000, 0)
    assert look(shard, "leased", most=2)[0] == ""


def test_many_hosts_without_requests_do_not_make_a_call_long(shard, client):
    client.hset(f"{shard.root}:hosts", mapping={f"h{number}.example": "0 99999999999999" for number in range(5000)})
    position, calls = "", 0
    while calls == 0 or position:
        position, _, found = look(shard, "ready", position=position)
        assert found == []
        calls += 1
    assert calls >= 5


def test_requests_of_a_rare_host_are_searched_in_parts(shard, add):
    add(*(f"https://a.example/{number}" for number in range(2500)), after=5000)
    add("https://b.example/1", after=6000)
    position, read, found = look(shard, "delayed", "b.example")
    assert (read, found) == (1000, [])
    position, read, found = look(shard, "delayed", "b.example", position=position)
    assert (read, found) == (1000, [])
    position, read, [(reference, time, _)] = look(shard, "delayed", "b.example", position=position)
    assert (position, read) == ("", 501)
    assert reference.split(b":")[:2] == [time, b"0"]


def test_a_page_of_delayed_requests_continues_among_those_due_at_the_same_time(shard, add, clock):
    add(*(f"https://a.example/{number}" for number in range(7)), after=5000)
    position, _, first = look(shard, "delayed", most=3)
    assert position == f"{clock.now + 5000} 3"
    shard.run("drop", "", *[f"delayed:{reference.decode()}" for reference, _, _ in first[:1]])
    _, _, rest = look(shard, "delayed", position=f"{clock.now + 5000} 2")
    assert len(rest) == 4


def test_the_member_that_keeps_leases_a_skiplist_is_no_request(shard, add):
    assert look(shard, "leased") == ("", 1, [])
    add("https://a.example/1")
    [token] = shard.run("claim", 1, 5000, 0)[3::2]
    [(reference, _, _)] = look(shard, "leased")[2]
    assert reference == token


def test_it_changes_nothing(shard, add):
    add("https://a.example/1", "https://a.example/2")
    add("https://b.example/1", after=5000)
    shard.run("claim", 1, 5000, 0)
    before = shard.dump()
    for state in ("ready", "delayed", "leased"):
        look(shard, state)
    assert shard.dump() == before
