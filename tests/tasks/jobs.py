"""Tasks with ``cpu=True``: they must be at the top level of a module, because another process loads it."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

from silkline import Tasks

app = Tasks("jobs")


@asynccontextmanager
async def connected(crawl, url):
    """Give the tasks of this module a queue of their own."""
    app.name, app.redis = crawl, url
    async with app:
        yield app


@app.task(cpu=True, timeout=0.2)
def spins() -> None:
    while True:
        pass


@app.task(cpu=True)
def pid() -> int:
    print("this is not a reply")
    return os.getpid()


@app.task(cpu=True)
def enqueues() -> str:
    return divides.sync.enqueue(1).id


@app.task(cpu=True)
def divides(x: int) -> int:
    return 1 // x


@app.task(cpu=True)
def dies() -> None:
    os._exit(3)


@app.task(cpu=True)
def huge() -> str:
    return "x" * 50_000_000
