"""The job of the task queues: it does nothing, so that only the queue is measured."""

from typing import Any


def visit(url: str) -> None:
    """RQ's job."""


async def visit_async(context: Any, url: str) -> None:
    """SAQ's and arq's job."""
