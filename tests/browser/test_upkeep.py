"""A browser is started again before it grows, and a page that takes all the memory fails alone."""

from __future__ import annotations

import asyncio

import pytest

from silkline.errors import ConfigError, FetchError
from silkline.fetch.browser.options import BrowserOptions
from silkline.testing import LocalSite, Raw
from tests.browser.conftest import Rendered, browsers, need_chromium
from tests.worker.conftest import until

HOARD = """<script>
  const kept = [];
  (function more() { kept.push(new Uint8Array(32 * 2 ** 20).fill(kept.length + 1)); setTimeout(more, 20) })();
</script><script src=/silent></script>"""


async def silent(wire, _):
    await asyncio.Event().wait()


@pytest.mark.long
async def test_a_browser_is_started_again_between_pages():
    need_chromium()
    async with LocalSite({"/slow": Raw(silent)}) as site:
        rendered = Rendered(site, pages_per_browser=2, memory=None)
        process = rendered.renderer.process
        slow = asyncio.create_task(rendered.page("<script src=/slow></script>", "/first"))
        await until(lambda: "/slow" in site.visits.paths)
        site.routes["/slow"] = ""
        assert b"<h1>" in (await rendered.page("<h1>second</h1>")).body
        waiting = asyncio.create_task(rendered.page("<h1>third</h1>"))
        await until(lambda: site.visits.paths.count("/") == 2)
        assert process.starts == 1, "the page in progress is not disturbed"
        slow.cancel()
        assert b"<h1>third" in (await waiting).body
        assert process.starts == 2
        await rendered.fetcher.close()
    assert browsers() == []


@pytest.mark.long
async def test_a_page_that_takes_all_the_memory_fails_alone():
    need_chromium()
    async with LocalSite({"/silent": Raw(silent)}) as site:
        rendered = Rendered(site, memory=700 * 2**20)
        with pytest.raises(FetchError, match="crashed its tab") as caught:
            await rendered.page(HOARD)
        assert caught.value.kind == "crash"
        assert b"<h1>" in (await rendered.page("<h1>next</h1>")).body
        assert rendered.renderer.process.starts == 2, "it is started again, since memory may be lost"
        await rendered.fetcher.close()
    assert browsers() == []


def test_limits_that_cannot_be_kept():
    for wrong in ({"memory": 10**6}, {"pages_per_browser": 0}):
        with pytest.raises(ConfigError):
            BrowserOptions(**wrong)
