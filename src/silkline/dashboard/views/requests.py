"""Requests: search for a URL and explain its state."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from starlette.responses import Response

from silkline.core.lease import FailedAttempt
from silkline.core.url import parse
from silkline.dashboard.pages import Form, PageContext
from silkline.dashboard.queries import Results, ask_each
from silkline.errors import SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.explain_text import Explanation, urls_in_progress
from silkline.ops.identities import identities_of, requests_of

SHOWN = 60
LONGEST_ACT = 300


class UrlState(NamedTuple):
    """The state of a URL in one crawl."""

    crawl: str
    told: Explanation

    @property
    def history(self) -> tuple[FailedAttempt, ...]:
        if self.told.letter:
            return self.told.letter.history
        return self.told.lease.history if self.told.lease else ()


class InFlight(NamedTuple):
    """A page in progress, as reported by its worker."""

    crawl: str
    url: str
    worker: str


async def search(page: PageContext) -> Response:
    url = page.asked("url")
    if not url:
        found = await ask_each(page.server, await page.chosen(), _under_way)
        return await _show(page, found, under_way=[one for each in found.each for one in each][:SHOWN])
    try:
        parse(url)
    except SilklineError as error:
        return await _show(page, Results([], [], 0), url=url, problem=str(error))
    answers = await _explain_in(page, await page.chosen(), url)
    if answers is None:
        return await _show(page, Results([], [], 0), url=url, looking=True)
    known = [one for one in answers.each if one.told.state is not None]
    return await _show(page, answers, url=url, told=known or answers.each, known=bool(known))


async def _show(page: PageContext, found: Results[Any], **matter: Any) -> Response:
    nothing: dict[str, Any] = {"url": "", "problem": "", "told": [], "known": False, "looking": False, "under_way": []}
    return await page.show("requests.html", "Requests", found=found, **(nothing | matter))


async def _explain_in(page: PageContext, crawls: list[str], url: str) -> Results[UrlState] | None:
    """Explain a URL in these crawls; None while delayed requests are searched in the background."""

    async def seek() -> Results[UrlState]:
        return await ask_each(page.server, crawls, lambda frontier: _explain(frontier, url))

    return await page.slow_queries.answer((url, tuple(crawls)), seek, again=page.live)


async def _explain(frontier: Frontier, url: str) -> UrlState:
    """Explain a URL. Identities of Scrapy spiders are tried last, because computing the first one is slow."""
    told = await frontier.admin.explain(url)
    if told.state is None and (identities := await asyncio.to_thread(identities_of, url)):
        told = await frontier.admin.explain(url, identities=identities)
    return UrlState(frontier.crawl, told)


async def _under_way(frontier: Frontier) -> list[InFlight]:
    workers = [worker for worker in await frontier.admin.workers() if worker.alive]
    return [InFlight(frontier.crawl, url, worker.name) for worker in workers for url in urls_in_progress(worker)]


async def forget(page: PageContext, form: Form) -> Response:
    frontier, url = await page.server.frontier(form.get("crawl", "")), form.get("url", "")
    forgotten = await frontier.forget(await asyncio.to_thread(requests_of, url))
    if forgotten:
        await frontier.internal.note_act(page.by, "forget", url[:LONGEST_ACT])
    said = "forgotten" if forgotten else "unknown"
    return page.go("/requests", crawl=frontier.crawl, url=url, said=said)


async def add(page: PageContext, form: Form) -> Response:
    frontier, url = await page.server.frontier(form.get("crawl", "")), form.get("url", "")
    admissions = await frontier.enqueue(url)
    [admission] = admissions
    if admission == "added":
        await frontier.internal.note_act(page.by, "add", url[:LONGEST_ACT])
    return page.go("/requests", crawl=frontier.crawl, url=url, said=str(admission))
