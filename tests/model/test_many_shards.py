"""Four shards and two clients: no model knows their order, but every promise must hold."""

from __future__ import annotations

import itertools
import os

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from silkline import Admission, Budget, Bury, Complete, Politeness, Release, RetryIn, SyncFrontier
from silkline.errors import ConfigError
from silkline.testing import Clock
from tests.model.watch import Watch, check_shard, look_into

HOSTS = tuple(f"h{number}.example" for number in range(7))
SHARDS = 4
_names = itertools.count()

hosts = st.sampled_from(HOSTS)
clients = st.integers(0, 1)
pages = st.builds(lambda host, number: f"https://{host}/{number}", hosts, st.integers(0, 30))
batches = st.lists(pages, max_size=12)
seconds = st.sampled_from([0.0, 0.5, 1.0, 3.0])
verdicts = st.one_of(
    batches.map(Complete),
    batches.map(Complete),
    st.builds(RetryIn, seconds, block_host=st.booleans()),
    st.builds(RetryIn, seconds, slow_host=st.just(True)),
    st.builds(Bury, st.just("gone")),
    st.builds(Release, seconds),
)

politenesses = st.builds(
    Politeness,
    delay=st.sampled_from([0.0, 1.0]),
    concurrency=st.sampled_from([1, 3, 10]),
    burst=st.sampled_from([1, 2]),
)


