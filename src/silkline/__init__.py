"""Silkline: a distributed web-scraping queue and crawler on Redis."""

from silkline.core.backoff import Backoff
from silkline.core.budget import Budget
from silkline.core.errors import LeaseLost, SilklineError
from silkline.core.lease import Admission, Lease
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Release, RetryIn
from silkline.frontier.frontier import Frontier
from silkline.frontier.sync import SyncFrontier

__all__ = [
    "Admission",
    "Backoff",
    "Budget",
    "Bury",
    "Complete",
    "Frontier",
    "Lease",
    "LeaseLost",
    "Politeness",
    "Release",
    "Request",
    "RetryIn",
    "SilklineError",
    "SyncFrontier",
]
