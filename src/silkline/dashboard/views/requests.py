"""Requests: search for a URL, and be told where it stands and why."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from starlette.responses import Response

from silkline.core.errors import SilklineError
from silkline.core.lease import Trial
from silkline.core.url import parse
from silkline.dashboard.forms import Form
from silkline.dashboard.pages import Page
from silkline.dashboard.queries import Answers, ask_each
from silkline.frontier.frontier import Frontier
from silkline.frontier.sentences import Explanation, at_work_on
from silkline.operate.names import identities_of, names_of

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
    if not url:
        found = await ask_each(page.house, await page.chosen(), _under_way)
        return await _show(page, found, under_way=[one for each in found.each for one in each][:SHOWN])
    try:
        parse(url)
    except SilklineError as error:
        return await _show(page, Answers([], [], 0), url=url, problem=str(error))
    answers = await _explain_in(page, await page.chosen(), url)
    if answers is None:
        return await _show(page, Answers([], [], 0), url=url, looking=True)
    known = [one for one in answers.each if one.told.state is not None]
    return await _show(page, answers, url=url, told=known or answers.each, known=bool(known))


async def _show(page: Page, found: Answers[Any], **matter: Any) -> Response:
    nothing: dict[str, Any] = {"url": "", "problem": "", "told": [], "known": False, "looking": False, "under_way": []}
    return await page.show("requests.html", "Requests", found=found, **(nothing | matter))


async def _explain_in(page: Page, crawls: list[str], url: str) -> Answers[Found] | None:
    """What these crawls say of it; None while it is sought among very many that are delayed."""

    async def seek() -> Answers[Found]:
        return await ask_each(page.house, crawls, lambda frontier: _explain(frontier, url))

    return await page.background.answer((url, tuple(crawls)), seek, again=page.live)


async def _explain(frontier: Frontier, url: str) -> Found:
    """Only a spider of Scrapy may know it by another identity, and to find out which takes a while at first."""
    told = await frontier.explain(url)
    if told.state is None and (identities := await asyncio.to_thread(identities_of, url)):
        told = await frontier.explain(url, identities=identities)
    return Found(frontier.crawl, told)


async def _under_way(frontier: Frontier) -> list[UnderWay]:
    workers = [worker for worker in await frontier.workers() if worker.alive]
    return [UnderWay(frontier.crawl, url, worker.name) for worker in workers for url in at_work_on(worker)]


async def forget(page: Page, form: Form) -> Response:
    frontier, url = await page.house.frontier(form.get("crawl", "")), form.get("url", "")
    forgotten = await frontier.forget(await asyncio.to_thread(names_of, url))
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
