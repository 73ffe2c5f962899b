"""The settings of a crawl, or the ledger of a shard, are gone: nobody makes new ones, and everybody is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from silkline import Admission, Budget, Bury, Complete, Politeness, SyncFrontier
from silkline.errors import DamagedCrawl, UnknownCrawl
from silkline.frontier.admin_verbs.fsck import check_crawl, count_buckets
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.settings import Settings
from silkline.frontier.transport.sync.connection import drive
from silkline.frontier.verbs.lifecycle import create_command

AT_ONCE = Politeness(delay=0, concurrency=100)
URLS = [f"https://h{number}.example/{page}" for number in range(20) for page in range(10)]


@pytest.fixture
def client(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def books(open_sync):
    frontier = open_sync(politeness=AT_ONCE, shards=3)
    frontier.enqueue(URLS)
    return frontier


def everything(client, crawl):
    return {name: client.dump(name) for name in client.scan_iter(f"silkline:{{{crawl}*", count=1000)}


@pytest.mark.parametrize("create", [True, False])
def test_a_lost_ledger_is_not_written_again(books, client, crawl, open_sync, create):
    client.delete(books.layout.shards[1].ledger)
    before = everything(client, crawl)
    with pytest.raises(DamagedCrawl, match=rf"1 of 3 shards of the crawl '{crawl}' .*silkline fsck {crawl} --repair"):
        open_sync(create=create)
    assert everything(client, crawl) == before


@pytest.mark.parametrize("create", [True, False])
def test_a_shard_of_which_nothing_is_left_is_not_created_again(books, client, crawl, open_sync, create):
    """Nothing on the server says that it was there, but that all shards of the crawl were created."""
    client.delete(*client.scan_iter(f"{books.layout.shards[1].root}:*", count=1000))
    before = everything(client, crawl)
    with pytest.raises(DamagedCrawl, match=rf"1 of 3 shards of the crawl '{crawl}' .*silkline fsck {crawl} --repair"):
        open_sync(create=create)
    assert everything(client, crawl) == before


@pytest.mark.parametrize("create", [True, False])
def test_lost_settings_are_not_written_again(books, client, crawl, open_sync, create):
    client.delete(books.layout.keys.settings)
    before = everything(client, crawl)
    with pytest.raises(DamagedCrawl, match=rf"settings of the crawl '{crawl}' .*silkline fsck {crawl} --repair"):
        open_sync(create=create)
    assert everything(client, crawl) == before


async def test_who_has_the_crawl_open_stops_when_a_ledger_is_lost(books, client, open_frontier, crawl):
    frontier = await open_frontier()
    leases = books.claim(30)
    client.delete(*(shard.ledger for shard in books.layout.shards))
    acts = (books.admin.stats, lambda: books.claim(1), lambda: books.settle([(lease, Complete()) for lease in leases]))
    for act in acts:
        with pytest.raises(DamagedCrawl, match="the ledger of 3 of 3 shards"):
            act()
    with pytest.raises(DamagedCrawl, match=f"silkline fsck {crawl} --repair"):
        await frontier.claim(1)


def test_who_has_the_crawl_open_is_reported_when_the_settings_are_lost(books, client, crawl):
    client.delete(books.layout.keys.settings)
    for act in (books.admin.stats, lambda: books.internal.join("me")):
        with pytest.raises(DamagedCrawl, match=f"the settings of the crawl '{crawl}'"):
            act()
    assert client.exists(books.layout.keys.settings) == 0


def test_many_who_create_a_crawl_at_once_get_the_same_one(valkey, crawl):
    def create(_):
        with SyncFrontier.open(valkey.url, crawl=crawl, shards=5) as frontier:
            return frontier.layout.settings.seed

    with ThreadPoolExecutor(12) as threads:
        seeds = set(threads.map(create, range(36)))
    assert len(seeds) == 1


def test_a_crawl_whose_creator_died_before_its_shards_were_founded_is_finished_by_the_next(open_sync, client, crawl):
    elsewhere = open_sync(crawl=f"{crawl}-2")
    elsewhere._connection.call(create_command(CrawlKeys(crawl), Settings(shards=2, seed=7).encode()))
    frontier = open_sync()
    assert frontier.layout.settings.seed == 7
    frontier.enqueue(URLS)
    assert frontier.admin.stats().ready == len(URLS)
    assert client.hget(frontier.layout.keys.settings, "founded") == b"1"


def test_a_crawl_of_the_version_before_continues(books, client, open_sync):
    client.hdel(books.layout.keys.settings, "founded")
    for shard in books.layout.shards:
        client.hdel(shard.ledger, "settings")
    again = open_sync()
    assert again.admin.stats().ready == len(URLS)
    assert client.hget(books.layout.keys.settings, "founded") == b"1"
    copies = [Settings.decode(client.hget(shard.ledger, "settings")) for shard in books.layout.shards]
    assert copies == [again.layout.settings] * 3


def test_a_lost_ledger_of_the_version_before_is_not_written_again_either(books, client, open_sync):
    client.hdel(books.layout.keys.settings, "founded")
    client.delete(books.layout.shards[2].ledger)
    with pytest.raises(DamagedCrawl, match="1 of 3 shards"):
        open_sync()


def test_a_removed_crawl_is_not_taken_for_a_damaged_one(books, open_sync):
    other = open_sync()
    books.admin.remove()
    with pytest.raises(UnknownCrawl):
        other.claim(1)
    with pytest.raises(UnknownCrawl):
        open_sync(create=False)


# ── repair ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def repair(frontier, *, really=True):
    """As `silkline fsck NAME --repair` does it, which cannot open the crawl."""
    return drive(frontier._connection, check_crawl(frontier.layout.keys, repair=really))


def kinds(checkup):
    return {damage.kind for damage in checkup.damages}


def work_on(frontier, settled=40):
    """Some requests done, some dead, some leased, some waiting."""
    leases = frontier.claim(settled)
    frontier.settle([(lease, Bury("no") if number % 4 == 0 else Complete()) for number, lease in enumerate(leases)])
    return frontier.claim(5)


@pytest.mark.parametrize("seen", ["exact", "compact"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_lost_ledger_is_restored_from_the_rest_of_the_shard(open_sync, client, seen, shards):
    frontier = open_sync(politeness=AT_ONCE, shards=shards, seen=seen)
    urls = [f"https://h{number}.example/{page}" for number in range(300) for page in range(20)]
    frontier.enqueue(urls)
    held = work_on(frontier, 400)
    before = frontier.admin.stats()
    for shard in frontier.layout.shards:
        client.delete(shard.ledger)
    assert kinds(repair(frontier, really=False)) == {"ledger"}
    found = repair(frontier)
    assert found.sound
    assert [damage.shard for damage in found.damages if damage.kind == "ledger"] == list(range(shards))
    assert repair(frontier).damages == []
    again = open_sync()
    after = again.admin.stats()
    assert (after.done, after.ready, after.leased, after.dead) == (
        before.done,
        before.ready,
        before.leased,
        before.dead,
    )
    assert after.conserved
    assert set(again.enqueue(urls)) == {Admission.SEEN}
    assert again.settle([(lease, Complete()) for lease in held]).lost == []
    done = 0
    while leases := again.claim(1000):
        done += len(leases) - len(again.settle([(lease, Complete()) for lease in leases]).lost)
    assert done == before.ready
    assert again.admin.fsck().damages == []


def test_a_restored_shard_is_in_the_state_of_the_others_and_has_its_pages(open_sync, client):
    frontier = open_sync(politeness=AT_ONCE, shards=3, budget=Budget(pages=100))
    frontier.enqueue(URLS)
    done = sum(len(frontier.settle([(lease, Complete()) for lease in frontier.claim(20)]).lost) == 0 for _ in range(4))
    assert done == 4
    frontier.admin.pause()
    lost = frontier.layout.shards[1]
    allowance = client.hget(lost.ledger, "allowance")
    client.delete(lost.ledger)
    [damage] = [damage for damage in repair(frontier).damages if damage.kind == "ledger"]
    assert "its state is that of the other shards (paused)" in damage.detail
    assert client.hget(lost.ledger, "allowance") == allowance
    assert frontier.admin.stats().state == "paused"
    frontier.admin.resume()
    while leases := frontier.claim(50):
        frontier.settle([(lease, Complete()) for lease in leases])
    assert frontier.admin.stats().done == 100, "the budget, and no page more"


def test_of_a_bloom_filter_it_is_reported_what_cannot_be_known(open_sync, client):
    frontier = open_sync(politeness=AT_ONCE, seen="bloom:0.0001,50")
    frontier.enqueue(URLS)
    client.delete(frontier.layout.shards[0].ledger)
    [damage] = [damage for damage in repair(frontier).damages if damage.kind == "ledger"]
    assert "seen URLs are unknown" in damage.detail
    assert set(frontier.enqueue(URLS)) == {Admission.SEEN}
    assert frontier.enqueue("https://new.example/") == [Admission.ADDED]


@pytest.mark.parametrize("shards", [1, 3])
def test_lost_settings_are_restored_from_a_shard(open_sync, client, shards):
    frontier = open_sync(politeness=AT_ONCE, shards=shards, budget=Budget(pages=150), seen="compact", order="lifo")
    frontier.enqueue(URLS)
    work_on(frontier)
    frontier.admin.set_politeness(Politeness(delay=0, concurrency=50))
    settings = frontier.layout.settings
    client.delete(frontier.layout.keys.settings)
    assert not repair(frontier, really=False).sound
    assert client.exists(frontier.layout.keys.settings) == 0
    assert kinds(repair(frontier)) == {"settings"}
    again = open_sync()
    assert again.layout.settings == settings
    assert set(again.enqueue(URLS)) == {Admission.SEEN}
    while leases := again.claim(50):
        again.settle([(lease, Complete()) for lease in leases])
    assert again.admin.stats().done <= 150


def test_settings_that_no_shard_has_a_copy_of_are_not_guessed(books, client):
    """As with a crawl that only the version before has opened."""
    client.delete(books.layout.keys.settings)
    for shard in books.layout.shards:
        client.hdel(shard.ledger, "settings")
    [damage] = repair(books).damages
    assert not damage.repaired
    assert "The seed of its fingerprints cannot be recovered" in damage.detail
    assert client.exists(books.layout.keys.settings) == 0


def test_settings_and_a_ledger_are_restored_together(books, client, open_sync):
    client.delete(books.layout.keys.settings, books.layout.shards[0].ledger)
    assert kinds(repair(books)) >= {"settings", "ledger"}
    again = open_sync()
    assert set(again.enqueue(URLS)) == {Admission.SEEN}
    assert again.admin.stats().ready == len(URLS)


def test_there_is_nothing_to_repair_of_a_crawl_that_does_not_exist(books, crawl):
    with pytest.raises(UnknownCrawl, match="there is no crawl named 'nothing'"):
        drive(books._connection, check_crawl(CrawlKeys("nothing"), repair=True))


def test_the_number_of_buckets_is_found_from_those_that_hold_something():
    assert count_buckets([], 16) == 16
    assert count_buckets([17, 31], 16) == 16
    assert count_buckets([17, 31, 32], 16) == 17
    for buckets in (16, 17, 100, 4095, 4096):
        assert count_buckets(list(range(buckets, 2 * buckets)), 16) == buckets
