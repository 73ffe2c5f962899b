"""The three subjects of the contract, made alike."""

from __future__ import annotations

import inspect
from functools import wraps

from silkline import Frontier, Politeness, Request, SyncFrontier
from silkline.frontier.locks.sync_locks import SyncHold
from silkline.testing import MemoryFrontier

AT_ONCE = Politeness(delay=0, concurrency=1000)
"""No politeness at all, for tests of something else."""


OPENED_AT_ONCE = ("lock", "semaphore", "limiter", "inbox")


class Awaited:
    """A `SyncFrontier` whose every call can be awaited; so can those of its admin, its internals, and what it opens: an inbox, locks."""

    def __init__(self, frontier):
        self._frontier = frontier

    @classmethod
    async def open(cls, *arguments, **settings):
        return cls(SyncFrontier.open(*arguments, **settings))

    def __getattr__(self, name):
        found = getattr(self._frontier, name)
        if name in ("admin", "internal"):
            return Awaited(found)
        if name in OPENED_AT_ONCE:
            return lambda *arguments, **options: Awaited(found(*arguments, **options))
        if not inspect.ismethod(found):
            return found

        @wraps(found)
        async def awaited(*arguments, **options):
            answer = found(*arguments, **options)
            return Awaited(answer) if isinstance(answer, SyncHold) else answer

        return awaited

    async def __aenter__(self):
        return Awaited(self._frontier.__enter__())

    async def __aexit__(self, *error):
        self._frontier.__exit__(*error)


SUBJECTS = {"Frontier": Frontier, "SyncFrontier": Awaited, "MemoryFrontier": MemoryFrontier}


def urls(leases):
    return [lease.url for lease in leases]


def paths(leases):
    """What tells requests of one host apart at a glance."""
    return [lease.url.partition("example/")[2] for lease in leases]


def hosts_of(leases):
    return [lease.host for lease in leases]


def page(number, host="a.example", **fields):
    return Request(f"https://{host}/{number}", **fields)
