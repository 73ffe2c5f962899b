"""Calls that are repeated until they succeed."""

from __future__ import annotations

import logging

import pytest

from silkline.errors import ConfigError, SinkUnavailable, StoreUnavailable
from silkline.runtime import settling
from silkline.runtime.settling import Retrier, retry_until_reachable
from tests.patched import patch_for


def failing(*errors):
    """A call that raises these first."""
    left = list(errors)

    async def call():
        if left:
            raise left.pop(0)
        return "done"

    return call


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    patch_for(monkeypatch, settling, "asyncio", sleep=sleep)
    return pauses


async def test_pauses_double_up_to_the_longest(at_once):
    seen = []
    call = failing(*[StoreUnavailable("away")] * 4, SinkUnavailable("full"))
    assert await retry_until_reachable(call, seen.append, first=0.5, longest=2.0) == "done"
    assert at_once == [0.5, 1.0, 2.0, 2.0, 2.0]
    assert len(seen) == 5


async def test_other_errors_and_those_that_are_given_up_pass():
    with pytest.raises(ConfigError):
        await retry_until_reachable(failing(ConfigError("wrong")), print)
    with pytest.raises(SinkUnavailable):
        await Retrier().retry(failing(SinkUnavailable("full")))


async def test_an_outage_is_logged_once_and_its_end_once(caplog):
    caplog.set_level(logging.WARNING)
    retrier = Retrier()
    assert await retrier.retry(failing(*[StoreUnavailable("connection refused")] * 3)) == "done"
    assert await retrier.retry(failing()) == "done"
    assert retrier.trouble is None
    assert [record.message for record in caplog.records] == [
        "the server is unreachable: connection refused. The crawl waits for it; nothing is lost",
        "the server is reachable again; the crawl continues",
    ]
