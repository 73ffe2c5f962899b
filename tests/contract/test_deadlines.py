"""Requests that must not start after a time."""

from __future__ import annotations

import pytest

from silkline import Request
from silkline.errors import LeaseLost
from tests.contract.frontiers import page, paths


def expiring(number, expires, **fields):
    return Request(f"https://a.example/{number}", expires=expires, **fields)


async def test_a_request_starts_until_it_expires(frontier, clock):
    await frontier.enqueue([expiring(1, clock.seconds + 10), expiring(2, clock.seconds + 10)])
    clock.advance(9.999)
    assert paths(await frontier.claim()) == ["1"]
    clock.advance(0.001)
    assert await frontier.claim() == []
    [letter] = await frontier.admin.dead()
    assert letter.request.url == "https://a.example/2"
    assert letter.reason.startswith("expired: not started by 20")
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.leased, stats.dead) == (0, 1, 1)


async def test_expired_requests_do_not_keep_others_from_being_claimed(frontier, clock):
    await frontier.enqueue([expiring(number, clock.seconds + 1, priority=1) for number in range(25)])
    await frontier.enqueue([page("kept"), expiring("later", clock.seconds + 5)])
    clock.advance(2)
    assert paths(await frontier.claim(3)) == ["kept", "later"]
    assert (await frontier.admin.stats()).dead == 25


async def test_a_retry_does_not_start_after_the_deadline_either(frontier, clock):
    await frontier.enqueue(expiring(1, clock.seconds + 10))
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=20, reason="slow", status=503)
    clock.advance(20)
    assert await frontier.claim() == []
    [letter] = await frontier.admin.dead()
    assert letter.attempts == 2
    assert [failed.status for failed in letter.history] == [503, None]


async def test_an_attempt_that_has_started_is_not_ended(frontier, clock):
    await frontier.enqueue(expiring(1, clock.seconds + 10))
    [lease] = await frontier.claim(lease=60)
    clock.advance(30)
    await frontier.complete(lease)
    assert (await frontier.admin.stats()).done == 1
    with pytest.raises(LeaseLost):
        await frontier.complete(lease)


async def test_what_is_revived_may_start(frontier, clock):
    await frontier.enqueue(expiring(1, clock.seconds + 10))
    clock.advance(20)
    assert await frontier.claim() == []
    assert await frontier.admin.revive() == 1
    [lease] = await frontier.claim()
    assert lease.request.expires == pytest.approx(clock.seconds - 10)


async def test_a_request_that_could_never_start_is_refused(frontier, clock):
    now = clock.seconds
    answers = await frontier.enqueue([expiring(1, now + 5, not_before=now + 5), expiring(2, "soon"), expiring(3, -1)])
    assert [refusal.reason.partition(";")[0] for refusal in answers.refusals] == [
        "expires must be later than not_before, or the request never starts",
        "expires must be a unix time in seconds, got 'soon'",
        "expires must be a unix time in seconds, got -1",
    ]
