"""Which dead letters are meant, as options."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Group, Parameter

from silkline.core.errors import ConfigError
from silkline.operate.dead_filter import DeadAsked

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

    def asked(self) -> DeadAsked:
        """An option that is given but empty is a slip, such as a variable that was not set: it must not mean all."""
        given = {name: str(value) for name, value in vars(self).items() if value is not None}
        for name, text in given.items():
            if not text.strip():
                raise ConfigError(f"--{name} is empty; leave it out to have all")
        return DeadAsked(**given)
