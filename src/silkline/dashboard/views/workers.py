"""Workers: who is there, what they do, and what they are told to do."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from starlette.responses import Response

from silkline.dashboard.forms import Form
from silkline.dashboard.pages import Page
from silkline.dashboard.queries import ask_each
from silkline.frontier.frontier import Frontier
from silkline.frontier.roster import Order, WorkerState, act_of, check_order
from silkline.frontier.sentences import at_work_on


class Row(NamedTuple):
    """A worker of a crawl, and what it was told to do."""

    crawl: str
    worker: WorkerState
    order: Order

    def told(self, name: str) -> Any:
        """What it tells of itself; a worker may tell anything, or nothing."""
        return self.worker.info.get(name)

    def number(self, name: str) -> float | None:
        value = self.told(name)
        return value if isinstance(value, int | float) else None

    @property
    def urls(self) -> list[str]:
        return at_work_on(self.worker)


async def listing(page: Page) -> Response:
    found = await ask_each(page.house, await page.chosen(), _rows)
    rows = [row for rows in found.each for row in rows]
    return await page.show(
        "workers.html",
        "Workers",
        found=found,
        rows=rows,
        alive=sum(row.worker.alive for row in rows),
        pace=sum(row.number("rate") or 0.0 for row in rows if row.worker.alive),
        in_flight=sum(int(row.number("in_flight") or 0) for row in rows if row.worker.alive),
    )


async def _rows(frontier: Frontier) -> list[Row]:
    workers = await frontier.workers()
    orders = await asyncio.gather(*(frontier.ordered(worker.name) for worker in workers))
    return [Row(frontier.crawl, worker, order) for worker, order in zip(workers, orders, strict=True)]


async def order(page: Page, form: Form) -> Response:
    frontier, worker = await page.house.frontier(form.get("crawl", "")), form.get("worker", "")
    wanted = check_order(form.get("order", ""))
    there = await frontier.order(worker, wanted)
    if there:
        await frontier.note_act(page.by, act_of(wanted), worker)
    return page.go("/workers", crawl=form.get("shown", ""), said="ordered" if there else "gone")
