"""Tasks: their queues, rates, durations and next ticks."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import ask_each
from silkline.frontier.admin_verbs.task_states import TaskState
from silkline.frontier.frontier import Frontier

SHOWN = 100


class TaskRow(NamedTuple):
    """A task of a crawl."""

    crawl: str
    task: TaskState

    @property
    def limit(self) -> float | None:
        """The rate limit in starts per second; None without one."""
        return 1 / self.task.delay if self.task.delay else None


async def listing(page: PageContext) -> Response:
    found = await ask_each(page.server, await page.chosen(), _rows)
    rows = sorted(
        (row for rows in found.each for row in rows),
        key=lambda row: (-row.task.running - row.task.waiting, row.crawl, row.task.name),
    )
    return await page.show(
        "tasks.html",
        "Tasks",
        found=found,
        rows=rows[:SHOWN],
        total=len(rows),
        waiting=sum(row.task.waiting for row in rows),
        delayed=sum(row.task.delayed for row in rows),
        running=sum(row.task.running for row in rows),
        pace=sum(row.task.rate for row in rows),
        several=len({row.crawl for row in rows}) > 1,
    )


async def _rows(frontier: Frontier) -> list[TaskRow]:
    return [TaskRow(frontier.crawl, task) for task in await frontier.admin.tasks()]
