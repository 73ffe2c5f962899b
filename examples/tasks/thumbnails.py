"""Three kinds of tasks, and one that recurs.

Run its worker: silkline worker examples/tasks/thumbnails.py
"""

import asyncio
import time

from silkline import Tasks

app = Tasks("thumbnails")


@app.task(concurrency=4, rate="50/s", retries=[1, 10, 60], timeout=30)
async def fetch(sku: str) -> int:
    """An async task runs on the event loop of the worker: for I/O."""
    await asyncio.sleep(0.01)
    return len(sku)


@app.task
def record(sku: str, size: int) -> str:
    """A plain function runs in a thread: for libraries that block."""
    time.sleep(0.01)
    return f"{sku}: {size}"


@app.task(cpu=True, timeout=20)
def resize(sku: str, sizes: list[int]) -> dict[str, int]:
    """With cpu=True, it runs in another process, which is killed when the time is over."""
    return {f"{sku}-{size}": sum(range(size)) for size in sizes}


@app.task(every=3600)
async def clean_up() -> None:
    """Called once an hour, by one of all workers."""
