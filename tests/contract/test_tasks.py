"""`admin.tasks` joins the queues of tasks with what workers did and report."""

from __future__ import annotations

from silkline import Request
from silkline.core.verdict import Bury, Complete
from silkline.frontier.verbs.history import Counts, HandlerCounts
from tests.contract.frontiers import AT_ONCE


def call(name, number):
    return Request(f"https://{name}/{number}", handler=name)


async def names_of(frontier):
    return [task.name for task in await frontier.admin.tasks()]


async def test_a_task_is_known_by_its_calls_before_any_worker(open_crawl):
    frontier = await open_crawl(politeness=AT_ONCE)
    await frontier.enqueue([call("resize", number) for number in range(3)])
    await frontier.enqueue([Request("https://later/1", handler="later", not_before=4e9)])
    await frontier.enqueue(["https://intranet/1", Request("https://wiki/1", handler="page"), call("shop.example", 1)])
    await frontier.enqueue([Request("https://docs/1", handler="page", not_before=4e9)])
    resize, later = await frontier.admin.tasks()
    assert (resize.name, later.name) == ("resize", "later"), "and not the sites of pages"
    assert (resize.waiting, resize.running, resize.workers, resize.p50, resize.next_tick) == (3, 0, 0, None, None)
    assert (later.waiting, later.delayed, later.running) == (0, 1, 0)


async def test_delayed_calls_and_retries_are_counted_apart_from_those_that_wait(open_crawl):
    frontier = await open_crawl(politeness=AT_ONCE)
    await frontier.enqueue([call("resize", number) for number in range(3)])
    await frontier.enqueue([Request("https://resize/3", handler="resize", not_before=4e9)])
    [lease] = await frontier.claim(1)
    await frontier.retry(lease, after=60)
    [resize] = await frontier.admin.tasks()
    assert (resize.waiting, resize.delayed, resize.running) == (2, 2, 0)


async def test_the_figures_of_workers_are_joined_with_the_queue(open_crawl):
    frontier = await open_crawl(politeness=AT_ONCE)
    await frontier.admin.set_host("resize", delay=0, concurrency=2)
    await frontier.enqueue([call("resize", number) for number in range(5)])
    leases = await frontier.claim(5)
    await frontier.settle([(leases[0], Bury("no paper"))])
    counts = HandlerCounts(pages=7, failures=2, exceptions=2, dead=1)
    counts.timing.note(0.2)
    await frontier.internal.add_history(Counts(), None, {"resize": counts.numbers})
    for number, rate in enumerate((1.5, 2.0)):
        report = {
            "resize": {"rate": rate},
            "nightly": {"rate": 0, "schedule": "every 1d", "next": 86_400 * (number + 1)},
        }
        await frontier.internal.join(f"w-{number}", info={"tasks": report})
    found = {task.name: task for task in await frontier.admin.tasks()}
    resize, nightly = found["resize"], found["nightly"]
    assert (resize.waiting, resize.running, resize.concurrency) == (3, 1, 2)
    assert (resize.done, resize.failures, resize.dead, resize.rate, resize.workers) == (7, 2, 1, 3.5, 2)
    assert 0.1 <= resize.p50 <= resize.p95 <= 0.25
    assert (nightly.schedule, nightly.next_tick, nightly.done, nightly.place) == ("every 1d", 2 * 86_400, 0, "unknown")
    await frontier.settle([(leases[1], Complete())])
    await frontier.internal.leave("w-0")
    found = {task.name: task for task in await frontier.admin.tasks()}
    assert (found["resize"].rate, found["nightly"].workers) == (2.0, 1)


HOSTILE = [
    {"tasks": 7}, {"tasks": ["a"]}, {"tasks": {"ok": 7}}, {"tasks": {"a b": {}}}, {"tasks": {"": {}}},
    {"tasks": {"resize": {"rate": "x", "schedule": ["y"], "next": -1}}},
    {"tasks": {"resize": {"rate": 1e300, "next": 1e300, "schedule": "z" * 5000}}},
]  # fmt: skip


async def test_what_workers_report_may_be_anything(open_crawl):
    frontier = await open_crawl()
    for number, info in enumerate(HOSTILE):
        await frontier.internal.join(f"w-{number}", info=info)
    [task] = await frontier.admin.tasks()
    assert (task.name, task.rate, task.next_tick, len(task.schedule)) == ("resize", 0.0, None, 200)
