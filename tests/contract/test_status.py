"""One word for what a crawl is doing, and who works on it."""

from __future__ import annotations

import msgspec
import pytest

from silkline import Budget, Bury, Politeness
from silkline.frontier.verbs.history import COARSE, FINE, Counts, Levels

LEVELS = Levels(ready=1, delayed=0, leased=0, done=0, dead=0, discarded=0, overflow=0)


async def word(frontier):
    return (await frontier.admin.status()).word


async def advice(frontier):
    return (await frontier.admin.status()).advice


async def test_a_crawl_from_its_first_request_to_its_last(frontier):
    assert await word(frontier) == "empty"
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    assert await word(frontier) == "idle"
    await frontier.internal.join("one")
    assert await word(frontier) == "running"
    leases = await frontier.claim(2)
    assert await word(frontier) == "running"
    for lease in leases:
        await frontier.complete(lease)
    assert await word(frontier) == "finished"
    await frontier.internal.leave("one")
    assert await word(frontier) == "finished"


async def test_an_idle_crawl_says_what_waits_and_what_to_do(frontier):
    await frontier.enqueue("https://a.example/1")
    assert await advice(frontier) == "1 request waits and no worker is running: start one with silkline worker FILE"
    await frontier.enqueue([f"https://b.example/{number}" for number in range(1200)])
    assert (await advice(frontier)).startswith("1,201 requests wait and no worker is running")
    await frontier.internal.join("one")
    assert await advice(frontier) == ""


async def test_requests_of_a_lost_worker_wait_too(frontier, clock):
    await frontier.enqueue("https://a.example/1")
    await frontier.internal.join("one", expires=30)
    await frontier.claim(1, lease=20)
    clock.advance(25)
    status = await frontier.admin.status()
    assert (status.word, status.stats.leased, status.stats.held) == ("running", 1, 0)
    clock.advance(10)
    status = await frontier.admin.status()
    assert (status.word, status.waiting, status.activity.workers) == ("idle", 1, 0)


async def test_a_client_that_only_claims_is_working_as_long_as_its_leases_last(frontier, clock):
    await frontier.enqueue("https://a.example/1")
    await frontier.claim(1, lease=20)
    assert await word(frontier) == "running"
    clock.advance(20)
    assert await word(frontier) == "idle"


async def test_a_paused_crawl_drains_first(frontier):
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    [lease] = await frontier.claim(1)
    await frontier.admin.pause()
    assert await word(frontier) == "draining"
    await frontier.complete(lease)
    assert await word(frontier) == "paused"
    await frontier.admin.cancel()
    assert await word(frontier) == "cancelled"


async def test_with_quiet_workers_alone_it_drains_and_is_idle(frontier):
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    for worker in ("one", "two"):
        await frontier.internal.join(worker)
    [lease] = await frontier.claim(1)
    await frontier.admin.order("one", "stop")
    assert await word(frontier) == "running"
    await frontier.admin.order("two", "quiet")
    assert await word(frontier) == "draining"
    await frontier.complete(lease)
    status = await frontier.admin.status()
    assert (status.word, status.activity.workers, status.activity.quiet) == ("idle", 2, 2)
    resume = f"silkline workers resume {status.stats.crawl} all"
    assert status.advice == f"1 request waits and all 2 workers are quiet: let them work with {resume}"
    await frontier.admin.order("two", "work")
    assert await word(frontier) == "running"


async def test_a_full_crawl_is_full_only_while_it_is_worked_on(open_crawl):
    frontier = await open_crawl(capacity=5)
    await frontier.enqueue([f"https://{letter}.example/" for letter in "abcdefgh"])
    assert await word(frontier) == "idle"
    await frontier.internal.join("one")
    assert await word(frontier) == "full"


async def test_a_spent_budget_finishes_a_crawl(open_crawl):
    frontier = await open_crawl(budget=Budget(pages=1))
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    [lease] = await frontier.claim(2)
    assert await word(frontier) == "running"
    await frontier.complete(lease)
    status = await frontier.admin.status()
    assert (status.word, status.stats.pages_spent, status.advice) == ("finished", True, "")


async def test_the_rate_is_that_of_the_last_minute_in_which_workers_reported(frontier, clock):
    clock.advance(FINE.step - clock.now / 1000 % FINE.step)
    assert (await frontier.admin.status()).activity.pages_per_second == 0
    for _ in range(2):
        await frontier.internal.add_history(Counts(pages=40, items=3), LEVELS)
        clock.advance(FINE.step)
    await frontier.internal.add_history(Counts(pages=1000), LEVELS)  # the step in progress does not count
    activity = (await frontier.admin.status()).activity
    assert (activity.pages_per_second, activity.items) == (4.0, 6)
    clock.advance(3 * FINE.step)
    assert (await frontier.admin.status()).activity.pages_per_second == pytest.approx(1080 / 50)
    clock.advance(86_400)
    activity = (await frontier.admin.status()).activity
    assert (activity.pages_per_second, activity.items) == (0, 6)


