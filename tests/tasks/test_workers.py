"""`silkline worker FILE` with a file of tasks, and workers that are killed."""

from __future__ import annotations

import asyncio
import signal

import pytest

from silkline import Tasks
from silkline.errors import ConfigError, TaskFailed
from silkline.worker.crawl.loading import load_crawl
from tests.cli.processes import Running
from tests.tasks.conftest import until

FILE = """
import os, signal, time
from silkline import Tasks

app = Tasks({name!r})

@app.task(retries=[0.1])
async def note(number: int) -> int:
    with open("ran", "a") as ran:
        ran.write(f"{{number}}\\n")
    return number

@app.task
def dies_once(path: str) -> str:
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"

@app.task
def eats_memory() -> None:
    pages = []
    while True:
        pages.append(b"x" * 2**20)
        time.sleep(0.001)

@app.task(cpu=True)
def slow() -> str:
    open("slow", "w").close()
    time.sleep(0.5)
    return "slow"
"""


def registered(app):
    """Register the tasks of the file in this process too, to enqueue them."""

    @app.task
    async def note(number: int) -> int: ...

    @app.task
    def dies_once(path: str) -> str: ...

    @app.task
    def slow() -> str: ...

    return note, dies_once, slow


@pytest.fixture
def start(valkey, crawl, tmp_path, forker):
    (tmp_path / "tasks.py").write_text(FILE.format(name=crawl))
    running = []

    def start(*options):
        place = {"cwd": tmp_path, "forker": forker, "SILKLINE_REDIS": valkey.url}
        running.append(Running("worker", "tasks.py", "--lease", "1", *options, **place))
        return running[-1]

    yield start
    for one in running:
        one.close()


async def test_a_worker_waits_for_tasks_runs_them_and_drains(app, start, tmp_path):
    """It may be started first: it creates the queue."""
    note, _, slow = registered(app)
    worker = start()
    worker.wait_for("64 tasks at a time")
    assert await (await note.enqueue(number=1)).result(timeout=60) == 1
    handle = await slow.enqueue()
    await until((tmp_path / "slow").exists)
    worker.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.end) == 0
    assert await handle.status() == "done"
    assert "after 2 tasks" in worker.err


async def test_a_worker_that_is_killed_loses_no_call(app, start, tmp_path):
    note, dies_once, _ = registered(app)
    handles = await note.enqueue_many({"number": number} for number in range(300))
    deadly = await dies_once.enqueue(path="died")
    first = start()
    assert await asyncio.to_thread(first.process.wait, 60) == -signal.SIGKILL
    start()
    assert [await handle.result(timeout=60) for handle in handles] == list(range(300))
    assert await deadly.result(timeout=60) == "survived"
    ran = [int(line) for line in (tmp_path / "ran").read_text().split()]
    assert set(ran) == set(range(300))
    assert (await (await app.frontier()).admin.stats()).done == 301


async def test_a_call_that_takes_the_memory_of_three_workers_is_buried(app, start):
    @app.task
    def eats_memory() -> None: ...

    note, _, _ = registered(app)
    harmless, greedy = await note.enqueue(number=1), await eats_memory.enqueue()
    for _ in range(4):
        if await greedy.status() == "failed":
            break
        worker = start("--memory-limit", "300M")
        await until(lambda worker=worker: worker.process.poll() is not None)
    with pytest.raises(TaskFailed, match="the worker used more than its 300 MiB of memory") as error:
        await greedy.result(timeout=1)
    assert "eats_memory" in str(error.value)
    assert await harmless.result(timeout=1) == 1


async def test_a_call_that_takes_down_three_workers_is_buried(open_frontier, crawl, clock):
    app, frontier = Tasks(crawl), await open_frontier(lease=10)
    app.use(frontier)
    _, deadly, _ = registered(app)
    handle = await deadly.enqueue(path="x")
    for _ in range(5):
        await frontier.claim(1, suspects="alone")
        clock.advance(11)
    with pytest.raises(TaskFailed, match="crashed"):
        await handle.result(timeout=20)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("a, b = Tasks('x'), Tasks('y')", r"several crawls \(a, b\); name one: .*:a"),
        ("a = Tasks('x')", "'x' has no task; write a function and put @app.task above it"),
    ],
)
def test_a_file_without_one_queue_of_tasks_is_a_clear_error(tmp_path, source, words):
    (tmp_path / "tasks.py").write_text(f"from silkline import Tasks\n{source}\n")
    with pytest.raises(ConfigError, match=words):
        load_crawl(str(tmp_path / "tasks.py"), or_tasks=True)


def test_run_refuses_a_file_with_tasks_alone(tmp_path):
    (tmp_path / "tasks.py").write_text(FILE.format(name="x"))
    with pytest.raises(ConfigError, match=r"tasks.py has tasks and no pages; to run them: silkline worker"):
        load_crawl(str(tmp_path / "tasks.py"))
