"""Enqueueing: arguments are checked at the caller, and options say when and in which order calls run."""

from __future__ import annotations

import datetime as dt
import threading
import time
from dataclasses import dataclass

import msgspec
import pytest

from silkline import Crawl, Politeness, Tasks
from silkline.errors import ConfigError, QueueFull, RequestError, TaskFailed
from silkline.tasks.spec import CallOptions


@dataclass
class Box:
    width: int
    tags: list[str]


@pytest.fixture
def resize(app):
    @app.task
    async def resize(sku: str, size: int = 3) -> str:
        return f"{sku} {size}"

    return resize


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sku": 1}, "resize() got a wrong argument 'sku': expected `str`, got `int`"),
        ({"sku": "a", "size": "large"}, "resize() got a wrong argument 'size': expected `int`, got `str`"),
        ({}, "resize() needs the argument 'sku'"),
        ({"sku": "a", "color": "red"}, "resize() has no argument 'color'"),
        ({"sku": object()}, "resize() got an argument 'sku' that cannot be stored as plain data: "),
    ],
)
async def test_a_wrong_call_is_an_error_at_the_caller_with_the_name_of_the_argument(app, resize, arguments, message):
    with pytest.raises(RequestError) as error:
        await resize.enqueue(**arguments)
    assert str(error.value).startswith(message)
    with pytest.raises(RequestError, match="call 1: resize"):
        await resize.enqueue_many([{"sku": "a"}, arguments])
    assert (await (await app.frontier()).admin.stats()).accepted == 0


async def test_many_calls_are_stored_as_single_ones_are(app, resize):
    """Enough for several commands, and with arguments that are encoded alone: empty, with escaped bytes, too large."""
    calls = [{"sku": f"a{number}", "size": number} for number in range(600)]
    calls[7]["sku"] = "\xff\U0010ffff"
    calls[300]["size"] = -3
    handles = await resize.options(priority=2, expires=4e9).enqueue_many(calls)
    leases = await (await app.frontier()).claim(1000)
    assert {lease.url: lease.request.meta for lease in leases} == {
        handle.url: call for handle, call in zip(handles, calls, strict=True)
    }
    single = await resize.options(priority=2, expires=4e9).enqueue(sku="a", size=1)
    [lease] = await (await app.frontier()).claim(1)
    assert msgspec.structs.replace(leases[0].request, url=single.url, meta=lease.request.meta) == lease.request
    with pytest.raises(
        RequestError, match=r"the request takes \d+ bytes, .* \(1 of 2 calls; the others were offered\)"
    ):
        await resize.enqueue_many([{"sku": "x" * 70_000}, {"sku": "b"}])
    with pytest.raises(RequestError, match="call 0 is not a mapping"):
        await resize.enqueue_many(["sku"])


async def test_positional_arguments_have_the_names_of_the_parameters(app, resize):
    await resize.enqueue("a", size=4)
    (lease,) = await (await app.frontier()).claim(1)
    assert lease.request.meta == {"sku": "a", "size": 4}
    for wrong in (("a", 1, 2), ("a", 1)):
        with pytest.raises(RequestError, match=r"takes 2 arguments|'size' twice"):
            await resize.enqueue(*wrong, **({"size": 3} if len(wrong) == 2 else {}))


async def test_rich_types_are_stored_as_plain_data(app):
    @app.task
    async def pack(box: Box, at: dt.datetime, data: bytes = b"") -> None: ...

    await pack.enqueue(box=Box(3, ["a"]), at=dt.datetime(2027, 1, 2, tzinfo=dt.UTC), data=b"\xff")
    (lease,) = await (await app.frontier()).claim(1)
    assert lease.request.meta == {"box": {"width": 3, "tags": ["a"]}, "at": "2027-01-02T00:00:00Z", "data": "/w=="}
    assert pack.spec.arguments.unpack(lease.request.meta) == {
        "box": Box(3, ["a"]),
        "at": dt.datetime(2027, 1, 2, tzinfo=dt.UTC),
        "data": b"\xff",
    }
    with pytest.raises(
        RequestError, match=r"pack\(\) got a wrong argument 'box': expected `int`, got `str` \(at \.width"
    ):
        await pack.enqueue(box={"width": "wide", "tags": []}, at=dt.datetime.now(dt.UTC))


async def test_a_unique_call_is_enqueued_once(app, resize):
    first = await resize.options(unique="order 7/../").enqueue(sku="a")
    second = await resize.options(unique="order 7/../").enqueue(sku="b")
    assert (first.added, second.added, first.id) == (True, False, second.id)
    assert (await (await app.frontier()).admin.stats()).accepted == 1
    with pytest.raises(RequestError, match="unique"):
        await resize.options(unique="x").enqueue_many([{"sku": "a"}])


