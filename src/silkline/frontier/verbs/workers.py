"""The workers of a crawl: their state, what they lack, and the orders of operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from silkline.core.url import is_host
from silkline.errors import ConfigError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.command import Command, load

DEFAULT_EXPIRY = 30.0
"""Seconds for which a worker counts as alive after its last heartbeat."""
MAX_NAME = 200
MAX_INFO = 8000
"""Maximum size of the JSON that a worker reports, including its pages in progress."""
WorkerOrder = Literal["work", "quiet", "stop"]
"""An order of an operator: quiet (claim nothing more), stop (finish the pages in progress and leave) or work (continue)."""
MOST_REPORTED_TASKS = 100
TOO_LATE = 2**40
"""Unix time after which no tick is believed."""
ALL_WORKERS = 1000
"""The most workers that a call lists. Who needs all workers of a crawl asks for this many."""
KEEP_LOST = 3600.0
"""Seconds for which a worker without heartbeats is still listed; join.lua has the same."""


class WorkerState(NamedTuple):
    """A worker of a crawl, alive or lost. Times are unix times of the server."""

    name: str
    alive: bool
    joined: float
    beat: float
    """Time of its last heartbeat."""
    info: dict[str, Any]
    """What it reported about itself."""
    order: WorkerOrder = "work"
    """The last order of an operator."""


HANDLER, PACKAGE, PRIVATE = "handler:", "package:", "private"
"""What a page may need of a worker, as workers report it: ``handler:NAME``, ``package:NAME``, ``private``."""


class MissingCapability(NamedTuple):
    """Something that pages need, and because of which workers released them."""

    need: str
    pages: int
    """Pages that were released and wait until they can be claimed again."""
    workers: int
    """Live workers that lack it."""
    met: bool
    """Whether a live worker has it, or may have it."""

    def __str__(self) -> str:
        pages = "1 page waits" if self.pages == 1 else f"{self.pages:,} pages wait"
        met = "a live worker may have it" if self.met else "no live worker has it"
        return f"{pages} for a worker with {need_in_words(self.need)}: {met}"


def need_in_words(need: str) -> str:
    """Format a need for users."""
    if need.startswith(HANDLER):
        return f"a handler named {need.removeprefix(HANDLER)!r}"
    if need.startswith(PACKAGE):
        return f"the Python package {need.removeprefix(PACKAGE)!r}"
    return "permission to fetch private addresses (--allow-private)" if need == PRIVATE else repr(need)


def missing_capabilities(workers: Iterable[WorkerState]) -> list[MissingCapability]:
    """Return what pages of the crawl wait for, as its live workers report it; needs that no worker meets come first."""
    alive = [worker for worker in workers if worker.alive]
    pages: Counter[str] = Counter()
    without: Counter[str] = Counter()
    for worker in alive:
        for need, count in given_back(worker).items():
            pages[need] += count
            without[need] += 1
    found = [
        MissingCapability(need, count, without[need], any(_has(one, need) for one in alive))
        for need, count in pages.items()
    ]
    return sorted(found, key=lambda unmet: (unmet.met, -unmet.pages, unmet.need))


def given_back(worker: WorkerState) -> dict[str, int]:
    """Return how many pages a worker released because it cannot handle them, by need."""
    reported = worker.info.get("gives_back")
    if not isinstance(reported, dict):
        return {}
    return {str(need)[:MAX_NAME]: count for need, count in reported.items() if type(count) is int and count > 0}


def has_handler(worker: WorkerState, name: str) -> bool:
    """Return whether a worker has a handler of this name, or does not report its handlers."""
    return name in handler_names(worker) if isinstance(worker.info.get("handlers"), list) else True


def handler_names(worker: WorkerState) -> list[str]:
    """Return the handlers that a worker has, as far as it reports them."""
    reported = worker.info.get("handlers")
    return [name for name in reported if isinstance(name, str)] if isinstance(reported, list) else []


class TaskReport(NamedTuple):
    """What live workers report of one task."""

    workers: int = 0
    rate: float = 0.0
    """Calls per second that they completed between their last two reports."""
    schedule: str = ""
    """How often a recurring task is called, in words."""
    next_tick: float | None = None
    """Unix time of its next call."""


def task_reports(workers: Iterable[WorkerState]) -> dict[str, TaskReport]:
    """Return the tasks of workers by name, also those of lost workers. What workers report is untrusted and may be incomplete."""
    found: dict[str, TaskReport] = {}
    for worker in workers:
        reported = worker.info.get("tasks")
        for name, fields in list(reported.items())[:MOST_REPORTED_TASKS] if isinstance(reported, dict) else ():
            if not isinstance(fields, dict) or not is_host(name):
                continue
            known = found.get(name, TaskReport())
            rate, schedule, tick = _number(fields.get("rate")), fields.get("schedule"), _number(fields.get("next"))
            found[name] = TaskReport(
                known.workers + worker.alive,
                known.rate + (rate or 0.0) * worker.alive,
                known.schedule or (schedule[:MAX_NAME] if isinstance(schedule, str) else ""),
                max(known.next_tick or 0.0, tick or 0.0) or None,
            )
    return found


def have_only_tasks(workers: Iterable[WorkerState]) -> bool:
    """Return whether all workers say that their crawl has tasks and no pages; False without workers."""
    found = [worker.info.get("only_tasks") is True for worker in workers]
    return bool(found) and all(found)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < TOO_LATE else None


def _has(worker: WorkerState, need: str) -> bool:
    if need in given_back(worker) or not is_claiming(worker):
        return False
    if need.startswith(HANDLER):
        return has_handler(worker, need.removeprefix(HANDLER))
    return need != PRIVATE or worker.info.get("allow_private") is True


def is_claiming(worker: WorkerState) -> bool:
    """Return whether a worker claims pages, or does not report its state."""
    return bool(worker.info.get("state", "working") == "working")


def join(keys: CrawlKeys, worker: str, expires: float, info: Mapping[str, Any] | None) -> Command[int]:
    """Store the heartbeat of a worker; return the number of other live workers."""
    args = (check_name(worker), milliseconds("expires", expires), encode_info(info))
    return Command(load("join"), (keys.settings,), args, int)


def leave(keys: CrawlKeys, worker: str, *, shut: bool) -> Command[int]:
    return Command(load("leave"), (keys.settings,), (check_name(worker), int(shut)), int)


def workers(keys: CrawlKeys, most: int) -> Command[list[WorkerState]]:
    def decode(reply: list[bytes]) -> list[WorkerState]:
        now = int(reply[0])
        return [read_worker(now, *reply[i : i + 4]) for i in range(1, len(reply), 4)]

    return Command(load("workers"), (keys.settings,), (check_limit(most),), decode)


def order(keys: CrawlKeys, worker: str, order: str) -> Command[str]:
    """Give a worker an order, or with "" read it. Returns the order, or "unknown" if there is no such worker."""
    return Command(load("order"), (keys.settings,), (check_name(worker), order), lambda reply: reply.decode())


def check_order(order: str) -> WorkerOrder:
    if order not in get_args(WorkerOrder):
        raise ConfigError(f"order must be one of {', '.join(get_args(WorkerOrder))}, got {order!r}")
    return cast("WorkerOrder", order)


def audit_action(order: WorkerOrder) -> str:
    """Return the action of an order in the audit log. It differs from those that pause or resume the crawl."""
    return f"{'resume' if order == 'work' else order} worker"


def read_worker(now: int, name: bytes, expires: bytes, record: bytes, order: bytes) -> WorkerState:
    joined, beat, info = record.split(b" ", 2)
    alive = int(expires) > now
    times = int(joined) / 1000, int(beat) / 1000
    return WorkerState(name.decode(), alive, *times, msgspec.json.decode(info), check_order(order.decode()))


def check_name(worker: str) -> str:
    if not isinstance(worker, str) or not 1 <= len(worker) <= MAX_NAME:
        raise ConfigError(f"a worker's name must be a string of 1 to {MAX_NAME} characters, got {worker!r}")
    return worker


def check_limit(most: int) -> int:
    if type(most) is not int or not 1 <= most <= ALL_WORKERS:
        raise ConfigError(f"limit must be between 1 and {ALL_WORKERS}, got {most!r}")
    return most


def encode_info(info: Mapping[str, Any] | None) -> bytes:
    """Encode the info as JSON; empty to keep the stored one."""
    if info is None:
        return b""
    try:
        text = msgspec.json.encode(dict(info))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the info of a worker must be JSON data: {error}") from None
    if len(text) > MAX_INFO:
        raise ConfigError(f"the info of a worker must be at most {MAX_INFO} bytes of JSON, got {len(text)}")
    return text
