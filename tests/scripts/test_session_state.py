from __future__ import annotations

import pytest

TTL, MOST = 60_000, 3


@pytest.fixture
def state(shard):
    key = shard.layout.keys.settings
    shard.run("create", b"settings", key=key)

    def state_(name, version=0, login=0, state=b"", most=MOST):
        stored, now, last_login, found = shard.run("session_state", name, version, login, TTL, most, state, key=key)
        return stored, int(now), int(last_login), found

    return state_


def test_who_knows_the_stored_state_may_replace_it(state, clock):
    assert state("a") == (0, 0, 0, b"")
    stored, version, login, found = state("a", 0, 0, b"one\n\0 1")
    assert (stored, login, found) == (1, 0, b"")
    assert version == clock.now
    assert state("a") == (0, version, 0, b"one\n\0 1")
    assert state("a", version) == (0, version, 0, b"")
    assert state("a", 0, 0, b"late") == (0, version, 0, b"one\n\0 1")
    assert state("a", version, 0, b"two") == (1, version + 1, 0, b"")
    assert state("a", version, 0, b"two") == (0, version + 1, 0, b"two"), "it was sent twice"
    assert state("b") == (0, 0, 0, b"")


def test_a_newer_login_replaces_what_earlier_ones_have_stored(state):
    _, version, _, _ = state("a", 0, 0, b"logged out")
    stored, version, login, _ = state("a", 0, 7, b"logged in")
    assert (stored, login) == (1, 7)
    assert state("a", version, 6, b"late login")[0] == 0
    assert state("a", version, 0, b"late page")[0] == 0
    assert state("a", 0, 7, b"unaware page")[0] == 0
    assert state("a", version, 7, b"page")[0] == 1
    assert state("a")[2:] == (7, b"page")


def test_a_session_is_dropped_some_time_after_its_last_change(state, shard, client, clock):
    state("old", 0, 5, b"x")
    clock.advance(TTL / 1000 - 1)
    _, version, _, _ = state("new", 0, 0, b"y")
    assert state("old")[3] == b"x"
    clock.advance(1)
    assert state("old") == (0, 0, 0, b"")
    state("new", version, 0, b"z")
    assert client.hkeys(shard.layout.keys.sessions) == client.zrange(shard.layout.keys.session_ends, 0, -1) == [b"new"]


def test_a_crawl_has_a_limited_number_of_sessions(state, shard, client, clock):
    for number in range(10):
        state(f"s{number}", 0, 0, b"x")
        clock.advance(1)
    assert client.zrange(shard.layout.keys.session_ends, 0, -1) == [b"s7", b"s8", b"s9"]
    assert sorted(client.hkeys(shard.layout.keys.sessions)) == [b"s7", b"s8", b"s9"]
