"""Locks, semaphores and rate limiters on a server against their model: whatever is done, both reply the same, and the promises hold."""

from __future__ import annotations

import asyncio
import itertools
import os
from fractions import Fraction

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from silkline import SyncFrontier
from silkline.testing import Clock, MemoryFrontier

PLACES = {"lock:a": 1, "semaphore:a": 3}
LIMITS = {"limiter:a": (Fraction(1000, 3), 4), "limiter:b": (Fraction(250), 1), "limiter:c": (Fraction(7, 10), 10)}
fields, limits = st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(LIMITS))
holders = st.sampled_from(["one", "two", "three", "four", "five"])
_names = itertools.count()


class LockMachine(RuleBasedStateMachine):
    """Holders that come, renew, go and die, and starts at all moments."""

    url = ""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        crawl = f"locks-{os.getpid()}-{next(_names)}"
        self.frontier = SyncFrontier.open(self.url, crawl=crawl, clock=self.clock)
        self.real = self.frontier._locks
        self.model = asyncio.run(MemoryFrontier.open(crawl=crawl, clock=self.clock))._locks
        self.alive = {field: {} for field in PLACES}
        self.tokens = []
        self.starts = {name: [] for name in LIMITS}

    def both(self, verb, *arguments):
        reply = getattr(self.real, verb)(*arguments)
        assert reply == asyncio.run(getattr(self.model, verb)(*arguments))
        return reply

    def living(self, field):
        self.alive[field] = {name: end for name, end in self.alive[field].items() if end > self.clock.now}
        return self.alive[field]

    @rule(field=fields, holder=holders, ttl=st.integers(1, 3000))
    def hold(self, field, holder, ttl):
        living = self.living(field)
        had = holder in living
        reply = self.both("hold", field, holder, ttl, PLACES[field])
        assert bool(reply.token) == (had or len(living) < PLACES[field])
        if reply.token and not had:
            assert all(reply.token > token for token in self.tokens)
            self.tokens.append(reply.token)
            living[holder] = self.clock.now + ttl
        assert len(living) <= PLACES[field]

    @rule(field=fields, holder=holders, ttl=st.integers(1, 3000))
    def renew(self, field, holder, ttl):
        living = self.living(field)
        assert self.both("renew", field, holder, ttl) == (holder in living)
        if holder in living:
            living[holder] = self.clock.now + ttl

    @rule(field=fields, holder=holders)
    def release(self, field, holder):
        assert self.both("release", field, holder) == (self.living(field).pop(holder, None) is not None)

    @rule(name=limits, calls=st.integers(1, 12))
    def start(self, name, calls):
        interval, burst = LIMITS[name]
        for _ in range(calls):
            if not self.both("permit", name, float(interval), burst):
                self.starts[name].append(self.clock.now)

    @rule(ms=st.integers(1, 2000))
    def wait(self, ms):
        self.clock.now += ms

    def teardown(self):
        for name, (interval, burst) in LIMITS.items():
            starts = self.starts[name]
            for first, last in itertools.combinations(range(len(starts)), 2):
                allowed = burst + (starts[last] - starts[first]) / interval
                assert last - first + 1 <= allowed + Fraction(1, 10**6), name
        self.frontier.admin.remove()
        self.frontier.close()


def test_the_server_and_the_model_agree(valkey):
    machine = type("Machine", (LockMachine,), {"url": valkey.url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
