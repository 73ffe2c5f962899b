"""The monitor: metrics, health checks and autoscaling of a process over HTTP."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus

import msgspec

from silkline.errors import ConfigError, SilklineError
from silkline.frontier.frontier import Frontier
from silkline.ops.autoscale import Advice, ScalingTarget, advise
from silkline.ops.crawl_metrics import crawl_families, of_cluster
from silkline.ops.http_server import HttpResponse, HttpServer, ListenAddress
from silkline.ops.prometheus import CONTENT_TYPE, Family, gauge, render
from silkline.ops.worker_metrics import MetricsSource, worker_families

JSON = "application/json"
LOOK_EVERY, LOOK_EVERY_PER_WORKER = 5.0, 1.0
"""Seconds for which metrics of the crawl are cached. Reading them costs the server some milliseconds, and Prometheus scrapes
every worker: with the time per worker, all workers together read them at most once a second."""


class ProcessServer(HttpServer):
    """What a process serves to Prometheus, to probes and to an autoscaler."""

    def __init__(self, place: ListenAddress, target: ScalingTarget | None) -> None:
        self._target = target or ScalingTarget()
        routes = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/autoscale": self._autoscale,
        }
        super().__init__(place, routes)

    async def _metrics(self, query: Mapping[str, str]) -> HttpResponse:
        raise NotImplementedError

    async def _healthz(self, query: Mapping[str, str]) -> HttpResponse:
        raise NotImplementedError

    async def _readyz(self, query: Mapping[str, str]) -> HttpResponse:
        raise NotImplementedError

    async def _advice(self, target: ScalingTarget) -> Advice:
        raise NotImplementedError

    async def _autoscale(self, query: Mapping[str, str]) -> HttpResponse:
        """Return the recommendation; ``?target=SECONDS&least=N&most=N`` override the options of the process."""
        advice = await self._advice(read_target(query, self._target))
        return HttpResponse(msgspec.json.encode(advice).decode() + "\n", content_type=JSON)


class Monitor(ProcessServer):
    """Serves the metrics of a crawl, and of the workers of this process if it has any."""

    def __init__(
        self,
        place: ListenAddress,
        frontier: Frontier,
        subject: MetricsSource | None = None,
        target: ScalingTarget | None = None,
    ) -> None:
        self._frontier = frontier
        self._subject = subject
        self._known: list[Family] = []
        self._look_at = 0.0
        super().__init__(place, target)

    async def _metrics(self, _: Mapping[str, str]) -> HttpResponse:
        """Return the metrics of this process even if the server is unavailable."""
        families: list[Family] = []
        if self._subject:
            families += worker_families(self._frontier.crawl, self._subject)
        with suppress(SilklineError):  # a cluster that fails replies to this, and to nothing else
            families += of_cluster(await self._frontier.internal.cluster_state())
        try:
            families += await self._of_the_crawl()
            up = 1
        except SilklineError:
            up = 0
        families.append(gauge("silkline_redis_up", "1 if the last call to the server succeeded.", up))
        return HttpResponse(render(families), content_type=CONTENT_TYPE)

    async def _of_the_crawl(self) -> list[Family]:
        if time.monotonic() >= self._look_at:
            self._known = await crawl_families(self._frontier)
            self._look_at = time.monotonic() + max(LOOK_EVERY, LOOK_EVERY_PER_WORKER * _workers(self._known))
        return self._known

    async def _healthz(self, _: Mapping[str, str]) -> HttpResponse:
        """Fail if the claim loop hangs, which only a restart of the process fixes.

        An unavailable server or sink is no reason for a restart; `readyz` reports it.
        """
        if self._subject and self._subject.hung:
            return HttpResponse(f"claim loop is stuck: {self._subject.stall}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return HttpResponse("ok\n")

    async def _readyz(self, _: Mapping[str, str]) -> HttpResponse:
        """Fail if the process cannot claim requests."""
        stall = self._subject.stall if self._subject else None
        if stall:
            return HttpResponse(f"{stall}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        await self._frontier.admin.stats()  # raises if the server is unavailable, which becomes a 503
        return HttpResponse("ok\n")

    async def _advice(self, target: ScalingTarget) -> Advice:
        return await advise(self._frontier, target)


class WaitingMonitor(ProcessServer):
    """Serves the health of a process whose crawl does not exist yet: it is alive and not ready, and needs no workers."""

    def __init__(self, place: ListenAddress, crawl: str, target: ScalingTarget | None = None) -> None:
        self._why = f"the crawl {crawl} does not exist yet"
        super().__init__(place, target)

    async def _metrics(self, _: Mapping[str, str]) -> HttpResponse:
        return HttpResponse(render([]), content_type=CONTENT_TYPE)

    async def _healthz(self, _: Mapping[str, str]) -> HttpResponse:
        return HttpResponse("ok\n")

    async def _readyz(self, _: Mapping[str, str]) -> HttpResponse:
        return HttpResponse(f"{self._why}\n", HTTPStatus.SERVICE_UNAVAILABLE)

    async def _advice(self, target: ScalingTarget) -> Advice:
        return Advice(
            workers=target.least, reason=self._why, by_depth=0, by_hosts=0, by_flight=0,
            running=0, depth=0, useful=0, in_flight=0, pages_per_second=0.0,
        )  # fmt: skip


def _workers(families: Sequence[Family]) -> float:
    """Return the number of live workers in the metrics."""
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if family.name == "silkline_workers" and sample.labels["state"] != "lost"
    )


def read_target(query: Mapping[str, str], default: ScalingTarget) -> ScalingTarget:
    try:
        return ScalingTarget(
            drain=float(query.get("target", default.drain)),
            least=int(query.get("least", default.least)),
            most=int(query.get("most", default.most)),
        )
    except ValueError:
        raise ConfigError("target must be a number of seconds, least and most whole numbers of workers") from None
