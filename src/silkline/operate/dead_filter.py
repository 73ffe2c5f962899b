"""DeadAsked: which dead letters are meant, as people write it, for the command line and the dashboard."""

from __future__ import annotations

from typing import NamedTuple

from silkline.frontier.wishes import DeadWishes
from silkline.operate.durations import seconds
from silkline.operate.numbers import whole

LOOKED_AT = 25_000
"""So many dead letters, the newest, a listing looks at for those that match; all of them only if it is asked to."""


class DeadAsked(NamedTuple):
    """All that is given must match; "" matches all."""

    host: str = ""
    reason: str = ""
    status: str = ""
    older: str = ""
    newer: str = ""
    id: str = ""

    def wishes(self) -> DeadWishes:
        """As the frontier takes them."""
        wishes = DeadWishes()
        if self.host:
            wishes["host"] = self.host
        if self.reason:
            wishes["reason"] = self.reason
        if self.id:
            wishes["id"] = self.id
        if self.status:
            wishes["status"] = whole("a status", self.status, "a number such as 503")
        if (older := seconds("older", self.older or None)) is not None:
            wishes["older_than"] = older
        if (newer := seconds("newer", self.newer or None)) is not None:
            wishes["newer_than"] = newer
        return wishes

    def words(self) -> str:
        """For the audit, as the command line has it."""
        return " ".join(f"--{name} {value}" for name, value in self.given.items()) or "all"

    @property
    def given(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value}
