"""Enqueues ticks or a call, or cancels one, in a process of its own, and dies at a given step.

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
