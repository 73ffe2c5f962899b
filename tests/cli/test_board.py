"""The display of a run, without a run."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from silkline.cli import run_pulse
from silkline.cli.run_board import Board, draw, plain
from silkline.cli.run_pulse import Look, Pulse, clock, in_bytes, per_second
from silkline.frontier.inspection import Stats
from silkline.worker.tally import Tally

EMPTY = Stats(
    crawl="books", state="open", shards=1, accepted=0, ready=0, delayed=0, leased=0, done=0, dead=0, discarded=0, seen=0,
    overflow=0, rescued=0, full=False, capacity=10, hosts_ready=0, hosts_waiting=0, expected_skips=0.0,
)  # fmt: skip


def stats(**counts):
    return msgspec.structs.replace(EMPTY, **counts)


@pytest.fixture
def pulse(monkeypatch):
    """A pulse, and the time it takes for now."""
    now = [100.0]
    monkeypatch.setattr(run_pulse.time, "monotonic", lambda: now[0])
    felt = Pulse()

    def at(seconds, longest=0.0, **counts):
        now[0] = 100.0 + seconds
        return felt.feel(stats(**counts), longest)

    return at


def test_nobody_knows_the_rate_at_first_nor_when_it_ends(pulse):
    assert pulse(0, ready=10) == (None, None)
    assert pulse(1, done=5, ready=10) == (5.0, None)
    assert pulse(2, done=10, ready=20) == (5.0, None)
    assert pulse(4, done=20, ready=20, delayed=5, leased=5) == (5.0, 6.0)


def test_the_rate_is_that_of_the_last_seconds(pulse):
    for second in range(21):
        rate, _ = pulse(second, done=100 * min(second, 10), ready=100)
    assert rate < 10
    assert pulse(22, done=1000, ready=100)[1] is None  # nothing moves: nobody can say


def test_the_longest_queue_decides_when_it_ends(pulse):
    pulse(0, done=0)
    assert pulse(5, longest=600.0, done=50, ready=100) == (10.0, 600.0)


def look(**changes):
    tally = Tally(pages=5, items=4, bytes=1500, retried=2)
    tally.errors.update({"timeout": 3, "status 503": 1})
    values = {
        "stats": stats(done=5, ready=7, dead=1),
        "tally": tally,
        "in_flight": 2,
        "elapsed": 61.0,
        "rate": 1.5,
        "left": 90.0,
    }
    return Look(**{**values, **changes})


def drawn(one, width=100):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(draw("books", one))
    return console.file.getvalue()


def test_the_board_has_it_all():
    text = drawn(look(troubles=("no \x1b[31mdisk",), waiting_hosts="1 blocked for a while", restarts=1))
    for words in (
        "books", "6 of 13", "1.5 pages/s", "1:01", "about 1:30 left", "ready 7", "dead 1", "in flight 2", "items 4", "1.5 kB",
        "retries 2", "restarts 1", "timeout 3, status 503 1", "1 blocked for a while", "trouble     no \\x1b[31mdisk",
    ):  # fmt: skip
        assert words in text
    assert "left" not in drawn(look(left=None))


def test_a_line_has_it_all():
    text = plain(look(troubles=("no disk",)))
    assert text == (
        "   1:01  5 done, 1.5/s, 2 in flight, 7 ready, 0 delayed, 1 dead, 4 items, errors: timeout 3, status 503 1, "
        "about 1:30 left, no disk"
    )


@pytest.mark.parametrize(
    ("counts", "postponed", "words"),
    [
        ({"full": True, "overflow": 1200}, 0, "the crawl is full, 1,200 links wait on disk"),
        ({"overflow": 3}, 0, "3 links wait on disk"),
        ({"full": True}, 7, "the crawl is full: 7 pages were put back and are fetched again; give it --overflow PATH"),
    ],
)
def test_a_full_crawl_says_what_becomes_of_links(counts, postponed, words):
    one = look(stats=stats(**counts), tally=Tally(postponed=postponed))
    assert f"room        {words}" in drawn(one, width=120)
    assert words in plain(one)


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch):
    for quiet, lines in ((False, 2), (True, 0)):
        now = [0.0]
        monkeypatch.setattr("silkline.cli.run_board.time.monotonic", lambda now=now: now[0])
        console = Console(file=io.StringIO(), width=200)
        with Board("books", quiet=quiet, console=console) as board:
            for second in range(12):
                now[0] = float(second)
                board.show(look())
        assert len(console.file.getvalue().splitlines()) == lines


def test_numbers_as_people_say_them():
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3600, 36_061)] == [
        "0:00",
        "0:59",
        "1:01",
        "1:00:00",
        "10:01:01",
    ]
    assert [in_bytes(size) for size in (0, 999, 1000, 12_345_678)] == ["0 B", "999 B", "1.0 kB", "12.3 MB"]
    assert [per_second(rate) for rate in (None, 0.04, 99.94, 1234.5)] == ["–", "0.0", "99.9", "1,234"]
