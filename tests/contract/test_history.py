"""What workers did is kept in steps, for a day, and never grows."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError, UnknownCrawl
from silkline.frontier.verbs.history import COARSE, FINE, MOST_HANDLERS, OTHERS, Counts, HandlerCounts, Levels

HOUR = 3600


def levels(**fields):
    none = dict.fromkeys(("ready", "delayed", "leased", "done", "dead", "discarded", "overflow"), 0)
    return Levels(**{**none, **fields})


@pytest.fixture
def at_a_step(clock):
    """The clock at the beginning of a step of either ring."""
    clock.advance(COARSE.step - clock.now / 1000 % COARSE.step)
    return clock


async def test_what_several_workers_did_in_one_step_is_summed_up(frontier, at_a_step):
    await frontier.internal.add_history(Counts(pages=3, bytes=10**14, status_2xx=3, over_30s=1))
    at_a_step.advance(5)
    await frontier.internal.add_history(Counts(pages=2, bytes=10**14 + 1, errors=1))
    at_a_step.advance(5)
    await frontier.internal.add_history(Counts(pages=7))
    first, second = await frontier.admin.history(since=10)
    assert (first.pages, first.bytes, first.errors, first.status_2xx, first.over_30s) == (5, 2 * 10**14 + 1, 1, 3, 1)
    assert (second.pages, second.time - first.time) == (7, FINE.step)


async def test_the_hour_is_fine_and_the_day_is_coarse(frontier, at_a_step):
    for _ in range(6):
        await frontier.internal.add_history(Counts(pages=10))
        at_a_step.advance(HOUR)
    fine = await frontier.admin.history()
    assert (len(fine), sum(point.pages for point in fine)) == (FINE.size, 0)  # an hour ago is just too long ago
    coarse = await frontier.admin.history(since=24 * HOUR)
    assert (len(coarse), sum(point.pages for point in coarse)) == (COARSE.size, 60)
    assert [point.pages for point in coarse if point.pages] == [10] * 6


async def test_after_a_round_the_old_is_gone(frontier, at_a_step):
    await frontier.internal.add_history(Counts(pages=10), levels(ready=5))
    at_a_step.advance(FINE.span)
    assert sum(point.pages for point in await frontier.admin.history()) == 0
    await frontier.internal.add_history(Counts(pages=1))
    points = await frontier.admin.history()
    assert sum(point.pages for point in points) == 1
    assert all(point.levels is None for point in points)
    at_a_step.advance(COARSE.span)
    assert sum(point.pages for point in await frontier.admin.history(since=COARSE.span)) == 0


async def test_how_the_crawl_stood_is_kept_as_it_was_reported_last(frontier, at_a_step):
    await frontier.internal.add_history(Counts(), levels(ready=5, done=1))
    await frontier.internal.add_history(
        Counts(), levels(ready=4, delayed=1, leased=2, overflow=3, done=2, dead=1, discarded=1)
    )
    await frontier.internal.add_history(Counts(pages=1))
    point = (await frontier.admin.history(since=1))[-1]
    assert (point.pages, point.levels.depth, point.levels.ended) == (1, 10, 4)


async def test_larger_steps_sum_up_smaller_ones(frontier, at_a_step):
    for _ in range(12):
        await frontier.internal.add_history(Counts(pages=1, fetched=2, fetch_ms=500), levels(ready=1))
        at_a_step.advance(FINE.step)
    points = await frontier.admin.history(since=120, step=60)
    assert [point.pages for point in points if point.pages] == [6, 6]
    assert points[0].step == 60
    assert points[0].latency == 0.25
    assert points[0].levels.ready == 1


@pytest.mark.parametrize("wrong", [{"since": 0}, {"since": 100_000}, {"since": "1h"}, {"step": 0}, {"step": 10**6}])
async def test_nonsense_is_refused(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.admin.history(**wrong)


async def test_it_outlives_who_wrote_it_but_not_the_crawl(frontier, open_crawl):
    await frontier.internal.add_history(Counts(pages=1))
    again = await open_crawl()
    assert sum(point.pages for point in await again.admin.history()) == 1
    await again.admin.remove()
    with pytest.raises(UnknownCrawl):
        await frontier.admin.history()
    assert sum(point.pages for point in await (await open_crawl()).admin.history()) == 0


def counted(seconds=(), **counts):
    made = HandlerCounts(**counts)
    for one in seconds:
        made.timing.note(one)
    return made.numbers


async def test_the_counts_of_handlers_are_summed_up_since_the_crawl_began(frontier, at_a_step):
    await frontier.internal.add_history(Counts(), None, {"product": counted([0.2], pages=1, items=3)})
    at_a_step.advance(3 * 24 * HOUR)
    news = {"product": counted([0.2, 20], pages=2, failures=1), "list": counted(pages=9, exceptions=2, dead=1)}
    await frontier.internal.add_history(Counts(), None, news)
    found = await frontier.admin.handlers()
    assert list(found) == ["list", "product"]
    assert (found["list"].pages, found["list"].exceptions, found["list"].dead, found["list"].p50) == (9, 2, 1, None)
    product = found["product"]
    assert (product.pages, product.items, product.failures, product.timing.count) == (3, 3, 1, 3)
    assert product.timing.seconds == pytest.approx(20.4)
    assert 0.1 < product.p50 <= 0.25
    assert 10 < product.p95 <= 30


async def test_handlers_beyond_fifty_are_counted_together_and_hostile_names_are_cut(frontier):
    for number in range(MOST_HANDLERS + 2):
        await frontier.internal.add_history(Counts(), None, {f"h{number}": counted(pages=1)})
    await frontier.internal.add_history(
        Counts(), None, {"h0": counted(pages=1), "x\n;\x1b" + "y" * 300: counted(dead=1)}
    )
    found = await frontier.admin.handlers()
    assert (len(found), next(iter(found)), list(found)[-1]) == (MOST_HANDLERS + 1, "h0", OTHERS)
    assert (found[OTHERS].pages, found[OTHERS].dead) == (2, 1)


async def test_a_hostile_name_of_a_handler_stays_one_line(frontier):
    await frontier.internal.add_history(Counts(), None, {"x\n1;y" + "é" * 300: counted(pages=1)})
    [name] = await frontier.admin.handlers()
    assert name.startswith("x?1;yéé")
    assert len(name.encode()) <= 100
    assert await frontier.admin.handlers() == {name: HandlerCounts(pages=1)}
