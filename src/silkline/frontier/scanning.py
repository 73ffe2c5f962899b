"""Walking over the names of keys, some at a time, on every node that holds keys."""

from __future__ import annotations

from typing import Any, TypeAlias

MOST = 1000
"""Keys that the server looks at in one step."""

Position: TypeAlias = tuple[int, int]
"""The number of the node, and the cursor there."""
Scanned: TypeAlias = tuple[list[bytes], Position | None]
"""Some names, and where to go on; None when that was all."""


def scan_words(match: str, position: Position) -> tuple[str | int, ...]:
    return ("SCAN", position[1], "MATCH", match, "COUNT", MOST)


def read_scan(answer: Any, position: Position, nodes: int) -> Scanned:
    """What a node answered, of so many nodes."""
    (following, names), (number, _) = answer, position
    if isinstance(following, dict):  # as clients of clusters tell it
        following = next(iter(following.values()))
    if following:
        return names, (number, int(following))
    return names, (number + 1, 0) if number + 1 < nodes else None
