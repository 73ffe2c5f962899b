"""HostFilter: which hosts of a crawl are meant, for the command line and the dashboard."""

from __future__ import annotations

from typing import NamedTuple

from silkline.frontier.host_state import HostState, most_trouble_first


class HostFilter(NamedTuple):
    """All that is given must match."""

    name: str = ""
    """A part of it."""
    place: str = ""
    blocked: bool = False
    """Only those that are blocked, or slowed because the site complained."""
    sort: str = ""
    """``trouble``: those with the worst answers first."""

    def choose(self, hosts: list[HostState]) -> list[HostState]:
        chosen = [host for host in hosts if self.matches(host)]
        return sorted(chosen, key=most_trouble_first) if self.sort == "trouble" else chosen

    def matches(self, host: HostState) -> bool:
        held = host.blocked_until is not None or host.slowed_from is not None
        return (
            self.name.lower() in host.host
            and (not self.place or host.place == self.place)
            and (held or not self.blocked)
        )
