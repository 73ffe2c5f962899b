"""The clock of a crawl in memory."""

from __future__ import annotations

from dataclasses import dataclass

MOMENT = 1000
SLOWER = 10


@dataclass(slots=True)
class SteadyTime:
    """The server's clock, except that it does not go back: set back, it goes on a tenth slower until that has caught up.

    For a moment it stands still instead.
    """

    server: int = 0
    """What the server's own clock says, in milliseconds."""
    _by: int = 0
    _since: int = 0
    _kept: int = 0
    _was_set_back: bool = False

    def read(self, server: int) -> int:
        """What time it is for the crawl."""
        self.server = server
        now = server + max(0, self._by - (server - self._since) // SLOWER)
        self._was_set_back = self._kept > now + MOMENT
        return max(now, self._kept)

    def keep(self, now: int, *, exactly: bool) -> None:
        """Remember what time it was, and go on from there."""
        if self._was_set_back:
            self._by, self._since = now - self.server, self.server
        if exactly or now >= self._kept + MOMENT:
            self._kept = now