def test_the_id_of_a_call_is_never_taken_for_an_option_of_a_command():
    ids = [CallOptions().new_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert not [one for one in ids if one.startswith("-")]


async def test_calls_wait_for_their_time_and_their_turn(app, resize):
    late = await resize.options(delay=3600).enqueue(sku="late")
    at = await resize.options(at=time.time() + 3600).enqueue(sku="at")
    low, high = [await resize.options(priority=n).enqueue(sku=str(n)) for n in (-1, 5)]
    assert [await one.status() for one in (late, at, low, high)] == ["delayed", "delayed", "waiting", "waiting"]
    leases = await (await app.frontier()).claim(4)
    assert [lease.url for lease in leases] == [high.url, low.url]
    assert await low.status() == "running"


@pytest.mark.parametrize(
    "options",
    [
        {"at": 1.0, "delay": 1.0},
        {"delay": -1},
        {"at": "now"},
        {"expires": "soon"},
        {"unique": ""},
        {"unique": "\udc80"},
        {"unique": 7},
    ],
)
def test_wrong_options_are_refused(app, resize, options):
    with pytest.raises(RequestError):
        resize.options(**options)


async def test_a_call_that_expires_is_a_dead_letter(app, resize):
    late = await resize.options(expires=time.time() - 1).enqueue(sku="a")
    assert await (await app.frontier()).claim(1) == []
    with pytest.raises(TaskFailed, match="not started by"):
        await late.result(timeout=20)


async def test_plain_code_has_the_same_methods_without_await(app, resize):
    handles = []

    def view():
        handles.append(resize.sync.enqueue(sku="a"))
        handles.extend(resize.sync.enqueue_many([{"sku": "b"}, {"sku": "c"}]))

    threads = [threading.Thread(target=view) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {handle.status() for handle in handles} == {"waiting"}
    assert len({handle.id for handle in handles}) == 9
    assert await resize.handle(handles[0].id).status() == "waiting"


async def test_a_queue_whose_settings_an_operator_has_changed_is_opened(valkey, app):
    frontier = await app.frontier()
    await frontier.admin.set_politeness(Politeness(delay=1))
    async with Tasks(app.name, valkey.url) as again:
        assert (await again.frontier()).layout.settings.politeness.delay == 1
        assert again.sync_frontier().layout.settings.politeness.delay == 1


async def test_a_full_queue_is_an_error(valkey, crawl):
    async with Tasks(crawl, valkey.url, capacity=2) as app:

        @app.task
        async def one() -> None: ...

        with pytest.raises(QueueFull, match=r"2 of 4 calls of one\(\) did not fit"):
            await one.enqueue_many([{}] * 4)


def _gen():
    yield 1


async def _async(): ...


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        (lambda: None, {}, "a function with a name"),
        (_gen, {"name": "gen"}, "is a generator"),
        (_async, {"name": "a", "cpu": True}, "is async and cannot have cpu"),
        (_async, {"name": "Bad Name"}, "lowercase letters"),
        (_async, {"name": "1"}, "lowercase letters"),
        (_async, {"name": 5}, "the name of a task is a string, got 5"),
        (_async, {"name": "a", "retries": 5}, "retries must be Retries, a Backoff or a list of seconds, got 5"),
        (_async, {"name": "a", "retries": ["1s"]}, "backoff steps must be a list of seconds of at least 0, got"),
        (
            _async,
            {"name": "a", "rate": "200000/s"},
            "at most 100000 per second, got '200000/s'; leave it out for no limit",
        ),
        (_async, {"name": "a", "rate": "often"}, "rate must be"),
        (_async, {"name": "a", "concurrency": 0}, "concurrency must be"),
        (_async, {"name": "a", "timeout": 0}, "timeout must be"),
        (_async, {"name": "a", "retries": [1], "max_attempts": 2}, "cannot be used together"),
        (lambda *rows: None, {"name": "a"}, "arguments of a task have names"),
    ],
)
def test_a_wrong_task_is_refused_when_it_is_registered(function, settings, message):
    with pytest.raises(ConfigError, match=message):
        Tasks("wrong").task(**settings)(function)


def test_two_tasks_need_two_names():
    app = Tasks("twice")
    app.task(name="one")(_async)
    with pytest.raises(ConfigError, match="two tasks are named 'one'"):
        app.task(name="one")(_async)


def test_hints_that_cannot_be_read_are_a_clear_error():
    app = Tasks("hints")

    @app.task
    async def broken(box: Missing) -> None: ...  # noqa: F821

    with pytest.raises(ConfigError, match=r"the hints of the task 'broken' cannot be read: name 'Missing'"):
        Crawl.of_tasks(app).check_ready()


def test_a_crawl_with_start_urls_and_tasks_needs_a_handler():
    crawl = Crawl("shop", start=["https://shop.example/"])
    crawl.task(name="one")(_async)
    with pytest.raises(ConfigError, match="has no handler"):
        crawl.check_ready()

    @crawl.handler
    def one(page): ...

    with pytest.raises(ConfigError, match="has a handler and a task named 'one'"):
        crawl.check_ready()


@pytest.mark.parametrize("name", ["shop.example", "localhost"])
def test_a_task_of_a_crawl_cannot_have_the_name_of_a_site_whose_delay_it_would_replace(name):
    crawl = Crawl("shop", start=["https://shop.example/"])

    @crawl.handler
    def page(page): ...

    crawl.task(name=name)(_async)
    with pytest.raises(ConfigError, match=f"the task '{name}' has the name of a site"):
        crawl.check_ready()


def test_a_task_is_still_a_function():
    app = Tasks("callable")

    @app.task
    def double(x: int) -> int:
        """Return twice as much."""
        return 2 * x

    assert (double(4), double.__name__, double.__doc__) == (8, "double", "Return twice as much.")


async def test_a_waiting_call_with_two_small_arguments_takes_few_bytes(app, resize, valkey):
    """RQ takes about 1,100 bytes for such a job."""
    frontier = await app.frontier()
    await resize.enqueue_many({"sku": "a", "size": 3} for _ in range(100))
    with valkey.client() as client:
        before = _memory(client, app.name)
        await resize.enqueue_many({"sku": "a", "size": 3} for _ in range(5000))
        assert (_memory(client, app.name) - before) / 5000 < 60
    await frontier.admin.cancel()


def _memory(client, crawl):
    return sum(client.memory_usage(key, samples=0) for key in client.scan_iter(f"silkline:{{{crawl}:*"))
