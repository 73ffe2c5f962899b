"""The progress of a call is stored beside the results, as long as its lease is held."""

from __future__ import annotations

from silkline import Request
from silkline.frontier.verbs.results import KEEP_PROGRESS, CallProgress

URL = "https://resize/1"


async def test_the_last_progress_of_a_lease_is_kept_for_an_hour(open_bare, clock):
    frontier = await open_bare()
    await frontier.enqueue(Request(URL, dont_filter=True))
    (lease,) = await frontier.claim()
    assert await frontier.internal.progress(URL) is None
    assert await frontier.internal.report_progress(lease, 0.25)
    clock.advance(1)
    assert await frontier.internal.report_progress(lease, 0.5, "resizing")
    assert await frontier.internal.progress(URL) == CallProgress(0.5, "resizing", clock.seconds)
    assert await frontier.result(URL) is None
    await frontier.complete(lease, result=7)
    assert (await frontier.result(URL)).value == 7
    assert (await frontier.internal.progress(URL)).note == "resizing"
    clock.advance(KEEP_PROGRESS)
    assert await frontier.internal.progress(URL) is None


async def test_a_lost_lease_reports_nothing(open_bare, clock):
    frontier = await open_bare()
    await frontier.enqueue(URL)
    (lease,) = await frontier.claim()
    await frontier.complete(lease)
    assert not await frontier.internal.report_progress(lease, 0.5)
    assert await frontier.internal.progress(URL) is None
