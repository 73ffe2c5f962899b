"""Who did what, and when."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import Page
from silkline.dashboard.queries import MOST_CRAWLS
from silkline.frontier.acts import Act

SHOWN = 200


class Noted(NamedTuple):
    """An act, and of which crawl; "" for one that is gone."""

    crawl: str
    act: Act


async def listing(page: Page) -> Response:
    names, who = (await page.chosen())[:MOST_CRAWLS], page.asked("by")
    each = await asyncio.gather(*(_of_crawl(page, name) for name in names))
    noted = [one for acts in each for one in acts]
    if not page.asked("crawl"):
        noted += [Noted("", act) for act in await page.house.removals(SHOWN)]
    chosen = [one for one in noted if who.lower() in one.act.by.lower()]
    chosen.sort(key=lambda one: -one.act.time)
    return await page.show("audit.html", "Audit", noted=chosen[:SHOWN], by=who)


async def _of_crawl(page: Page, name: str) -> list[Noted]:
    return [Noted(name, act) for act in await (await page.house.frontier(name)).audit(limit=SHOWN)]
