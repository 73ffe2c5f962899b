"""What hosts answered of late is told of each."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError, UnknownCrawl
from silkline.frontier.verbs.hosts import MOST_COUNTED, StatusCounts


def answers(**fields):
    return StatusCounts(**{"last": 200, **fields})


async def test_what_several_workers_reported_of_a_host_is_added_up(frontier, clock):
    await frontier.internal.add_answers(
        {"a.example": answers(status_2xx=8), "b.example": answers(status_3xx=1, last=301)}
    )
    clock.advance(5)
    await frontier.internal.add_answers(
        {"a.example": answers(status_2xx=1, status_4xx=2, status_5xx=3, failed=4, last=None)}
    )
    one, two, three = await frontier.admin.hosts("a.example", "b.example", "c.example")
    now = clock.now // 1000
    assert one.answers == StatusCounts(status_2xx=9, status_4xx=2, status_5xx=3, failed=4, last=None, updated=now)
    assert two.answers == StatusCounts(status_3xx=1, last=301, updated=now - 5)
    assert three.answers is None


async def test_the_listing_has_them_too(frontier):
    await frontier.enqueue(["https://a.example/", "https://b.example/"])
    await frontier.internal.add_answers({"a.example": answers(status_2xx=1)})
    assert [(host.host, host.answers and host.answers.total) for host in await frontier.admin.hosts()] == [
        ("a.example", 1),
        ("b.example", None),
    ]


async def test_many_hosts_are_reported_at_once(frontier):
    await frontier.internal.add_answers({f"h{number}.example": answers(status_2xx=number + 1) for number in range(700)})
    for number in (0, 333, 699):
        [host] = await frontier.admin.hosts(f"h{number}.example")
        assert host.answers.status_2xx == min(number + 1, MOST_COUNTED)


async def test_the_older_counts_for_less(frontier):
    await frontier.internal.add_answers({"a.example": answers(status_2xx=50_000)})
    for _ in range(20):
        await frontier.internal.add_answers({"a.example": answers(status_4xx=100, last=429)})
    [host] = await frontier.admin.hosts("a.example")
    assert host.answers.total <= MOST_COUNTED
    assert host.answers.trouble > 0.8
    assert host.answers.last == 429


async def test_cpu_time_is_reported_per_host(frontier):
    await frontier.internal.add_answers(
        {"a.example": answers(status_2xx=2, cpu=1.5), "b.example": answers(status_2xx=1)}
    )
    await frontier.internal.add_answers({"a.example": answers(status_2xx=1, cpu=0.0012)})
    one, two = await frontier.admin.hosts("a.example", "b.example")
    assert (one.answers.cpu, two.answers.cpu) == (pytest.approx(1.5012), 0)
    assert one.answers.cpu_each == pytest.approx(0.5004)
    await frontier.internal.add_answers({"a.example": answers(status_2xx=1000, cpu=3.0)})
    [one] = await frontier.admin.hosts("a.example")
    assert one.answers.cpu == pytest.approx(2.2506)
    assert one.answers.total == 501


async def test_a_host_that_has_nothing_to_do_is_found_by_its_name_alone(frontier):
    await frontier.internal.add_answers({"a.example": answers(status_2xx=1)})
    assert await frontier.admin.hosts() == []
    assert (await frontier.admin.hosts("a.example"))[0].place == "unknown"


async def test_nothing_reported_changes_nothing(frontier):
    await frontier.internal.add_answers({})
    assert (await frontier.admin.hosts("a.example"))[0].answers is None


async def test_a_host_that_is_none_is_refused(frontier):
    with pytest.raises(ConfigError, match="a host must be written"):
        await frontier.internal.add_answers({"not a host": answers(status_2xx=1)})


async def test_explain_reports_that_the_host_is_in_trouble(frontier):
    await frontier.enqueue("https://a.example/1")
    await frontier.internal.add_answers({"a.example": answers(status_2xx=80, status_4xx=19, failed=1)})
    assert "trouble" in (await frontier.admin.explain("https://a.example/1")).text, "a fifth is much"
    await frontier.internal.add_answers({"a.example": answers(status_2xx=2)})
    assert "trouble" not in (await frontier.admin.explain("https://a.example/1")).text, "less is not"
    await frontier.internal.add_answers({"a.example": answers(status_4xx=100, last=429)})
    text = (await frontier.admin.explain("https://a.example/1")).text
    assert text.endswith(
        "The host is in trouble: its recent replies are 41 % 2xx · 59 % 4xx · <1 % failed, the last one is status 429."
    )


async def test_of_few_answers_nothing_is_concluded(frontier):
    await frontier.enqueue("https://a.example/1")
    await frontier.internal.add_answers({"a.example": answers(failed=4, last=None)})
    assert "trouble" not in (await frontier.admin.explain("https://a.example/1")).text
    await frontier.internal.add_answers({"a.example": answers(failed=1, last=None)})
    assert "100 % failed, the last request got none." in (await frontier.admin.explain("https://a.example/1")).text


async def test_they_outlive_who_reported_them_but_not_the_crawl(frontier, open_crawl):
    await frontier.internal.add_answers({"a.example": answers(status_2xx=1)})
    again = await open_crawl()
    assert (await again.admin.hosts("a.example"))[0].answers.total == 1
    await again.admin.remove()
    with pytest.raises(UnknownCrawl):
        await frontier.internal.add_answers({"a.example": answers(status_2xx=1)})
    assert (await (await open_crawl()).admin.hosts("a.example"))[0].answers is None
