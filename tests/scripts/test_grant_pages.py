"""The page budget of a crawl, shared out among its shards: never exceeded, never leaking."""

from __future__ import annotations

import itertools
import os

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from silkline import Budget, Complete, Politeness, RetryIn, SyncFrontier
from silkline.frontier.transport.command import Each
from silkline.frontier.verbs.claim import ClaimTerms, _claim_shard
from silkline.testing import Clock

HOSTS = [f"h{number}.example" for number in range(9)]
_names = itertools.count()


def grant(shard, number, epoch, allowance, wanted, budget=10):
    return shard.run("grant_pages", budget, number, epoch, allowance, wanted, key=shard.layout.keys.settings)


@pytest.fixture
def shard(make_shard):
    made = make_shard()
    made.run("create", b"settings", key=made.layout.keys.settings)
    return made


def test_of_a_crawl_without_settings_nothing_is_granted(shard, client):
    client.delete(shard.layout.keys.settings)
    with pytest.raises(Exception, match="NOCRAWL"):
        grant(shard, 0, 0, 0, 6)
    assert client.exists(shard.layout.keys.settings) == 0


def test_no_more_is_granted_than_the_budget_has(shard):
    assert grant(shard, 0, 0, 0, 6) == [0, 6]
    assert grant(shard, 1, 0, 0, 6) == [0, 4]
    assert grant(shard, 2, 0, 0, 6) == [0, 0]


def test_a_grant_that_the_shard_does_not_know_of_is_reported_again_and_no_more(shard):
    assert grant(shard, 0, 0, 0, 6) == [0, 6]
    assert grant(shard, 0, 0, 0, 3) == [0, 6]
    assert grant(shard, 0, 0, 6, 3) == [0, 9]


def test_what_was_surrendered_is_taken_back(shard):
    grant(shard, 0, 0, 0, 10)
    assert grant(shard, 1, 0, 0, 5) == [0, 0]
    assert grant(shard, 0, 1, 2, 0) == [1, 2]
    assert grant(shard, 1, 0, 0, 5) == [0, 5]
    assert grant(shard, 0, 0, 10, 5) == [1, 2]
    assert grant(shard, 0, 1, 2, 5) == [1, 5]


class Interleaving:
    """Clients that get pages for shards, step by step, in any order; some of them die on the way."""

    def __init__(self, server, pages):
        self.clock = Clock()
        self.frontier = SyncFrontier.open(
            server.url, crawl=f"grant-{os.getpid()}-{next(_names)}", clock=self.clock, lease=5, shards=3,
            budget=Budget(pages=pages), politeness=Politeness(delay=0, concurrency=100),
        )  # fmt: skip
        self.pages = pages
        self.layout = self.frontier.layout
        self.frontier.enqueue([f"https://{host}/{number}" for host in HOSTS for number in range(4)])
        self.under_way = []
        self.leases = []

    def start(self, shard, wanted):
        """A client claims on a shard; it goes on with `step`."""
        self.under_way.append([_claim_shard(self.layout, self.layout.shards[shard], wanted, ClaimTerms(5000)), None])

    def step(self, which, *, reply_lost):
        """One client sends its next command and reads the answer; or dies when the server has acted."""
        client = self.under_way[which % len(self.under_way)]
        try:
            command = client[0].send(client[1])
        except StopIteration as stop:
            self.leases += stop.value.leases
            self.under_way.remove(client)
            return
        call = self.frontier._connection.call
        client[1] = [call(one) for one in command.commands] if isinstance(command, Each) else call(command)
        if reply_lost:
            self.under_way.remove(client)

    def settle(self, which, *, completes):
        lease = self.leases.pop(which % len(self.leases))
        self.frontier.settle([(lease, Complete() if completes else RetryIn(0))])

    def check(self):
        stats = self.frontier.admin.stats()
        assert stats.conserved
        assert stats.done + stats.leased <= self.pages

    def finish(self):
        """Nothing leaked: whoever died where, all pages of the budget can be had in the end."""
        self.clock.advance(6)
        for _ in range(60):
            for lease in self.frontier.claim(50):
                self.frontier.complete(lease)
                self.check()
            if self.frontier.finished():
                break
        assert self.frontier.admin.stats().done == self.pages


actions = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 2), st.integers(1, 6)),
        st.tuples(st.just("step"), st.integers(0, 9), st.integers(0, 9).map(lambda number: number == 9)),
        st.tuples(st.just("step"), st.integers(0, 9), st.just(False)),
        st.tuples(st.just("settle"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("expire"), st.none(), st.none()),
    ),
    max_size=60,
)


def test_whatever_the_order_the_budget_is_never_exceeded_and_nothing_leaks(valkey):
    @settings(max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(pages=st.integers(1, 20), script=actions)
    def run(pages, script):
        clients = Interleaving(valkey, pages)
        try:
            for action, one, other in script:
                if action == "start":
                    clients.start(one, other)
                elif action == "step" and clients.under_way:
                    clients.step(one, reply_lost=other)
                elif action == "settle" and clients.leases:
                    clients.settle(one, completes=other)
                elif action == "expire":
                    clients.clock.advance(6)
                clients.check()
            clients.finish()
        finally:
            clients.frontier.admin.remove()
            clients.frontier.close()

    run()
