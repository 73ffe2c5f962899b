"""Parse and format what operators type and read: times, numbers, sizes, filters of hosts and dead letters."""

from __future__ import annotations

import re
from typing import NamedTuple

from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.dead_letters import DeadFilterArguments
from silkline.frontier.verbs.hosts import HostState, most_cpu_first, most_trouble_first

LONGEST = 100 * 365 * 86_400.0
"""Longest time in seconds; larger values would overflow on the server."""
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def seconds(name: str, text: str | None) -> float | None:
    """Parse a time: 90, 90s, 15m, 2h, 3d."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip().lower())
    if not found or found[2] not in _UNITS:
        raise ConfigError(f"{name} must be a time such as 90s, 15m, 2h or 3d, got {text!r}")
    value = float(found[1]) * _UNITS[found[2]]
    if value > LONGEST:
        raise ConfigError(f"{name} must be at most 100 years, got {text[:40]!r}")
    return value


MOST_DIGITS = 9
"""Maximum number of digits; Python raises its own error for thousands of digits."""


def whole(name: str, text: str, such_as: str = "a whole number") -> int:
    """Parse an unsigned number; *name* and *such_as* are for the error message."""
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise ConfigError(f"{name} must be {such_as}, got {_shortened(text)!r}")
    return int(text)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def plural(count: int, noun: str) -> str:
    """Format a count: 1 dead letter, 2 dead letters, 2 crashes."""
    ending = "" if count == 1 else "es" if noun.endswith("sh") else "s"
    return f"{count:,} {noun}{ending}"


class HostFilter(NamedTuple):
    """A filter of hosts. All given fields must match."""

    name: str = ""
    """A part of the host name."""
    place: str = ""
    blocked: bool = False
    """Only hosts that are blocked, or slowed down after a 429 or 503."""
    sort: str = ""
    """``trouble``: highest error rates first. ``cpu``: most CPU time of workers first."""

    def choose(self, hosts: list[HostState]) -> list[HostState]:
        chosen = [host for host in hosts if self.matches(host)]
        if self.sort == "cpu":
            return sorted(chosen, key=most_cpu_first)
        return sorted(chosen, key=most_trouble_first) if self.sort == "trouble" else chosen

    def matches(self, host: HostState) -> bool:
        held = host.blocked_until is not None or host.slowed_from is not None
        return (
            self.name.lower() in host.host
            and (not self.place or host.place == self.place)
            and (held or not self.blocked)
        )


LOOKED_AT = 25_000
"""Number of newest dead letters that a listing searches, unless all are requested."""


class DeadFilterOptions(NamedTuple):
    """A filter of dead letters as an operator writes it. All given fields must match; "" matches all."""

    host: str = ""
    reason: str = ""
    status: str = ""
    older: str = ""
    newer: str = ""
    id: str = ""

    def arguments(self) -> DeadFilterArguments:
        """Return the filter as arguments of the frontier."""
        arguments = DeadFilterArguments()
        if self.host:
            arguments["host"] = self.host
        if self.reason:
            arguments["reason"] = self.reason
        if self.id:
            arguments["id"] = self.id
        if self.status:
            arguments["status"] = whole("a status", self.status, "a number such as 503")
        if (older := seconds("older", self.older or None)) is not None:
            arguments["older_than"] = older
        if (newer := seconds("newer", self.newer or None)) is not None:
            arguments["newer_than"] = newer
        return arguments

    def words(self) -> str:
        """Return the filter as command-line options, for the audit log."""
        return " ".join(f"--{name} {value}" for name, value in self.given.items()) or "all"

    @property
    def given(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value}
