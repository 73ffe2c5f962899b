"""The member: a Scrapy process on the roster of its crawl, as people see it and order it about."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from silkline.frontier.history import Counts
from silkline.frontier.roster import Order
from silkline.scrapy.intake import Intake
from silkline.scrapy.ledger import Ledger
from silkline.scrapy.outbox import Outbox
from silkline.worker.answers import HostAnswers

log = logging.getLogger(__name__)

SILENT = 15.0
"""Seconds after which a reactor that does not answer is told of."""


class Pulse:
    """Whether the reactor answers when it is called."""

    def __init__(self, call_reactor: Callable[[Callable[[], None]], None]) -> None:
        self._call_reactor = call_reactor
        self._asked: float | None = None

    def feel(self) -> float:
        """For how many seconds the reactor has owed an answer; one that owes none is asked for the next."""
        asked = self._asked
        if asked is not None:
            return time.monotonic() - asked
        self._asked = time.monotonic()
        self._call_reactor(self._answer)
        return 0.0

    def _answer(self) -> None:
        """On the reactor."""
        self._asked = None


class Member:
    """What `Presence` tells of a Scrapy process and has it do. All of it happens on the bridge's loop.

    *stop* closes the spider, in its own time.
    """

    def __init__(self, intake: Intake, outbox: Outbox, ledger: Ledger, pulse: Pulse, stop: Callable[[], None]) -> None:
        self._intake = intake
        self._outbox = outbox
        self._ledger = ledger
        self._pulse = pulse
        self._stop = stop
        self.doing = "working"

    @property
    def concurrency(self) -> int:
        return self._intake.limit

    @property
    def counts(self) -> Counts:
        """What Scrapy did, and what the frontier was told of it."""
        return Counts().add(self._ledger.counts).add(self._outbox.counts)

    @property
    def answers(self) -> HostAnswers:
        return self._ledger.answers

    @property
    def in_flight(self) -> int:
        return len(self._intake.handed_out())

    @property
    def urls(self) -> list[str]:
        """What Scrapy has in hand, the oldest first."""
        return [lease.url for lease in self._intake.handed_out()]

    @property
    def stall(self) -> str | None:
        silent = self._pulse.feel()
        return f"the reactor has not answered for {silent:.0f} s" if silent > SILENT else None

    def obey(self, order: Order) -> None:
        """Claim nothing more, claim again, or close the spider when what it has in hand is ended."""
        if self.doing == "stopping":
            return
        if order == "stop":
            log.warning("stopping, as an operator has ordered")
            self.doing = "stopping"
            self._intake.rest()
            self._stop()
        elif order == "quiet" and self.doing != "quiet":
            log.warning("claiming nothing more, as an operator has ordered")
            self.doing = "quiet"
            self._intake.rest()
        elif order == "work" and self.doing == "quiet":
            log.warning("working again, as an operator has ordered")
            self.doing = "working"
            self._intake.go_on()
