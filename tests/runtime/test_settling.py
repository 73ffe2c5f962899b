"""Batches of verdicts, with a real frontier."""

from __future__ import annotations

import pytest

from silkline import Bury, Complete, Frontier, Politeness, Release, RetryIn
from silkline.frontier.verbs.history import Counts
from silkline.runtime.settling import UNSETTLED, BatchSettler, DeadLimitWarning, Retrier, count_endings


@pytest.fixture
async def nine(valkey, crawl):
    """A frontier, and nine leases of it."""
    async with await Frontier.open(valkey.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=9)) as frontier:
        await frontier.enqueue([f"https://e.example/{number}" for number in range(9)])
        yield frontier, await frontier.claim(9)


class Settled:
    """What a settler reported."""

    def __init__(self, frontier):
        self.ended, self.batches, self.counts = [], [], Counts()
        self.settler = BatchSettler(frontier.settle, Retrier().retry, settled=self._note, ended=self.ended.extend)

    def _note(self, endings, settlement, unreached):
        self.batches.append(endings)
        count_endings(self.counts, endings, settlement, unreached)


async def test_one_verdict_that_cannot_be_stored_holds_up_no_other(nine):
    frontier, leases = nine
    settled = Settled(frontier)
    verdicts = [Complete([f"https://e.example/of/{number}"]) for number in range(9)]
    verdicts[4] = Bury("broken", None, b"no text")
    await settled.settler.settle(list(zip(leases, verdicts, strict=True)))
    stats = await frontier.admin.stats()
    assert (stats.done, stats.dead, stats.leased, stats.ready) == (8, 1, 0, 8)
    [letter] = await frontier.admin.dead()
    assert letter.url == leases[4].url
    assert letter.reason.startswith(f"{UNSETTLED}: AttributeError: ")
    assert sorted(lease.url for lease in settled.ended) == sorted(lease.url for lease in leases)
    assert sum(map(len, settled.batches)) == 9


async def test_a_lease_with_no_verdict_that_can_be_stored_ends_here_and_expires(nine, monkeypatch):
    frontier, leases = nine
    settled, settle, refused = Settled(frontier), frontier.settle, leases[3]

    async def refuse_one(endings):
        if refused in {lease for lease, _ in endings}:
            raise TypeError("not this one")
        return await settle(endings)

    monkeypatch.setattr(settled.settler, "_send", refuse_one)
    await settled.settler.settle([(lease, Complete()) for lease in leases])
    stats = await frontier.admin.stats()
    assert (stats.done, stats.leased) == (8, 1)
    assert refused in settled.ended
    assert len(settled.ended) == 9


async def test_endings_are_counted_without_leases_that_were_lost(nine):
    frontier, leases = nine
    settled = Settled(frontier)
    await frontier.release(leases[0])
    verdicts = [Complete(), Bury("no"), Bury("never"), RetryIn(60.0), Release(60.0), *[Complete()] * 4]
    await settled.settler.settle(list(zip(leases, verdicts, strict=True)))
    counts = settled.counts
    assert (counts.lost, counts.ended, counts.buried, counts.retried) == (1, 6, 2, 1)


async def test_verdicts_are_prepared_again_at_each_attempt(nine):
    frontier, leases = nine
    known = [f"https://e.example/{number}" for number in range(100, 103)]
    attempts = []

    async def retry_once(send):
        await send()
        return await send()

    def prepare(verdict):
        attempts.append(verdict)
        return Complete(known[: len(attempts)])

    settler = BatchSettler(
        frontier.settle, retry_once, settled=lambda *_: None, ended=lambda leases: None, prepare=prepare
    )
    await settler.settle([(leases[0], Complete(known))])
    assert len(attempts) == 2


async def test_that_dead_letters_are_dropped_is_logged_once(nine, caplog):
    frontier, leases = nine
    await frontier.admin.set_dead_limit(2)
    warning = DeadLimitWarning(frontier.crawl, "dead_limit")
    logged = []
    for lease in leases[:5]:
        warning.note(await frontier.settle([(lease, Bury("no"))]))
        logged.append(caplog.text.count("has more dead letters than it keeps: from now on, the oldest are dropped"))
    assert logged == [0, 0, 1, 1, 1]
