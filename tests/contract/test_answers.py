"""What hosts answered of late is told of each."""

from __future__ import annotations

import pytest

from silkline.core.errors import ConfigError, UnknownCrawl
from silkline.frontier.answers import MOST_COUNTED, Answers


def answers(**fields):
    return Answers(**{"last": 200, **fields})


async def test_what_several_workers_told_of_a_host_is_added_up(frontier, clock):
    await frontier.add_answers({"a.example": answers(status_2xx=8), "b.example": answers(status_3xx=1, last=301)})
    clock.advance(5)
    await frontier.add_answers({"a.example": answers(status_2xx=1, status_4xx=2, status_5xx=3, failed=4, last=None)})
    one, two, three = await frontier.hosts("a.example", "b.example", "c.example")
    now = clock.now // 1000
    assert one.answers == Answers(status_2xx=9, status_4xx=2, status_5xx=3, failed=4, last=None, heard=now)
    assert two.answers == Answers(status_3xx=1, last=301, heard=now - 5)
    assert three.answers is None


async def test_the_listing_has_them_too(frontier):
    await frontier.enqueue(["https://a.example/", "https://b.example/"])
    await frontier.add_answers({"a.example": answers(status_2xx=1)})
    assert [(host.host, host.answers and host.answers.total) for host in await frontier.hosts()] == [
        ("a.example", 1),
        ("b.example", None),
    ]


async def test_many_hosts_are_told_at_once(frontier):
    await frontier.add_answers({f"h{number}.example": answers(status_2xx=number + 1) for number in range(700)})
    for number in (0, 333, 699):
        [host] = await frontier.hosts(f"h{number}.example")
        assert host.answers.status_2xx == min(number + 1, MOST_COUNTED)


async def test_the_older_counts_for_less(frontier):
    await frontier.add_answers({"a.example": answers(status_2xx=50_000)})
    for _ in range(20):
        await frontier.add_answers({"a.example": answers(status_4xx=100, last=429)})
    [host] = await frontier.hosts("a.example")
    assert host.answers.total <= MOST_COUNTED
    assert host.answers.trouble > 0.8
    assert host.answers.last == 429


async def test_a_host_that_has_nothing_to_do_is_found_by_its_name_alone(frontier):
    await frontier.add_answers({"a.example": answers(status_2xx=1)})
    assert await frontier.hosts() == []
    assert (await frontier.hosts("a.example"))[0].place == "unknown"


async def test_nothing_told_changes_nothing(frontier):
    await frontier.add_answers({})
    assert (await frontier.hosts("a.example"))[0].answers is None


async def test_a_host_that_is_none_is_refused(frontier):
    with pytest.raises(ConfigError, match="a host is written"):
        await frontier.add_answers({"not a host": answers(status_2xx=1)})


async def test_explain_tells_that_the_host_is_in_trouble(frontier):
    await frontier.enqueue("https://a.example/1")
    await frontier.add_answers({"a.example": answers(status_2xx=80, status_4xx=19, failed=1)})
    assert "trouble" in (await frontier.explain("https://a.example/1")).text, "a fifth is much"
    await frontier.add_answers({"a.example": answers(status_2xx=2)})
    assert "trouble" not in (await frontier.explain("https://a.example/1")).text, "less is not"
    await frontier.add_answers({"a.example": answers(status_4xx=100, last=429)})
    text = (await frontier.explain("https://a.example/1")).text
    assert text.endswith(
        "The host is in trouble: of what it answered of late 41 % 2xx · 59 % 4xx · <1 % failed; last came status 429."
    )


async def test_of_few_answers_nothing_is_concluded(frontier):
    await frontier.enqueue("https://a.example/1")
    await frontier.add_answers({"a.example": answers(failed=4, last=None)})
    assert "trouble" not in (await frontier.explain("https://a.example/1")).text
    await frontier.add_answers({"a.example": answers(failed=1, last=None)})
    assert "100 % failed; last came no answer at all." in (await frontier.explain("https://a.example/1")).text


async def test_they_outlive_who_told_them_but_not_the_crawl(frontier, open_crawl):
    await frontier.add_answers({"a.example": answers(status_2xx=1)})
    again = await open_crawl()
    assert (await again.hosts("a.example"))[0].answers.total == 1
    await again.remove()
    with pytest.raises(UnknownCrawl):
        await frontier.add_answers({"a.example": answers(status_2xx=1)})
    assert (await (await open_crawl()).hosts("a.example"))[0].answers is None
