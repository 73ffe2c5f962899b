"""A browser for the tests of a module, and sites whose pages have scripts."""

from __future__ import annotations

import psutil
import pytest
import pytest_asyncio

from silkline import Request
from silkline.errors import ConfigError
from silkline.fetch.addresses import LOOPBACK
from silkline.fetch.browser.fetcher import RenderingFetcher, make_renderer
from silkline.fetch.browser.options import BrowserOptions, Rendering
from silkline.fetch.browser.process import find_program
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite

AGENT = "silkline-test/1 (+https://example.com/bot)"
NAMES = {
    "c.localhost": ["127.0.0.1"],
    "site.test": ["127.0.0.1"],
    "shop.site.test": ["127.0.0.1"],
    "inside.test": ["127.0.0.2"],
    "both.test": ["127.0.0.1", "127.0.0.2"],
}


class Names:
    """A resolver with a few names. The address of ``rebound.test`` is another one from the second time on."""

    def __init__(self):
        self.times = 0

    async def resolve(self, host):
        if host == "rebound.test":
            self.times += 1
            return ["127.0.0.1" if self.times == 1 else "127.0.0.2"]
        return NAMES[host]

    async def close(self):
        pass


class Rendered:
    """Renders pages of a site with one browser."""

    def __init__(self, site, proxy=None, **options):
        guard = Guard(resolver=Names(), forbid=lambda found: None if found == LOOPBACK else "private")
        self.site = site
        self.rendering = Rendering(timeout=60)
        limits = Limits(max_body=2**20)
        options = BrowserOptions(**options)
        fetcher = WreqFetcher(limits, guard=guard, proxy=proxy)
        self.fetcher = RenderingFetcher(
            fetcher, self.rendering_of, lambda: make_renderer(options, limits, guard, proxies=fetcher.proxies)
        )

    def rendering_of(self, _):
        return self.rendering

    @property
    def renderer(self):
        return self.fetcher.prepare()

    async def page(self, body=None, path="/", *, host="site.test", rendering=None, **fields):
        """Render a page with this body."""
        if body is not None:
            self.site.routes[path] = body
        self.rendering = rendering or Rendering(timeout=60)
        return await self.fetcher.fetch(Request(self.site.at(path, host), **fields), user_agent=AGENT)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared():
    """One browser for all tests of a module."""
    need_chromium()
    async with LocalSite() as site:
        rendered = Rendered(site, max_bytes=2**20)
        yield rendered
        await rendered.fetcher.close()


@pytest.fixture
def rendered(shared):
    shared.site.routes.clear()
    shared.site.forget()
    return shared


def need_chromium():
    try:
        find_program(BrowserOptions())
    except ConfigError:
        pytest.skip("chromium is not installed")


def browsers(pid=None, *words):
    """The processes of browsers and their drivers below a process; only those with one of these words, if there are any."""
    below = psutil.Process(pid).children(recursive=True)
    return [process for process in below if is_one_of(process, words or ("chrom", "run-driver"))]


def is_one_of(process, words):
    try:
        return any(word in " ".join(process.cmdline()) for word in words)
    except psutil.Error:  # it has ended
        return False
