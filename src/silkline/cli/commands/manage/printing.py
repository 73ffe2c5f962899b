"""Printing a list or the result of a change, for people or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from silkline.cli import screen
from silkline.cli.exits import Exit


class _Row(Protocol):
    """A named tuple."""

    def _asdict(self) -> dict[str, Any]: ...


Row = TypeVar("Row", bound=_Row)


def print_rows(rows: list[Row], show: Callable[[list[Row]], object], none: str, *, json: bool) -> Exit:
    """Print a list with *show*, or *none* if it is empty, or a list of JSON objects."""
    if json:
        screen.print_json([row._asdict() for row in rows])
    elif rows:
        show(rows)
    else:
        screen.show(none)
    return Exit.OK


def print_result(words: str, answer: Mapping[str, Any], *, json: bool) -> Exit:
    """Print what a command did: *words*, or *answer* as JSON."""
    screen.print_json(answer) if json else screen.show(words)
    return Exit.OK
