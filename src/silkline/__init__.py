"""Silkline: a distributed web-scraping queue and crawler on Redis.

The public names are those in ``__all__`` of this package and of `silkline.errors`, `silkline.fetch`, `silkline.sinks`,
`silkline.testing`, `silkline.scrapy` and `silkline.dashboard`. Everything else is private and may change.

A name is imported when it is first used, so that a program that needs a few of them starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silkline.core.lease import Lease
    from silkline.core.politeness import Budget, Politeness
    from silkline.core.request import Request
    from silkline.core.retries import Backoff, Retries, RetryLater
    from silkline.core.revisit import Revisit
    from silkline.core.scope import Scope
    from silkline.core.verdict import Bury, Complete, Release, RetryIn, Strike
    from silkline.errors import LeaseLost, SilklineError
    from silkline.frontier.frontier import Frontier
    from silkline.frontier.sync import SyncFrontier
    from silkline.frontier.verbs.enqueue import Admission
    from silkline.tasks.app import Tasks
    from silkline.worker.crawl.crawl import Crawl, FetchOptions
    from silkline.worker.crawl.handlers import Drop
    from silkline.worker.crawl.page import Page
    from silkline.worker.options import WorkerOptions
    from silkline.worker.process.run import run
    from silkline.worker.worker import Worker

__all__ = [
    "Admission",
    "Backoff",
    "Budget",
    "Bury",
    "Complete",
    "Crawl",
    "Drop",
    "FetchOptions",
    "Frontier",
    "Lease",
    "LeaseLost",
    "Page",
    "Politeness",
    "Release",
    "Request",
    "Retries",
    "RetryIn",
    "RetryLater",
    "Revisit",
    "Scope",
    "SilklineError",
    "Strike",
    "SyncFrontier",
    "Tasks",
    "Worker",
    "WorkerOptions",
    "run",
]

_HOMES = {
    "Admission": "silkline.frontier.verbs.enqueue",
    "Backoff": "silkline.core.retries",
    "Budget": "silkline.core.politeness",
    "Bury": "silkline.core.verdict",
    "Complete": "silkline.core.verdict",
    "Crawl": "silkline.worker.crawl.crawl",
    "Drop": "silkline.worker.crawl.handlers",
    "FetchOptions": "silkline.worker.crawl.crawl",
    "Frontier": "silkline.frontier.frontier",
    "Lease": "silkline.core.lease",
    "LeaseLost": "silkline.errors",
    "Page": "silkline.worker.crawl.page",
    "Politeness": "silkline.core.politeness",
    "Release": "silkline.core.verdict",
    "Request": "silkline.core.request",
    "Retries": "silkline.core.retries",
    "RetryIn": "silkline.core.verdict",
    "RetryLater": "silkline.core.retries",
    "Revisit": "silkline.core.revisit",
    "Scope": "silkline.core.scope",
    "SilklineError": "silkline.errors",
    "Strike": "silkline.core.verdict",
    "SyncFrontier": "silkline.frontier.sync",
    "Tasks": "silkline.tasks.app",
    "Worker": "silkline.worker.worker",
    "WorkerOptions": "silkline.worker.options",
    "run": "silkline.worker.process.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'silkline' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
