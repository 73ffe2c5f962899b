"""Opening, pausing, cancelling, removing crawls; and when one is finished."""

from __future__ import annotations

import pytest

from silkline import Admission, Budget, Politeness, RetryIn
from silkline.errors import ConfigError, FrontierError, SettingsConflict, UnknownCrawl
from tests.contract.frontiers import AT_ONCE, hosts_of, page, paths

# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_settings_are_stored_with_the_crawl(open_bare):
    first = await open_bare(
        politeness=Politeness(delay=3, concurrency=2, burst=4),
        budget=Budget(pages=7, pages_per_host=5, depth=2),
        seen="bloom:0.01,500",
        order="lifo",
        capacity=100,
        shards=1,
    )
    again = await open_bare()
    assert again.layout.settings == first.layout.settings
    assert again.crawl == first.crawl


@pytest.mark.parametrize(
    "other",
    [
        {"politeness": Politeness(delay=4)},
        {"budget": Budget(pages=8)},
        {"seen": "compact"},
        {"order": "lifo"},
        {"capacity": 101},
        {"shards": 2},
    ],
)
async def test_other_settings_than_the_stored_ones_are_refused(open_bare, other):
    same = {
        "politeness": Politeness(delay=3),
        "budget": Budget(pages=7),
        "seen": "exact",
        "order": "fifo",
        "capacity": 100,
        "shards": 1,
    }
    await open_bare(**same)
    await open_bare(**same)
    with pytest.raises(ConfigError, match=next(iter(other))):
        await open_bare(**{**same, **other})
    with pytest.raises(SettingsConflict, match="created with other settings"):
        await open_bare(**other)


async def test_what_was_left_out_is_stored_as_its_default(open_bare):
    await open_bare()
    await open_bare(politeness=Politeness(), budget=Budget(), seen="exact", order="fifo", shards=1)
    with pytest.raises(ConfigError):
        await open_bare(order="lifo")


async def test_an_unknown_crawl_is_only_created_when_wished(open_bare, crawl):
    with pytest.raises(UnknownCrawl, match=crawl):
        await open_bare(create=False)
    with pytest.raises(UnknownCrawl, match=crawl):
        await open_bare(create=False, order="lifo")
    await open_bare()
    await open_bare(create=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"crawl": ""},
        {"crawl": "a b"},
        {"crawl": "x" * 65},
        {"crawl": "a{b}"},
        {"crawl": None},
        {"lease": 0},
        {"lease": "long"},
        {"lease": 1e6},
        {"capacity": 0},
        {"capacity": 1.5},
        {"shards": 0},
        {"shards": 4097},
        {"order": "random"},
        {"seen": "guess"},
        {"seen": "bloom:2"},
        {"seen": "bloom:0.1.1"},
        {"seen": 7},
        {"politeness": 3},
        {"budget": {"pages": 3}},
        {"speed": "fast"},
    ],
)
async def test_settings_that_mean_nothing_are_refused(open_bare, wrong):
    with pytest.raises(ConfigError):
        await open_bare(**wrong)


async def test_crawls_know_nothing_of_each_other(open_crawl, crawl):
    one, other = await open_crawl(crawl=f"{crawl}-1"), await open_crawl(crawl=f"{crawl}-2")
    assert await one.enqueue(page(1)) == [Admission.ADDED]
    assert await other.claim() == []
    assert await other.enqueue(page(1)) == [Admission.ADDED]
    await other.admin.set_host("a.example", paused=True)
    await other.admin.cancel()
    [lease] = await one.claim()
    await one.bury(lease, "no")
    assert await other.admin.dead() == []
    assert (await other.admin.stats()).dead == 0
    assert (await one.admin.hosts("a.example"))[0].paused is False


