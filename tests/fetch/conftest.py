"""Fetchers and sites for these tests."""

from __future__ import annotations

import pytest

from silkline import Request
from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import SiteProcess
from tests.hostile_site.pages import HOSTILE_SITE

FETCHERS = {"wreq": WreqFetcher, "aiohttp": AiohttpFetcher}
AGENT = "silkline-test/1 (+https://example.com/bot)"


@pytest.fixture(scope="session")
def hostile():
    """The hostile pages, in a process of their own: they would keep ours busy."""
    with SiteProcess(HOSTILE_SITE, hosts=2) as site:
        yield site


@pytest.fixture(params=FETCHERS)
def kind(request):
    return request.param


@pytest.fixture
async def open_fetcher(kind):
    """Opens fetchers of each kind in turn, that may fetch from loopback, and closes them at the end."""
    opened = []

    def open_(limits=None, *, guard=None, **options):
        guard = guard or Guard(allow_private=True)
        opened.append(FETCHERS[kind](limits or Limits(), guard=guard, **options))
        return opened[-1]

    yield open_
    for fetcher in opened:
        await fetcher.close()


@pytest.fixture
async def fetch(open_fetcher):
    """Fetches with a fetcher of each kind in turn."""
    fetcher = open_fetcher()

    async def fetch_(url, **fields):
        return await fetcher.fetch(Request(url, **fields), user_agent=AGENT)

    return fetch_
