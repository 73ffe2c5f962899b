"""The audit log."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import ask_each
from silkline.frontier.admin_verbs.audit import AuditEntry
from silkline.frontier.frontier import Frontier

SHOWN = 200


class Noted(NamedTuple):
    """An audit entry and its crawl; "" for a deleted crawl."""

    crawl: str
    entry: AuditEntry


async def listing(page: PageContext) -> Response:
    who = page.asked("by")
    found = await ask_each(page.server, await page.chosen(), _of_crawl)
    noted = [one for entries in found.each for one in entries]
    if not page.asked("crawl"):
        noted += [Noted("", entry) for entry in await page.server.removals(SHOWN)]
    chosen = [one for one in noted if who.lower() in one.entry.by.lower()]
    chosen.sort(key=lambda one: -one.entry.time)
    return await page.show("audit.html", "Audit", found=found, noted=chosen[:SHOWN], by=who)


async def _of_crawl(frontier: Frontier) -> list[Noted]:
    return [Noted(frontier.crawl, entry) for entry in await frontier.admin.audit(limit=SHOWN)]
