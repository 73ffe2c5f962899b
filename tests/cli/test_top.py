"""``silkline top`` on a pseudo-terminal, and what it shows."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from silkline import Politeness, SyncFrontier
from silkline.cli.options.operator import operator
from silkline.cli.screen import shared
from silkline.cli.top.board import TopBoard, draw, spark
from silkline.cli.top.command import split_keys
from silkline.errors import ConfigError
from silkline.frontier.crawl_server import CrawlDetail
from tests.cli.terminal import Terminal


@pytest.fixture
def books(frontier):
    one = frontier(politeness=Politeness(delay=0, concurrency=100))
    one.enqueue([f"https://h{n % 3}.example/{n}" for n in range(20)])
    one.bury(one.claim()[0], "status 503", 503)
    one.internal.join("w-1", info={"version": "0.1.0", "urls": ["https://h1.example/x"]})
    return one


def test_keys_steer_the_crawl_that_is_chosen(books, crawl, valkey, workplace):
    screen = Terminal("top", crawl, "--every", "0.2", "--redis", valkey.url, cwd=workplace)
    try:
        for words in ("silkline top", crawl, "h1.example", "status 503", "w-1"):
            screen.wait_for(words)
        screen.type(b"r")
        screen.wait_for(f"{crawl} is not paused")
        screen.type(b"p")
        screen.wait_for(f"Pause {crawl}? y/n")
        screen.type(b"n")
        screen.wait_for(f"{crawl} was not paused")
        assert books.admin.stats().state == "open"
        screen.type(b"py")
        screen.wait_for(f"{crawl} is paused")
        screen.wait_for(f" by {operator()} at ")
        assert books.admin.stats().state == "paused"
        screen.type(b"r")
        screen.wait_for(f"{crawl} is resumed")
        assert books.admin.stats().state == "open"
        screen.type(b"v")
        screen.wait_for("Revive 1 dead letter of")
        screen.type(b"n")
        screen.wait_for("nothing was revived")
        assert books.admin.stats().dead == 1
        screen.type(b"v")
        screen.type(b"y")
        screen.wait_for("1 dead letter revived")
        assert books.admin.stats().dead == 0
        screen.type(b"\x1b[A")
        screen.type(b"q")
        assert screen.end() == 0
    finally:
        screen.close()
    assert [(act.what, act.about) for act in books.admin.audit()] == [
        ("revive", "all: 1"),
        ("resume", ""),
        ("pause", ""),
    ]
    assert "Traceback" not in screen.text


def test_keys_that_come_at_once_act_one_after_the_other(books, crawl, valkey, workplace):
    neighbors = [SyncFrontier.open(valkey.url, crawl=f"{crawl}-{letter}") for letter in "ab"]
    screen = Terminal("top", f"{crawl}-a", "--every", "0.2", "--redis", valkey.url, cwd=workplace)
    try:
        screen.wait_for(f"{crawl}-b")
        screen.type(b"pyjpy\x1b[Ar")
        screen.wait_for(f"{crawl}-a is resumed")
        screen.type(b"q")
        assert screen.end() == 0
        acts = [[act.what for act in one.admin.audit()] for one in neighbors]
        assert acts == [["resume", "pause"], ["pause"]]
    finally:
        screen.close()
        for one in neighbors:
            one.close()


def test_an_answer_is_for_the_crawl_that_was_asked_about(books, crawl):
    board = TopBoard("here")
    board.take({name: stats_of(books, crawl=name) for name in ("a", "b")}, 0.0)
    board.press("j")
    assert board.press("v") is None
    assert "of b?" in board.message
    board.take({name: stats_of(books, crawl=name) for name in ("0", "a", "c")}, 1.0)
    assert board.press("y") == ("revive", "b")
    assert board.press("y") is None, "it is asked for once"


def test_keys_are_distinguished():
    assert split_keys("\x1b[Ap\x1bOBq") == ["up", "p", "down", "q"]
    assert split_keys("\x1b[3~\x1b[1;5C") == ["\x1b[3~", "\x1b[1;5C"], "not the letters that they end with"
    assert split_keys("") == ["q"]


def test_a_look_without_a_terminal(operate, books, crawl):
    assert crawl in operate("top", crawl, "--once").out  # of many crawls not all are shown, but the one that is named
    found = operate("top", crawl, "--json").json
    assert (found["chosen"], found["workers"][0]["name"]) == (crawl, "w-1")
    assert found["dead"] == [{"name": "status 503", "letters": 1}]


def test_what_is_wrong_gets_a_sentence_and_code_2(operate, books):
    for wrong in ([], ["no-such-crawl", "--once"], ["--every", "0"], ["--once", "--fast"]):
        answer = operate("top", *wrong)
        assert (answer.code, answer.err.startswith("error: ")) == (2, True)


def stats_of(books, **changes):
    return msgspec.structs.replace(books.admin.stats(), **changes)


def test_the_rate_is_what_was_done_between_two_looks(books, crawl):
    board = TopBoard("here")
    for now, done in ((0.0, 0), (1.0, 50), (3.0, 150), (4.0, 150)):
        board.take({crawl: stats_of(books, done=done)}, now)
    assert list(board.rates[crawl]) == [50.0, 50.0, 0.0]
    assert spark(board.rates[crawl]) == "██ "


def test_a_crawl_that_goes_does_not_take_the_choice_with_it(books, crawl):
    board, stats = TopBoard("here"), books.admin.stats()
    board.take({"a": stats, "b": stats, "c": stats}, 0.0)
    board.press("down")
    board.press("j")
    board.press("down")
    assert board.crawl == "c"
    board.take({"b": stats, "c": stats}, 1.0)
    assert board.crawl == "c"
    board.take({"b": stats}, 2.0)
    assert board.crawl == "b"
    board.take({}, 3.0)
    assert (board.crawl, board.press("v"), board.message) == (None, None, "the crawl has no dead letters")


def test_of_many_crawls_those_around_the_chosen_one_are_shown(books):
    board, stats = TopBoard("here"), books.admin.stats()
    board.take({f"c{number}": stats for number in range(40)}, 0.0)
    for chosen, shown in ((0, range(10)), (20, range(15, 25)), (39, range(30, 40))):
        board.chosen = chosen
        assert [name for name, _ in board.window()] == [f"c{number}" for number in shown]


def test_what_comes_from_the_web_does_not_steer_the_terminal(books, crawl):
    board = TopBoard("here")
    board.take({crawl: books.admin.stats()}, 0.0)
    evil = "\x1b[31m[red]x[/red]"
    hosts = [books.admin.hosts("h1.example")[0]._replace(host=evil)]
    workers = [books.admin.workers()[0]._replace(name=evil, info={"urls": [evil], "version": evil})]
    board.detail = CrawlDetail(hosts, [], workers, None)
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(draw(board))
    text = console.export_text()
    assert "\x1b[31m" not in text
    assert text.count("[red]x[/red]") == 4


def test_the_name_of_an_unreadable_crawl_does_not_steer_the_terminal():
    board = TopBoard("here")
    board.take({"\x1b[31m[red]x[/red]": ConfigError("no name")}, 0.0)
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(draw(board))
    text = console.export_text()
    assert "\x1b[31m" not in text
    assert "[red]x[/red]" in text


def long_hosts(frontier):
    for number in range(30):
        host = f"a-very-long-name-of-a-shop-{number:02}.example:8088"
        frontier.enqueue([f"https://{host}/{n}" for n in range(40 - number)])
    for lease in frontier.claim(12):
        frontier.bury(lease, f"a reason of its own, and a long one too: {lease.request.url}", 503)
    for number in range(12):
        frontier.internal.join(f"worker-{number}", info={"urls": [f"https://h.example/{'x' * 200}"], "version": "0.1"})


@pytest.mark.parametrize(("columns", "lines", "least_hosts"), [(80, 24, 3), (200, 50, 9)])
def test_question_and_keys_are_on_the_screen_and_no_name_is_broken(
    columns, lines, least_hosts, frontier, crawl, valkey, workplace
):
    one = frontier(politeness=Politeness(delay=0, concurrency=100))
    long_hosts(one)
    one.admin.set_host("a-very-long-name-of-a-shop-03.example:8088", delay=50)
    top = Terminal("top", crawl, "--every", "0.2", "--redis", valkey.url, cwd=workplace, columns=columns, lines=lines)
    try:
        top.wait_for("q quit")
        top.type(b"v")
        frame = top.frame_with("Revive 12 dead letters")
    finally:
        top.close()
    assert len(frame) <= lines
    assert max(map(len, frame)) <= columns
    assert frame[-1].startswith("↑ ↓ select")
    assert frame[-2].rstrip() == f"Revive 12 dead letters of {crawl}? y/n"
    hosts = [line for line in frame if line.startswith("a-very-long-name-of-a-shop-")]
    assert len(hosts) >= least_hosts
    assert all(".example:8088 " in line for line in hosts)
    assert sum(line.startswith("worker-") for line in frame) >= least_hosts - 1
    assert any(line.startswith("a reason of its own") for line in frame)


def test_sections_share_the_rows():
    assert shared([1, 30, 2, 9], 16) == [1, 7, 2, 6]
    assert shared([1, 1], 16) == [1, 1]
    assert shared([5, 5], 0) == [0, 0]


def test_a_name_that_does_not_fit_keeps_its_end(books, crawl):
    board = TopBoard("here")
    board.take({crawl: books.admin.stats()}, 0.0)
    [host] = books.admin.hosts("h1.example")
    board.detail = CrawlDetail([host._replace(host="x" * 200 + ".shop.example")], [], [], None)
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(draw(board))
    [line] = [line for line in console.export_text().splitlines() if "shop.example" in line]
    assert line.startswith("…xxx")
    assert ".shop.example  " in line
    assert len(line) <= 80
