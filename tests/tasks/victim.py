"""Enqueues ticks, calls or a group, or ends them, in a process of its own, and dies at a given step.

Run by the tests as ``python victim.py``. Each line of its input is what a new child does; it writes how the child ended. A step is
before each command; what is after one is before the next.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from silkline import Frontier, Tasks
from silkline.tasks.schedule import Ticker

MINUTE = 60_000


def tasks(crawl):
    """The tasks of the victim and of the tests."""
    app = Tasks(crawl)

    @app.task(every=60)
    async def beat() -> None: ...

    @app.task
    async def mail(to: str = "") -> None: ...

    return app, mail


async def enqueue_group(mail):
    """Enqueue three calls and a callback; a second time only what is missing."""
    async with mail.options(unique="callback").group(to="callback") as group:
        for to in ("a", "b"):
            await mail.options(unique=to, group=group).enqueue(to=to)
        await mail.options(group=group).enqueue_many([{"to": "c"}])


async def enqueue_after(mail):
    """Enqueue a call that waits for two others, which were enqueued before."""
    await mail.options(unique="callback", after=[mail.handle("=a"), mail.handle("=b")]).enqueue(to="callback")


async def complete_all(frontier):
    """Run every call that is ready."""
    while leases := await frontier.claim(2):
        for lease in leases:
            await frontier.complete(lease)


def arm(connection, left):
    """Kill this process before the command after so many."""
    call = connection._call

    async def called(sent, **options):
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return await call(sent, **options)

    connection._call = called


async def main(url, crawl, deed, step, now, id_):
    async with await Frontier.open(url, crawl=crawl, create=False, clock=lambda: now) as frontier:
        app, mail = tasks(crawl)
        app.use(frontier)
        arm(frontier._connection, step)
        if deed == "tick":
            ticker = Ticker(frontier, app.specs)
            await ticker.enqueue_next()
            now += MINUTE
            await ticker.enqueue_next()
        elif deed == "group":
            await enqueue_group(mail)
        elif deed == "after":
            await enqueue_after(mail)
        elif deed == "complete":
            await complete_all(frontier)
        elif deed == "enqueue":
            await mail.options(unique=id_).enqueue(to="a")
        else:
            await mail.handle(id_).cancel()
        arm(frontier._connection, -1)


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(main(**json.loads(line)))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
