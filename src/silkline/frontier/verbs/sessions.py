"""The states of named sessions, which all workers of a crawl share."""

from __future__ import annotations

from typing import NamedTuple

from silkline.errors import ConfigError
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.command import Command, load

MOST_SESSIONS = 1_000
"""Sessions of a crawl. If there are more, those that were not used for the longest time are dropped."""
MOST_STATE_BYTES = 32 * 1024
SESSION_TTL = 30 * 86_400.0
"""Seconds after its last change for which a session is kept."""


class SessionReply(NamedTuple):
    """What is stored of a session, and whether the caller has stored it."""

    stored: bool
    version: int
    """0 if nothing is stored."""
    login: int
    state: bytes
    """Empty if the caller knows it, or if nothing is stored."""


def session_state(keys: CrawlKeys, name: str, version: int, login: int, state: bytes) -> Command[SessionReply]:
    """Store the state of a session, or only read it if *state* is empty."""
    check_state(state)

    def decode(reply: list[bytes]) -> SessionReply:
        return SessionReply(bool(int(reply[0])), int(reply[1]), int(reply[2]), reply[3])

    arguments = (name, version, login, round(SESSION_TTL * 1000), MOST_SESSIONS, state)
    return Command(load("session_state"), (keys.settings,), arguments, decode)


def check_state(state: bytes) -> None:
    if len(state) > MOST_STATE_BYTES:
        raise ConfigError(f"the state of a session takes {len(state)} bytes, the cap is {MOST_STATE_BYTES}")
