"""Proxies: their health, as the workers of a crawl share it."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from silkline.core.proxy_health import ProxyState
from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import ask_each
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.proxies import worst_first

SHOWN = 100
READ = 500
"""Proxies of a crawl that are read: those whose state changed last."""


class ProxyRow(NamedTuple):
    """A proxy of a crawl."""

    crawl: str
    proxy: ProxyState


async def listing(page: PageContext) -> Response:
    found = await ask_each(page.server, await page.chosen(), _rows)
    by_proxy = {id(row.proxy): row for rows in found.each for row in rows}
    rows = [by_proxy[id(proxy)] for proxy in worst_first(row.proxy for row in by_proxy.values())]
    fetched = sum(row.proxy.fetched for row in rows)
    tried = fetched + sum(row.proxy.failed for row in rows)
    return await page.show(
        "proxies.html",
        "Proxies",
        found=found,
        rows=rows[:SHOWN],
        total=len(rows),
        is_cut=any(len(each) == READ for each in found.each),
        ready=sum(row.proxy.state == "ready" for row in rows),
        resting=sum(row.proxy.state == "resting" for row in rows),
        success=fetched / tried if tried else None,
        blocked=sum(row.proxy.blocked for row in rows) / fetched if fetched else None,
        several=len({row.crawl for row in rows}) > 1,
    )


async def _rows(frontier: Frontier) -> list[ProxyRow]:
    return [ProxyRow(frontier.crawl, proxy) for proxy in await frontier.admin.proxies(limit=READ)]
