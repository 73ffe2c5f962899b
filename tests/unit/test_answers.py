"""What a host answered, in numbers and in words."""

from __future__ import annotations

import pytest

from silkline.frontier.answers import MOST_COUNTED, Answers, pack, unpack
from silkline.frontier.host_state import HostState, most_trouble_first
from silkline.worker import answers as worker_answers
from silkline.worker.answers import HostAnswers


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "status_2xx"), (299, "status_2xx"), (304, "status_3xx"), (404, "status_4xx"), (429, "status_4xx"),
        (503, "status_5xx"), (599, "status_5xx"), (None, "failed"), (101, "failed"), (999, "failed"),
    ],
)  # fmt: skip
def test_an_answer_counts_in_its_class(status, kind):
    answers = Answers()
    answers.note(status)
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
    assert Answers(**fields).mix == mix


def test_trouble_is_what_was_no_good():
    assert Answers(status_2xx=6, status_3xx=2, status_4xx=1, failed=1).trouble == pytest.approx(0.2)
    assert Answers().trouble == 0


def test_what_is_sent_is_never_too_much_for_its_bytes():
    counts = unpack(pack(Answers(status_2xx=10**9, status_4xx=10**9, last=10**9)) + b"\0" * 4)
    assert counts.total <= MOST_COUNTED
    assert counts.status_2xx == counts.status_4xx > 0


def test_nothing_kept_is_nothing_known():
    assert unpack(b"") is None


def host(name, **fields):
    answers = Answers(**fields) if fields else None
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


def test_a_worker_counts_by_host_and_begins_anew_once_it_has_told(monkeypatch):
    monkeypatch.setattr(worker_answers, "MOST_HOSTS", 2)
    book = HostAnswers()
    for name, status in (("a", 200), ("a", 404), ("b", None), ("c", 200), ("b", 200)):
        book.note(name, status)
    assert book.take() == {
        "a": Answers(status_2xx=1, status_4xx=1, last=404),
        "b": Answers(status_2xx=1, failed=1, last=200),
    }, "and of no more hosts than it may"
    assert book.take() == {}
    book.note("c", 200)
    assert list(book.take()) == ["c"]
