"""Workers: their state and the orders to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import Form, PageContext
from silkline.dashboard.queries import ask_each
from silkline.frontier.admin_verbs.explain_text import urls_in_progress
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.workers import (
    ALL_WORKERS,
    WorkerState,
    audit_action,
    check_order,
    have_only_tasks,
    missing_capabilities,
)


class WorkerRow(NamedTuple):
    """A worker of a crawl."""

    crawl: str
    worker: WorkerState

    def reported(self, name: str) -> Any:
        """Return a value that the worker reported. It is untrusted and may be missing."""
        return self.worker.info.get(name)

    def number(self, name: str) -> float | None:
        value = self.reported(name)
        return value if isinstance(value, int | float) else None

    @property
    def what(self) -> str:
        """What it works on."""
        return "call" if have_only_tasks([self.worker]) else "page"

    @property
    def urls(self) -> list[str]:
        return urls_in_progress(self.worker)


async def listing(page: PageContext) -> Response:
    found = await ask_each(page.server, await page.chosen(), _rows)
    rows = [row for rows in found.each for row in rows]
    return await page.show(
        "workers.html",
        "Workers",
        found=found,
        rows=rows,
        lacks={
            crawl: missing_capabilities(row.worker for row in rows if row.crawl == crawl)
            for crawl in {row.crawl for row in rows}
        },
        alive=sum(row.worker.alive for row in rows),
        pace=sum(row.number("rate") or 0.0 for row in rows if row.worker.alive),
        what="calls" if have_only_tasks(row.worker for row in rows) else "pages",
        in_flight=sum(int(row.number("in_flight") or 0) for row in rows if row.worker.alive),
    )


async def _rows(frontier: Frontier) -> list[WorkerRow]:
    return [WorkerRow(frontier.crawl, worker) for worker in await frontier.admin.workers()]


async def ask_stop(page: PageContext) -> Response:
    """Ask for confirmation before a worker is stopped: the dashboard cannot start it again."""
    frontier, name = await page.server.frontier(page.asked("crawl")), page.asked("worker")
    alive = [worker.name for worker in await frontier.admin.workers(limit=ALL_WORKERS) if worker.alive]
    if name not in alive:
        return page.go("/workers", crawl=page.asked("shown"), said="gone")
    return await page.show(
        "worker_stop.html",
        "Workers",
        crawl=frontier.crawl,
        worker=name,
        others=len(alive) - 1,
        shown=page.asked("shown"),
    )


async def order(page: PageContext, form: Form) -> Response:
    frontier, worker = await page.server.frontier(form.get("crawl", "")), form.get("worker", "")
    wanted = check_order(form.get("order", ""))
    there = await frontier.admin.order(worker, wanted)
    if there:
        await frontier.internal.append_audit(page.by, audit_action(wanted), worker)
    return page.go("/workers", crawl=form.get("shown", ""), said="ordered" if there else "gone")
