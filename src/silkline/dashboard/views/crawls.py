"""Crawls as a whole: listed, shown, paused, resumed, cancelled, removed."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.responses import Response

from silkline.dashboard import charts, queries
from silkline.dashboard.forms import Form
from silkline.dashboard.pages import Page
from silkline.dashboard.views import overview
from silkline.frontier.acts import who_paused
from silkline.frontier.frontier import Frontier
from silkline.frontier.inspection import Stats, enough_hosts

SHOWN_GROUPS = 6
SHOWN_HOSTS = 8
SHOWN_ACTS = 200


async def listing(page: Page) -> Response:
    if page.asked("crawl"):
        return page.go(f"/crawls/{(await page.chosen())[0]}")
    found = await queries.look(page.house, await page.crawls())
    sparks = {one.name: charts.spark([point.pages for point in one.points[-61:-1]]) for one in found.each}
    return await page.show("crawls.html", "Crawls", found=found, sparks=sparks)


async def show(page: Page) -> Response:
    one = await queries.stand(await page.house.frontier(_name(page)))
    frontier = one.frontier
    hosts, reasons, acts, workers = await asyncio.gather(
        frontier.hosts(limit=enough_hosts(frontier.plan, SHOWN_HOSTS)),
        frontier.dead_groups("reason", limit=SHOWN_GROUPS),
        frontier.audit(limit=SHOWN_ACTS),
        frontier.workers(),
    )
    return await page.show(
        "crawl.html",
        "Crawls",
        one=one,
        chosen=one.name,
        shares=overview.shares([one]),
        chart=overview.draw([one.points], "hour")[0],
        hosts=hosts[:SHOWN_HOSTS],
        reasons=reasons,
        acts=acts[:8],
        by=who_paused(acts) if one.stats.state == "paused" else None,
        workers=[worker for worker in workers if worker.alive],
        settings=_settings(frontier),
    )


def _settings(frontier: Frontier) -> list[tuple[str, str]]:
    settings = frontier.plan.settings
    pace, budget = settings.politeness, settings.budget
    limits = [
        f"{limit:,} {what}"
        for limit, what in ((budget.pages, "pages"), (budget.pages_per_host, "pages per host"), (budget.depth, "deep"))
        if limit is not None
    ]
    return [
        ("Politeness", f"{pace.delay:g} s delay, {pace.concurrency} at a time, burst {pace.burst}, per host"),
        ("Budget", ", ".join(limits) or "no limit"),
        ("Capacity", f"{settings.capacity:,} requests"),
        ("Seen filter", str(settings.seen)),
        ("Order", settings.order),
        ("Shards", f"{settings.shards}"),
    ]


async def pause(page: Page, _: Form) -> Response:
    frontier = await page.house.frontier(_name(page))
    await frontier.pause()
    await frontier.note_act(page.by, "pause")
    return page.go(f"/crawls/{frontier.crawl}", said="paused")


async def resume(page: Page, _: Form) -> Response:
    frontier = await page.house.frontier(_name(page))
    await frontier.resume()
    await frontier.note_act(page.by, "resume")
    return page.go(f"/crawls/{frontier.crawl}", said="resumed")


async def ask_cancel(page: Page) -> Response:
    stats = await _stats(page)
    text = f"{stats.pending:,} requests that wait would be dropped, and the crawl would end for good."
    return await page.show("confirm.html", "Crawls", stats=stats, verb="cancel", text=text)


async def cancel(page: Page, form: Form) -> Response:
    name = _confirmed(page, form)
    frontier = await page.house.frontier(name)
    dropped = await frontier.cancel()
    await frontier.note_act(page.by, "cancel")
    return page.go(f"/crawls/{name}", said="cancelled", count=dropped)


async def ask_remove(page: Page) -> Response:
    stats = await _stats(page)
    text = (
        f"The crawl would be destroyed: {stats.pending:,} waiting, {stats.leased:,} under way, {stats.dead:,} dead and "
        f"{stats.seen:,} seen. Stop its workers first: one that starts again may create it anew."
    )
    return await page.show("confirm.html", "Crawls", stats=stats, verb="remove", text=text)


async def remove(page: Page, form: Form) -> Response:
    name = _confirmed(page, form)
    await (await page.house.frontier(name)).remove()
    await page.house.note_removal(page.by, name)
    return page.go("/crawls", said="removed")


def _name(page: Page) -> str:
    return str(page.request.path_params["crawl"])


async def _stats(page: Page) -> Stats:
    return await (await page.house.frontier(_name(page))).stats()


def _confirmed(page: Page, form: Form) -> str:
    """What cannot be undone is confirmed with the crawl's name."""
    name = _name(page)
    if form.get("name") != name:
        raise HTTPException(400, f"Nothing was changed: type {name} to confirm.")
    return name
