"""Clients that die or freeze while they hold leases: nothing is lost, nothing is done twice, and soon."""

from __future__ import annotations

import time

import pytest

from silkline import Politeness, SyncFrontier

RECOVERY = 2.0
"""Seconds after the end of a dead worker's lease by which its request is handed out again."""

AT_ONCE = Politeness(delay=0, concurrency=100)
PAGE = "https://page.example/"
LINKS = [f"https://link{number}.example/{number}" for number in range(12)]


def finish(frontier: SyncFrontier, links=(), patience=10.0):
    """Complete whatever comes, pages with their links, until nothing is left; answers the URLs."""
    done, deadline = [], time.monotonic() + patience
    while not frontier.finished():
        assert time.monotonic() < deadline, frontier.stats()
        for lease in frontier.claim(10, wait=0.2):
            assert frontier.stats().conserved
            frontier.complete(lease, links if lease.url == PAGE else ())
            done.append(lease.url)
    return done


def test_what_a_killed_worker_held_returns_within_two_seconds_of_its_lease(here, client):
    frontier = here(politeness=AT_ONCE)
    frontier.enqueue(LINKS)
    victim = client(lease=0.5)
    held = victim.do("claim", n=5)
    victim.kill()
    assert frontier.stats().leased == 5
    frontier.claim(100)
    again = []
    while len(again) < 5:
        found = frontier.claim(5, wait=0.5 + RECOVERY)
        assert found, frontier.stats()
        again += found
        assert frontier.stats().conserved
    assert {lease.url for lease in again} == {url for _, url, _ in held}
    assert all(lease.crashes == 1 and lease.attempt == 2 for lease in again)
    ends = {url: expires for _, url, expires in held}
    assert all(0 <= lease.expires - 10 - ends[lease.url] <= RECOVERY for lease in again)


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
            assert frontier.stats().conserved
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
        stats = frontier.stats()
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
    for _ in range(3):
        victim = client(lease=0.1)
        victim.do("die", step=1)  # right after the claim's reply
        victim.tell("claim", wait=5)
        while victim.alive:
            assert frontier.stats().conserved
    assert frontier.claim(1, wait=2) == []
    [letter] = frontier.dead()
    assert (letter.reason, letter.crashes, letter.attempts) == ("crashed", 3, 3)
    assert frontier.finished()
    assert frontier.revive() == 1
    assert finish(frontier) == [PAGE]


def test_a_worker_that_was_frozen_past_its_lease_can_change_nothing(here, client):
    frontier = here(politeness=Politeness(delay=0, concurrency=1))
    frontier.enqueue([PAGE])
    frozen = client(lease=0.3)
    [[token, _, _]] = frozen.do("claim")
    frozen.freeze()
    frozen.tell("settle", tokens=[token], links=["https://page.example/found-too-late"])
    [lease] = frontier.claim(1, wait=0.3 + RECOVERY)
    frozen.thaw()
    assert frozen.read() == '"lost"\n'
    stats = frontier.stats()
    assert (stats.accepted, stats.leased, stats.done) == (1, 1, 0)
    assert frontier.hosts("page.example")[0].leased == 1
    assert frozen.do("settle", tokens=[token], ending="release") == "lost"
    assert frozen.do("settle", tokens=[token], ending="retry") == "lost"
    frontier.complete(lease)
    assert frontier.finished()
    assert frontier.stats().conserved
