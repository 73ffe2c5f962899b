"""The checker of histories finds what is illegal, and nothing else."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests.faults.history import first_replies, gap_violations, read, recoveries, violations

URL = "http://a.example/"


def claim(at, token, began, nonce="n"):
    return ["claim", at, URL, 0, token, nonce, began, 1]


def verdict(kind, at, token, sent, nonce="n"):
    return [kind, at, URL, 0, token, nonce, sent]


@pytest.fixture
def history(tmp_path):
    def write(*workers):
        logs = {}
        for number, lines in enumerate(workers):
            logs[number] = tmp_path / f"log-{number}"
            logs[number].write_text("".join(json.dumps(line) + "\n" for line in lines))
        return read(logs)

    return write


def test_a_page_that_is_handed_on_after_its_lease_is_legal(history):
    seen = history([claim(1, 10, 1.0)], [claim(4, 11, 4.0), verdict("complete", 5, 11, 4.5)])
    assert violations(seen, lease=2) == []
    assert (seen.completed, seen.repeated, seen.held_by(0), seen.held_by(1)) == ({URL}, 0, 0, 0)
    assert recoveries(seen, 2, worker=0) == [2]
    assert recoveries(seen, 2, worker=1) == []


def test_a_page_that_was_given_back_is_legal(history):
    seen = history([claim(1, 10, 1.0), verdict("end", 1.2, 10, 1.1)], [claim(1.5, 11, 1.5)])
    assert violations(seen, lease=2) == []
    assert seen.held_by(1) == 1
    assert recoveries(seen, 1.0, worker=0) == [0.5]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ([claim(1, 10, 1.0), verdict("complete", 2, 10, 1.5)], [claim(9, 11, 9.0)], "after it was completed"),
        (
            [claim(1, 10, 1.0), verdict("end", 9, 10, 8.0)],
            [claim(5, 11, 5.0)],
            "the verdict of the first lease was accepted",
        ),
        ([claim(1, 10, 1.0)], [claim(2, 11, 2.0)], "the first lease had 1.000 s left"),
        ([claim(1, 10, 1.0)], [claim(4, 10, 4.0)], "two leases have the same token"),
    ],
)
def test_what_is_illegal_is_found(history, first, second, what):
    [found] = violations(history(first, second), lease=2)
    assert what in found


def test_a_server_that_lost_writes_may_repeat_pages_but_not_tokens(history):
    first = [claim(1, 10, 1.0), verdict("complete", 2, 10, 1.5)]
    seen = history(first, [claim(9, 11, 9.0), verdict("complete", 10, 11, 9.5)])
    assert violations(seen, lease=2, may_repeat=True) == []
    assert seen.repeated == 1
    assert violations(history(first, [claim(9, 10, 9.0)]), lease=2, may_repeat=True)


def test_gaps_that_are_too_short_are_found():
    visits = [SimpleNamespace(host="a", at=at) for at in (1.0, 1.1, 1.18, 1.28)] + [SimpleNamespace(host="b", at=1.01)]
    assert gap_violations(visits, 0.1) == [pytest.approx(0.08)]


def test_the_next_reply_of_each_worker_counts(history):
    seen = history([["reply", 1.0, 0], ["reply", 5.0, 1]], [["reply", 3.5, 0]], [["reply", 2.0, 0]])
    assert first_replies(seen, 3.0) == [2.0, 0.5]