async def test_hosts_are_closed_that_open_later_than_a_minute_after_the_delay_of_the_crawl(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=40))
    await frontier.enqueue([f"https://{name}.example/{n}" for name in ("slow", "blocked", "later") for n in range(2)])
    for lease in await frontier.claim(3):
        await frontier.complete(lease)
    for host, seconds in (("blocked", 101), ("later", 99)):
        await frontier.admin.set_host(f"{host}.example", block_until=clock.now / 1000 + seconds)
    stats = await frontier.admin.stats()
    assert (stats.hosts_ready, stats.hosts_waiting, stats.hosts_closed) == (0, 3, 1)
    clock.advance(2)
    assert (await frontier.admin.stats()).hosts_closed == 0


async def test_what_was_done_in_five_minutes_and_in_an_hour(frontier, clock):
    clock.advance(COARSE.step - clock.now / 1000 % COARSE.step)
    await frontier.internal.add_history(Counts(pages=3, buried=2, ended=5), LEVELS)
    activity = (await frontier.admin.status()).activity
    assert (activity.five_minutes.pages, activity.hour.buried, activity.had_work) == (3, 2, False)
    assert activity.time == clock.now / 1000
    clock.advance(COARSE.step + FINE.step)
    await frontier.internal.add_history(Counts(errors=4), LEVELS)
    activity = (await frontier.admin.status()).activity
    assert (activity.five_minutes.pages, activity.five_minutes.errors) == (0, 4)
    assert (activity.hour.pages, activity.hour.errors, activity.had_work) == (3, 4, True)
    clock.advance(2 * COARSE.step)
    assert (await frontier.admin.status()).activity.had_work is False
    clock.advance(3600)
    assert (await frontier.admin.status()).activity.hour == Counts()


async def test_the_levels_of_half_an_hour_ago_show_how_a_crawl_grows(frontier, clock):
    assert (await frontier.admin.status()).activity.earlier is None
    for ready in range(60, 100):
        levels = msgspec.structs.replace(LEVELS, ready=ready, server_memory=ready * 1000)
        await frontier.internal.add_history(Counts(), levels)
        clock.advance(60)
    activity = (await frontier.admin.status()).activity
    assert 1800 - COARSE.step <= activity.time - activity.earlier.time <= 1800
    assert activity.earlier.levels.server_memory == activity.earlier.levels.ready * 1000
    assert 60 + 10 <= activity.earlier.levels.ready <= 60 + 10 + COARSE.step / 60
    clock.advance(1500)
    assert 90 <= (await frontier.admin.status()).activity.earlier.levels.ready < 100
    clock.advance(1800)
    assert (await frontier.admin.status()).activity.earlier is None


async def test_of_a_new_crawl_the_first_levels_are_known(frontier, clock):
    await frontier.internal.add_history(Counts(), LEVELS)
    clock.advance(120)
    activity = (await frontier.admin.status()).activity
    assert activity.earlier.levels == LEVELS
    assert 100 <= activity.time - activity.earlier.time <= 120


async def test_a_worker_that_fell_silent_is_lost_for_an_hour(frontier, clock):
    await frontier.internal.join("one", expires=30)
    await frontier.internal.join("two", expires=3000)
    assert (await frontier.admin.status()).activity.lost == 0
    clock.advance(31)
    activity = (await frontier.admin.status()).activity
    assert (activity.workers, activity.lost) == (1, 1)
    clock.advance(3600)
    assert (await frontier.admin.status()).activity.lost == 1, "the other one, by now"


async def test_a_paused_crawl_names_who_paused_it(frontier):
    assert (await frontier.admin.status()).paused_by is None
    await frontier.admin.pause()
    await frontier.internal.append_audit("mira@ops", "pause")
    assert (await frontier.admin.status()).paused_by.by == "mira@ops"
    await frontier.admin.resume()
    assert (await frontier.admin.status()).paused_by is None


async def test_the_cause_is_the_group_of_most_of_the_newest_dead_letters(open_crawl, clock):
    frontier = await open_crawl(shards=2)

    async def bury(*reasons):
        await frontier.enqueue([f"https://h{clock.now}-{number}.example/" for number in range(len(reasons))])
        leases = await frontier.claim(len(reasons))
        await frontier.settle(
            [(lease, Bury(reason.format(lease.host))) for lease, reason in zip(leases, reasons, strict=True)]
        )

    await bury("status 404", "status 404", "dns: no address for {}", "dns: no address for {}", "dns: no address for {}")
    assert (await frontier.admin.status()).cause == "", "few attempts failed"
    await frontier.internal.add_history(Counts(errors=10, buried=5), LEVELS)
    clock.advance(FINE.step)
    assert (await frontier.admin.status()).cause == "dns: no address for …"
    await bury("status 404")
    assert (await frontier.admin.status()).cause == "", "half is not most"
    clock.advance(200)
    await frontier.internal.add_history(Counts(errors=10), LEVELS)
    clock.advance(150)
    assert (await frontier.admin.status()).cause == "", "the letters are older than five minutes"
