"""Scans the keys of every node in steps.

Nodes may change during a scan: one leaves or joins the cluster, slots move, a replica or a restarted server takes over. A key may
then move to a node that was already scanned, and a cursor is not valid on another server. So the nodes at the end are compared
with those at the start. If they differ, all of them are scanned again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

MOST = 1000
"""Keys that the server scans in one step."""
ROUNDS = 3
"""How often all nodes are scanned, at most. Two rounds find every key that moves once."""

NodeLayout: TypeAlias = Mapping[str, object]
"""By address, the identity of the server and its reply to CLUSTER SLOTS."""


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """Where a scan continues."""

    left: tuple[str, ...] = ()
    """The addresses of the nodes that this round has not finished. The cursor belongs to the first."""
    cursor: int = 0
    layout: NodeLayout = field(default_factory=dict)
    """The nodes when this round began; empty if one of them left before it was scanned."""
    rounds: int = 0

    def among(self, nodes: Collection[str]) -> ScanPosition:
        """Skip the nodes that have left."""
        left = tuple(node for node in self.left if node in nodes)
        if left == self.left:
            return self
        return replace(self, left=left, cursor=self.cursor if left[:1] == self.left[:1] else 0, layout={})

    def again(self, layout: NodeLayout) -> ScanPosition | None:
        """Return the start of the next round; None if the nodes are still the same, or after the last round."""
        if layout == self.layout or self.rounds == ROUNDS:
            return None
        return ScanPosition(tuple(sorted(layout)), 0, layout, self.rounds + 1)

    def after(self, cursor: int) -> ScanPosition:
        """Return where to continue after a reply of a node; cursor 0 ends the node."""
        return replace(self, cursor=cursor, left=self.left if cursor else self.left[1:])


START = ScanPosition()

ScanPage: TypeAlias = tuple[list[bytes], ScanPosition | None]
"""Some keys, and where to continue; None at the end. A key may occur several times."""


def scan_words(match: str, position: ScanPosition) -> tuple[str | int, ...]:
    return ("SCAN", position.cursor, "MATCH", match, "COUNT", MOST)


def read_scan(reply: Any, position: ScanPosition) -> ScanPage:
    cursor, names = reply
    return names, position.after(int(cursor))


def identify(info: Mapping[str, Any], slots: list[list[Any]]) -> object:
    """Return a value that changes when another server takes over an address, or when slots move.

    Takes the reply to INFO, and that to CLUSTER SLOTS, which is empty outside a cluster.
    """
    return info["run_id"], frozenset((first, last, *owner[:2]) for first, last, owner, *_ in slots)
