"""What commands print."""

from __future__ import annotations

import json

import pytest

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
