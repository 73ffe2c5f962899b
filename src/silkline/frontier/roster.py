"""The roster of a crawl: who works on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from silkline.core.errors import ConfigError
from silkline.frontier.commands import Command
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.script import load
from silkline.frontier.wishes import milliseconds

DEFAULT_EXPIRY = 30.0
"""Seconds for which a worker is taken for alive after its last word."""
MAX_NAME = 200
MAX_INFO = 8000
"""Bytes of JSON that a worker may tell of itself, with what it has under way."""
Order = Literal["work", "quiet", "stop"]
"""What an operator may order: to claim nothing more, to end what is under way and leave, or to work on after all."""
KEEP_LOST = 3600.0
"""Seconds for which a worker that fell silent is still told of; join.lua has the same."""


class WorkerState(NamedTuple):
    """One who works on a crawl, or fell silent while doing so. Times are unix times of the server."""

    name: str
    alive: bool
    joined: float
    beat: float
    """When it last told that it is there."""
    info: dict[str, Any]
    """What it told of itself."""


def join(keys: CrawlKeys, worker: str, expires: float, info: Mapping[str, Any] | None) -> Command[int]:
    """Tell that a worker is there; the reply is how many others are."""
    args = (check_name(worker), milliseconds("expires", expires), encode_info(info))
    return Command(load("join"), (keys.settings,), args, int)


def leave(keys: CrawlKeys, worker: str, *, shut: bool) -> Command[int]:
    return Command(load("leave"), (keys.settings,), (check_name(worker), int(shut)), int)


def workers(keys: CrawlKeys, most: int) -> Command[list[WorkerState]]:
    def decode(reply: list[bytes]) -> list[WorkerState]:
        now = int(reply[0])
        return [read_worker(now, *reply[i : i + 3]) for i in range(1, len(reply), 3)]

    return Command(load("workers"), (keys.settings,), (check_limit(most),), decode)


def order(keys: CrawlKeys, worker: str, order: str) -> Command[str]:
    """Order a worker to do something, or with "" read what it was ordered; the reply is the order, or "unknown"."""
    return Command(load("order"), (keys.settings,), (check_name(worker), order), lambda reply: reply.decode())


def check_order(order: str) -> Order:
    if order not in get_args(Order):
        raise ConfigError(f"a worker is ordered to {', '.join(get_args(Order))}, got {order!r}")
    return cast("Order", order)


def act_of(order: Order) -> str:
    """How it is noted in the audit, whoever gave it and from where: not to be taken for pausing the crawl itself."""
    return f"{'resume' if order == 'work' else order} worker"


def read_worker(now: int, name: bytes, expires: bytes, record: bytes) -> WorkerState:
    joined, beat, info = record.split(b" ", 2)
    alive = int(expires) > now
    return WorkerState(name.decode(), alive, int(joined) / 1000, int(beat) / 1000, msgspec.json.decode(info))


def check_name(worker: str) -> str:
    if not isinstance(worker, str) or not 1 <= len(worker) <= MAX_NAME:
        raise ConfigError(f"a worker's name is a text of 1 to {MAX_NAME} characters, got {worker!r}")
    return worker


def check_limit(most: int) -> int:
    if type(most) is not int or not 1 <= most <= 1000:
        raise ConfigError(f"a limit of workers is from 1 to 1000, got {most!r}")
    return most


def encode_info(info: Mapping[str, Any] | None) -> bytes:
    """As JSON; nothing when there is nothing new to tell."""
    if info is None:
        return b""
    try:
        text = msgspec.json.encode(dict(info))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"what a worker tells of itself must be plain data: {error}") from None
    if len(text) > MAX_INFO:
        raise ConfigError(f"what a worker tells of itself may take {MAX_INFO} bytes, got {len(text)}")
    return text