async def test_clients_of_one_crawl_share_everything(open_crawl):
    one, other = await open_crawl(), await open_crawl()
    await one.enqueue(page(1))
    assert await other.enqueue(page(1)) == [Admission.SEEN]
    assert len(await other.claim()) == 1
    assert (await one.admin.stats()).leased == 1


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_paused_crawl_hands_out_nothing_until_it_is_resumed(open_crawl, clock):
    one, other = await open_crawl(), await open_crawl()
    await one.enqueue([page(1), page(2, not_before=clock.seconds + 1)])
    await one.admin.pause()
    clock.advance(2)
    assert await other.claim(10) == []
    assert await other.enqueue(page(3)) == [Admission.ADDED]
    assert (await other.admin.stats()).state == "paused"
    assert not await other.finished()
    await other.admin.resume()
    assert (await one.admin.stats()).state == "open"
    assert paths(await one.claim(10)) == ["2", "1", "3"]


async def test_what_is_in_progress_may_end_while_the_crawl_is_paused(frontier, clock):
    await frontier.enqueue([page(number) for number in range(4)])
    leases = await frontier.claim(4)
    await frontier.admin.pause()
    await frontier.complete(leases[0], [page("link")])
    await frontier.retry(leases[1])
    await frontier.bury(leases[2], "no")
    clock.advance(10)
    assert await frontier.claim(10) == []
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.delayed, stats.leased, stats.done, stats.dead, stats.rescued) == (2, 1, 0, 1, 1, 1)
    await frontier.admin.resume()
    assert sorted(paths(await frontier.claim(10))) == ["1", "3", "link"]


async def test_pausing_and_resuming_twice_is_the_same_as_once(frontier):
    await frontier.admin.pause()
    await frontier.admin.pause()
    await frontier.admin.resume()
    await frontier.admin.resume()
    assert (await frontier.admin.stats()).state == "open"


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancelled_crawl_drops_all_that_waits(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=5, concurrency=5))
    await frontier.enqueue([page(number, host) for host in ("a.example", "b.example") for number in range(3)])
    await frontier.enqueue([page("later", not_before=clock.seconds + 9), page("high", priority=5)])
    [lease] = await frontier.claim(1)
    assert await frontier.admin.cancel() == 7
    stats = await frontier.admin.stats()
    assert (stats.state, stats.ready, stats.delayed, stats.leased, stats.discarded) == ("cancelled", 0, 0, 1, 7)
    assert not await frontier.finished()
    await frontier.complete(lease, [page("link")])
    assert (await frontier.admin.stats()).done == 1
    clock.advance(60)
    assert await frontier.claim(10) == []
    assert await frontier.finished()


async def test_cancelling_drops_what_hosts_at_their_cap_have_too(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=1))
    await frontier.enqueue([page(number, host) for host in ("a.example", "b.example") for number in range(3)])
    [lease] = await frontier.claim(1)
    assert await frontier.admin.cancel() == 5
    await frontier.complete(lease)
    assert await frontier.finished()


async def test_cancelling_drops_what_paused_hosts_have_too(frontier):
    for number in range(200):
        await frontier.admin.pause(f"h{number}.example")
    await frontier.enqueue([page(1, f"h{number}.example") for number in range(200)])
    assert await frontier.admin.cancel() == 200
    assert await frontier.finished()


async def test_many_waiting_requests_are_cancelled_in_bounded_steps(frontier, clock):
    later = clock.seconds + 9
    await frontier.enqueue([page(1, f"h{number}.example") for number in range(450)])
    await frontier.enqueue([page(2, f"h{number}.example", not_before=later) for number in range(650)])
    assert await frontier.admin.cancel() == 1100
    assert (await frontier.admin.stats()).discarded == 1100


async def test_a_cancelled_crawl_takes_nothing_in(frontier):
    await frontier.admin.cancel()
    answers = await frontier.enqueue([page(1), "https://a.example/2"])
    assert answers == [Admission.REFUSED] * 2
    assert [refusal.reason for refusal in answers.refusals] == ["the crawl is cancelled"] * 2
    assert [refusal.request for refusal in answers.refusals] == [page(1), "https://a.example/2"]
    assert (await frontier.admin.stats()).seen == 0


