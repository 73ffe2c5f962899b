"""What commands print."""

from __future__ import annotations

import json
import logging

import pytest
from rich.cells import cell_len
from rich.console import Console

from silkline.cli import screen
from silkline.cli.logs import log_to_screen
from silkline.cli.screen import as_json

STEERING = ("\x1b[31m", "\x9b31m", "\x7f", "\u202e", "\u2028", "\udcff", "\U000e0001", "\x00", "\r")


@pytest.mark.parametrize("text", STEERING)
def test_json_steers_no_terminal_and_can_always_be_written(text):
    told = as_json({text: [f"before {text} after"]})
    assert told.isprintable()
    told.encode()
    assert json.loads(told) == {text: [f"before {text} after"]}


def test_json_keeps_what_people_read():
    assert as_json(["Bücher", "本", "🕷", '\\ "x"']) == '["Bücher", "本", "🕷", "\\\\ \\"x\\""]'


def test_text_from_outside_cannot_pass_for_a_log_entry_and_shows_no_password(monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    with screen.err.capture() as captured:
        log_to_screen("warning")
        forged = "timeout\n12:00:00 worker 1: all pages are done\r\n12:00:01 bye https://ada:s3cret@a.example/"
        logging.getLogger("test").warning("failed: %s", forged)
    logging.captureWarnings(capture=False)
    first, *others = captured.get().splitlines()
    assert first.endswith("failed: timeout")
    assert others == ["    12:00:00 worker 1: all pages are done", "    12:00:01 bye https://ada:***@a.example/"]


LONG = "http://127.0.0.12:8440/calendar/2026/week-52?sort=price&page=172" * 2
IDENT = "63-1837920449216513"


def printed(what, width):
    """What is shown on a screen of this width, as lines."""
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as told:
        screen.print_line(what, console) if isinstance(what, str) else console.print(what)
    return told.get().splitlines()


def letters(fold):
    table = screen.listing("id", "buried", "reason", "url", left=2, fold=fold, optional=("buried",))
    table.add_row(IDENT, "2026-11-16 15:50:35 UTC", "status 404 " * 3, LONG)
    table.add_row(IDENT, "2026-11-16 15:50:35 UTC", "状態 " * 9, "https://例え.example/本/" * 5)
    return table


@pytest.mark.parametrize("width", [20, 47, 60, 80, 81, 120, 200, 400])
def test_no_character_of_a_table_is_lost_however_narrow_the_screen_is(width):
    lines = printed(letters({"reason": 16, "url": 40}), width)
    assert all(cell_len(line) <= width for line in lines)
    shown = sorted("".join("".join(lines).split()))
    columns = ["id", "reason", "url", *(["buried"] if width >= 120 else [])]
    cells = [IDENT, "status404" * 3, LONG, IDENT, "状態" * 9, "https://例え.example/本/" * 5]
    times = ["2026-11-1615:50:35UTC"] * 2 if width >= 120 else []
    assert shown == sorted("".join(columns + cells + times))


def test_a_url_can_be_read_down_its_column():
    lines = printed(letters({"reason": 16, "url": 40}), 80)
    start = lines[0].index("url")
    assert "".join(line[start:].strip() for line in lines[1:]).startswith(LONG)
    assert IDENT in lines[1]


def test_optional_columns_go_one_by_one():
    table = screen.listing("host", "limit", "CPU", "responses", optional=("CPU", "limit"))
    table.add_row("shop.example", "4", "2.3 s, 1.1 ms each", "99 % 5xx")
    headings = {width: printed(table, width)[0].split() for width in (50, 49, 30, 29)}
    assert headings[50] == ["host", "limit", "CPU", "responses"]
    assert headings[49] == headings[30] == ["host", "limit", "responses"]
    assert headings[29] == ["host", "responses"]


def test_empty_columns_go_first():
    table = screen.listing("host", "CPU", "opens in", optional=("CPU", "opens in"))
    table.add_row("shop.example", "2 s", "")
    assert printed(table, 20) == ["host          CPU", "shop.example  2 s"]


def test_lines_are_wrapped_between_words_and_commands_stay_whole():
    advice = "books: 112 requests wait and no worker is running: start one with silkline worker FILE"
    assert printed(advice, 80) == [advice[:65], "silkline worker FILE"]
    assert printed(advice, 200) == [advice]
    command = f"To continue: silkline run books.py -o {'x' * 90} --redis redis://127.0.0.1:6379/0"
    assert printed(command, 80) == ["To continue:", command.removeprefix("To continue: ")]
    two = "No crawls yet. Start one: silkline run FILE, or silkline enqueue NAME URL"
    assert printed(two, 46) == ["No crawls yet. Start one: silkline run FILE,", "or silkline enqueue NAME URL"]
    assert printed("  a [bold]b[/]\n\n  c", 80) == ["  a b", "", "  c"]


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (60, "50 % failed · 30 % 5xx · 20 % 2xx"),
        (43, "50 % failed · 30 % 5xx …"),
        (30, "50 % failed …"),
        (20, "50 % fai…"),
    ],
)
def test_of_responses_whole_shares_are_shown(width, told):
    table = screen.listing("host", "responses", fold={"responses": 14})
    table.add_row("a.example", "50 % failed · 30 % 5xx · 20 % 2xx")
    assert printed(table, width)[1:] == [f"a.example  {told}"]
    assert printed(table, 60)[1].endswith("20 % 2xx")
