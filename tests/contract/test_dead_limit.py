"""How many dead letters a crawl keeps."""

from __future__ import annotations

import msgspec
import pytest

from silkline import Admission, Bury, Complete
from silkline.core.verdict import Strike
from silkline.errors import ConfigError, SettingsConflict
from tests.contract.frontiers import page


async def bury(frontier, *pages, reason="no"):
    """Bury these pages, in one call."""
    await frontier.enqueue(list(pages))
    return await frontier.settle([(lease, Bury(reason)) for lease in await frontier.claim(1000)])


def urls(letters):
    return [letter.url.partition("//")[2] for letter in letters]


async def groups(frontier, by):
    return dict(await frontier.admin.dead_groups(by))


async def test_a_new_crawl_has_a_limit(frontier):
    assert (await frontier.admin.stats()).dead_limit == frontier.layout.settings.dead_limit == 250_000


@pytest.mark.parametrize("one_call", [True, False])
async def test_the_newest_letters_are_kept_and_the_others_counted(one_call, open_crawl, clock):
    frontier = await open_crawl(dead_limit=3)
    if one_call:
        outcome = await bury(frontier, *(page(number) for number in range(5)))
        assert outcome.dropped_letters == 2
    else:
        dropped = []
        for number in range(5):
            dropped.append((await bury(frontier, page(number))).dropped_letters)
            clock.advance(1)
        assert dropped == [0, 0, 0, 1, 1]
    assert urls(await frontier.admin.dead()) == ["a.example/4", "a.example/3", "a.example/2"]
    stats = await frontier.admin.stats()
    assert (stats.dead, stats.dead_dropped, stats.discarded, stats.accepted) == (3, 2, 2, 5)


async def test_below_the_limit_nothing_is_dropped(open_crawl):
    frontier = await open_crawl(dead_limit=3)
    outcome = await bury(frontier, *(page(number) for number in range(3)))
    stats = await frontier.admin.stats()
    assert (outcome.dropped_letters, stats.dead, stats.dead_dropped) == (0, 3, 0)


async def test_without_a_limit_all_are_kept(open_crawl):
    frontier = await open_crawl(dead_limit=0)
    await bury(frontier, *(page(number) for number in range(9)))
    stats = await frontier.admin.stats()
    assert (stats.dead, stats.dead_dropped, stats.dead_limit) == (9, 0, 0)


async def test_the_url_of_a_dropped_letter_stays_seen(open_crawl, clock):
    frontier = await open_crawl(dead_limit=1)
    await bury(frontier, page("old"))
    clock.advance(1)
    await bury(frontier, page("new"))
    assert await frontier.enqueue(page("old")) == [Admission.SEEN]
    explained = await frontier.admin.explain("https://a.example/old")
    assert explained.state == "done"
    assert "1 dead letter was dropped beyond the limit" in explained.text
    assert (await frontier.admin.explain("https://a.example/new")).state == "dead"


async def test_a_crawl_that_dropped_none_does_not_suspect_it(frontier):
    await frontier.enqueue(page(1))
    await frontier.complete(*await frontier.claim())
    assert "limit" not in (await frontier.admin.explain("https://a.example/1")).text


async def test_groups_and_hosts_are_right_after_a_drop(open_crawl, clock):
    frontier = await open_crawl(dead_limit=4)
    for number, (host, reason) in enumerate([("a", "x"), ("b", "x"), ("a", "y"), ("c", "z"), ("a", "z"), ("d", "z")]):
        await bury(frontier, page(number, f"{host}.example"), reason=reason)
        clock.advance(1)
    assert await groups(frontier, "reason") == {"z": 3, "y": 1}
    assert await groups(frontier, "host") == {"a.example": 2, "c.example": 1, "d.example": 1}
    assert await frontier.admin.dead_groups("host", name="b.example") == [("b.example", 0)]
    assert urls(await frontier.admin.dead(host="a.example")) == ["a.example/4", "a.example/2"]
    assert (await frontier.admin.count_dead(host="a.example")).total == 2
    assert (await frontier.admin.fsck()).damages == []


