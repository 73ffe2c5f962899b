"""The monitor: what machines may ask a process of ours, over HTTP. Metrics, whether it is well, and how many workers are wanted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec

from silkline.core.errors import ConfigError, SilklineError
from silkline.frontier.frontier import Frontier
from silkline.metrics.crawl import crawl_families
from silkline.metrics.http import Answer, HttpServer, Place
from silkline.metrics.text import CONTENT_TYPE, Family, gauge, render
from silkline.operate.autoscale import Target, advise
from silkline.operate.worker_metrics import Subject, worker_families

JSON = "application/json"
LOOK_EVERY, LOOK_EVERY_PER_WORKER = 5.0, 1.0
"""Seconds for which what the server told is told again. It takes the server some milliseconds, and every worker of a large
fleet is asked: so together they look no more than once a second."""


class Monitor(HttpServer):
    """Answers for a crawl, and for the workers of this process if it has any."""

    def __init__(
        self, place: Place, frontier: Frontier, subject: Subject | None = None, target: Target | None = None
    ) -> None:
        self._frontier = frontier
        self._subject = subject
        self._target = target or Target()
        self._known: list[Family] = []
        self._look_at = 0.0
        routes = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/autoscale": self._autoscale,
        }
        super().__init__(place, routes)

    async def _metrics(self, _: Mapping[str, str]) -> Answer:
        """What this process knows is told even when the server does not answer."""
        families: list[Family] = []
        if self._subject:
            families += worker_families(self._frontier.crawl, self._subject)
        try:
            families += await self._of_the_crawl()
            up = 1
        except SilklineError:
            up = 0
        families.append(gauge("silkline_redis_up", "Whether the server answered when it was asked last.", up))
        return Answer(render(families), content_type=CONTENT_TYPE)

    async def _of_the_crawl(self) -> list[Family]:
        if time.monotonic() >= self._look_at:
            self._known = await crawl_families(self._frontier)
            self._look_at = time.monotonic() + max(LOOK_EVERY, LOOK_EVERY_PER_WORKER * _workers(self._known))
        return self._known

    async def _healthz(self, _: Mapping[str, str]) -> Answer:
        """Whether the process should live on: red when its claim loop hangs, which only a new one can mend.

        A server or a sink that is down is no reason to end it; `readyz` tells of that.
        """
        if self._subject and self._subject.hung:
            return Answer(f"the claim loop hangs: {self._subject.stall}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Answer("ok\n")

    async def _readyz(self, _: Mapping[str, str]) -> Answer:
        """Whether work is claimed, or could be."""
        stall = self._subject.stall if self._subject else None
        if stall:
            return Answer(f"{stall}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        await self._frontier.stats()  # raises when the server is out of reach, which is answered with 503
        return Answer("ok\n")

    async def _autoscale(self, query: Mapping[str, str]) -> Answer:
        """``?target=SECONDS&least=N&most=N`` stand in for what the process was started with."""
        advice = await advise(self._frontier, read_target(query, self._target))
        return Answer(msgspec.json.encode(advice).decode() + "\n", content_type=JSON)


def _workers(families: Sequence[Family]) -> float:
    """How many are at work, by what was just read."""
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if family.name == "silkline_workers" and sample.labels["state"] != "lost"
    )


def read_target(query: Mapping[str, str], default: Target) -> Target:
    try:
        return Target(
            drain=float(query.get("target", default.drain)),
            least=int(query.get("least", default.least)),
            most=int(query.get("most", default.most)),
        )
    except ValueError:
        raise ConfigError("target is a number of seconds, least and most are numbers of workers") from None
