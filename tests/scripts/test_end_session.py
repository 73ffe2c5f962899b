from __future__ import annotations

from silkline.frontier.store.keys import SESSIONS


def test_a_session_has_ended_from_when_it_was_noted_until_nobody_needs_to_know(shard, clock):
    assert shard.run("end_session", "one", "", key=SESSIONS) == 0
    assert shard.run("end_session", "one", 5000, key=SESSIONS) == 1
    assert shard.run("end_session", "one", "", key=SESSIONS) == 1
    assert shard.run("end_session", "two", "", key=SESSIONS) == 0
    clock.advance(6)
    assert shard.run("end_session", "two", 5000, key=SESSIONS) == 1
    assert shard.run("end_session", "one", "", key=SESSIONS) == 0
