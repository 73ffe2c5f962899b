"""Groups whose calls ended in other ways than by a worker that lives: each worker with tasks looks for them."""

from __future__ import annotations

import asyncio
import logging
import random

from silkline.errors import SilklineError
from silkline.frontier.frontier import Frontier

log = logging.getLogger(__name__)

REPORT_EVERY = 10.0
"""Seconds between two looks of a worker, on average."""


class GroupReporter:
    """Reports calls that have ended to their groups, and ends overdue groups.

    The process that ends a call reports it at once. This finds what a process has left that died before, and calls that had no worker at the end:
    those that expired, got three strikes, or were dropped by an operator.
    """

    def __init__(self, frontier: Frontier, every: float = REPORT_EVERY) -> None:
        self._frontier = frontier
        self._every = every

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            try:
                await self._frontier.internal.report_ended()
            except SilklineError as error:
                log.debug("ended calls cannot be reported to their groups: %s", error)
            await asyncio.sleep(self._every * random.uniform(0.5, 1.5))
