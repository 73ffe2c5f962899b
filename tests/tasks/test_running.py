"""Running: the three kinds of tasks, their limits and failures, and what the handle reports."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import threading
import time

import pytest

from silkline import Bury, Crawl, Frontier, Politeness, Request, RetryLater, Tasks, WorkerOptions
from silkline.errors import TaskFailed, TaskUnknown
from silkline.testing import LocalSite
from silkline.worker.crawl.crawl import FetchOptions
from tests.tasks import jobs
from tests.tasks.conftest import until, working


async def test_all_three_kinds_run_and_return_their_results(app, work, caplog):
    caplog.set_level("DEBUG", "silkline.pages")

    @app.task
    async def on_the_loop(x: int) -> int:
        return x + 1

    @app.task
    def in_a_thread(x: int) -> tuple[int, bool]:
        return x + 2, threading.current_thread() is not threading.main_thread()

    async with work(app):
        first, second = await on_the_loop.enqueue(1), await in_a_thread.enqueue(1)
        assert await first.result(timeout=20) == 2
        assert await second.result(timeout=20) == (3, True)
        assert await first.status() == "done"
    assert f"task done: {first.url} (attempt 1, handler on_the_loop)" in caplog.text


async def test_every_kind_of_server_has_the_whole_life_of_a_call(any_server, crawl):
    tries, ticked, running, end = [], asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with Tasks(crawl, any_server.url) as app:

        @app.task(retries=[0.01], rate="5000/s")
        def double(x: int) -> int:
            tries.append(x)
            if len(tries) == 1:
                raise ConnectionError("no network")
            return 2 * x

        @app.task
        async def fails() -> None:
            raise ValueError("no paper")

        @app.task
        async def waits() -> None:
            waits.report_progress(0.5, "halfway")
            running.set()
            await end.wait()

        @app.task(every=1)
        async def each_second() -> None:
            ticked.set()

        async with working(app, any_server.url):
            handle = await double.options(unique="4").enqueue(4)
            assert not (await double.options(unique="4").enqueue(4)).added
            assert await handle.result(timeout=60) == 8
            assert (tries, await handle.status()) == ([4, 4], "done")
            with pytest.raises(TaskFailed, match="no paper"):
                await (await fails.enqueue()).result(timeout=60)
            delayed, runs = await double.options(delay=600).enqueue(4), await waits.enqueue()
            assert (await delayed.status(), await delayed.cancel(), await delayed.status()) == (
                "delayed",
                True,
                "cancelled",
            )
            await asyncio.wait_for(running.wait(), 60)
            async with asyncio.timeout(60):
                while not (progress := await runs.progress()):  # noqa: ASYNC110 - the worker sends it
                    await asyncio.sleep(0.01)
            assert (progress.done, progress.note, await runs.status()) == (0.5, "halfway", "running")
            assert await runs.cancel() is True
            await asyncio.wait_for(ticked.wait(), 60)
            assert (await (await app.frontier()).admin.stats()).dead == 3, "one failed, two were cancelled"


async def test_calls_of_one_batch_all_run(app, work):
    @app.task
    async def double(x: int) -> int:
        return 2 * x

    handles = await double.enqueue_many({"x": n} for n in range(200))
    async with work(app):
        assert [await handle.result(timeout=20) for handle in handles] == [2 * n for n in range(200)]
    stats = await (await app.frontier()).admin.stats()
    assert (stats.done, stats.seen, stats.pending) == (200, 0, 0)


async def test_no_more_calls_run_at_a_time_than_the_concurrency(app, work):
    running, most = 0, 0

    @app.task(concurrency=3)
    async def slow() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1

    handles = await slow.enqueue_many([{}] * 12)
    async with work(app), work(app):
        for handle in handles:
            await handle.result(timeout=20)
    assert most == 3


async def test_the_rate_is_the_delay_of_the_host_of_the_task(app, work):
    @app.task(rate="300/s", concurrency=2)
    async def limited() -> None: ...

    @app.task
    async def free() -> None: ...

    async with work(app):
        await (await free.enqueue()).result(timeout=20)
        hosts = {host.host: host for host in await (await app.frontier()).admin.hosts("limited", "free")}
    assert (hosts["limited"].delay, hosts["limited"].concurrency, hosts["limited"].burst) == (0.003334, 2, 7)
    assert (hosts["free"].delay, hosts["free"].concurrency) == (0, 1_000_000)


@pytest.mark.parametrize("has_pages", [False, True])
async def test_a_call_takes_no_more_of_the_rate_than_its_delay(valkey, crawl, work, has_pages):
    """Pages of a crawl with a delay get slack between two starts, because they may start late. Calls do not."""
    started, end = asyncio.Event(), asyncio.Event()
    shop = Crawl(crawl, politeness=Politeness(delay=5)) if has_pages else Tasks(crawl, valkey.url)

    @shop.task(rate="1/m")
    async def held() -> None:
        started.set()
        await end.wait()

    if has_pages:

        @shop.handler
        async def page(page) -> None: ...

    async with await Frontier.open(
        valkey.url, crawl=crawl, **(shop if has_pages else Crawl.of_tasks(shop)).arguments
    ) as frontier:
        app = shop.tasks if has_pages else shop
        app.use(frontier)
        await held.enqueue()
        async with work(shop):
            await started.wait()
            [keys] = frontier.layout.shards
            with valkey.client() as redis:
                [token] = redis.hkeys(f"{keys.root}:leased")
                leased, spent = redis.hget(f"{keys.root}:hosts", "held").split()
            end.set()
        app.use(None)
    claimed = int(token.partition(b".")[0]) // 1024
    assert (int(leased), int(spent) - claimed) == (1, 60_000)


async def test_a_failure_is_retried_then_buried_with_its_traceback(app, work):
    attempts = []

    @app.task(retries=[0.01, 0.01])
    async def fails(x: int) -> None:
        attempts.append(x)
        raise ValueError(f"no {x}")

    async with work(app):
        handle = await fails.enqueue(7)
        with pytest.raises(TaskFailed) as error:
            await handle.result(timeout=20)
    assert attempts == [7, 7, 7]
    assert "task fails: ValueError (test_running.py:" in error.value.reason
    assert 'raise ValueError(f"no {x}")' in error.value.traceback
    assert (error.value.attempts, await handle.status()) == (3, "failed")


async def test_without_retries_a_task_is_tried_once_and_max_attempts_counts(app, work):
    tried = []

    @app.task
    def once() -> None:
        tried.append("once")
        raise RuntimeError

    @app.task(max_attempts=2)
    def twice() -> None:
        tried.append("twice")
        raise RetryLater(after=0.01)

    async with work(app):
        for task in (once, twice):
            with pytest.raises(TaskFailed):
                await (await task.enqueue()).result(timeout=20)
    assert sorted(tried) == ["once", "twice", "twice"]


class Unreadable(Exception):
    """An exception whose message cannot be read."""

    def __str__(self):
        raise RuntimeError


class NoException(BaseException):
    """What `except Exception` does not catch."""


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    "error", [Unreadable(), NoException("x"), SystemExit(3), GeneratorExit()], ids=lambda e: type(e).__name__
)
async def test_whatever_a_task_raises_fails_its_call_and_nothing_else(app, work, kind, error):
    tried = []

    def fails() -> None:
        tried.append(1)
        raise error

    async def async_fails() -> None:
        fails()

    task = app.task(name="fails")(async_fails if kind == "async" else fails)
    async with work(app):
        with pytest.raises(TaskFailed, match=f"task fails: .*{type(error).__name__}"):
            await (await task.enqueue()).result(timeout=20)
    assert tried == [1]


async def test_a_dead_letter_that_is_revived_runs_again(app, work):
    good = False

    @app.task
    async def maybe() -> str:
        if not good:
            raise ValueError
        return "good"

    async with work(app):
        handle = await maybe.enqueue()
        with pytest.raises(TaskFailed):
            await handle.result(timeout=20)
        good = True
        assert await (await app.frontier()).admin.revive(host="maybe") == 1
        assert await handle.result(timeout=20) == "good"


async def test_the_timeout_holds_for_async_functions_and_threads(app, work, caplog):
    let_go = threading.Event()

    @app.task(timeout=0.05)
    async def hangs() -> None:
        await asyncio.sleep(600)

    @app.task(timeout=0.05)
    def blocks() -> None:
        let_go.wait(60)

    async with work(app):
        for task in (hangs, blocks):
            with pytest.raises(TaskFailed, match=rf"task {task.spec.name}: it took longer than 0\.05 s"):
                await (await task.enqueue()).result(timeout=30)
    let_go.set()
    assert "blocks() took longer than 0.05 s; its thread cannot be stopped and keeps running" in caplog.text


async def test_an_async_function_that_blocks_longer_than_its_timeout_has_failed(app, work):
    @app.task(timeout=0.05)
    async def blocks() -> None:
        time.sleep(0.2)  # noqa: ASYNC251 - it blocks the event loop

    async with work(app):
        with pytest.raises(TaskFailed, match=r"it took longer than 0.05 s, and blocked the event loop of its worker"):
            await (await blocks.enqueue()).result(timeout=30)


async def test_a_process_is_used_again_and_replaced_after_a_timeout(work, valkey, crawl, caplog):
    caplog.set_level("INFO", "silkline.pages")
    async with jobs.connected(crawl, valkey.url):
        async with work(jobs.app):
            first, second = [await (await jobs.pid.enqueue()).result(timeout=30) for _ in range(2)]
            assert first == second != os.getpid()
            with pytest.raises(TaskFailed, match=r"task spins: it took longer than 0\.2 s"):
                await (await jobs.spins.enqueue()).result(timeout=30)
            third = await (await jobs.pid.enqueue()).result(timeout=30)
            os.kill(third, signal.SIGKILL)  # while it is idle: no call is to blame
            fourth = await (await jobs.pid.enqueue()).result(timeout=30)
            assert len({first, third, fourth}) == 3
            assert "by signal 9" not in caplog.text
        with pytest.raises(ProcessLookupError):  # the processes end with their worker
            os.kill(fourth, 0)


async def test_a_task_in_a_process_enqueues_on_the_server_of_its_worker(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        call = await (await jobs.enqueues.enqueue()).result(timeout=30)
    async with await Frontier.open(valkey.url, crawl="jobs", create=False) as frontier:  # the name in the file
        assert (await frontier.admin.explain(f"https://divides/{call}")).state == "ready"
        await frontier.admin.remove()


async def test_an_error_in_a_process_has_its_traceback(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        with pytest.raises(TaskFailed) as error:
            await (await jobs.divides.enqueue(0)).result(timeout=30)
    assert "ZeroDivisionError" in error.value.reason
    assert "return 1 // x" in error.value.traceback


async def test_the_exceptions_of_a_process_are_those_of_the_call(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        for how, reason in (
            ("unreadable", r"Unreadable .*\(its message cannot be read"),
            ("half", r"ValueError .*: \?"),
        ):
            with pytest.raises(TaskFailed, match=f"task fails: {reason}") as error:
                await (await jobs.fails.enqueue(how)).result(timeout=30)
            assert error.value.attempts == 1


async def test_a_task_in_a_process_asks_for_another_attempt(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        with pytest.raises(TaskFailed, match="has failed: the printer is busy") as error:
            await (await jobs.asks_for_retry.enqueue(0.01)).result(timeout=30)  # after its own delay, not the 600 s
        assert error.value.attempts == 2


async def test_a_process_that_lacks_a_module_gives_the_call_back(work, valkey, crawl, caplog):
    async with jobs.connected(crawl, valkey.url), work(jobs.app) as worker:
        handle = await jobs.lacks.enqueue()
        await asyncio.wait_for(until(lambda: worker.unmet_needs.waiting), 30)
        assert await handle.status() == "delayed"
    assert "'pictures'" in caplog.text


async def test_a_process_gets_the_arguments_as_they_are(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        handle = await jobs.is_nan.enqueue(math.nan, {7: "a"})
        assert await handle.result(timeout=30) == (True, {7: "a"})


async def test_a_result_that_is_not_kept_may_be_anything_in_a_process_too(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app) as worker:
        await jobs.quiet.enqueue()
        await asyncio.wait_for(until(lambda: worker.counters.pages or worker.counters.errors), 30)
    stats = await (await jobs.app.frontier()).admin.stats()
    assert (stats.done, stats.dead) == (1, 0)


async def test_a_process_runs_the_task_of_its_application(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        assert await (await jobs.whose.enqueue()).result(timeout=30) == "this application"


async def test_a_task_that_kills_its_process_three_times_is_buried_with_the_reason(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        other = await jobs.pid.enqueue()
        with pytest.raises(TaskFailed, match="task dies: its process ended with code 3"):
            await (await jobs.dies.enqueue()).result(timeout=60)
        assert await other.result(timeout=30)
        (letter,) = await (await jobs.app.frontier()).admin.dead()
        assert letter.crashes == 3


async def test_a_process_has_no_more_memory_than_its_worker_may_use(work, valkey, crawl):
    options = WorkerOptions(lease=2.0, memory_limit=300 * 2**20)
    async with jobs.connected(crawl, valkey.url), work(jobs.app, options):
        before = await (await jobs.pid.enqueue()).result(timeout=30)
        reason = "MemoryError .*: it needs more than the 300 MiB of memory that --memory-limit allows"
        with pytest.raises(TaskFailed, match=f"task eats_memory: {reason}"):
            await (await jobs.eats_memory.enqueue(900)).result(timeout=60)
        assert await (await jobs.eats_memory.enqueue(100)).result(timeout=30) == 100
        assert await (await jobs.pid.enqueue()).result(timeout=30) == before


async def test_a_result_that_is_too_large_is_a_clear_error(app, work):
    @app.task(retries=[0, 0])
    def huge() -> str:
        return "x" * 50_000_000

    async with work(app):
        with pytest.raises(TaskFailed, match=r"task huge: the result takes 50000002 bytes, the cap is 65536") as error:
            await (await huge.enqueue()).result(timeout=30)
    assert error.value.attempts == 1


async def test_a_result_in_a_process_that_is_too_large_is_a_clear_error(work, valkey, crawl):
    async with jobs.connected(crawl, valkey.url), work(jobs.app):
        with pytest.raises(TaskFailed, match="the result takes 50000002 bytes"):
            await (await jobs.huge.enqueue()).result(timeout=60)


async def test_a_result_is_not_kept_if_the_task_says_so(app, work):
    @app.task(keep=0)
    async def quiet() -> int:
        return 1

    async with work(app):
        handle = await quiet.enqueue()
        with pytest.raises(TaskUnknown, match="has no result"):
            await handle.result(timeout=20)
    assert (await (await app.frontier()).admin.stats()).done == 1


async def test_a_result_that_does_not_come_in_time(app):
    @app.task
    async def waits() -> None: ...

    handle = await waits.enqueue()
    with pytest.raises(TimeoutError, match=r"has not ended within 0 s: it is ready: number 1 of 1"):
        await handle.result(timeout=0)


# ── cancel ──


async def test_a_call_that_waits_is_cancelled(app):
    @app.task(retries=[600])
    async def works() -> None: ...

    waiting, delayed, urgent = [
        await works.options(**options).enqueue() for options in ({}, {"delay": 60}, {"priority": 5})
    ]
    frontier = await app.frontier()
    retried = await works.options(priority=9).enqueue()
    (lease,) = await frontier.claim()
    await frontier.retry(lease, after=600, reason="the printer is busy")
    assert (lease.url, await retried.status()) == (retried.url, "delayed")
    for handle in (waiting, delayed, urgent, retried):
        assert (await handle.cancel(), await handle.status(), await handle.cancel()) == (True, "cancelled", False)
        with pytest.raises(TaskFailed, match="cancelled by its caller"):
            await handle.result(timeout=20)
    assert (await frontier.admin.stats()).dead == 4
    assert await frontier.claim(9) == []


async def test_a_call_that_runs_is_cancelled(app, work):
    started, ended = asyncio.Event(), asyncio.Event()

    @app.task
    async def works() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise

    async with work(app, WorkerOptions(lease=1.0)):
        running = await works.enqueue()
        await asyncio.wait_for(started.wait(), 20)
        assert await running.status() == "running"
        assert (await running.cancel(), await running.status()) == (True, "cancelled")
        await asyncio.wait_for(ended.wait(), 20)
        with pytest.raises(TaskFailed, match="cancelled by its caller"):
            await running.result(timeout=20)
    assert await running.cancel() is False


async def test_a_call_whose_worker_was_lost_is_cancelled(open_frontier, crawl, clock):
    app, frontier = Tasks(crawl), await open_frontier(lease=10)
    app.use(frontier)

    @app.task
    async def works() -> None: ...

    rescued = await works.enqueue()
    await frontier.claim()
    clock.advance(11)
    assert await frontier.claim(suspects="none") == []
    expired = await works.enqueue()
    assert len(await frontier.claim(suspects="none")) == 1
    clock.advance(11)
    for handle, status in ((rescued, "delayed"), (expired, "running")):
        assert await handle.status() == status
        assert (await handle.cancel(), await handle.status()) == (True, "cancelled")
    assert await frontier.claim(9) == []


async def test_a_call_that_has_ended_is_not_cancelled(app, work):
    @app.task
    async def divides(x: int) -> int:
        return 1 // x

    done, failed = await divides.enqueue(1), await divides.enqueue(0)
    async with work(app):
        await done.result(timeout=20)
        with pytest.raises(TaskFailed):
            await failed.result(timeout=20)
    assert [await done.cancel(), await failed.cancel()] == [False, False]
    assert [await done.status(), await failed.status()] == ["done", "failed"]


async def test_cancelled_calls_are_revived_only_by_their_reason_or_id(app):
    @app.task
    async def works() -> None: ...

    first, second, failed = [await works.enqueue() for _ in range(3)]
    frontier = await app.frontier()
    assert [await first.cancel(), await second.cancel()] == [True, True]
    (lease,) = await frontier.claim()
    await frontier.settle([(lease, Bury("the printer is on fire"))])
    assert await frontier.admin.revive(host="works") == 1
    assert [await handle.status() for handle in (first, second, failed)] == ["cancelled", "cancelled", "waiting"]
    letter = next(letter for letter in await frontier.admin.dead() if letter.url == first.url)
    assert await frontier.admin.revive(id=letter.id) == 1
    assert await frontier.admin.revive(reason="cancelled") == 1
    assert [await handle.status() for handle in (first, second)] == ["waiting", "waiting"]


async def test_cancelled_calls_take_bounded_memory(app):
    @app.task
    async def works() -> None: ...

    frontier = await app.frontier()
    await frontier.admin.set_dead_limit(3)
    handles = await works.enqueue_many([{}] * 5)
    assert [await handle.cancel() for handle in handles] == [True] * 5
    stats = await frontier.admin.stats()
    assert (stats.dead, stats.dead_dropped, stats.conserved) == (3, 2, True)


async def test_a_call_that_completes_while_it_is_cancelled_has_one_end(app, work):
    @app.task
    async def quick() -> int:
        return 1

    async with work(app):
        for _ in range(30):
            handle = await quick.enqueue()
            cancelled = await handle.cancel()
            if cancelled:
                assert await handle.status() == "cancelled"
                with pytest.raises(TaskFailed):
                    await handle.result(timeout=20)
            else:
                assert await handle.result(timeout=20) == 1
    stats = await (await app.frontier()).admin.stats()
    assert stats.done + stats.dead == 30


# ── what is stored ──


async def test_a_renamed_task_waits_for_a_worker_that_has_it(valkey, crawl, work, caplog):
    old, new = Tasks(crawl, valkey.url), Tasks(crawl, valkey.url)
    async with old, new:

        async def report(month: int) -> int:
            return month

        handle = await old.task(name="report")(report).enqueue(month=3)
        new.task(name="monthly-report")(report)
        frontier = await old.frontier()
        async with work(new) as worker:
            await until(lambda: worker.unmet_needs.waiting)
            assert await handle.status() == "delayed"
        assert "cannot handle pages that need a handler named 'report'" in caplog.text
        page = await frontier.admin.requests("delayed", host="report")
        await frontier.admin.promote([page.requests[0].id])
        async with work(old):
            assert await handle.result(timeout=20) == 3


@pytest.mark.parametrize(
    ("url", "meta", "reason"),
    [
        ("https://resize/1", {"sku": ["a"]}, "wrong arguments: resize() got a wrong argument 'sku'"),
        (
            "https://resize/1",
            {"sku": "a", "__class__": "os.system"},
            "wrong arguments: resize() has no argument '__class__'",
        ),
        ("https://resize/1", {}, "wrong arguments: resize() needs the argument 'sku'"),
        ("https://evil.example/1", {"sku": "a"}, "is not a call of the task 'resize'"),
    ],
)
async def test_hostile_stored_calls_become_dead_letters_and_are_not_run(app, work, url, meta, reason):
    ran = []

    @app.task(retries=[0, 0])
    def resize(sku: str) -> None:
        ran.append(sku)

    frontier = await app.frontier()
    await frontier.enqueue(Request(url, handler="resize", meta=meta))
    async with work(app), asyncio.timeout(20):
        while not (letters := await frontier.admin.dead()):  # noqa: ASYNC110 - on a server
            await asyncio.sleep(0.01)
    assert reason in letters[0].reason
    assert (ran, letters[0].attempts) == ([], 1)


async def test_a_call_may_come_from_a_feed_that_any_program_fills(app, work, valkey):
    @app.task
    async def resize(sku: str) -> str:
        return sku

    crawl, key = Crawl.of_tasks(app), f"{app.name}-calls"
    crawl.feeds = [f"redis:{key}"]
    with valkey.client() as client:
        client.rpush(key, '{"url": "https://resize/from-php", "handler": "resize", "meta": {"sku": "a"}}')
        async with work(crawl):
            await until(lambda: not client.exists(key))
            assert await resize.handle("from-php").result(timeout=20) == "a"


# ── beside pages ──


async def test_a_task_with_a_long_timeout_gives_pages_no_more_time(valkey, crawl, work):
    shop = Crawl(crawl, fetching=FetchOptions(allow_private=True, obey_robots=False))

    @shop.handler
    async def page(page):
        await asyncio.sleep(600)

    @shop.task(timeout=3600)
    async def long() -> None: ...

    async with (
        LocalSite({"/": "x"}) as site,
        await Frontier.open(valkey.url, crawl=crawl, **shop.arguments) as frontier,
    ):
        await frontier.enqueue(site.url)
        async with work(shop, WorkerOptions(attempt_limit=0.2, drain=0)) as worker:
            await asyncio.wait_for(until(lambda: worker.counters.errors["attempt limit"]), 30)


async def test_the_tasks_of_a_crawl_run_beside_its_pages(valkey, crawl, work):
    async with LocalSite({"/": "<h1>Lamp</h1>"}) as site:
        shop = Crawl(
            crawl,
            site.url,
            politeness=Politeness(delay=5, concurrency=1),
            fetching=FetchOptions(allow_private=True, obey_robots=False),
        )
        done = []

        @shop.handler
        async def page(page):
            for number in range(5):
                yield thumbnail.request(name=page.css_first("h1").text(), number=number)
            await log.enqueue(url=page.url)

        @shop.task
        async def thumbnail(name: str, number: int) -> None:
            done.append((name, number))

        @shop.task
        async def log(url: str) -> None:
            done.append(url)

        async with await Frontier.open(valkey.url, crawl=crawl, **shop.arguments) as frontier:
            await frontier.enqueue(site.url)
            async with work(shop):
                await until(lambda: len(done) == 6)
    assert sorted(done, key=str) == sorted([("Lamp", n) for n in range(5)] + [site.url.rstrip("/") + "/"], key=str)


async def test_calls_are_drained_when_the_worker_stops(app, work):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def works() -> str:
        started.set()
        await go_on.wait()
        return "done"

    handle = await works.enqueue()
    async with work(app) as worker:
        await started.wait()
        waiting = await works.enqueue()
        worker.stop()
        go_on.set()
    assert await handle.result(timeout=20) == "done"
    assert await waiting.status() in ("waiting", "done")
