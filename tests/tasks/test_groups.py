"""Calls that wait for others, and groups with a callback."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from silkline import Bury, Complete, Frontier, Tasks
from silkline.errors import QueueFull, RequestError, TaskFailed
from silkline.frontier.transport.command import ask
from silkline.frontier.transport.connection import drive
from silkline.frontier.verbs.settle import settle_command
from silkline.tasks.reporter import GroupReporter
from silkline.testing import MemoryTasks


def declared(app):
    """A task whose calls are waited for, and one whose calls wait."""

    @app.task(max_attempts=2)
    async def step(x: int = 0) -> int:
        if x < 0:
            raise ValueError(x)
        return x

    @app.task(name="finish")  # with several shards, it is on another one
    async def report(title: str = "") -> str:
        return title

    return step, report


@pytest.fixture(params=["server", "cluster", "memory"])
async def place(request, servers, crawl, clock):
    """An application with these tasks: on a server, with four shards on a cluster, or in memory."""
    app = Tasks(crawl)
    step, report = declared(app)
    if request.param == "memory":
        async with MemoryTasks(app) as memory:
            yield memory.frontier, memory.clock, step, report
            return
    server = servers({"server": "valkey", "cluster": "cluster"}[request.param])
    shards = 4 if request.param == "cluster" else 1
    async with await Frontier.open(server.url, crawl=crawl, clock=clock, shards=shards, **app.arguments) as frontier:
        app.use(frontier)
        yield frontier, clock, step, report
        assert (await frontier.admin.stats()).conserved


@pytest.fixture
def steps(app):
    return declared(app)


async def run(frontier, **outcomes):
    """Run all calls that are ready, as a worker does. Returns their URLs in order."""
    ran = []
    while leases := await frontier.claim(1000):
        ran += [lease.url for lease in leases]
        verdicts = [(lease, outcomes.get(str(lease.request.meta.get("x")), Complete())) for lease in leases]
        await frontier.settle(verdicts)
    return ran


async def test_a_call_runs_after_those_that_it_waits_for(place):
    frontier, _, step, report = place
    handles = await step.enqueue_many([{"x": 1}, {"x": 2}])
    waiting = await report.options(after=handles).enqueue("all")
    assert await waiting.status() == "delayed"
    first, second = await frontier.claim(9)
    await frontier.complete(first)
    assert await frontier.claim(9) == []
    await frontier.settle([(second, Complete(result=2))])
    (lease,) = await frontier.claim(9)
    assert (lease.url, lease.request.meta) == (waiting.url, {"title": "all"})


async def test_a_call_may_wait_for_one_handle_or_for_none_that_is_left(place):
    frontier, _, step, report = place
    handle = await step.enqueue()
    (lease,) = await frontier.claim(1)
    await frontier.settle([(lease, Complete(result=1))])
    ended = await report.options(after=handle).enqueue("one")
    unknown = await report.options(after=[step.handle("unknown")]).enqueue("unknown")
    assert await run(frontier) == [ended.url, unknown.url]
    assert await frontier.internal.groups() == []


async def test_a_call_with_a_unique_key_is_waited_for_before_it_is_enqueued(place):
    frontier, _, step, report = place
    waiting = await report.options(after=step.handle(unique="order 7")).enqueue()
    assert await frontier.claim(1) == []
    call = await step.options(unique="order 7").enqueue()
    assert call.id == step.handle(unique="order 7").id
    assert await run(frontier) == [call.url, waiting.url]
    late = await report.options(after=call).enqueue()
    assert await run(frontier) == [late.url]
    for wrong in ({}, {"id_": "x", "unique": "y"}):
        with pytest.raises(RequestError, match="by the id of its call, or by its unique key"):
            step.handle(**wrong)


async def test_a_callback_is_enqueued_when_its_group_is_done(place):
    frontier, _, step, report = place
    async with report.group("all") as group:
        handles = await step.options(group=group).enqueue_many([{"x": x} for x in range(1200)])
        assert len({handle.id for handle in handles}) == 1200
    state = await group.state()
    assert (state.url, state.calls, state.left, state.closed) == (group.callback.url, 1200, 1200, True)
    ran = await run(frontier)
    assert set(ran[:-1]) == {handle.url for handle in handles}
    assert ran[-1] == group.callback.url
    assert await group.state() is None


async def test_calls_may_end_before_their_group_is_closed(place):
    frontier, _, step, report = place
    async with report.group() as group:
        for x in range(3):
            await step.options(group=group).enqueue(x)
            assert len(await run(frontier)) == 1
    assert await run(frontier) == [group.callback.url]


async def test_the_callback_of_an_empty_group_runs_at_once(place):
    frontier, _, _, report = place
    async with report.group() as group:
        assert await frontier.claim(1) == []
    assert await run(frontier) == [group.callback.url]


@pytest.mark.parametrize("how", ["buried", "cancelled", "deleted", "deleted with its task"])
async def test_if_a_call_fails_the_one_that_waits_is_a_dead_letter(place, how):
    frontier, _, step, report = place
    async with report.group() as group:
        bad, _ = await step.options(group=group).enqueue_many([{"x": -1}, {"x": 1}])
    if how == "cancelled":
        assert await bad.cancel()
    elif how == "deleted":
        (listed,) = [one for one in (await frontier.admin.requests(host="step")).requests if one.url == bad.url]
        assert await frontier.admin.drop([listed.id]) == 1
        await frontier.internal.report_ended()
    elif how == "deleted with its task":
        (first,) = await frontier.claim(1)
        assert await frontier.admin.cancel("step") == 1
        await frontier.settle([(first, Complete())])
        await frontier.internal.report_ended()
    assert group.callback.url not in await run(frontier, **{"-1": Bury("no")})
    assert await group.callback.status() == "failed"
    (letter,) = [one for one in await frontier.admin.dead() if one.url == group.callback.url]
    assert letter.reason == "1 of the 2 calls that it waited for failed"
    assert await frontier.admin.revive(id=letter.id) == 1
    assert await run(frontier) == [group.callback.url]


async def test_with_allow_failure_it_runs(place):
    frontier, _, step, report = place
    async with report.options(allow_failure=True).group() as group:
        bad = await step.options(group=group).enqueue(-1)
    after = await report.options(after=[bad], allow_failure=True).enqueue("after")
    assert set(await run(frontier, **{"-1": Bury("no")})) == {bad.url, group.callback.url, after.url}
    late = await report.options(after=[bad]).enqueue("late")
    assert await late.status() == "failed"


async def test_a_call_that_is_tried_again_has_not_ended(place):
    frontier, clock, step, report = place
    await report.options(after=await step.enqueue()).enqueue()
    (lease,) = await frontier.claim(1)
    await frontier.retry(lease, 60)
    assert await frontier.claim(9) == []
    clock.advance(60)
    assert len(await run(frontier)) == 2


async def test_a_call_that_is_revived_after_the_callback_does_not_call_it_again(place):
    frontier, _, step, report = place
    async with report.options(allow_failure=True).group() as group:
        bad = await step.options(group=group).enqueue(-1)
    assert await run(frontier, **{"-1": Bury("no")}) == [bad.url, group.callback.url]
    assert await frontier.admin.revive() == 1
    assert await run(frontier) == [bad.url]


async def test_chains_and_groups_of_groups(place):
    frontier, _, step, report = place
    before = await step.enqueue(0)
    async with report.group("outer") as outer:
        async with report.options(group=outer, after=before).group("inner") as inner:
            await step.options(group=inner).enqueue_many([{"x": 1}, {"x": 2}])
        late = await step.options(group=outer, after=inner.callback).enqueue(3)
    last = await report.options(after=[inner.callback, outer.callback]).enqueue("last")
    ran = await run(frontier)
    assert len(ran) == 7
    assert ran[3:] == [inner.callback.url, late.url, outer.callback.url, last.url]


async def test_a_failure_passes_through_a_chain(place):
    frontier, _, step, report = place
    first = await step.enqueue(-1)
    second = await report.options(after=first).enqueue("second")
    third = await report.options(after=second).enqueue("third")
    assert await run(frontier, **{"-1": Bury("no")}) == [first.url]
    assert [await handle.status() for handle in (second, third)] == ["failed", "failed"]


async def test_two_groups_may_share_a_call(place):
    frontier, _, step, report = place
    groups = []
    for title in ("one", "two"):
        async with report.group(title) as group:
            shared = await step.options(unique="shared", group=group).enqueue(1)
            assert shared.added is (title == "one")
        groups.append(group)
    ran = await run(frontier)
    assert (ran[0], set(ran[1:])) == (shared.url, {group.callback.url for group in groups})
    async with report.group("three") as third:  # it has ended before
        await step.options(unique="shared", group=third).enqueue(1)
    assert await run(frontier) == [third.callback.url]


async def test_a_group_with_a_unique_callback_is_continued(place):
    frontier, _, step, report = place
    first = report.options(unique="all").group()
    with suppress(ZeroDivisionError):
        async with first:
            await step.options(group=first, unique="1").enqueue(1)
            raise ZeroDivisionError
    assert len(await run(frontier)) == 1
    async with report.options(unique="all").group() as second:
        await step.options(group=second, unique="1").enqueue(1)
        await step.options(group=second, unique="2").enqueue(2)
    assert (first.added, second.added) == (True, False)
    ran = await run(frontier)
    assert (len(ran), ran[-1]) == (2, second.callback.url)
    async with report.options(unique="all").group() as third:
        extra = await step.options(group=third).enqueue(3)
    assert await run(frontier) == [extra.url]


async def test_after_an_exception_the_callback_is_dropped(place):
    frontier, _, step, report = place
    with suppress(ZeroDivisionError):
        async with report.group() as group:
            call = await step.options(group=group).enqueue(1)
            raise ZeroDivisionError
    assert await run(frontier) == [call.url]
    assert await frontier.internal.groups() == []
    assert (await frontier.admin.stats()).delayed == 0


async def test_a_group_counts_a_callback_that_was_dropped_as_failed(place):
    frontier, _, _, report = place
    async with report.options(allow_failure=True).group("outer") as outer:
        with suppress(ZeroDivisionError):
            async with report.options(group=outer).group("inner"):
                raise ZeroDivisionError
    await frontier.internal.report_ended()
    assert await run(frontier) == [outer.callback.url]


async def test_a_callback_that_cannot_join_a_group_is_dropped(place):
    frontier, _, _, report = place
    async with report.group("outer") as outer:
        pass
    with pytest.raises(RequestError, match="is closed: its callback does not wait for these calls"):
        await report.options(group=outer).group("inner").open()
    assert await frontier.internal.groups() == []
    assert await run(frontier) == [outer.callback.url]
    assert await frontier.finished()


async def test_many_programs_may_enqueue_a_call_with_a_unique_key_that_waits_at_once(place):
    frontier, _, step, report = place
    call = await step.enqueue()
    once = report.options(unique="once", after=call)
    handles = await asyncio.gather(*(once.enqueue() for _ in range(20)))
    assert [handle.added for handle in handles].count(True) == 1
    assert await run(frontier) == [call.url, handles[0].url]


async def test_a_call_that_waits_too_long_is_a_dead_letter(place):
    frontier, clock, step, report = place
    waiting = await report.options(after=await step.enqueue(), expires=clock.seconds + 60).enqueue()
    (lease,) = await frontier.claim(1)
    clock.advance(61)
    await frontier.internal.report_ended()
    (letter,) = await frontier.admin.dead()
    assert (letter.url, letter.reason) == (
        waiting.url, "expired: 1 of the 1 calls that it waited for have not ended",
    )  # fmt: skip
    await frontier.settle([(lease, Complete())])
    assert await frontier.claim(1) == []


async def test_explain_says_what_a_call_waits_for(place):
    frontier, _, step, report = place
    async with report.options(allow_failure=True).group() as group:
        await step.options(group=group).enqueue_many([{"x": -1}, {"x": 1}])
        (lease,) = await frontier.claim(1)
        await frontier.bury(lease, "no")
        text = (await frontier.admin.explain(group.callback.url)).text
        assert "it waits for 1 of 2 calls, 1 of the others failed; more may join, because" in text
    text = (await frontier.admin.explain(group.callback.url)).text
    assert text.startswith("delayed: it waits for 1 of 2 calls, 1 of the others failed; if they do not end, it becomes")


async def test_a_call_that_waits_can_be_cancelled_and_made_to_run_early(place):
    frontier, _, step, report = place
    call = await step.enqueue()
    cancelled, early = [await report.options(after=call).enqueue(title) for title in ("cancelled", "early")]
    assert await cancelled.cancel()
    (listed,) = (await frontier.admin.requests("delayed")).requests
    assert await frontier.admin.promote([listed.id]) == 1
    assert await cancelled.status() == "cancelled"
    assert set(await run(frontier)) == {call.url, early.url}
    assert await frontier.internal.groups() == []


async def test_options_of_the_call_that_waits_still_apply(place):
    frontier, clock, step, report = place
    call = await step.enqueue()
    late = await report.options(after=call, at=clock.seconds + 60, priority=7).enqueue()
    assert await run(frontier) == [call.url]
    clock.advance(60)
    (lease,) = await frontier.claim(1)
    assert (lease.url, lease.request.priority) == (late.url, 7)


async def test_misuse_is_an_error(place):
    frontier, _, step, report = place
    group = report.group()
    with pytest.raises(RequestError, match="is not open"):
        await step.options(group=group).enqueue()
    async with group:
        pass
    with pytest.raises(RequestError, match="is closed: its callback does not wait for these calls"):
        await step.options(group=group).enqueue()
    other, _ = declared(Tasks("other"))
    with pytest.raises(RequestError, match="is a call of 'other', and cannot be waited for in"):
        report.options(after=[other.handle("x")])
    for wrong in ({"after": ["x"]}, {"after": 7}, {"group": "x"}, {"allow_failure": 1}):
        with pytest.raises(RequestError, match=f"{next(iter(wrong))} "):
            report.options(**wrong)
    with pytest.raises(RequestError, match="at most 1000 handles, got 1001; use a group"):
        report.options(after=[step.handle(str(n)) for n in range(1001)])
    with pytest.raises(RequestError, match="cannot wait for itself"):
        await report.options(unique="self", after=[report.handle("=self")]).enqueue()
    async with report.options(unique="me").group() as mine:
        with pytest.raises(RequestError, match="cannot be in the group that it waits for"):
            await report.options(unique="me", group=mine).enqueue()
    with pytest.raises(RequestError, match="await its enqueue"):
        step.options(group=group).request()
    assert (await frontier.admin.stats()).dead == 0


async def test_calls_that_do_not_fit_are_not_waited_for(servers, crawl):
    async with Tasks(crawl, servers("valkey").url, capacity=3) as app:
        step, report = declared(app)
        async with report.options(unique="all").group() as group:
            with pytest.raises(QueueFull, match="2 of 4 calls"):
                await step.options(group=group).enqueue_many([{"x": x} for x in range(4)])
        with pytest.raises(QueueFull, match="did not fit"):
            await report.options(after=step.handle("x")).enqueue()
        frontier = await app.frontier()
        ran = await run(frontier)
        assert (len(ran), ran[-1]) == (3, group.callback.url)


async def test_workers_run_groups(app, steps, work):
    """One with a failing call, and one of plain code: `sync` has the same methods without await."""
    step, report = steps

    def plain():
        with report.options(allow_failure=True).sync.group("plain") as group:
            calls = step.options(group=group).sync.enqueue_many([{"x": -1}, {"x": 1}])
            assert group.state().calls == 2
        last = report.options(after=[group.callback, *calls], allow_failure=True).sync.enqueue("last")
        return last.result(timeout=60)

    async with work(app):
        async with report.group("all") as group:
            await step.options(group=group).enqueue_many([{"x": x} for x in range(100)])
        assert await group.callback.result(timeout=60) == "all"
        assert await asyncio.to_thread(plain) == "last"
        async with report.group("never") as bad:
            await step.options(group=bad).enqueue(-1)
        with pytest.raises(TaskFailed, match="1 of the 1 calls that it waited for failed"):
            await bad.callback.result(timeout=60)


async def test_a_worker_reports_what_a_process_has_left_that_died(app, steps):
    step, report = steps
    waiting = await report.options(after=await step.enqueue()).enqueue()
    frontier = await app.frontier()
    (lease,) = await frontier.claim(1)
    command = settle_command(frontier.layout, 0, [(lease, Complete())], 0)  # its process dies after this
    assert (await drive(frontier._connection, ask(command))).noted
    assert await frontier.claim(1) == []
    reporter = asyncio.create_task(GroupReporter(frontier, every=0.01).run())
    leases = await frontier.claim(1, wait=60)
    reporter.cancel()
    assert [lease.url for lease in leases] == [waiting.url]


async def test_a_removed_crawl_leaves_no_keys_of_groups(servers, crawl):
    server = servers("valkey")
    app = Tasks(crawl, server.url)
    step, report = declared(app)
    async with app:
        async with report.group() as group:
            await step.options(group=group).enqueue_many([{"x": 1}, {"x": 2}])
            await step.options(group=group, unique="u").enqueue(3)
        frontier = await app.frontier()
        assert len(await frontier.claim(1)) == 1
        assert (await frontier.admin.fsck()).sound
        await frontier.admin.remove()
    with server.client() as client:
        left = {key.rpartition(b":")[0] for key in client.scan_iter(f"silkline:{{{crawl}*")}
        assert {key.partition(b"}:")[2].partition(b":")[0] for key in left} <= {b"once"}


async def test_a_group_takes_two_bytes_for_each_call(servers, crawl):
    server = servers("valkey")
    async with Tasks(crawl, server.url) as app:
        step, report = declared(app)
        async with report.group() as group:
            await step.options(group=group).enqueue_many([{"x": 1}] * 20_000)
        frontier = await app.frontier()
        root = frontier.layout.shards[0].root
        with server.client() as client:
            names = [f"{root}:group:finish/{group.callback.id}", f"{root}:watches", f"{root}:watch_times"]
            size = sum(client.memory_usage(name, samples=0) for name in names)
        assert size < 3 * 20_000
