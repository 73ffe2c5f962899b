"""Every error Silkline raises on purpose.

::

    SilklineError
    ├── ConfigError          wrong before anything ran
    │   └── UnknownCrawl     no crawl of that name is stored here
    ├── RequestError         the caller's fault
    │   ├── InvalidUrl
    │   └── RequestTooLarge
    ├── FrontierError        the state is not what you think
    │   ├── LeaseLost        someone else may hold it now
    │   └── NewerData        written by a later version; refuse, do not guess
    ├── FetchError           the web's fault (drives retries)
    └── StoreUnavailable     Redis' fault (never a raw redis exception)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silkline.core.lease import Lease


class SilklineError(Exception):
    """The root: ``except SilklineError`` catches everything this package raises on purpose."""


class ConfigError(SilklineError):
    """A setting, an address or a server is wrong; nothing has run yet."""


class UnknownCrawl(ConfigError):
    """No crawl of that name is stored on this server (or it was removed meanwhile)."""


class RequestError(SilklineError):
    """A request that cannot be accepted as it is."""


class InvalidUrl(RequestError):
    """Not an absolute http(s) URL."""


class RequestTooLarge(RequestError):
    """The URL or the whole record is over its size cap."""


class FrontierError(SilklineError):
    """The frontier is not in the state the call needs."""


class LeaseLost(FrontierError):
    """The lease has ended, or another worker holds the request now; nothing was changed for it."""

    def __init__(self, leases: Sequence[Lease]) -> None:
        self.leases = tuple(leases)
        names = ", ".join(lease.url for lease in self.leases[:3])
        more = f" and {len(self.leases) - 3} more" if len(self.leases) > 3 else ""
        super().__init__(f"no longer leased to this worker: {names}{more}")


class NewerData(FrontierError):
    """Stored by a later version of Silkline; this one refuses rather than guesses."""


class FetchError(SilklineError):
    """The page could not be fetched."""


class StoreUnavailable(SilklineError):
    """Redis cannot be reached, or cannot do what was asked; safe to call again."""
