"""Requests: search for a URL and explain its state; list requests by state, export, drop and promote them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from silkline.core.lease import FailedAttempt
from silkline.core.url import mask_passwords, parse
from silkline.dashboard.pages import Form, PageContext
from silkline.dashboard.queries import Results, ask_each
from silkline.dashboard.views.hosts import busiest_crawl
from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.explain_text import Explanation, urls_in_progress
from silkline.frontier.admin_verbs.requests import ListedRequest, ListedState
from silkline.frontier.frontier import Frontier
from silkline.ops import exporting
from silkline.ops.exporting import ExportFormat
from silkline.ops.identities import identities_of, requests_of

SHOWN = 60
SHOWN_LISTED = 50
"""Requests on a page of a list."""
TABS: dict[ListedState, str] = {"leased": "In progress", "ready": "Waiting", "delayed": "Delayed"}
LONGEST_ABOUT = 300


class UrlState(NamedTuple):
    """The state of a URL in one crawl."""

    crawl: str
    explanation: Explanation

    @property
    def history(self) -> tuple[FailedAttempt, ...]:
        if self.explanation.letter:
            return self.explanation.letter.history
        return self.explanation.lease.history if self.explanation.lease else ()


class InFlight(NamedTuple):
    """A page in progress, as reported by its worker."""

    crawl: str
    url: str
    worker: str


async def search(page: PageContext) -> Response:
    url = page.asked("url")
    if not url:
        return await _list(page)
    try:
        parse(url)
    except SilklineError as error:
        return await _show(page, Results([], [], 0), url=url, problem=str(error))
    answers = await _explain_in(page, await page.chosen(), url)
    if answers is None:
        return await _show(page, Results([], [], 0), url=url, looking=True)
    known = [one for one in answers.each if one.explanation.state is not None]
    return await _show(page, answers, url=url, explanations=known or answers.each, known=bool(known))


async def _list(page: PageContext) -> Response:
    """List requests in one state. Pages in progress of all crawls are those that workers report.

    Without a state, the first list that is not empty opens, under its own address: the live view must not move to another one.
    """
    if not page.asked("state") and not page.live and (first := await _first_state(page)) != "leased":
        return page.go("/requests", crawl=page.asked("crawl"), state=first, host=page.asked("host"))
    state, several = _state(page), len(await page.crawls()) > 1 and not page.asked("crawl")
    if state == "leased" and several:
        found = await ask_each(page.server, await page.chosen(), _under_way)
        return await _show(page, found, under_way=[one for each in found.each for one in each][:SHOWN], state=state)
    crawl = await busiest_crawl(page)
    if not crawl:
        return await _show(page, Results([], [], 0), state=state)
    frontier, host, after = await page.server.frontier(crawl), page.asked("host"), page.asked("after")
    listed = await frontier.admin.requests(state, host=host or None, limit=SHOWN_LISTED, after=after)
    stats, [of_host] = await frontier.admin.stats(), await frontier.admin.hosts(host) if host else [None]
    workers = await _under_way(frontier) if state == "leased" else []
    return await _show(
        page,
        Results([], [], 0),
        state=state,
        listed=listed,
        crawl=crawl,
        chosen=crawl,
        host=host,
        of_host=of_host,
        after=after,
        counts={"leased": stats.leased, "ready": stats.ready, "delayed": stats.delayed},
        workers={one.url: one.worker for one in workers},
    )


async def _first_state(page: PageContext) -> ListedState:
    """Return the state of the first tab with requests; of several crawls, that of the one with the longest queue."""
    found = await ask_each(page.server, await page.chosen(), lambda frontier: frontier.admin.stats())
    longest = max(found.each, key=lambda stats: stats.pending, default=None)
    if longest is None or not longest.pending or any(stats.leased for stats in found.each):
        return "leased"
    return "ready" if longest.ready else "delayed"


def _state(page: PageContext) -> ListedState:
    asked = page.asked("state") or "leased"
    if asked not in TABS:
        raise HTTPException(400, f"Requests are listed by state: {', '.join(TABS)}.")
    return asked


async def export(page: PageContext) -> Response:
    """Send all requests of a list as a file, page by page."""
    frontier, state, host = await page.server.frontier(page.asked("crawl")), _state(page), page.asked("host") or None
    kind = asked_format(page)
    first = await frontier.admin.requests(state, host=host, limit=exporting.PAGE)

    async def parts() -> AsyncIterator[bytes]:
        some, after = first
        yield exporting.heading(kind, exporting.REQUEST_FIELDS) + _lines(kind, some)
        while after:
            some, after = await frontier.admin.requests(state, host=host, limit=exporting.PAGE, after=after)
            yield _lines(kind, some)

    return download(parts(), kind, f"{frontier.crawl}-{state}")


def _lines(kind: ExportFormat, some: list[ListedRequest]) -> bytes:
    return exporting.lines(kind, map(exporting.request_row, some), mask_passwords)


def asked_format(page: PageContext) -> ExportFormat:
    """Return the format of an export: CSV unless JSON lines are asked for."""
    asked = page.asked("format") or "csv"
    if asked not in exporting.MEDIA_TYPES:
        raise HTTPException(400, f"An export is one of {', '.join(exporting.MEDIA_TYPES)}.")
    return asked


def download(parts: AsyncIterator[bytes], kind: ExportFormat, name: str) -> Response:
    """Send a file as it is made."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return StreamingResponse(parts, media_type=exporting.MEDIA_TYPES[kind], headers=headers)


