"""What is no request and no lease is refused in words."""

from __future__ import annotations

import pytest

from silkline import Complete, Release
from silkline.errors import RequestError


@pytest.mark.parametrize("nothing", [None, 7, b"https://a.example/"])
async def test_what_is_no_request_is_reported(frontier, nothing):
    with pytest.raises(RequestError, match="expected a URL, a Request or a list of them"):
        await frontier.enqueue(nothing)
    with pytest.raises(RequestError, match="expected a URL, a Request or a list of them"):
        await frontier.forget(nothing)


async def test_what_is_no_lease_is_reported(frontier):
    for end in (frontier.complete, frontier.retry, frontier.release):
        with pytest.raises(RequestError, match=r"expected a Lease that claim\(\) returned, got None"):
            await end(None)
    with pytest.raises(RequestError, match="expected a Lease"):
        await frontier.bury("https://a.example/", "too bad")
    with pytest.raises(RequestError, match=r"expected a list of \(lease, verdict\) pairs"):
        await frontier.settle(None)
    for verb in (frontier.extend, frontier.vacate):
        with pytest.raises(RequestError, match="expected a list of leases"):
            await verb(None)
        with pytest.raises(RequestError, match="expected a Lease"):
            await verb(["https://a.example/"])


async def test_a_verdict_that_is_none_changes_nothing(frontier):
    await frontier.enqueue("https://a.example/")
    [lease] = await frontier.claim()
    for verdict in (None, "complete", Complete):
        with pytest.raises(RequestError, match="a verdict must be Complete, RetryIn, Release or Bury"):
            await frontier.settle([(lease, verdict)])
    for links in (None, "https://b.example/", 7):
        with pytest.raises(RequestError, match="links must be a list of URLs or Requests"):
            await frontier.complete(lease, links)
    assert (await frontier.settle([(lease, Release())])).lost == []
