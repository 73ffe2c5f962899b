from __future__ import annotations

import pytest

from silkline import SyncFrontier
from tests.chaos.processes import Client, Crawler
from tests.chaos.proxy import Proxy
from tests.chaos.subject import open_subject


@pytest.fixture
def client(valkey, crawl):
    """Starts clients in processes of their own; all of them end with the test."""
    started = []

    def start(**settings):
        started.append(Client(**{"url": valkey.url, "crawl": crawl, **settings}).ready())
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def crawler(valkey, crawl):
    started = []

    def start(**settings):
        started.append(Crawler(**{"url": valkey.url, "crawl": crawl, **settings}))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def here(valkey, crawl):
    """Opens frontiers of this process on the server's own clock."""
    opened = []

    def open_(**settings):
        opened.append(SyncFrontier.open(**{"url": valkey.url, "crawl": crawl, **settings}))
        return opened[-1]

    yield open_
    for frontier in opened:
        frontier.close()


@pytest.fixture
def proxy(valkey):
    with Proxy(valkey.socket) as between:
        yield between


@pytest.fixture(params=["async", "sync"])
async def subject(request, valkey, crawl):
    """Opens the one and the other kind of frontier in turn, to be used in the same way."""
    opened = []

    async def open_(**settings):
        opened.append(await open_subject(request.param, **{"url": valkey.url, "crawl": crawl, **settings}))
        return opened[-1]

    yield open_
    for frontier in opened:
        await frontier.close()
