"""A run that starts and ends worker processes as the crawl can use them."""

from __future__ import annotations

import asyncio
import logging
import time

from silkline.core.errors import SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.history import Counts
from silkline.operate.autoscale import Calm, Target, advise
from silkline.worker.fleet import Fleet
from silkline.worker.presence import levels_of

log = logging.getLogger(__name__)

EVERY = 2.0
CALM = 30.0
"""Seconds for which fewer workers must be enough before one is let go."""


async def keep_scaling(frontier: Frontier, fleet: Fleet, target: Target) -> None:
    """Until cancelled: now and then ask how many workers are of use, and have as many."""
    calm = Calm(CALM)
    while True:
        try:
            await frontier.add_history(Counts(), levels_of(await frontier.stats()))
            advice = await advise(frontier, target)
        except SilklineError as error:
            log.debug("nobody can say how many workers are of use: %s", error)
        else:
            workers = calm.follow(time.monotonic(), advice.workers)
            if workers != len(fleet.active):
                log.info("%d workers are of use, %d are running: %s", workers, len(fleet.active), advice.reason)
                fleet.resize(workers)
        await asyncio.sleep(EVERY)
