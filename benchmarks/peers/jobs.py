"""The jobs of the task queues: they do nothing, so that only the queue is measured."""

from typing import Any


def two_arguments(url: str) -> dict[str, Any]:
    """Return two small arguments: the article number at the end of a URL, and a number. Those of one call differ from those of the next."""
    return {"sku": url[-6:], "size": len(url) % 10}


def visit(url: str) -> None:
    """RQ's job."""


def resize(sku: str, size: int) -> None:
    """RQ's job with two small arguments."""


async def visit_async(context: Any, url: str) -> None:
    """SAQ's and arq's job."""
