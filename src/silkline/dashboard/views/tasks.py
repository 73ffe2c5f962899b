"""Tasks: their queues, rates, durations and next ticks, and calls that wait for others."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import ask_each
from silkline.frontier.admin_verbs.task_states import TaskState
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.groups import GroupState

SHOWN = 100
SHOWN_GROUPS = 20


class TaskRow(NamedTuple):
    """A task of a crawl."""

    crawl: str
    task: TaskState

    @property
    def limit(self) -> float | None:
        """The rate limit in starts per second; None without one."""
        return 1 / self.task.delay if self.task.delay else None


class WaitingRow(NamedTuple):
    """A call of a crawl that waits for others."""

    crawl: str
    group: GroupState


async def listing(page: PageContext) -> Response:
    found = await ask_each(page.server, await page.chosen(), _rows)
    groups = [row for _, rows in found.each for row in rows]
    rows = sorted(
        (row for rows, _ in found.each for row in rows),
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
        groups=sorted(groups, key=lambda row: (row.group.expires, row.group.url))[:SHOWN_GROUPS],
    )


async def _rows(frontier: Frontier) -> tuple[list[TaskRow], list[WaitingRow]]:
    groups = await frontier.internal.groups(limit=SHOWN_GROUPS)
    tasks = [TaskRow(frontier.crawl, task) for task in await frontier.admin.tasks()]
    return tasks, [WaitingRow(frontier.crawl, group) for group in groups]
