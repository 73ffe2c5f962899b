"""Output of commands: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.text import Text

from silkline.core.url import mask_passwords

WIDE = 180
"""Width without a terminal, so that tables in files and pipes are not wrapped."""
GAP = 2
"""Spaces between two columns."""
FOLDED_NAME = 24
"""Names up to this many characters, such as host names, are not folded as long as there is room."""
FOLDED_URL = 40
"""The same for URLs."""
RESPONSES = "responses"
"""The heading of shares of responses. They are not folded, but cut."""
CUT_RESPONSES = 14
"""Responses are cut to no fewer characters as long as there is room."""
COLORS = {"ready": "cyan", "delayed": "yellow", "leased": "magenta", "done": "green", "dead": "red"}
"""Colors of the request states."""


_PIECE = re.compile(
    r"\s*(?:silkline [a-z]+(?: \S*[^\s.,;])*?(?=[.,;]? *$|[.,;] )"  # a command, up to the end of its clause
    r"|<?\d+ % \w+(?: ·)?"  # a share
    r"|\S+)\s*"
)
"""Matches what stays in one line: a word, or words that are read or copied together."""


class _Output(Console):
    """A console whose reader may exit, such as `head`. Rich would exit with an error, in any thread that prints."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        if not self.stderr:  # Python flushes stdout when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


out = _Output(highlight=False, width=None if sys.stdout.isatty() else WIDE)
err = _Output(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE)


def show(what: RenderableType = "") -> None:
    """Print a result for people: a table, or a line of text."""
    print_line(what) if isinstance(what, str) else out.print(what)


def print_line(text: str | Text, console: Console | None = None, *, indent: int = 0) -> None:
    """Print text on *console*, by default on stdout. On a terminal it is wrapped between words; *indent* moves the rest.

    A command or URL that is longer than a line is left to the terminal, so that users can copy it.
    """
    console = console or out
    if console.is_terminal:
        marked = Text.from_markup(text) if isinstance(text, str) else text
        text = Text("\n").join(wrapped(marked, console.width, indent=indent))
    console.print(text, soft_wrap=True)


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
        print_line(text, err)


def complain(text: str) -> None:
    """Print an error message, in red if the terminal has colors."""
    if _Remarks.log:
        _Remarks.log(logging.ERROR, printable(text))
    else:
        remark(f"[bold red]error:[/] {escape(printable(text))}")


def print_json(value: Any) -> None:
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


def wrapped(text: Text, width: int, *, indent: int = 0, fold: bool = False) -> list[Text]:
    """Return *text* as lines of at most *width* cells. Longer words stay whole, unless *fold* breaks them too.

    Only spaces at the ends of lines are removed. *indent* spaces are added where a line continues.
    """
    lines = []
    for line in text.split(allow_blank=True):
        first, *rest = line.divide(_breaks(line.plain, width - indent, fold))
        lines += [first, *(Text(" " * indent).append_text(part) for part in rest)]
    for line in lines:
        line.rstrip()
    return lines


def cut_shares(text: Text, width: int) -> None:
    """Shorten a list of shares to *width* cells: the last ones are left out, which an ellipsis shows."""
    while text.cell_len > width and " · " in text.plain:
        text.plain = text.plain.removesuffix(" …").rpartition(" · ")[0] + " …"
    text.truncate(width, overflow="ellipsis")


def _breaks(text: str, width: int, fold: bool) -> list[int]:  # noqa: FBT001
    """Return the positions at which new lines begin."""
    breaks, used = [], 0
    for piece in _PIECE.finditer(text):
        bare = piece[0].rstrip()
        size = cell_len(bare)
        if used and used + size > width:
            breaks.append(piece.start())
            used = 0
        if fold and size > width:
            for position, character in enumerate(bare, piece.start()):
                if used and used + cell_len(character) > width:
                    breaks.append(position)
                    used = 0
                used += cell_len(character)
            size = 0
        used += size + len(piece[0]) - len(bare)
    return breaks


