"""Silkline: a distributed web-scraping queue and crawler on Redis.

The names below are imported when they are first asked for: a program that needs a few of them starts sooner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silkline.core.backoff import Backoff
    from silkline.core.budget import Budget
    from silkline.core.errors import LeaseLost, SilklineError
    from silkline.core.lease import Admission, Lease
    from silkline.core.politeness import Politeness
    from silkline.core.request import Request
    from silkline.core.retries import Retries
    from silkline.core.scope import Scope
    from silkline.core.verdict import Bury, Complete, Release, RetryIn
    from silkline.frontier.frontier import Frontier
    from silkline.frontier.sync import SyncFrontier
    from silkline.worker.crawl import Crawl, Fetching
    from silkline.worker.page import Page
    from silkline.worker.run import run
    from silkline.worker.steering import Drop, RetryLater
    from silkline.worker.worker import Worker

__all__ = [
    "Admission",
    "Backoff",
    "Budget",
    "Bury",
    "Complete",
    "Crawl",
    "Drop",
    "Fetching",
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
    "Scope",
    "SilklineError",
    "SyncFrontier",
    "Worker",
    "run",
]

_HOMES = {
    "Admission": "silkline.core.lease",
    "Backoff": "silkline.core.backoff",
    "Budget": "silkline.core.budget",
    "Bury": "silkline.core.verdict",
    "Complete": "silkline.core.verdict",
    "Crawl": "silkline.worker.crawl",
    "Drop": "silkline.worker.steering",
    "Fetching": "silkline.worker.crawl",
    "Frontier": "silkline.frontier.frontier",
    "Lease": "silkline.core.lease",
    "LeaseLost": "silkline.core.errors",
    "Page": "silkline.worker.page",
    "Politeness": "silkline.core.politeness",
    "Release": "silkline.core.verdict",
    "Request": "silkline.core.request",
    "Retries": "silkline.core.retries",
    "RetryIn": "silkline.core.verdict",
    "RetryLater": "silkline.worker.steering",
    "Scope": "silkline.core.scope",
    "SilklineError": "silkline.core.errors",
    "SyncFrontier": "silkline.frontier.sync",
    "Worker": "silkline.worker.worker",
    "run": "silkline.worker.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'silkline' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
