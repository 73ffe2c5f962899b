"""The job of the task queues: it does nothing, so that only the queue is measured."""

from typing import Any


def visit(url: str) -> None:
    """RQ's job."""


def resize(sku: str, size: int) -> None:
    """RQ's job with two small arguments."""


async def visit_async(context: Any, url: str) -> None:
    """SAQ's and arq's job."""
