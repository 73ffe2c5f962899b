"""What a host answered, in numbers and in words."""

from __future__ import annotations

import pytest

from silkline.frontier.crawl_server import _shown
from silkline.frontier.verbs.hosts import (
    MOST_COUNTED,
    HostState,
    StatusCounts,
    most_trouble_first,
    pack_counts,
    unpack_counts,
)
from silkline.ops.parsing import HostFilter
from silkline.runtime import counters
from silkline.runtime.counters import HostStatuses


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "status_2xx"), (299, "status_2xx"), (304, "status_3xx"), (404, "status_4xx"), (429, "status_4xx"),
        (503, "status_5xx"), (599, "status_5xx"), (None, "failed"), (101, "failed"), (999, "failed"),
    ],
)  # fmt: skip
def test_an_answer_counts_in_its_class(status, kind):
    statuses = HostStatuses()
    statuses.note("a", status)
    answers = statuses.take()["a"]
    assert (getattr(answers, kind), answers.total, answers.last) == (1, 1, status)


@pytest.mark.parametrize(
    ("fields", "mix"),
    [
        ({"status_2xx": 97, "status_5xx": 3}, "97 % 2xx · 3 % 5xx"),
        ({"status_2xx": 9}, "100 % 2xx"),
        ({"status_2xx": 999, "failed": 1}, "99 % 2xx · <1 % failed"),
        ({"status_2xx": 1, "status_3xx": 1, "status_4xx": 2}, "25 % 2xx · 25 % 3xx · 50 % 4xx"),
        ({}, ""),
    ],
)
def test_the_mix_in_words(fields, mix):
    assert StatusCounts(**fields).mix == mix


def test_errors_are_reported_first():
    answers = StatusCounts(status_2xx=30, status_3xx=40, status_4xx=10, status_5xx=15, failed=5)
    assert answers.errors_first == "15 % 5xx · 10 % 4xx · 5 % failed · 40 % 3xx · 30 % 2xx"
    assert StatusCounts().errors_first == ""


def test_trouble_is_what_was_no_good():
    assert StatusCounts(status_2xx=6, status_3xx=2, status_4xx=1, failed=1).trouble == pytest.approx(0.2)
    assert StatusCounts().trouble == 0


def test_what_is_sent_is_never_too_much_for_its_bytes():
    counts = unpack_counts(pack_counts(StatusCounts(status_2xx=10**9, status_4xx=10**9, last=10**9)) + b"\0" * 4)
    assert counts.total <= MOST_COUNTED
    assert counts.status_2xx == counts.status_4xx > 0


def test_nothing_kept_is_nothing_known():
    assert unpack_counts(b"") is None


def host(name, **fields):
    answers = StatusCounts(**fields) if fields else None
    return HostState(name, "ready", 0, 1, 0, 0, 1, 1, None, False, 0, answers=answers)


def test_hosts_with_the_most_trouble_come_first_and_others_stay_as_they_are():
    hosts = [
        host("a"),
        host("b", status_2xx=5),
        host("c", status_2xx=1, failed=1),
        host("d", status_4xx=1),
        host("e", failed=9),
    ]
    assert [one.host for one in sorted(hosts, key=most_trouble_first)] == ["e", "d", "c", "a", "b"]


def test_a_worker_counts_by_host_and_starts_over_once_it_has_reported(monkeypatch):
    monkeypatch.setattr(counters, "MOST_REPORTED_HOSTS", 2)
    book = HostStatuses()
    for name, status in (("a", 200), ("a", 404), ("b", None), ("c", 200), ("b", 200)):
        book.note(name, status)
    assert book.take() == {
        "a": StatusCounts(status_2xx=1, status_4xx=1, last=404),
        "b": StatusCounts(status_2xx=1, failed=1, last=200),
    }, "and of no more hosts than it may"
    assert book.take() == {}
    book.note("c", 200)
    assert list(book.take()) == ["c"]


def test_what_a_page_cost_is_reported_with_the_next_answers_of_its_host(monkeypatch):
    monkeypatch.setattr(counters, "MOST_REPORTED_HOSTS", 1)
    book = HostStatuses()
    book.note("a", 200)
    book.spent("a", 0.25)
    book.spent("b", 0.5)
    assert book.take() == {"a": StatusCounts(status_2xx=1, last=200, cpu=0.25)}
    book.note("a", 200)
    book.note("b", 200)  # beside as many others as are told of, because it is costly
    book.note("c", 200)
    assert {host: answers.cpu for host, answers in book.take().items()} == {"a": 0.0, "b": 0.5}


def test_what_is_known_of_hosts_that_do_not_answer_is_bounded(monkeypatch):
    monkeypatch.setattr(counters, "MOST_SPENT", 2)
    book = HostStatuses()
    for number in range(5):
        book.spent(f"h{number}", number)
    book.take()
    assert set(book._spent) == {"h3", "h4"}


@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({"status_2xx": 10}, ""),
        ({"status_2xx": 10, "cpu": 0.012}, "0.0 s, 1.2 ms each"),
        ({"status_2xx": 40, "cpu": 12.4}, "12.4 s, 0.3 s each"),
        ({"status_2xx": 400, "cpu": 12.4}, "12.4 s, 31 ms each"),
    ],
)
def test_the_cost_in_words(fields, cost):
    assert StatusCounts(**fields).cost == cost


def test_the_costliest_hosts_can_be_found():
    hosts = [host("a"), host("b", status_2xx=5, cpu=0.1), host("c", status_2xx=1, cpu=3.0)]
    assert [one.host for one in HostFilter(sort="cpu").choose(hosts)] == ["c", "b", "a"]


def test_top_shows_the_costliest_among_the_longest_queues():
    hosts = [host(f"h{number}", status_2xx=10, cpu=0.01) for number in range(20)]
    hosts[15] = host("slow", status_2xx=10, cpu=9.0)
    assert [one.host for one in _shown(hosts, 4)] == ["h0", "h1", "h2", "slow"]
    assert [one.host for one in _shown(hosts[:15], 4)] == ["h0", "h1", "h2", "h3"]
