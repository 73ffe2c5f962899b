"""The display of a run, without a run."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from silkline.cli.run import pulse as run_pulse
from silkline.cli.run.board import RunBoard, draw, plain
from silkline.cli.run.pulse import RunSnapshot, Throughput, clock, per_second
from silkline.frontier.admin_verbs.stats import Stats
from silkline.runtime.counters import Counters
from tests.patched import patch_for

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
    patch_for(monkeypatch, run_pulse, "time", monotonic=lambda: now[0])
    felt = Throughput()

    def at(seconds, longest=0.0, **counts):
        now[0] = 100.0 + seconds
        return felt.feel(stats(**counts), longest)[:2]

    return at


def test_nobody_knows_the_rate_at_first_nor_when_it_ends(pulse):
    assert pulse(0, ready=10) == (None, None)
    assert pulse(1, done=5, ready=10) == (5.0, None)
    assert pulse(2, done=10, ready=20) == (5.0, None)
    assert pulse(4, done=20, ready=20, delayed=5, leased=5) == (5.0, 6.0)


def test_while_it_finds_urls_its_end_is_unknown(monkeypatch):
    now = [100.0]
    patch_for(monkeypatch, run_pulse, "time", monotonic=lambda: now[0])
    felt = Throughput()

    def growing(seconds, **counts):
        now[0] = 100.0 + seconds
        estimate = felt.feel(stats(**counts))
        assert not (estimate.growing and estimate.left)
        return estimate.growing

    assert growing(0, accepted=1, ready=1), "its first page may have links"
    assert growing(5, accepted=11, done=1, ready=10)
    assert growing(34, accepted=11, done=8, ready=3)
    assert not growing(36, accepted=11, done=9, ready=2)
    assert felt.feel(stats(accepted=11, done=9, ready=2)).left
    assert growing(1000, accepted=12, done=9, ready=3)
    assert growing(1090, accepted=12, done=10, ready=2), "a tenth of the time"
    assert not growing(1120, accepted=12, done=11, ready=1)
    text = drawn(look(growing=True, left=None))
    assert text.splitlines()[1].rstrip() == "books  6 done, 7 waiting  1.5 pages/s  1:01"


def test_the_rate_is_that_of_the_last_seconds(pulse):
    for second in range(21):
        rate, _ = pulse(second, done=100 * min(second, 10), ready=100)
    assert rate < 10
    assert pulse(22, done=1000, ready=100)[1] is None  # nothing moves: nobody can say


def test_the_longest_queue_decides_when_it_ends(pulse):
    pulse(0, done=0)
    assert pulse(5, longest=600.0, done=50, ready=100) == (10.0, 600.0)


def look(**changes):
    counters = Counters(pages=5, items=4, bytes=1536, retried=2)
    counters.errors.update({"timeout": 3, "status 503": 1})
    values = {
        "stats": stats(done=5, ready=7, dead=1),
        "counters": counters,
        "in_flight": 2,
        "elapsed": 61.0,
        "rate": 1.5,
        "left": 90.0,
    }
    return RunSnapshot(**{**values, **changes})


def drawn(one, width=100):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(draw("books", one))
    return console.file.getvalue()


def test_the_board_has_it_all():
    text = drawn(look(troubles=("no \x1b[31mdisk",), waiting_hosts="1 blocked", restarts=1))
    for words in (
        "books", "6 of 13", "1.5 pages/s", "1:01", "about 1:30 left", "ready 7", "dead 1", "in flight 2", "items 4", "1.5 KiB",
        "retries 2", "restarts 1", "3 × timeout, 1 × status 503", "1 blocked", "problem     no \\x1b[31mdisk",
    ):  # fmt: skip
        assert words in text
    assert "left" not in drawn(look(left=None))


def test_a_line_has_it_all():
    text = plain(look(troubles=("no disk",)))
    assert text == (
        "   1:01  5 done, 1.5/s, 2 in flight, 7 ready, 0 delayed, 1 dead, 4 items, errors: 3 × timeout, 1 × status 503, "
        "about 1:30 left, no disk"
    )


@pytest.mark.parametrize(
    ("counts", "postponed", "words"),
    [
        ({"full": True, "overflow": 1200}, 0, "the crawl is full, 1,200 links in the overflow file"),
        ({"overflow": 3}, 0, "3 links in the overflow file"),
        ({"full": True}, 7, "the crawl is full: 7 pages are retried later; use --overflow PATH"),
    ],
)
def test_a_full_crawl_says_what_becomes_of_links(counts, postponed, words):
    one = look(stats=stats(**counts), counters=Counters(postponed=postponed))
    assert f"capacity    {words}" in drawn(one, width=120)
    assert words in plain(one)


@pytest.mark.parametrize(
    ("columns", "name", "start"),
    [
        (64, "books", "books  12,345 of"),
        (64, "books-of-all-the-shops", "books-of…  12,345 of"),
        (80, "books-of-all-the-shops", "books-of-all-the-shops  12,345 of"),
        (80, "books", "books  ━"),
        (200, "books-of-all-the-shops", "books-of-all-the-shops  ━"),
    ],
)
def test_the_first_line_fits_on_the_screen(columns, name, start):
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(draw(name, look(stats=stats(done=12_345, ready=99_999), left=90.0)))
    first = console.export_text().splitlines()[1].rstrip()
    assert len(first) <= columns
    assert first.startswith(start)
    assert first.endswith("12,345 of 112,344  1.5 pages/s  1:01  about 1:30 left")


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch):
    for quiet, lines in ((False, 2), (True, 0)):
        now = [0.0]
        monkeypatch.setattr("silkline.cli.run.board.time.monotonic", lambda now=now: now[0])
        console = Console(file=io.StringIO(), width=200)
        with RunBoard("books", quiet=quiet, console=console) as board:
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
    assert [per_second(rate) for rate in (None, 0.04, 99.94, 1234.5)] == ["–", "0.0", "99.9", "1,234"]