async def _show(page: PageContext, found: Results[Any], **matter: Any) -> Response:
    nothing: dict[str, Any] = {
        "url": "",
        "problem": "",
        "explanations": [],
        "known": False,
        "looking": False,
        "under_way": [],
    }
    nothing |= {"state": "leased", "tabs": TABS, "listed": None, "crawl": "", "host": "", "after": "", "counts": {}}
    nothing |= {"of_host": None, "workers": {}}
    return await page.show("requests.html", "Requests", found=found, **(nothing | matter))


async def _explain_in(page: PageContext, crawls: list[str], url: str) -> Results[UrlState] | None:
    """Explain a URL in these crawls; None while delayed requests are searched in the background."""

    async def seek() -> Results[UrlState]:
        return await ask_each(page.server, crawls, lambda frontier: _explain(frontier, url))

    return await page.slow_queries.answer((url, tuple(crawls)), seek, again=page.live)


async def _explain(frontier: Frontier, url: str) -> UrlState:
    """Explain a URL. Identities of Scrapy spiders are tried last, because computing the first one is slow."""
    explanation = await frontier.admin.explain(url)
    if explanation.state is None and (identities := await asyncio.to_thread(identities_of, url)):
        explanation = await frontier.admin.explain(url, identities=identities)
    return UrlState(frontier.crawl, explanation)


async def _under_way(frontier: Frontier) -> list[InFlight]:
    workers = [worker for worker in await frontier.admin.workers() if worker.alive]
    return [InFlight(frontier.crawl, url, worker.name) for worker in workers for url in urls_in_progress(worker)]


async def forget(page: PageContext, form: Form) -> Response:
    frontier, url = await page.server.frontier(form.get("crawl", "")), form.get("url", "")
    forgotten = await frontier.forget(await asyncio.to_thread(requests_of, url))
    if forgotten:
        await frontier.internal.append_audit(page.by, "forget", url[:LONGEST_ABOUT])
    said = "forgotten" if forgotten else "unknown"
    return page.go("/requests", crawl=frontier.crawl, url=url, said=said)


async def add(page: PageContext, form: Form) -> Response:
    frontier, url = await page.server.frontier(form.get("crawl", "")), form.get("url", "")
    admissions = await frontier.enqueue(url)
    [admission] = admissions
    if admission == "added":
        await frontier.internal.append_audit(page.by, "add", url[:LONGEST_ABOUT])
    return page.go("/requests", crawl=frontier.crawl, url=url, said=str(admission))


async def drop(page: PageContext, form: Form) -> Response:
    if form.get("sure") != "yes":
        raise HTTPException(400, "Nothing was dropped: select the check box to confirm.")
    frontier, ids = await page.server.frontier(form.get("crawl", "")), _selected(form)
    dropped = await frontier.admin.drop(ids)
    if dropped:
        await frontier.internal.append_audit(page.by, "drop", _about(form, dropped))
    return _back(page, form, "dropped" if ids else "none", dropped)


async def promote(page: PageContext, form: Form) -> Response:
    frontier, ids = await page.server.frontier(form.get("crawl", "")), _selected(form)
    promoted = await frontier.admin.promote(ids)
    if promoted:
        await frontier.internal.append_audit(page.by, "promote", _about(form, promoted))
    return _back(page, form, "promoted" if ids else "none", promoted)


def _selected(form: Form) -> list[str]:
    """Return the ids of the selected rows. Each check box has its own name."""
    return [value for name, value in form.items() if name.startswith("pick-")]


def _about(form: Form, count: int) -> str:
    """Return the target of an audit entry."""
    of = f" of {form['host'][:LONGEST_ABOUT]}" if form.get("host") else ""
    return f"{count} {'delayed' if form.get('state') == 'delayed' else 'waiting'}{of}"


def _back(page: PageContext, form: Form, said: str, count: int) -> Response:
    where = {name: form.get(name, "") for name in ("crawl", "state", "host")}
    return page.go("/requests", **where, said=said, count=count if said != "none" else "")
