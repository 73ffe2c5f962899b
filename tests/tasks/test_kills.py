"""A process may be killed between any two steps: no tick is lost or run twice, each call ends once, and so does each group."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path

import pytest

from silkline import Complete, Frontier
from silkline.tasks.schedule import Ticker
from tests.tasks.victim import enqueue_after, enqueue_group, tasks

VICTIM = Path(__file__).with_name("victim.py")


@pytest.fixture
async def die(clock):
    """Does it in another process, which is killed at that step. Returns whether it survived: there was no such step."""
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    victim = await asyncio.create_subprocess_exec(sys.executable, VICTIM, **pipes)

    async def die(frontier, deed, step, id_=""):
        settings = {"url": frontier.url, "crawl": frontier.crawl, "deed": deed, "step": step, "now": clock()}
        victim.stdin.write(json.dumps({**settings, "id_": id_}).encode() + b"\n")
        code = int(await victim.stdout.readline())
        assert code in (0, -9)
        return code == 0

    yield die
    victim.stdin.close()
    await victim.wait()


@pytest.fixture
async def each_step(valkey, crawl, clock):
    """Yields a frontier for each step until the victim survives one; a step has a queue of its own."""

    async def steps(deed):
        for step in itertools.count():
            app, mail = tasks(f"{crawl}-{step}")
            async with await Frontier.open(valkey.url, crawl=app.name, clock=clock, **app.arguments) as frontier:
                app.use(frontier)
                outcome = {}
                yield step, frontier, app, mail, outcome
                assert (await frontier.admin.stats()).conserved
            if outcome["survived"]:
                assert step >= {"tick": 4, "enqueue": 1, "group": 8, "after": 6, "complete": 9}.get(deed, 3)
                return

    return steps


async def test_the_process_that_enqueues_ticks_may_be_killed_at_any_step(each_step, die, clock):
    async for step, frontier, app, _, outcome in each_step("tick"):
        outcome["survived"] = await die(frontier, "tick", step)
        ran = []
        for _ in range(4):
            await Ticker(frontier, app.specs).enqueue_next()
            clock.advance(60)
            leases = await frontier.claim(9)
            ran += [lease.url.rpartition("-")[2] for lease in leases]
            for lease in leases:
                await frontier.complete(lease)
        assert len(ran) == len(set(ran)) == 4, (step, ran)
        assert ran == sorted(ran)


async def test_the_process_that_enqueues_a_call_may_be_killed_at_any_step(each_step, die):
    """Its caller does not know whether the call was enqueued, and enqueues it again under its unique key."""
    async for step, frontier, _, mail, outcome in each_step("enqueue"):
        outcome["survived"] = await die(frontier, "enqueue", step, "order-7")
        await mail.options(unique="order-7").enqueue(to="a")
        (lease,) = await frontier.claim(9)
        await frontier.complete(lease)


@pytest.mark.parametrize("state", ["waiting", "delayed", "running"])
async def test_the_process_that_cancels_a_call_may_be_killed_at_any_step(each_step, die, clock, state):
    async for step, frontier, _, mail, outcome in each_step("cancel"):
        handle = await mail.options(at=clock.seconds + 3600 * (state == "delayed")).enqueue(to="a")
        leases = await frontier.claim(9) if state == "running" else []
        outcome["survived"] = await die(frontier, "cancel", step, handle.id)
        status = await handle.status()
        assert status in (state, "cancelled"), step
        assert await handle.cancel() is (status == state)
        assert await handle.status() == "cancelled"
        assert (await frontier.settle([(lease, Complete(result=1)) for lease in leases])).lost == leases
        clock.advance(3600)
        assert await frontier.claim(9) == []
        assert (await frontier.admin.stats()).dead == 1
        assert outcome["survived"] <= (status == "cancelled")


async def run_all(frontier, clock):
    """Run all calls in the order in which they come, also those of a worker that was lost. Returns to whom they were."""
    ran = []
    for _ in range(4):  # as other workers look for what was left
        clock.advance(60)
        await frontier.internal.report_ended()
        while leases := await frontier.claim(9):
            for lease in leases:
                ran.append(lease.request.meta["to"])
                await frontier.complete(lease)
    return ran


async def test_the_process_that_enqueues_a_group_may_be_killed_at_any_step(each_step, die, clock):
    """It is started again: calls without a unique key run again, and the callback still waits for all of them, and runs once."""
    async for step, frontier, _, mail, outcome in each_step("group"):
        outcome["survived"] = await die(frontier, "group", step)
        await enqueue_group(mail)
        ran = await run_all(frontier, clock)
        assert ran.count("callback") == ran.count("a") == ran.count("b") == 1, step
        assert set(ran[:-1]) == {"a", "b", "c"}, (step, ran)
        assert ran[-1] == "callback"
        assert await frontier.internal.groups() == []


async def test_the_process_that_enqueues_a_call_after_others_may_be_killed_at_any_step(each_step, die, clock):
    """One of the others has ended before."""
    async for step, frontier, _, mail, outcome in each_step("after"):
        for to in ("a", "b"):
            await mail.options(unique=to).enqueue(to=to)
        (lease,) = await frontier.claim(1)
        await frontier.complete(lease)
        outcome["survived"] = await die(frontier, "after", step)
        await enqueue_after(mail)
        ran = await run_all(frontier, clock)
        assert ran == ["b", "callback"], step
        assert await frontier.internal.groups() == []


async def test_the_worker_that_ends_the_calls_of_a_group_may_be_killed_at_any_step(each_step, die, clock):
    async for step, frontier, _, mail, outcome in each_step("complete"):
        await enqueue_group(mail)
        outcome["survived"] = await die(frontier, "complete", step)
        ran = await run_all(frontier, clock)
        assert ran.count("callback") <= 1, step
        assert (await frontier.admin.stats()).done == 4, step
        assert await frontier.internal.groups() == []
