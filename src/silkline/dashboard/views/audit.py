"""The audit log."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import ask_each
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.audit import AuditEntry

SHOWN = 200


class Noted(NamedTuple):
    """An audit entry and its crawl; "" for a deleted crawl."""

    crawl: str
    act: AuditEntry


async def listing(page: PageContext) -> Response:
    who = page.asked("by")
    found = await ask_each(page.server, await page.chosen(), _of_crawl)
    noted = [one for acts in found.each for one in acts]
    if not page.asked("crawl"):
        noted += [Noted("", act) for act in await page.server.removals(SHOWN)]
    chosen = [one for one in noted if who.lower() in one.act.by.lower()]
    chosen.sort(key=lambda one: -one.act.time)
    return await page.show("audit.html", "Audit", found=found, noted=chosen[:SHOWN], by=who)


async def _of_crawl(frontier: Frontier) -> list[Noted]:
    return [Noted(frontier.crawl, act) for act in await frontier.admin.audit(limit=SHOWN)]
