"""Where commands speak: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

WIDE = 180
"""Columns where there is no terminal to ask: a table in a file or a pipe is not squeezed."""
COLOURS = {"ready": "cyan", "delayed": "yellow", "leased": "magenta", "done": "green", "dead": "red"}
"""Of the states of requests."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE)


def show(what: RenderableType = "") -> None:
    """A result for people: a table, or a line that the terminal may wrap but we do not."""
    out.print(what, soft_wrap=isinstance(what, str))


def remark(text: str) -> None:
    """Something to know meanwhile, which is not the result."""
    err.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Say what is wrong, in red where there are colours."""
    remark(f"[bold red]error:[/] {escape(printable(text))}")


def tell_json(value: Any) -> None:
    """A result for programs, and nothing but the result."""
    sys.stdout.write(as_json(value) + "\n")
    sys.stdout.flush()


def as_json(value: Any) -> str:
    """On one line. What would steer a terminal, or could not be written at all, is escaped as JSON has it."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    """JSON itself escapes the control characters of ASCII, but not DEL, those above, or half of a pair."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def printable(text: str) -> str:
    """Text from outside with control characters and broken Unicode made visible: it must not steer the terminal."""
    plain = text.encode(errors="backslashreplace").decode()
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in plain)


def listing(*headings: str, left: int = 1) -> Table:
    """A table without walls: the first *left* columns hold words, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position < left else "right", overflow="fold")
    return table


def pairs(rows: list[tuple[str, str]]) -> Table:
    """Names and values, one pair a line."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table
