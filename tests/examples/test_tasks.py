"""The examples of tasks: a worker, a program that enqueues, and a web application."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from silkline.testing import MemoryTasks
from tests.cli.processes import Running, environment

EXAMPLES = Path(__file__).parents[2] / "examples" / "tasks"


async def test_a_program_enqueues_and_a_worker_runs(valkey, tmp_path):
    worker = Running("worker", EXAMPLES / "thumbnails.py", cwd=tmp_path, SILKLINE_REDIS=valkey.url)
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-W", "error", EXAMPLES / "enqueue.py"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(SILKLINE_REDIS=valkey.url),
            timeout=100,
            check=False,
        )
    finally:
        worker.close()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "[1, 2, 3]",
        "{'a-10': 45, 'a-20': 190} done",
        "record() got a wrong argument 'size': expected `int`, got `str`",
        "a: 3",
    ]


@pytest.fixture
def web(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import web  # noqa: PLC0415 - it is found only now

    return web


async def test_a_web_application_enqueues(web):
    async with MemoryTasks(web.tasks) as memory, web.lifespan(web.app):
        call = (await web.start("abc"))["id"]
        assert await web.status(call) == {"status": "waiting"}
        await memory.run()
        assert await web.status(call) == {"status": "done"}
    assert {route.path for route in web.app.routes} >= {"/fetches/start/{sku}", "/fetches/{call}"}
