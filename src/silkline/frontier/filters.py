"""DeadFilter: which dead letters are meant, and in which groups they are counted."""

from __future__ import annotations

import re

import msgspec

from silkline.core.errors import ConfigError

LONGEST_NAME = 200
_ID = re.compile(r"([0-9]{1,5})-[0-9]{1,20}")


def reason_group(reason: str) -> str:
    """The group of a reason: addresses in it tell letters apart that died of the same. reasons.lua has the same."""
    group = re.sub(r"https?://\S+", "…", reason).encode()
    if len(group) > LONGEST_NAME:
        group = re.sub(rb"[\xc0-\xff][\x80-\xbf]*$", b"", group[:LONGEST_NAME])
    return group.decode() or "(no reason)"


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Every field that is set must match; *reason* matches a part of it, or of its group, whatever its case.

    Ages are in unix time.
    """

    host: str | None = None
    reason: str | None = None
    status: int | None = None
    before: float | None = None
    after: float | None = None
    id: str | None = None

    def shard(self) -> int | None:
        """The only shard that can hold a match, if the id names one."""
        if self.id is None:
            return None
        found = _ID.fullmatch(self.id)
        if not found:
            raise ConfigError(f"a dead letter's id looks like 0-1760000000000123, got {self.id[:40]!r}")
        return int(found[1])

    def arguments(self) -> tuple[str | int, ...]:
        """oldest, newest, host, reason, status, id: as the scripts take them."""
        return (
            "-inf" if self.after is None else round(self.after * 1000),
            "+inf" if self.before is None else round(self.before * 1000),
            self.host or "",
            self.reason or "",
            "" if self.status is None else self.status,
            "" if self.id is None else self.id.partition("-")[2],
        )
