"""A fleet on a crawl in simulated seconds: hosts with their pace, workers that take time to start, and advice now and then."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from silkline.ops.autoscale import MEASURED_OVER, DepthSample, ScaleDownDelay, Situation, wanted


@dataclass
class Host:
    """One web site: how much waits for it, how it may be visited, how long its answers take."""

    backlog: int
    latency: float
    delay: float = 0.0
    cap: int = 8
    under_way: int = 0
    opens: float = 0.0

    def may_start(self, now):
        if self.backlog < 1 or self.opens > now:
            return 0
        free = min(self.cap - self.under_way, self.backlog)
        return min(free, 1) if self.delay else free


@dataclass
class Worker:
    ready_at: float
    places: int
    busy: list = field(default_factory=list)  # when each page ends, and its host
    leaving: bool = False


class Simulation:
    """Runs until nothing is left. A worker that is not wanted any more ends its pages and leaves."""

    def __init__(self, hosts, target, *, seed=0, places=16, start_up=10.0, every=15.0, tick=0.5):
        self.hosts, self.target = hosts, target
        self.rng = random.Random(seed)
        self.places, self.start_up, self.every, self.tick = places, start_up, every, tick
        self.now = 0.0
        self.workers: list[Worker] = []
        self.ended = self.most = 0
        self.marks, self.pages, self.sizes = [], [], []
        self.calm = ScaleDownDelay(60.0)
        self.bursts = []  # (when, hosts)

    @property
    def in_flight(self):
        return sum(len(worker.busy) for worker in self.workers)

    @property
    def depth(self):
        return sum(host.backlog for host in self.hosts) + self.in_flight

    def run(self, limit=100_000):
        """The time at which all was done."""
        next_look = 0.0
        while self.depth or self.bursts:
            assert self.now < limit, "it does not come to its end"
            self._arrive()
            if self.now >= next_look:
                next_look = self.now + self.every
                self._scale()
            self._finish_pages()
            self._start_pages()
            self.now += self.tick
        return self.now

    def _arrive(self):
        while self.bursts and self.bursts[0][0] <= self.now:
            self.hosts += self.bursts.pop(0)[1]

    def _situation(self):
        recent = [(took, count) for when, took, count in self.pages if when > self.now - MEASURED_OVER]
        ended = sum(count for _, count in recent)
        return Situation(
            now=DepthSample(self.now, self.depth, self.ended),
            past=self.marks,
            useful=sum(host.may_start(self.now) for host in self.hosts) + self.in_flight,
            in_flight=self.in_flight,
            workers=len(self.workers),
            places=self.places,
            seconds_per_page=sum(took for took, _ in recent) / ended if ended else None,
        )

    def _scale(self):
        situation = self._situation()
        advice = wanted(situation, self.target)
        assert advice.workers * self.places >= self.in_flight or advice.workers == self.target.most, (
            "work is scaled away"
        )
        self.marks.append(situation.now)
        size = self.calm.follow(self.now, advice.workers)
        staying = [worker for worker in self.workers if not worker.leaving]
        for _ in range(size - len(staying)):
            self.workers.append(Worker(self.now + self.start_up, self.places))
        for worker in sorted(staying, key=lambda one: len(one.busy))[: max(0, len(staying) - size)]:
            worker.leaving = True  # it drains
        self.sizes.append(size)
        self.most = max(self.most, size)

    def _finish_pages(self):
        took, count = 0.0, 0
        for worker in self.workers:
            done = [page for page in worker.busy if page[0] <= self.now]
            worker.busy = [page for page in worker.busy if page[0] > self.now]
            for end, began, host in done:
                host.under_way -= 1
                took += end - began
                count += 1
        self.ended += count
        if count:
            self.pages.append((self.now, took, count))
        self.workers = [worker for worker in self.workers if worker.busy or not worker.leaving]

    def _start_pages(self):
        free = [w for w in self.workers if not w.leaving and w.ready_at <= self.now and len(w.busy) < w.places]
        hosts = [host for host in self.hosts if host.may_start(self.now)]
        self.rng.shuffle(hosts)
        for host in hosts:
            for _ in range(host.may_start(self.now)):
                if not free:
                    return
                worker = min(free, key=lambda one: len(one.busy))
                took = max(0.05, self.rng.expovariate(1 / host.latency))
                worker.busy.append((self.now + took, self.now, host))
                host.backlog -= 1
                host.under_way += 1
                host.opens = max(host.opens, self.now) + host.delay if host.delay else 0.0
                if len(worker.busy) >= worker.places:
                    free.remove(worker)


def least_time(hosts):
    """What the pace of the hosts needs, however many workers there are."""
    return max(max(host.backlog * host.delay, host.backlog * host.latency / host.cap) for host in hosts)


__all__ = ["Host", "Simulation", "least_time"]
