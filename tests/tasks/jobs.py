"""Tasks with ``cpu=True``: they must be at the top level of a module, because another process loads it."""

from __future__ import annotations

import math
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path

from silkline import RetryLater, Tasks

app = Tasks("jobs")
other = Tasks("other-jobs")


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
def eats_memory(mebibytes: int) -> int:
    return len([b"x" * 2**20 for _ in range(mebibytes)])


@app.task(cpu=True)
def reports(file: str) -> str:
    reports.report_progress(0.5, "halfway")
    while not Path(file).exists():
        time.sleep(0.01)
    for number in range(1000):
        reports.report_progress(number / 1000, "at the end")
    return "done"


@app.task(cpu=True)
def huge() -> str:
    return "x" * 50_000_000


class Unreadable(Exception):
    """An exception whose message cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError


@app.task(cpu=True)
def fails(how: str) -> None:
    raise Unreadable if how == "unreadable" else ValueError("\udcff")


@app.task(cpu=True, retries=[600])
def asks_for_retry(after: float) -> None:
    raise RetryLater(after, "the printer is busy")


@app.task(cpu=True)
def lacks() -> None:
    raise ModuleNotFoundError("No module named 'pictures'", name="pictures")


@app.task(cpu=True)
def is_nan(number: float, names: dict[int, str]) -> tuple[bool, dict[int, str]]:
    return math.isnan(number), names


@app.task(cpu=True, keep=0)
def quiet() -> object:
    return object()


@other.task(name="whose", cpu=True)
def whose_other() -> str:
    return "the other application"


@app.task(cpu=True)
def whose() -> str:
    return "this application"
