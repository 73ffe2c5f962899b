"""Output of commands: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from silkline.core.url import mask_passwords

WIDE = 180
"""Width without a terminal, so that tables in files and pipes are not wrapped."""
WIDEST_HOST = 24
"""Host names up to this many characters are not wrapped on a narrow screen."""
COLOURS = {"ready": "cyan", "delayed": "yellow", "leased": "magenta", "done": "green", "dead": "red"}
"""Colors of the request states."""


class _Stderr(Console):
    """A console whose reader may leave. Rich would exit, in whichever thread has something to say."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
err = _Stderr(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE)


def show(what: RenderableType = "") -> None:
    """Print a result for people: a table, or a line that only the terminal wraps."""
    out.print(what, soft_wrap=isinstance(what, str))


class _Remarks:
    """Where messages that are not part of the result go: to stderr, or into a structured log."""

    log: Callable[[int, str], object] | None = None


def log_remarks(log: Callable[[int, str], object]) -> None:
    """From now on, pass messages to *log*, with their level and without markup."""
    _Remarks.log = log


def remarks_are_logged() -> bool:
    return _Remarks.log is not None


def remark(text: str) -> None:
    """Print a message that is not part of the result."""
    if _Remarks.log:
        _Remarks.log(logging.INFO, Text.from_markup(text).plain)
    else:
        err.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Print an error message, in red if the terminal has colors."""
    if _Remarks.log:
        _Remarks.log(logging.ERROR, printable(text))
    else:
        remark(f"[bold red]error:[/] {escape(printable(text))}")


def tell_json(value: Any) -> None:
    """Print a result for programs."""
    sys.stdout.write(as_json(value) + "\n")
    sys.stdout.flush()


def write(data: bytes) -> None:
    """Write a part of an export to stdout, as it is."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def as_json(value: Any) -> str:
    """Return *value* as one line of JSON. Control characters and lone surrogates are escaped."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    """Escape a character that `json.dumps` leaves as it is: DEL, a C1 control character or a lone surrogate."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def printable(text: str) -> str:
    """Escape control characters and broken Unicode in untrusted text, so that it cannot control the terminal.

    Passwords in URLs are masked.
    """
    plain = mask_passwords(text.encode(errors="backslashreplace").decode())
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in plain)


def listing(*headings: str, left: int = 1, whole: int = 0) -> Table:
    """Return a table without borders: the first *left* columns are left-aligned, the others right-aligned.

    The first column is at least *whole* characters wide, even on a narrow screen, so that users can copy its text.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for position, heading in enumerate(headings):
        justify: Literal["left", "right"] = "left" if position < left else "right"
        table.add_column(
            heading, justify=justify, overflow="fold", min_width=whole if position == 0 and whole else None
        )
    return table


def longest(texts: Iterable[str], most: int) -> int:
    """Return the width that a column needs for these texts, at most *most*."""
    return min(most, max(map(len, texts), default=0))


def pairs(rows: list[tuple[str, str]]) -> Table:
    """Return a table of names and values, one pair per line."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table
