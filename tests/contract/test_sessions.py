"""The states of named sessions are shared by all workers of a crawl."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError
from silkline.frontier.verbs.sessions import MOST_SESSIONS, MOST_STATE_BYTES, SESSION_TTL


async def test_a_state_is_stored_by_who_knows_the_last_one_or_has_logged_in_later(frontier, clock):
    state = frontier.internal.session_state
    assert await state("a") == (False, 0, 0, b"")
    first = await state("a", state=b"one")
    assert (first.stored, first.login, first.state) == (True, 0, b"")
    assert await state("a", state=b"late") == (False, first.version, 0, b"one")
    second = await state("a", first.version, state=b"two")
    assert second.version > first.version
    third = await state("a", 0, 9, b"three")
    assert (third.stored, third.login) == (True, 9)
    assert await state("a", second.version, 0, b"late") == (False, third.version, 9, b"three")
    assert await state("a", third.version, 9) == (False, third.version, 9, b"")
    clock.advance(SESSION_TTL)
    assert await state("a", third.version, 9) == (False, 0, 0, b"")


async def test_sessions_are_bounded(frontier, clock):
    state = frontier.internal.session_state
    with pytest.raises(ConfigError, match="the state of a session takes 32769 bytes"):
        await state("a", state=b"x" * (MOST_STATE_BYTES + 1))
    for number in range(MOST_SESSIONS + 1):
        await state(f"s{number}", state=b"x")
        clock.advance(0.001)
    assert (await state("s0")).version == 0
    assert (await state("s1")).version > 0
