"""Polling: for a spider that reads its messages with code of its own, on the reactor."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from silkline.frontier.frontier import Frontier
from silkline.scrapy.bridge import Bridge
from silkline.scrapy.engine import is_closing

if TYPE_CHECKING:
    from silkline.scrapy.spiders import RedisMixin

log = logging.getLogger(__name__)

LOOK_EVERY = 0.25
TROUBLED = 5.0
"""Seconds between two looks after one that failed."""


class Polling:
    """Asks the spider for more whenever there is room, without waiting until everything before is done."""

    def __init__(self, spider: RedisMixin, bridge: Bridge) -> None:
        self._spider: Any = spider
        self._bridge = bridge
        self._pause = LOOK_EVERY
        self._asked = False

    @property
    def idle_for(self) -> float:
        """Seconds for which no worker had anything to do."""
        return self._bridge.idle_for

    async def run(self, _frontier: Frontier) -> None:
        """On the bridge's loop, which only keeps the time."""
        while True:
            if self._bridge.room > 0 and not self._asked:
                self._asked = True
                self._bridge.call_reactor(self._ask)
            await asyncio.sleep(self._pause)

    def _ask(self) -> None:
        """On the reactor."""
        self._asked = False
        if is_closing(self._spider.crawler):
            return  # what it pops now would be begun by nobody
        try:
            self._spider.schedule_next_requests()
            self._pause = LOOK_EVERY
        except Exception:
            self._pause = TROUBLED
            log.exception("%s could not read its start messages", self._spider.name)
