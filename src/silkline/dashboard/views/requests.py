"""Requests: search for a URL, and be told where it stands and why."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from starlette.responses import Response

from silkline.core.errors import SilklineError
from silkline.core.lease import Trial
from silkline.core.url import parse
from silkline.dashboard.forms import Form
from silkline.dashboard.pages import Page
from silkline.dashboard.queries import MOST_CRAWLS
from silkline.frontier.roster import WorkerState
from silkline.frontier.sentences import Explanation, at_work_on

SHOWN = 60
LONGEST_ACT = 300


class Found(NamedTuple):
    """What one crawl knows of a URL."""

    crawl: str
    told: Explanation

    @property
    def history(self) -> tuple[Trial, ...]:
        if self.told.letter:
            return self.told.letter.history
        return self.told.lease.history if self.told.lease else ()


class UnderWay(NamedTuple):
    """A page that is being fetched, as its worker tells."""

    crawl: str
    url: str
    worker: str


async def search(page: Page) -> Response:
    url = page.asked("url")
    names = (await page.chosen())[:MOST_CRAWLS]
    problem, found = "", list[Found]()
    if url:
        try:
            parse(url)
        except SilklineError as error:
            problem = str(error)
        else:
            found = [Found(name, await (await page.house.frontier(name)).explain(url)) for name in names]
    known = [one for one in found if one.told.state is not None]
    return await page.show(
        "requests.html",
        "Requests",
        url=url,
        problem=problem,
        found=known or found,
        known=bool(known),
        under_way=[] if url else await _under_way(page, names),
    )


async def _under_way(page: Page, names: list[str]) -> list[UnderWay]:
    rosters = await asyncio.gather(*(_workers(page, name) for name in names))
    everything = [
        UnderWay(name, url, worker.name)
        for name, workers in zip(names, rosters, strict=True)
        for worker in workers
        if worker.alive
        for url in at_work_on(worker)
    ]
    return everything[:SHOWN]


async def _workers(page: Page, name: str) -> list[WorkerState]:
    return await (await page.house.frontier(name)).workers()


async def forget(page: Page, form: Form) -> Response:
    frontier, url = await page.house.frontier(form.get("crawl", "")), form.get("url", "")
    forgotten = await frontier.forget(url)
    if forgotten:
        await frontier.note_act(page.by, "forget", url[:LONGEST_ACT])
    said = "forgotten" if forgotten else "unknown"
    return page.go("/requests", crawl=frontier.crawl, url=url, said=said)


async def add(page: Page, form: Form) -> Response:
    frontier, url = await page.house.frontier(form.get("crawl", "")), form.get("url", "")
    admissions = await frontier.enqueue(url)
    [admission] = admissions
    if admission == "added":
        await frontier.note_act(page.by, "add", url[:LONGEST_ACT])
    return page.go("/requests", crawl=frontier.crawl, url=url, said=str(admission))