class Promises(RuleBasedStateMachine):
    def __init__(self, server):
        super().__init__()
        self.server = server
        self.client = server.client()
        self.clock = Clock()
        self.clients = []
        self.leases = []
        self.accepted = set()

    @initialize(
        politeness=politenesses,
        budget=st.builds(Budget, pages=st.sampled_from([None, 3, 10]), pages_per_host=st.sampled_from([None, None, 3])),
        capacity=st.sampled_from([20, 1000]),
        dead_limit=st.sampled_from([None, 1, 9]),
        seen=st.sampled_from(["exact", "compact"]),
    )
    def open(self, **arguments):
        crawl = f"shards-{os.getpid()}-{next(_names)}"
        for _ in range(2):
            self.clients.append(
                SyncFrontier.open(self.server.url, crawl=crawl, clock=self.clock, lease=4, shards=SHARDS, **arguments)
            )
        self.watch = Watch(arguments["politeness"], arguments["budget"], forgets=False)

    @rule(passed=seconds)
    def time_passes(self, passed):
        self.clock.advance(passed)

    @rule(client=clients, pages=st.sampled_from([None, 3, 10, 15]), per_host=st.sampled_from([None, None, 2, 4]))
    def the_budget_changes(self, client, pages, per_host):
        budget = Budget(pages=pages, pages_per_host=per_host)
        try:
            self.clients[client].admin.set_budget(budget)
        except ConfigError:  # pages were claimed that nobody has counted
            assert per_host is not None
            assert not self.watch.counted
        else:
            self.watch.set_budget(budget)

    @rule(client=clients, limit=st.sampled_from([0, 1, 9]))
    def the_dead_limit_changes(self, client, limit):
        self.clients[client].admin.set_dead_limit(limit)

    @rule(client=clients, politeness=politenesses)
    def the_pace_changes(self, client, politeness):
        self.clients[client].admin.set_politeness(politeness)
        self.watch.set_politeness(politeness)

    def taken_in(self, offered, answers):
        for url, answer in zip(offered, answers, strict=True):
            if answer is Admission.ADDED:
                assert url not in self.accepted, "it was taken in twice"
                self.accepted.add(url)
            if answer is Admission.SEEN:
                assert url in self.accepted, "it is seen and was never taken in"

    @rule(client=clients, offered=batches)
    def enqueue(self, client, offered):
        self.taken_in(offered, self.clients[client].enqueue(offered))

    @rule(client=clients, wanted=st.integers(1, 12))
    def claim(self, client, wanted):
        for lease in (claimed := self.clients[client].claim(wanted)):
            self.watch.started(lease, self.clock.now)
        assert len(claimed) <= wanted
        self.leases = (self.leases + claimed)[-16:]

    @precondition(lambda self: self.leases)
    @rule(client=clients, data=st.data())
    def settle(self, client, data):
        chosen = data.draw(st.lists(st.sampled_from(self.leases), min_size=1, max_size=5, unique=True))
        pairs = [(lease, data.draw(verdicts)) for lease in chosen]
        outcome = self.clients[client].settle(pairs)
        links = [link for _, verdict in pairs if isinstance(verdict, Complete) for link in verdict.links]
        self.taken_in(links, outcome.links)
        for lease, verdict in pairs:
            if lease in outcome.lost:
                continue
            self.watch.ended(lease, completed=isinstance(verdict, Complete) and lease not in outcome.postponed)
            if isinstance(verdict, RetryIn) and verdict.block_host:
                self.watch.block(lease.host, self.clock.seconds + verdict.after)
            if isinstance(verdict, RetryIn) and verdict.slow_host:
                self.watch.slow(lease, self.clock.now)

    @precondition(lambda self: self.leases)
    @rule(client=clients, data=st.data())
    def extend(self, client, data):
        chosen = data.draw(st.lists(st.sampled_from(self.leases), min_size=1, max_size=5))
        lost = self.clients[client].extend(chosen)
        for lease in set(chosen) - set(lost):
            self.watch.extended(lease, self.clock.now + 4000)

    @precondition(lambda self: self.leases)
    @rule(client=clients, data=st.data())
    def vacate(self, client, data):
        chosen = data.draw(st.lists(st.sampled_from(self.leases), min_size=1, max_size=5))
        lost = self.clients[client].vacate(chosen)
        for lease in set(chosen) - set(lost):
            self.watch.vacated(lease)

    @rule(client=clients, host=hosts, pace=st.sampled_from([{"delay": 2.0}, {"concurrency": 2}, {"paused": True}]))
    def set_host(self, client, host, pace):
        self.clients[client].admin.set_host(host, **pace)
        self.watch.set_host(host, pace)

    @rule(client=clients, host=hosts)
    def resume_host(self, client, host):
        self.clients[client].admin.resume(host)
        self.watch.set_host(host, {"paused": False})

    @rule(client=clients, verb=st.sampled_from(["resume", "resume", "pause"]))
    def pause_or_resume(self, client, verb):
        getattr(self.clients[client].admin, verb)()
        self.watch.paused = verb == "pause"

    @rule(client=clients, host=st.one_of(st.none(), hosts))
    def revive(self, client, host):
        self.clients[client].admin.revive(**({"host": host} if host else {}))

    @invariant()
    def nothing_is_lost_and_every_shard_agrees_with_itself(self):
        if not self.clients:
            return
        frontier = self.clients[0]
        stats = frontier.admin.stats()
        assert stats.conserved
        assert stats.accepted == len(self.accepted) == stats.seen
        assert stats.done == sum(self.watch.done.values())
        for by in ("reason", "host"):
            assert sum(group.letters for group in frontier.admin.dead_groups(by)) == stats.dead
        states = {state.host: state for state in frontier.admin.hosts(*HOSTS)}
        for keys in frontier.layout.shards:
            mine = [host for host in HOSTS if frontier.layout.shard_of(host) == keys]
            check_shard(look_into(self.client, keys.root, mine, (0,)), states)

    def teardown(self):
        if not self.clients:
            return
        try:
            self.drain()
        finally:
            self.clients[0].admin.remove()
            for frontier in self.clients:
                frontier.close()
            self.client.close()

    def drain(self):
        """Nothing is stuck, on no shard: the crawl comes to its end, or to the end of its budget."""
        self.pause_or_resume(0, "resume")
        for host in HOSTS:
            pace = {"delay": 0.0, "concurrency": 10, "block_until": None, "paused": False}
            self.clients[0].admin.set_host(host, **pace)
            self.watch.set_host(host, pace)
        for number in range(80):
            frontier = self.clients[number % 2]
            if frontier.finished():
                break
            self.clock.advance(60)
            self.claim(number % 2, 50)
            lost = frontier.settle([(lease, Complete()) for lease in self.leases]).lost
            for lease in set(self.leases) - set(lost):
                self.watch.ended(lease, completed=True)
        assert self.clients[0].finished(), "it does not come to its end"
        stats, budget = self.clients[0].admin.stats(), self.watch.budget
        if budget.pages is None:
            assert stats.pending == 0
        elif stats.pending:
            assert stats.done >= budget.pages, "pages are left in the budget, and requests to spend them on"


@pytest.mark.timeout(600)  # a failure is first made as small as can be
def test_with_many_shards_every_promise_holds(valkey):
    run_state_machine_as_test(
        lambda: Promises(valkey),
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", "40")),
            stateful_step_count=40,
            derandomize="MODEL_EXAMPLES" not in os.environ,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
        ),
    )
