from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.embedded.processes import Participant, remove_when_stopped


@pytest.fixture
def home():
    """A directory for a server, with a path short enough for a socket in it."""
    base = Path(tempfile.mkdtemp(prefix="silk-embedded-"))
    yield base / "home"
    remove_when_stopped(base)


@pytest.fixture
def participant(home):
    """Start a participant; all of them end with the test, before its directory goes."""
    started = []

    def start(directory: Path = home) -> Participant:
        started.append(Participant(directory))
        return started[-1]

    yield start
    for one in started:
        one.end()
