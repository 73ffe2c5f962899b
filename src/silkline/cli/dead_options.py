"""Which dead letters are meant, as options."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Group, Parameter

from silkline.frontier.wishes import DeadWishes
from silkline.operate.durations import seconds

GROUP = Group("Which dead letters", help="All that are given must match.", sort_key=8)


@Parameter(name="*", group=GROUP)
@dataclass(frozen=True, kw_only=True)
class DeadOptions:
    """Every field that is None matches all."""

    host: str | None = None
    """Of this host."""
    reason: str | None = None
    """Whose reason holds this text, whatever its case."""
    status: int | None = None
    """With this HTTP status."""
    older: str | None = None
    """Buried longer ago than this: 90s, 15m, 2h, 3d."""
    newer: str | None = None
    """Buried more recently than this."""
    id: str | None = None
    """The one with this id, as `dead ls` shows it."""

    def wishes(self) -> DeadWishes:
        """As the frontier takes them."""
        wishes = DeadWishes()
        if self.host is not None:
            wishes["host"] = self.host
        if self.reason is not None:
            wishes["reason"] = self.reason
        if self.status is not None:
            wishes["status"] = self.status
        if self.id is not None:
            wishes["id"] = self.id
        if (older := seconds("--older", self.older)) is not None:
            wishes["older_than"] = older
        if (newer := seconds("--newer", self.newer)) is not None:
            wishes["newer_than"] = newer
        return wishes

    def words(self) -> str:
        """As it was written, for the audit; all without any."""
        return " ".join(f"--{name} {value}" for name, value in vars(self).items() if value is not None) or "all"
