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
    │   ├── FetchTimeout     the total deadline, or too few bytes a second
    │   ├── HostUnreachable  no address, no connection, no TLS, or cut off in the middle
    │   ├── ResponseTooLarge more bytes than the cap, as sent or as decompressed
    │   └── ForbiddenAddress the guard refuses to connect there
    ├── InvalidItem          a handler's item has something that cannot be stored
    ├── SinkUnavailable      items cannot be written now; try again with the same ones
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
    """The page could not be fetched. *kind* is one short word, by which retries are decided and errors counted."""

    def __init__(self, message: str, kind: str = "protocol") -> None:
        super().__init__(message)
        self.kind = kind


class FetchTimeout(FetchError):
    """It took too long: the total deadline (kind ``timeout``), or too few bytes a second (kind ``slow``)."""

    def __init__(self, message: str, kind: str = "timeout") -> None:
        super().__init__(message, kind)


class HostUnreachable(FetchError):
    """No address (``dns``), no connection (``connect``), no secure one (``tls``), or cut off in the middle (``reset``)."""

    def __init__(self, message: str, kind: str = "connect") -> None:
        super().__init__(message, kind)


class ResponseTooLarge(FetchError):
    """The response is over a size cap, as it is sent or as it is decompressed."""

    def __init__(self, message: str, kind: str = "too_large") -> None:
        super().__init__(message, kind)


class ForbiddenAddress(FetchError):
    """The host has a private, loopback or otherwise special address, and the guard refuses to connect to it."""

    def __init__(self, message: str, kind: str = "forbidden_address") -> None:
        super().__init__(message, kind)


class InvalidItem(SilklineError):
    """An item that no sink can store; the message names the field."""


class SinkUnavailable(SilklineError):
    """Items cannot be written now. Nothing is lost: their requests are not completed before they are."""


class StoreUnavailable(SilklineError):
    """Redis cannot be reached, or cannot do what was asked; safe to call again."""
