"""When a crawl will be full, and its server out of memory, if both grow as they did recently."""

from __future__ import annotations

import math
from collections.abc import Iterable

from silkline.frontier.admin_verbs.stats import CrawlStatus
from silkline.frontier.transport.server_info import Memory

LEAST_SPAN = 60.0
"""Seconds over which growth must be known for a forecast."""


def seconds_until_full(status: CrawlStatus) -> float:
    """Return in how many seconds a crawl reaches its capacity; infinite if it does not grow, or its growth is not known."""
    stats, earlier = status.stats, status.activity.earlier
    if earlier is None or stats.full:
        return 0.0 if stats.full else math.inf
    before = earlier.levels.ready + earlier.levels.delayed
    return _seconds_until(stats.capacity, stats.pending, before, status.activity.time - earlier.time)


def seconds_until_out_of_memory(memory: Memory, crawls: Iterable[CrawlStatus]) -> float:
    """Return in how many seconds a server reaches its memory limit; infinite if it does not grow, or its growth is not known.

    Workers record its memory in the history of their crawl. The crawl with the longest record is used.
    """
    if memory.limit is None or memory.used >= memory.limit:
        return math.inf if memory.limit is None else 0.0
    known = [
        (crawl.activity.time - earlier.time, earlier.levels.server_memory)
        for crawl in crawls
        if (earlier := crawl.activity.earlier) and earlier.levels.server_memory
    ]
    span, before = max(known, default=(0.0, 0))
    return _seconds_until(memory.limit, memory.used, before, span)


def _seconds_until(limit: int, now: int, before: int, span: float) -> float:
    growth = now - before
    return (limit - now) * span / growth if growth > 0 and span >= LEAST_SPAN else math.inf
