"""Since when a request waits."""

from __future__ import annotations

import pytest

from silkline import Request
from silkline.core.lease import State
from tests.contract.frontiers import page

PLAIN, INSECURE, FRONT = "https://a.example/x?a=1", "http://a.example/x", "https://a.example/"
FORMS = [
    PLAIN,
    INSECURE,
    FRONT,
    Request("https://a.example/rich", meta={"a": 1}),
    Request(PLAIN, "POST", body=b"\n\x80/"),
]


def second(clock):
    return float(int(clock.seconds))


@pytest.mark.parametrize("item", FORMS)
async def test_a_lease_knows_when_its_request_was_enqueued(frontier, clock, item):
    clock.advance(0.9)
    created = second(clock)
    await frontier.enqueue(item)
    clock.advance(3600)
    [lease] = await frontier.claim()
    assert lease.created == created
    assert lease.url == (item if isinstance(item, str) else item.url)


async def test_every_second_of_four_days_is_different(frontier, clock):
    created = {}
    for number, seconds in enumerate([0, 1, 254, 1, 255, 65_535, 65_536, 3 * 86_400]):
        clock.advance(seconds)
        created[page(number).url] = second(clock)
        await frontier.enqueue(page(number))
    assert {lease.url: lease.created for lease in await frontier.claim(100)} == created


async def test_retries_and_releases_keep_the_time(frontier, clock):
    created = second(clock)
    await frontier.enqueue(PLAIN)
    for step in range(4):
        clock.advance(60)
        [lease] = await frontier.claim()
        assert lease.created == created
        if step == 0:
            await frontier.retry(lease)
        elif step == 1:
            await frontier.retry(lease, after=10, reason="slow", status=503)
        else:
            await frontier.release(lease)


async def test_a_suspect_keeps_the_time(frontier, clock):
    created = second(clock)
    await frontier.enqueue(PLAIN)
    await frontier.claim()
    clock.advance(60)
    [lease] = await frontier.claim()
    assert (lease.suspect, lease.created) == (True, created)


async def test_a_dead_letter_has_the_time_and_keeps_it_when_it_is_revived(frontier, clock):
    created = second(clock)
    await frontier.enqueue([PLAIN, Request(PLAIN, "POST")])
    clock.advance(60)
    for lease in await frontier.claim(2):
        await frontier.bury(lease, "gone", 410)
    clock.advance(200 * 86_400)
    assert [letter.created for letter in await frontier.admin.dead()] == [created, created]
    found = await frontier.admin.explain(PLAIN)
    assert found.text.endswith("It was enqueued at 2027-01-15 08:00:00 UTC.")


async def test_a_revived_request_keeps_the_time(frontier, clock):
    created = second(clock)
    await frontier.enqueue(PLAIN)
    [lease] = await frontier.claim()
    await frontier.bury(lease, "gone", 410)
    clock.advance(86_400)
    await frontier.admin.revive()
    [lease] = await frontier.claim()
    assert (lease.attempt, lease.created) == (1, created)


async def test_a_request_that_was_never_queued_has_the_time_at_which_it_was_buried(frontier, clock):
    await frontier.internal.add_dead([(Request(PLAIN), "not JSON")])
    [letter] = await frontier.admin.dead()
    assert (letter.url, letter.created) == (PLAIN, second(clock))


async def test_lists_and_explain_say_how_long_a_request_waits(frontier, clock):
    created = second(clock)
    await frontier.enqueue([PLAIN, Request(FRONT, not_before=clock.seconds + 300 * 86_400)])
    clock.advance(200)
    for state in ("ready", "delayed"):
        [one] = (await frontier.admin.requests(state)).requests
        assert one.created == created
        found = await frontier.admin.explain(one.url)
        assert (found.state, found.created) == (state, created)
        assert "It has been waiting for 3 min." in found.text
    await frontier.claim()
    [one] = (await frontier.admin.requests("leased")).requests
    assert one.created == created
    found = await frontier.admin.explain(PLAIN)
    assert found.state is State.LEASED
    assert "It was enqueued at 2027-01-15 08:00:00 UTC." in found.text


async def test_a_request_that_was_enqueued_just_now_does_not_say_so(frontier):
    await frontier.enqueue(PLAIN)
    assert "waiting for" not in (await frontier.admin.explain(PLAIN)).text
