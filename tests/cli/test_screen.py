"""What commands print."""

from __future__ import annotations

import json
import logging

import pytest
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


def test_what_people_copy_is_in_one_line_however_narrow_the_screen_is():
    ident = "63-1837920449216513"
    table = screen.listing("id", "buried", "reason", "url", left=4, whole=screen.longest([ident], 40))
    table.add_row(ident, "2026-11-16 15:50:35 UTC", "status 404 " * 5, "https://books.example/calendar/52/week" * 2)
    console = Console(width=60)
    with console.capture() as told:
        console.print(table)
    assert ident in told.get()
    assert all(len(line) <= 60 for line in told.get().splitlines())


def test_a_column_is_no_wider_than_it_may_be():
    assert screen.longest(["a" * 50, "b"], 24) == 24
    assert screen.longest([], 24) == 0
