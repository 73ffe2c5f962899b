"""An `enqueue` that ran, and whose caller was told that the server is out of reach, is called again."""

from __future__ import annotations

import pytest

from silkline import Admission, Politeness, Request
from silkline.errors import StoreUnavailable

AT_ONCE = Politeness(delay=0, concurrency=1000)
ALWAYS = 10_000


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.1)


async def fail(frontier, proxy, requests):
    """The requests are stored, or some of them, and the caller cannot know it."""
    proxy.cut_replies(ALWAYS)
    with pytest.raises(StoreUnavailable):
        await frontier.enqueue(requests)
    proxy.cut_replies(0)


@pytest.mark.parametrize(("count", "shards"), [(2, 1), (2, 3), (700, 1), (700, 3)])
async def test_requests_that_pass_by_the_filter_are_stored_once(subject, proxy, impatient, count, shards):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE, shards=shards)
    requests = [Request(f"https://h{number}.example/", dont_filter=True) for number in range(count)]
    await fail(frontier, proxy, requests)
    assert await frontier.enqueue(requests) == [Admission.ADDED] * count
    assert (await frontier.admin.stats()).accepted == count
    assert await frontier.enqueue(requests) == [Admission.ADDED] * count  # this one is meant
    assert (await frontier.admin.stats()).accepted == 2 * count


async def test_it_may_fail_again_and_others_may_come_in_between(subject, proxy, impatient):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    again = [Request("https://a.example/", dont_filter=True)] * 2  # one after the other, both are meant
    other = [Request("https://b.example/", dont_filter=True)]
    await fail(frontier, proxy, again)
    assert await frontier.enqueue(other) == [Admission.ADDED]
    await fail(frontier, proxy, again)
    assert await frontier.enqueue(again) == [Admission.ADDED] * 2
    assert await frontier.enqueue(other) == [Admission.ADDED]
    assert (await frontier.admin.stats()).accepted == 4
