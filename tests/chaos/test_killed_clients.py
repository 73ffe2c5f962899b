"""Clients that die or freeze while they hold leases: nothing is lost, nothing is done twice, and soon."""

from __future__ import annotations

import math
import time

import pytest

from silkline import Politeness, SyncFrontier

AT_ONCE = Politeness(delay=0, concurrency=100)
PAGE = "https://page.example/"
LINKS = [f"https://link{number}.example/{number}" for number in range(12)]


def finish(frontier: SyncFrontier, links=(), patience=100):
    """Complete whatever comes, pages with their links, until nothing is left; answers the URLs."""
    done, deadline = [], time.monotonic() + patience
    while not frontier.finished():
        assert time.monotonic() < deadline, frontier.admin.stats()
        for lease in frontier.claim(10, wait=0.2):
            assert frontier.admin.stats().conserved
            frontier.complete(lease, links if lease.url == PAGE else ())
            done.append(lease.url)
    return done


def test_what_a_killed_worker_held_returns_when_its_lease_ends(here, client, monkeypatch):
    """The claim that waits knows when that is: it does not look of its own accord."""
    monkeypatch.setattr("silkline.frontier.transport.notifier.SAFETY_POLL", math.inf)
    frontier = here(politeness=AT_ONCE)
    frontier.enqueue(LINKS)
    victim = client(lease=0.5)
    held = victim.do("claim", n=5)
    victim.kill()
    assert frontier.admin.stats().leased == 5
    frontier.claim(100)
    again = []
    while len(again) < 5:
        found = frontier.claim(5, wait=60)
        assert found, frontier.admin.stats()
        again += found
        assert frontier.admin.stats().conserved
    assert {lease.url for lease in again} == {url for _, url, _ in held}
    assert all(lease.suspect and lease.crashes == 0 and lease.attempt == 2 for lease in again)
    ends = {url: expires for _, url, expires in held}
    assert all(lease.expires - 10 >= ends[lease.url] for lease in again)


@pytest.fixture
def killed_at_every_step(here, client, crawl):
    """Kills a client at the first, the second … step of a verb, each time in a crawl of its own, until it survives."""

    def kill(prepare, verb, check, **settings):
        for step in range(60):
            frontier = here(crawl=f"{crawl}-{step}", politeness=AT_ONCE, **settings)
            victim = client(crawl=frontier.crawl, lease=0.2)
            words = prepare(victim)
            victim.do("die", step=step)
            survived = victim.do(verb, **words) is not None
            victim.end()
            assert frontier.admin.stats().conserved
            check(frontier)
            if survived:
                return step
        pytest.fail("it never survived")

    return kill


@pytest.mark.parametrize("shards", [1, 3])
def test_a_worker_may_be_killed_at_any_step_of_settling(killed_at_every_step, shards):
    def claim_the_page(victim):
        victim.do("enqueue", urls=[PAGE])
        [[token, _, _]] = victim.do("claim")
        return {"tokens": [token], "links": LINKS}

    def all_is_done_once(frontier):
        done = finish(frontier, LINKS)
        stats = frontier.admin.stats()
        assert stats.conserved
        assert stats.done == stats.accepted == stats.seen == 1 + len(LINKS)
        assert stats.rescued == (PAGE in done)

    steps = killed_at_every_step(claim_the_page, "settle", all_is_done_once, shards=shards)
    assert steps == (4 if shards == 1 else 8)  # two for each command: links to every shard, then the page


def test_a_worker_may_be_killed_at_any_step_of_claiming(killed_at_every_step):
    def enqueue(victim):
        victim.do("enqueue", urls=LINKS)
        return {"n": 7}

    def all_is_done_once(frontier):
        assert sorted(finish(frontier)) == sorted(LINKS)

    killed_at_every_step(enqueue, "claim", all_is_done_once, shards=3)


def test_a_page_that_takes_three_workers_down_is_buried_as_crashed(here, client):
    frontier = here(politeness=AT_ONCE)
    frontier.enqueue([PAGE])
    for _ in range(4):  # the first one makes it a suspect
        victim = client(lease=0.1)
        victim.do("claim", wait=60)
        victim.kill()
        assert frontier.admin.stats().conserved
    assert frontier.claim(1, wait=2) == []
    [letter] = frontier.admin.dead()
    assert (letter.reason, letter.crashes, letter.attempts) == ("crashed", 3, 4)
    assert frontier.finished()
    assert frontier.admin.revive() == 1
    assert finish(frontier) == [PAGE]


def test_a_worker_that_was_frozen_past_its_lease_can_change_nothing(here, client):
    frontier = here(politeness=Politeness(delay=0, concurrency=1))
    frontier.enqueue([PAGE])
    frozen = client(lease=0.3)
    [[token, _, _]] = frozen.do("claim")
    frozen.freeze()
    frozen.tell("settle", tokens=[token], links=["https://page.example/found-too-late"])
    [lease] = frontier.claim(1, wait=60)
    frozen.thaw()
    assert frozen.read() == '"lost"\n'
    stats = frontier.admin.stats()
    assert (stats.accepted, stats.leased, stats.done) == (1, 1, 0)
    assert frontier.admin.hosts("page.example")[0].leased == 1
    assert frozen.do("settle", tokens=[token], ending="release") == "lost"
    assert frozen.do("settle", tokens=[token], ending="retry") == "lost"
    frontier.complete(lease)
    assert frontier.finished()
    assert frontier.admin.stats().conserved
