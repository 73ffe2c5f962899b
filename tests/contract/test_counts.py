"""Counts of requests by priority, and of results."""

from __future__ import annotations

from silkline import Complete
from tests.contract.frontiers import page


async def test_ready_requests_are_counted_by_priority(frontier, clock):
    await frontier.enqueue([page(number, host=f"{host}.example") for number in range(3) for host in "ab"])
    assert (await frontier.admin.stats()).priorities == {0: 6}
    await frontier.enqueue([page(f"low{number}", priority=-2) for number in range(2)])
    await frontier.enqueue([page("high", host=f"{host}.example", priority=10) for host in "abc"])
    await frontier.enqueue(page("later", priority=5, not_before=clock.seconds + 60))
    stats = await frontier.admin.stats()
    assert list(stats.priorities.items()) == [(10, 3), (0, 6), (-2, 2)]
    assert sum(stats.priorities.values()) == stats.ready == 11
    await frontier.claim(3)
    assert (await frontier.admin.stats()).priorities == {0: 6, -2: 2}
    clock.advance(60)
    await frontier.claim(100)
    assert (await frontier.admin.stats()).priorities == {}


async def test_results_are_counted_until_they_expire(frontier, clock):
    await frontier.enqueue([page(number) for number in range(3)])
    assert ((await frontier.admin.stats()).results, (await frontier.admin.stats()).result_bytes) == (0, 0)
    one, two, three = await frontier.claim(3)
    await frontier.settle(
        [(one, Complete(result={"sku": "a"}, keep=10)), (two, Complete(result=1)), (three, Complete())]
    )
    stats = await frontier.admin.stats()
    assert (stats.results, 250 < stats.result_bytes < 400) == (2, True)
    clock.advance(10)
    assert (await frontier.admin.stats()).results == 1
    clock.advance(3600)
    stats = await frontier.admin.stats()
    assert (stats.results, stats.result_bytes) == (0, 0)