@pytest.mark.parametrize("ending", ["release", "retry", "rescue", "links"])
async def test_nothing_comes_back_in_a_cancelled_crawl(frontier, clock, ending):
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.admin.cancel()
    if ending == "rescue":
        clock.advance(10)
    elif ending == "links":
        settlement = await frontier.complete(lease, [page("link")])
        assert settlement.links == [Admission.REFUSED]
    else:
        await getattr(frontier, ending)(lease, after=1)
    assert await frontier.claim() == []
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.delayed, stats.discarded + stats.done) == (0, 0, 1)
    assert await frontier.finished()


async def test_cancelled_is_final(frontier):
    await frontier.admin.cancel()
    assert await frontier.admin.cancel() == 0
    for verb in (frontier.admin.pause, frontier.admin.resume):
        with pytest.raises(FrontierError, match="final"):
            await verb()
    assert (await frontier.admin.stats()).state == "cancelled"


async def test_one_host_can_be_cancelled(frontier, clock):
    await frontier.enqueue([page(number, host) for host in ("a.example", "b.example") for number in range(3)])
    later = clock.seconds + 5
    await frontier.enqueue(
        [page("high", priority=3), page("later", not_before=later), page("x", "b.example", not_before=later)]
    )
    assert await frontier.admin.cancel("a.example") == 5
    assert await frontier.admin.cancel("a.example") == 0
    clock.advance(5)
    assert set(hosts_of(await frontier.claim(10))) == {"b.example"}
    assert await frontier.enqueue(page("new")) == [Admission.ADDED]
    assert paths(await frontier.claim(10)) == ["new"]


async def test_a_cancelled_hosts_leases_may_still_end(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=1))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    assert await frontier.admin.cancel("a.example") == 1
    await frontier.enqueue(page(3))
    assert await frontier.claim() == []
    await frontier.retry(lease, after=1)
    clock.advance(9.999)
    assert await frontier.claim() == []
    clock.advance(0.001)
    assert paths(await frontier.claim(5)) == ["1"]


# ── finished ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_crawl_is_finished_when_nothing_is_ready_delayed_or_leased(frontier, clock):
    assert await frontier.finished()
    await frontier.enqueue(page(1))
    assert not await frontier.finished()
    [lease] = await frontier.claim()
    assert not await frontier.finished()
    await frontier.retry(lease, after=5)
    assert not await frontier.finished()
    clock.advance(5)
    [lease] = await frontier.claim()
    await frontier.complete(lease, [page(2)])
    assert not await frontier.finished()
    [lease] = await frontier.claim()
    await frontier.bury(lease, "no")
    assert await frontier.finished()
    await frontier.admin.revive()
    assert not await frontier.finished()


async def test_an_expired_lease_is_not_finished(frontier, clock):
    await frontier.enqueue(page(1))
    await frontier.claim()
    clock.advance(3600)
    assert not await frontier.finished()


# ── remove ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_removed_crawl_is_gone_for_everyone_and_its_name_is_free(subject, open_bare, crawl):
    frontier = await open_bare(politeness=AT_ONCE)
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    await frontier.settle([(lease, RetryIn(60))])
    await frontier.admin.remove()
    for act in (frontier.admin.stats(), frontier.claim(), frontier.enqueue(page(1))):
        with pytest.raises(UnknownCrawl):
            await act
    with pytest.raises(UnknownCrawl):
        await open_bare(create=False)
    again = await open_bare(order="lifo")
    assert await again.enqueue(page(1)) == [Admission.ADDED]
    await again.admin.remove()
    await open_bare()


async def test_a_crawl_that_was_created_again_is_another_one(open_crawl):
    """Its fingerprints are others. A client that goes on as if nothing had happened would offer what was seen."""
    frontier, operator = await open_crawl(), await open_crawl()
    await operator.admin.remove()
    again = await open_crawl()
    for ask in (frontier.refresh, frontier.finished):
        with pytest.raises(UnknownCrawl):
            await ask()
    assert await again.finished()
    await again.admin.remove()
