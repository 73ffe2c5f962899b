"""Operators see tasks where they see pages: `admin.tasks`, `silkline task`, metrics and the dashboard."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from silkline import SyncFrontier, Tasks
from silkline.dashboard import app as dashboard
from silkline.tasks.sync_calls import SyncTaskCalls
from silkline.worker.crawl.loading import load_crawl
from tests.cli.processes import Running
from tests.dashboard.serving import Serving, Visitor, patient

FILE = """
import asyncio
from silkline import Tasks

app = Tasks({name!r})

@app.task(concurrency=1)
async def resize(sku: str, size: int = 3) -> str:
    return f"{{sku}}-{{size}}"

@app.task(concurrency=1)
async def waits() -> None:
    waits.report_progress(0.5, "first page")
    await asyncio.sleep(1000)

@app.task
def fails() -> None:
    raise ValueError("no paper")

@app.task(every=86_400)
async def nightly() -> None: ...

@app.task(cron="0 9 1 1 *", tz="Europe/Berlin")
async def yearly() -> None: ...
"""


@pytest.fixture(scope="module")
def queue(servers, tmp_path_factory):
    """A queue of tasks with a real worker: calls are done, wait, run, and have failed."""
    folder, url = tmp_path_factory.mktemp("seen"), servers("valkey").url
    (folder / "jobs.py").write_text(FILE.format(name="seen"))
    file = folder / "jobs.py"
    tasks = load_crawl(str(file), or_tasks=True).tasks
    tasks.redis = url

    def enqueue(name, **arguments):
        return SyncTaskCalls(tasks.by_name[name], tasks.sync_frontier).enqueue(**arguments).id

    calls = [enqueue("waits") for _ in range(3)]
    worker = Running("worker", "jobs.py", cwd=folder, SILKLINE_REDIS=url)
    worker.wait_for("tasks at a time")
    done, failed = enqueue("resize", sku="a", size=5), enqueue("fails")

    def has_progress():
        return any(SyncTaskCalls(tasks.by_name["waits"], tasks.sync_frontier).handle(one).progress() for one in calls)

    with SyncFrontier.open(url, crawl="seen", create=False) as frontier:
        while (
            len(found := {one.name: one for one in frontier.admin.tasks()}) < 5
            or not found["fails"].dead
            or not has_progress()
        ):
            assert worker.process.poll() is None, worker.err
            time.sleep(0.1)
        yield SimpleNamespace(
            url=url, file=str(file), tasks=found, waiting=calls[-1], calls=calls, done=done, failed=failed
        )
        worker.close()
        tasks.close_sync()
        frontier.admin.remove()


def test_the_state_of_each_task_is_joined_from_its_queue_and_its_workers(queue):
    resize, waits, fails, nightly = (queue.tasks[name] for name in ("resize", "waits", "fails", "nightly"))
    assert (waits.waiting, waits.running, waits.concurrency, waits.place) == (2, 1, 1, "busy")
    assert (resize.done, resize.failures, resize.workers) == (1, 0, 1)
    assert 0 <= resize.p50 <= resize.p95 < 60
    assert (fails.done, fails.failures, fails.dead) == (0, 1, 1)
    assert nightly.schedule == "every 1d"
    assert nightly.next_tick % 86_400 == 0
    assert 0 < nightly.next_tick - time.time() <= 86_400
    assert (resize.schedule, resize.next_tick) == ("", None)
    yearly = queue.tasks["yearly"]
    assert yearly.schedule == "cron 0 9 1 1 * Europe/Berlin"
    assert datetime.fromtimestamp(yearly.next_tick, UTC).strftime("%m-%d %H:%M") == "01-01 08:00"


def test_tasks_are_listed_and_shown(operate, queue):
    lines = operate("task", "ls", "seen").out.splitlines()
    assert lines[0].split() == [
        "task",
        "state",
        "waiting",
        "delayed",
        "running",
        "done",
        "failed",
        "dead",
        "per",
        "s",
        "p50",
        "p95",
        "next",
    ]
    assert lines[1].split()[:5] == ["waits", "busy", "2", "0", "1"]
    assert [line.split()[:4] for line in lines if line.startswith("nightly")] == [["nightly", "idle", "0", "1"]]
    assert {one["name"] for one in operate("task", "ls", "seen", "--json").json} == set(queue.tasks)
    assert "silkline dead ls seen --host fails" in operate("task", "show", "seen", "fails").out
    nightly = operate("task", "show", "seen", "nightly").out
    assert "every 1d" in nightly
    assert re.search(r"state +idle\nwaiting +0\ndelayed +1\n", nightly)
    assert operate("task", "show", "seen", "fails", "--json").json["dead_letters"] == 1


def test_calls_are_enqueued_and_cancelled_and_their_results_printed(operate, queue):
    call = operate("task", "enqueue", queue.file, "resize", "sku=b", "--unique", "b").out.strip()
    assert operate("task", "result", "seen", "resize", call, "--wait", "60s").out == '"b-3"\n'
    again = operate("task", "enqueue", queue.file, "resize", "sku=b", "--unique", "b", "--json").json
    assert again == {"id": call, "url": f"https://resize/{call}", "added": False}
    assert operate("task", "result", "seen", "resize", queue.done, "--json").json == {"status": "done", "result": "a-5"}
    failed = operate("task", "result", "seen", "fails", f"https://fails/{queue.failed}")
    assert failed.code == 1
    assert "no paper" in failed.err
    assert "jobs.py" in failed.err, "the traceback"
    late = operate("task", "result", "seen", "waits", queue.waiting, "--json")
    assert (late.code, late.json) == (1, {"status": "waiting", "progress": None})
    [running] = [
        one for one in queue.calls if operate("task", "result", "seen", "waits", one, "--json").json["progress"]
    ]
    half = operate("task", "result", "seen", "waits", running)
    assert (half.code, "50% done first page" in half.err) == (1, True)
    assert operate("task", "cancel", "seen", "waits", queue.waiting).out == "Cancelled.\n"
    gone = operate("task", "cancel", "seen", "waits", queue.waiting)
    assert (gone.code, gone.out) == (1, "Not cancelled: the call is cancelled.\n")
    over = operate("task", "cancel", "seen", "resize", queue.done)
    assert (over.code, over.out) == (1, "Not cancelled: the call is done.\n")


WRONG = {
    ("show", "seen", "resizes"): "seen has no task 'resizes'; it has: fails, nightly, resize, waits, yearly",
    ("enqueue", "FILE", "resizes"): "has no task 'resizes'; it has: fails, nightly, resize, waits, yearly",
    ("enqueue", "FILE", "resize"): "resize() needs the argument 'sku'",
    ("enqueue", "FILE", "resize", "sku=7"): "resize() got a wrong argument 'sku': expected `str`, got `int`",
    ("enqueue", "FILE", "resize", "7"): "arguments are written as NAME=VALUE, such as size=3, got '7'",
    ("enqueue", "FILE", "resize", "sku=a", "sku=b"): "the argument 'sku' is given twice",
    ("enqueue", "none.py", "resize"): "there is no file none.py",
    ("enqueue",): "FILE",
    ("ls", "nothing"): "nothing",
    ("result", "seen", "resize", "x"): "https://resize/x is not in seen",
    ("cancel", "seen", "waits", "x"): "https://waits/x is not in seen",
    ("cancel", "seen", "Not a task", "x"): "a task name may contain lowercase letters",
}


def test_status_and_dashboard_speak_of_tasks(operate, queue, monkeypatch):
    monkeypatch.setattr("silkline.ops.notices.MANY_PAGES", 1)
    out = operate("status", "seen").out
    assert "tasks/s" in out
    assert "pages" not in out
    assert "selectors" not in out, "nightly has not run, and is no handler of pages"
    with Serving(patient(dashboard(queue.url))) as serving:
        visitor = Visitor(serving.port)
        until = time.monotonic() + 60
        while "1 calls in flight" not in visitor.get("/workers?crawl=seen").words:
            assert time.monotonic() < until
            time.sleep(0.1)  # until the worker reports again
        words = visitor.get("/crawls/seen").words
        assert "calls/s, 1 worker" in words
        assert "Pages" not in words
        assert "done/s" in visitor.get("/?crawl=seen").words
        assert "pages/s" not in visitor.get("/crawls").words.lower()


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_mistakes_are_clear_errors(operate, queue, words):
    answer = operate("task", *(queue.file if word == "FILE" else word for word in words))
    assert answer.code == 2
    assert WRONG[words] in answer.err


def test_a_crawl_without_tasks_says_so(operate, frontier, crawl):
    frontier()
    assert "has no tasks" in operate("task", "ls", crawl).out
    assert "has no tasks" in operate("task", "show", crawl, "resize").err


def test_metrics_and_the_dashboard_have_them(queue):
    with Serving(patient(dashboard(queue.url))) as serving:
        visitor = Visitor(serving.port)
        families = {one.name: one for one in text_string_to_metric_families(visitor.get("/metrics?crawl=seen").text)}
        words = visitor.get("/tasks?crawl=seen").words
        assert "nightly" in visitor.get("/tasks").words
    samples = {
        (family, one.labels["task"]): one.value
        for family in (
            "silkline_task_waiting",
            "silkline_task_delayed",
            "silkline_task_running",
            "silkline_task_next_tick_seconds",
        )
        for one in families[family].samples
    }
    assert samples["silkline_task_running", "waits"] == 1
    assert samples["silkline_task_waiting", "waits"] <= 2
    assert (samples["silkline_task_delayed", "nightly"], samples["silkline_task_delayed", "waits"]) == (1, 0)
    assert "2 delayed, 1 running" in words
    assert samples["silkline_task_next_tick_seconds", "nightly"] == queue.tasks["nightly"].next_tick
    assert ("silkline_task_next_tick_seconds", "waits") not in samples
    for name in ("resize", "waits", "fails", "nightly", "every 1d"):
        assert name in words


def test_calls_that_wait_for_others_are_listed_and_explained(operate, valkey, crawl):
    app = Tasks(crawl, valkey.url)

    @app.task
    def step() -> None: ...

    assert operate("task", "groups", crawl).code == 2, "there is no such crawl yet"
    step.sync.enqueue()
    assert operate("task", "groups", crawl).out == f"No call of {crawl} waits for others.\n"
    waiting = step.options(after=step.sync.enqueue_many([{}, {}])).sync.enqueue()
    lines = operate("task", "groups", crawl).out.splitlines()
    assert lines[1].split()[:5] == [f"step/{waiting.id}", "closed", "2", "2", "0"]
    [found] = operate("task", "groups", crawl, "--json").json
    assert (found["url"], found["left"], found["allow_failure"]) == (waiting.url, 2, False)
    with Serving(patient(dashboard(valkey.url))) as serving:
        words = Visitor(serving.port).get(f"/tasks?crawl={crawl}").words
    assert f"step/{waiting.id} closed 2 2 0 in" in words
    assert (
        "delayed: it waits for 2 of 2 calls; if they do not end"
        in operate("explain", waiting.url, "--crawl", crawl).out
    )
    app.close_sync()
