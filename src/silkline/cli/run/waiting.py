"""Wait for a crawl that does not exist yet, for workers and services that are deployed before it is started."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import NamedTuple

from silkline.errors import StoreUnavailable, UnknownCrawl
from silkline.frontier.arguments import embedded_in
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.frontier import Frontier
from silkline.frontier.transport.redis_url import without_password
from silkline.ops.autoscale import ScalingTarget
from silkline.ops.http_server import ListenAddress
from silkline.ops.monitor import WaitingMonitor

log = logging.getLogger("silkline.worker")

LOOK_EVERY = 1.0
GRACE = 5.0
"""Seconds after which a crawl without stored options is taken: `silkline enqueue` stores none, `start` and `run` do so at once."""


class Awaited(NamedTuple):
    """A crawl to wait for, its server, and the command that starts it."""

    crawl: str
    url: str
    start: str


async def wait_for_crawl(
    awaited: Awaited, place: ListenAddress | None = None, target: ScalingTarget | None = None
) -> bool:
    """Return True when the crawl exists and its options are stored, False on SIGTERM or Ctrl-C.

    Meanwhile the process is alive but not ready at *place*, and recommends no workers.
    """
    if await _has_options(awaited) is not None:
        return True
    serving = nullcontext() if place is None else WaitingMonitor(place, awaited.crawl, target)
    async with stop_requested() as stop, serving:
        log.warning(
            "the crawl %r does not exist yet on %s; waiting for it. To start it: %s",
            awaited.crawl,
            without_password(awaited.url),
            awaited.start,
        )
        seen: float | None = None
        while not stop.is_set():
            with suppress(StoreUnavailable):  # it was available before, and may be again
                stored = await _has_options(awaited)
                seen = (seen or time.monotonic()) if stored is not None else None
                if stored or (seen and time.monotonic() - seen >= GRACE):
                    log.info("the crawl %r has been started", awaited.crawl)
                    return True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_EVERY)
    return False


@asynccontextmanager
async def embedded_server(url: str) -> AsyncIterator[None]:
    """Keep the server of an ``embedded:`` directory running: otherwise each look for the crawl would start and stop it."""
    directory = embedded_in(url)
    joined = await asyncio.to_thread(EmbeddedServer.join, directory) if directory else None
    try:
        yield
    finally:
        if joined:
            await asyncio.to_thread(joined.leave)


async def _has_options(awaited: Awaited) -> bool | None:
    """Return whether a run or start has stored its options; None if the crawl does not exist."""
    try:
        async with await Frontier.open(awaited.url, crawl=awaited.crawl, create=False) as frontier:
            return (await frontier.admin.run_options()).outputs is not None
    except UnknownCrawl:
        return None


@asynccontextmanager
async def stop_requested() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGTERM and Ctrl-C set."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
