"""`MemoryTasks`: tests of code that uses tasks, without a server."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Crawl, Tasks
from silkline.errors import TaskFailed
from silkline.testing import MemoryTasks
from tests.tasks import jobs


async def test_calls_run_when_the_test_says_so():
    app = Tasks("memory")

    @app.task(rate="1/h")
    async def double(x: int) -> int:
        if x < 3:
            await double.enqueue(x + 1)
        return 2 * x

    async with MemoryTasks(app) as memory:
        handle = await double.enqueue(1)
        assert await handle.status() == "waiting"
        assert await memory.run() == 3
        assert (await handle.status(), await handle.result()) == ("done", 2)


async def test_time_advances_when_the_test_says_so():
    app, tries = Tasks("memory"), []

    @app.task(retries=[10])
    def fails() -> None:
        tries.append(1)
        raise ValueError("no")

    async with MemoryTasks(app) as memory:
        handle = await fails.options(delay=60).enqueue()
        assert await memory.run() == 0
        memory.clock.advance(61)
        assert await memory.run() == 1
        assert await handle.status() == "delayed"
        memory.clock.advance(11)
        await memory.run()
        with pytest.raises(TaskFailed, match="task fails: ValueError"):
            await handle.result()
        assert len(tries) == 2


async def test_calls_that_wait_can_be_cancelled_in_memory_too():
    app = Tasks("memory")

    @app.task
    async def one() -> None: ...

    async with MemoryTasks(app) as memory:
        handle = await one.enqueue()
        assert await handle.cancel()
        assert await memory.run() == 0
        assert await handle.status() == "cancelled"


def test_plain_code_needs_no_loop():
    with MemoryTasks(jobs.app) as memory:
        handle = jobs.divides.sync.enqueue(1)
        assert handle.status() == "waiting"
        asyncio.run(memory.run())
        assert (handle.status(), handle.result()) == ("done", 1)


async def test_the_tasks_of_a_crawl_run_in_memory():
    shop = Crawl("shop")

    @shop.task
    async def resize(sku: str) -> str:
        return sku

    async with MemoryTasks(shop) as memory:
        handle = await resize.enqueue(sku="a")
        await memory.run()
        assert await handle.result() == "a"