class Listing:
    """A table without borders that is never wider than the screen.

    On a narrow screen, columns of little use are left out first. Then the columns with long texts are folded, without
    losing a character; only of responses, the smallest shares are left out.
    """

    def __init__(
        self,
        headings: Sequence[str],
        *,
        left: int,
        fold: Mapping[str, int],
        optional: Sequence[str],
        titled: bool = True,
    ) -> None:
        self._headings = headings
        self._left = [place < left or heading in fold for place, heading in enumerate(headings)]
        self._folded = [fold.get(heading) for heading in headings]
        self._shares = {place for place, heading in enumerate(headings) if heading == RESPONSES}
        self._optional = [headings.index(heading) for heading in optional]
        self._rows: list[list[Text]] = [[Text(heading, "bold") for heading in headings]] if titled else []

    def add_row(self, *cells: str | Text) -> None:
        """Add a row of cells with markup. Cells that are missing at its end are empty."""
        row = [Text.from_markup(cell) if isinstance(cell, str) else cell for cell in cells]
        self._rows.append(row + [Text()] * (len(self._headings) - len(row)))

    def lines(self, width: int) -> list[Text]:
        """Return the table as lines of at most *width* cells."""
        widths = self._widths(width)
        lines: list[Text] = []
        for row in self._rows:
            cells = {column: self._cell(row[column], column, size) for column, size in widths.items()}
            for number in range(max(map(len, cells.values()))):
                line = Text()
                for column, size in widths.items():
                    part = cells[column][number] if number < len(cells[column]) else Text()
                    gap = " " * (size - part.cell_len)
                    line.append(" " * GAP if line else "").append_text(part if self._left[column] else Text(gap) + part)
                    line.append(gap if self._left[column] else "")
                line.rstrip()
                lines.append(line)
        return lines

    def _cell(self, text: Text, column: int, width: int) -> list[Text]:
        """Return the lines of a cell."""
        if column not in self._shares:
            return wrapped(text, width, fold=True)
        short = text.copy()
        cut_shares(short, width)
        return [short]

    def _widths(self, width: int) -> dict[int, int]:
        """Return the columns that are shown and their widths."""
        natural = [
            max((cell_len(line) for row in self._rows for line in row[column].plain.split("\n")), default=0)
            for column in range(len(self._headings))
        ]
        least = [min(wide, wide if most is None else most) for wide, most in zip(natural, self._folded, strict=True)]
        columns = list(range(len(natural)))
        left_out = sorted(
            self._optional, key=lambda column: any(row[column] for row in self._rows[1:])
        )  # empty ones first
        while (room := width - sum(least[column] + GAP for column in columns) + GAP) < 0 and left_out:
            columns.remove(left_out.pop(0))
        widths = {column: least[column] for column in columns}
        for _ in range(-room):
            widest = max(widths, key=widths.__getitem__)
            widths[widest] = max(1, widths[widest] - 1)
        more = shared([natural[column] - least[column] for column in columns], room)
        return {column: wide + extra for (column, wide), extra in zip(widths.items(), more, strict=True)}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width)


def listing(
    *headings: str, left: int = 1, fold: Mapping[str, int] | None = None, optional: Sequence[str] = ()
) -> Listing:
    """Return a table: the first *left* columns are left-aligned, and those that fold; the others right-aligned.

    On a narrow screen, the *optional* columns are left out, the first one first. The columns of *fold* may be as narrow as
    it says; by default only the first column folds.
    """
    return Listing(headings, left=left, fold={headings[0]: FOLDED_NAME} if fold is None else fold, optional=optional)


def pairs(rows: list[tuple[str, str]]) -> Listing:
    """Return a table of names and values, one pair per line."""
    table = Listing(("name", "value"), left=2, fold={"value": FOLDED_URL}, optional=(), titled=False)
    for name, value in rows:
        table.add_row(f"[bold]{name}[/]", value)
    return table


def shared(wanted: Sequence[int], total: int) -> list[int]:
    """Share *total* rows or columns: each party gets as many as every other, unless it wants fewer."""
    given = [0] * len(wanted)
    while total > 0 and any(have < want for have, want in zip(given, wanted, strict=True)):
        for number, want in enumerate(wanted):
            if given[number] < want and total > 0:
                given[number] += 1
                total -= 1
    return given
