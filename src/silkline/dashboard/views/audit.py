"""Who did what, and when."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import Page
from silkline.dashboard.queries import ask_each
from silkline.frontier.acts import Act
from silkline.frontier.frontier import Frontier

SHOWN = 200


class Noted(NamedTuple):
    """An act, and of which crawl; "" for one that is gone."""

    crawl: str
    act: Act


async def listing(page: Page) -> Response:
    who = page.asked("by")
    found = await ask_each(page.house, await page.chosen(), _of_crawl)
    noted = [one for acts in found.each for one in acts]
    if not page.asked("crawl"):
        noted += [Noted("", act) for act in await page.house.removals(SHOWN)]
    chosen = [one for one in noted if who.lower() in one.act.by.lower()]
    chosen.sort(key=lambda one: -one.act.time)
    return await page.show("audit.html", "Audit", found=found, noted=chosen[:SHOWN], by=who)


async def _of_crawl(frontier: Frontier) -> list[Noted]:
    return [Noted(frontier.crawl, act) for act in await frontier.audit(limit=SHOWN)]
