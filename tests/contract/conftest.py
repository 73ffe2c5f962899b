"""One suite, three subjects: every test here runs on each of them, in simulated time."""

from __future__ import annotations

from contextlib import suppress

import pytest

from silkline.errors import UnknownCrawl
from tests.contract.frontiers import AT_ONCE, SUBJECTS


@pytest.fixture(params=SUBJECTS)
def subject(request):
    return SUBJECTS[request.param]


@pytest.fixture
async def open_bare(subject, request, crawl, clock):
    """Opens frontiers with just the settings given; at the end nothing may have got lost in any of them."""
    opened = []
    address = "memory:test" if subject.__name__ == "MemoryFrontier" else request.getfixturevalue("valkey").url

    async def open_(**settings):
        opened.append(await subject.open(**{"url": address, "crawl": crawl, "clock": clock, **settings}))
        return opened[-1]

    yield open_
    for frontier in opened:
        with suppress(UnknownCrawl):  # it was removed
            stats = await frontier.admin.stats()
            assert stats.conserved, stats
        await frontier.close()


@pytest.fixture
def open_crawl(open_bare):
    """The same, with hosts that are always open unless the test says otherwise."""

    async def open_(**settings):
        return await open_bare(**{"politeness": AT_ONCE, **settings})

    return open_


@pytest.fixture
async def frontier(open_crawl):
    return await open_crawl()
