"""A function reports its progress, wherever it runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from silkline import Tasks
from silkline.errors import RequestError, TaskFailed
from silkline.tasks.progress import ProgressSender
from silkline.testing import MemoryTasks
from tests.tasks import jobs


async def seen(handle, note):
    """Wait for a progress with this note."""
    async with asyncio.timeout(30):
        while (progress := await handle.progress()) is None or progress.note != note:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    return progress


async def test_async_functions_and_threads_report_their_progress(app, work):
    let_go, let_thread_go = asyncio.Event(), threading.Event()

    @app.task
    async def on_the_loop() -> None:
        on_the_loop.report_progress(0.4, "resizing")
        await let_go.wait()

    @app.task
    def in_a_thread() -> None:
        in_a_thread.report_progress(0.6, "in a thread")
        let_thread_go.wait(30)

    async with work(app):
        first, second = await on_the_loop.enqueue(), await in_a_thread.enqueue()
        assert (await seen(first, "resizing")).done == 0.4
        assert (await seen(second, "in a thread")).done == 0.6
        assert await first.status() == "running"
        let_go.set()
        let_thread_go.set()
        await first.result(timeout=20)
        await second.result(timeout=20)


async def test_a_process_reports_its_progress(work, valkey, crawl, tmp_path):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        handle = await jobs.reports.enqueue(str(tmp_path / "go"))
        assert (await seen(handle, "halfway")).done == 0.5
        (tmp_path / "go").touch()
        assert await handle.result(timeout=30) == "done"
        assert (await handle.progress()).note == "at the end"


async def test_a_call_that_fails_shows_how_far_it_came(app, work):
    @app.task
    async def fails() -> None:
        for part in range(4):
            fails.report_progress(part / 4, f"part {part}")
        raise ValueError

    async with work(app):
        handle = await fails.enqueue()
        with pytest.raises(TaskFailed):
            await handle.result(timeout=20)
        assert (await handle.progress()).note == "part 3"


async def test_progress_is_sent_about_once_per_second():
    sent = []

    async def send(done, note):
        sent.append(note)

    sender = ProgressSender(send)
    for number in range(500):
        sender.report(0.5, str(number))
        await asyncio.sleep(0)
    await sender.finish()
    assert len(sent) == 2
    assert sent[-1] == "499"


async def test_progress_in_memory_and_outside_of_a_call():
    app = Tasks("memory")

    @app.task
    def works() -> None:
        works.report_progress(1)

    works()  # reports to nothing
    async with MemoryTasks(app) as memory:
        handle = await works.enqueue()
        assert await handle.progress() is None
        await memory.run()
        assert (await handle.progress())[:2] == (1.0, "")


@pytest.mark.parametrize("wrong", [(-0.1,), (1.1,), (float("nan"),), ("0.5",), (True,), (0.5, b"note")])
def test_a_wrong_progress_is_an_error(wrong):
    app = Tasks("wrong")
    task = app.task(test_a_wrong_progress_is_an_error)
    with pytest.raises(RequestError, match=r"progress is a number from 0 to 1|the note of a progress"):
        task.report_progress(*wrong)
