"""Silkline: a distributed web-scraping queue and crawler on Redis."""

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