async def test_revived_and_purged_letters_make_room(open_crawl, clock):
    frontier = await open_crawl(dead_limit=2)
    await bury(frontier, page(1), page(2))
    await frontier.admin.revive(id=(await frontier.admin.dead())[0].id)
    await frontier.settle([(lease, Complete()) for lease in await frontier.claim(9)])
    clock.advance(1)
    assert (await bury(frontier, page(3))).dropped_letters == 0
    await frontier.admin.purge()
    stats = await frontier.admin.stats()
    assert (stats.dead, stats.dead_dropped, stats.discarded) == (0, 0, 2)


async def test_letters_of_crashed_workers_keep_the_limit_too(open_crawl, clock):
    frontier = await open_crawl(dead_limit=1, lease=5)
    await bury(frontier, page("old"))
    await frontier.enqueue(page("crash"))
    for _ in range(3):
        [lease] = await frontier.claim()
        await frontier.settle([(lease, Strike("it blocked"))])
    assert urls(await frontier.admin.dead()) == ["a.example/crash"]
    await frontier.enqueue(page("crash again"))
    for _ in range(4):
        await frontier.claim()
        clock.advance(5)
    await frontier.claim()
    assert urls(await frontier.admin.dead()) == ["a.example/crash%20again"]
    assert (await frontier.admin.stats()).dead_dropped == 2


async def test_a_lower_limit_drops_the_oldest_at_once_and_a_higher_one_keeps_more(open_crawl, clock):
    frontier = await open_crawl(dead_limit=0)
    for number in range(3):
        await bury(frontier, *(page(f"{number}-{n}") for n in range(600)))
        clock.advance(1)
    await frontier.admin.set_dead_limit(700)
    stats = await frontier.admin.stats()
    assert (stats.dead, stats.dead_dropped, stats.dead_limit) == (700, 1100, 700)
    assert (await frontier.admin.count_dead(newer_than=1.5)).total == 600
    assert await groups(frontier, "host") == {"a.example": 700}
    await frontier.admin.set_dead_limit(701)
    assert (await bury(frontier, page("one"), page("more"))).dropped_letters == 1
    await frontier.admin.set_dead_limit(0)
    await bury(frontier, page("no"), page("limit"))
    assert (await frontier.admin.stats()).dead == 703
    assert (await frontier.admin.fsck()).damages == []


async def test_every_shard_keeps_its_share(open_crawl):
    frontier = await open_crawl(dead_limit=10, shards=4)
    await bury(frontier, *(page(n, f"h{n % 20}.example") for n in range(200)))
    stats = await frontier.admin.stats()
    kept = 10 if len(frontier.layout.shards) == 1 or type(frontier).__name__ == "MemoryFrontier" else 12
    assert (stats.dead, stats.dead_dropped) == (kept, 200 - kept)
    await frontier.admin.set_dead_limit(4)
    assert (await frontier.admin.stats()).dead == 4


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "many"])
async def test_a_limit_that_means_nothing_is_refused(wrong, frontier, open_bare):
    with pytest.raises(ConfigError, match="dead_limit must be at least 1, or 0 to keep all dead letters"):
        await frontier.admin.set_dead_limit(wrong)
    with pytest.raises(ConfigError, match="dead_limit"):
        await open_bare(crawl=f"{frontier.crawl}-wrong", dead_limit=wrong)


async def test_another_limit_contradicts_the_stored_one(open_crawl):
    await open_crawl(dead_limit=5)
    with pytest.raises(SettingsConflict, match="dead_limit is 5, not 6"):
        await open_crawl(dead_limit=6)


async def test_the_limit_is_stored_with_the_settings(open_crawl):
    frontier = await open_crawl(dead_limit=5)
    await frontier.admin.set_dead_limit(6)
    other = await open_crawl(create=False, politeness=None)
    assert msgspec.structs.asdict(other.layout.settings)["dead_limit"] == 6
