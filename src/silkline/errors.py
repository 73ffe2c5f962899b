"""The errors that Silkline raises.

::

    SilklineError
    ├── ConfigError          a wrong setting, found before anything ran
    │   ├── UnknownCrawl     no crawl of that name is stored here
    │   ├── SettingsConflict the crawl is stored with other settings
    │   └── PrivateStart     it starts in a private network, which is not allowed
    ├── RequestError         the caller's fault
    │   ├── InvalidUrl
    │   └── RequestTooLarge
    ├── FrontierError        the frontier is in another state than the call needs
    │   ├── LeaseLost        another worker may hold it now
    │   ├── LockLost         another process may hold the lock or the place of a semaphore now
    │   ├── DamagedCrawl     keys of the crawl are missing on the server
    │   ├── NewerData        written by a later version
    │   ├── QueueFull        a call of a task did not fit
    │   ├── StoreDeleted     the directory of the embedded server is gone
    │   └── TaskUnknown      a call of a task has no result: it was cancelled, or its result has expired
    ├── TaskFailed           a call of a task has failed for good; has its reason and traceback
    ├── FetchError           the web's fault (drives retries)
    │   ├── FetchTimeout     the deadline, or too few bytes per second
    │   ├── HostUnreachable  no address, no connection, no TLS, or the connection was lost
    │   ├── ResponseTooLarge more bytes than the limit, as sent or decompressed
    │   ├── NotArchived      pages are read from an archive, which does not have this one
    │   ├── HostileHtml      parsing the page would cost too much CPU time or memory
    │   └── ForbiddenAddress the guard refuses to connect there
    ├── LocalFailure         this machine's fault: no descriptors, memory, network, resolver, browser or place for files
    │   ├── ProxyFailure     the fault of a proxy: the page is tried through another one, or later
    │   └── LoginFailed      the login of a session failed: its pages are tried later
    ├── ElementNotFound      no element of a page matches a selector; raised by page.one, page.text_of and page.form
    ├── FormError            a form has no such field, option or button, or too many fields
    ├── InvalidItem          an item contains a value that cannot be stored
    ├── SinkUnavailable      items cannot be written now; retry with the same items
    └── StoreUnavailable     Redis' fault (never a raw redis exception)
        ├── PartlyUnavailable  a node of a cluster is down; the call succeeded on the other shards
        └── ShardMigrating   a cluster is moving the shard to another node
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silkline.core.lease import Lease

__all__ = [
    "ConfigError",
    "DamagedCrawl",
    "ElementNotFound",
    "FetchError",
    "FetchTimeout",
    "ForbiddenAddress",
    "FormError",
    "FrontierError",
    "HostUnreachable",
    "HostileHtml",
    "InvalidItem",
    "InvalidUrl",
    "LeaseLost",
    "LocalFailure",
    "LockLost",
    "LoginFailed",
    "NewerData",
    "NotArchived",
    "PartlyUnavailable",
    "PrivateStart",
    "ProxyFailure",
    "QueueFull",
    "RequestError",
    "RequestTooLarge",
    "ResponseTooLarge",
    "SettingsConflict",
    "ShardMigrating",
    "SilklineError",
    "SinkUnavailable",
    "StoreDeleted",
    "StoreUnavailable",
    "TaskFailed",
    "TaskUnknown",
    "UnknownCrawl",
]


class SilklineError(Exception):
    """The base class of all errors that Silkline raises."""


class ConfigError(SilklineError):
    """A setting, an address or a server is wrong; nothing has run yet."""


class UnknownCrawl(ConfigError):
    """No crawl of that name is stored on this server (or it has been removed)."""


class SettingsConflict(ConfigError):
    """The crawl exists and has other settings than the caller asks for."""


class PrivateStart(ConfigError):
    """A start URL is on this machine or in a private network, and private addresses are not allowed."""


class RequestError(SilklineError):
    """A request that cannot be accepted as it is."""


class InvalidUrl(RequestError):
    """Not an absolute http(s) URL."""


class RequestTooLarge(RequestError):
    """The URL or the whole record exceeds its size limit."""


class FrontierError(SilklineError):
    """The frontier is not in the state the call needs."""


class LeaseLost(FrontierError):
    """The lease has ended, or another worker holds the request now; nothing was changed for it."""

    def __init__(self, leases: Sequence[Lease]) -> None:
        self.leases = tuple(leases)
        names = ", ".join(lease.url for lease in self.leases[:3])
        more = f" and {len(self.leases) - 3} more" if len(self.leases) > 3 else ""
        super().__init__(f"no longer leased to this worker: {names}{more}")


class LockLost(FrontierError):
    """A lock, or a place of a semaphore, was not renewed in time; another process may have it now."""


class DamagedCrawl(FrontierError):
    """The settings of a crawl or the ledger of a shard are missing on the server, but other keys of the crawl exist."""


class NewerData(FrontierError):
    """The data was stored by a later version of Silkline, which this version cannot read."""


class StoreDeleted(FrontierError):
    """The directory of an embedded server was deleted or moved while this process used it. Waiting does not help."""


class QueueFull(FrontierError):
    """The queue is at its capacity, and a call of a task did not fit. It was not enqueued."""


class TaskUnknown(FrontierError):
    """There is no result of a call: it was cancelled, its result has expired or is not kept, or it was never enqueued."""


class TaskFailed(SilklineError):
    """A call of a task has failed for good, and is a dead letter, which an operator can revive."""

    def __init__(self, url: str, reason: str, traceback: str = "", attempts: int = 0) -> None:
        self.reason = reason
        self.traceback = traceback
        """The traceback of the last attempt, as text; empty if it raised no exception."""
        self.attempts = attempts
        super().__init__(f"{url} has failed: {reason}")


class FetchError(SilklineError):
    """The page could not be fetched. *kind* is one word that decides about retries and by which errors are counted."""

    def __init__(self, message: str, kind: str = "protocol") -> None:
        super().__init__(message)
        self.kind = kind


class FetchTimeout(FetchError):
    """The fetch exceeded its deadline (kind ``timeout``) or was slower than the minimum rate (kind ``slow``)."""

    def __init__(self, message: str, kind: str = "timeout") -> None:
        super().__init__(message, kind)


class HostUnreachable(FetchError):
    """No address (``dns``), no connection (``connect``), no TLS (``tls``), or a lost connection (``reset``)."""

    def __init__(self, message: str, kind: str = "connect") -> None:
        super().__init__(message, kind)


class ResponseTooLarge(FetchError):
    """The response exceeds a size limit, as sent or decompressed."""

    def __init__(self, message: str, kind: str = "too_large") -> None:
        super().__init__(message, kind)


class NotArchived(FetchError):
    """Pages are read from an archive, and it does not have this one. The page counts as done, without its handler."""

    def __init__(self, message: str, kind: str = "not_archived") -> None:
        super().__init__(message, kind)


class HostileHtml(FetchError):
    """The page was fetched, but parsing it would need too much CPU time or memory."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message, "hostile_html")
        self.seconds = seconds
        """CPU seconds that the check took."""


class ForbiddenAddress(FetchError):
    """The host has a private, loopback or otherwise special address, and the guard refuses to connect to it."""

    def __init__(self, message: str, kind: str = "forbidden_address") -> None:
        super().__init__(message, kind)


class LocalFailure(SilklineError):
    """A fetch failed because this machine lacks something; the site is not at fault, and the page is retried.

    *kind* is what is missing: ``descriptors``, ``memory``, ``ports``, ``processes``, ``network``, ``resolver``
    or ``browser``; ``files`` if a download cannot be stored; ``proxy`` for a `ProxyFailure`; ``login`` for a
    `LoginFailed`.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ProxyFailure(LocalFailure):
    """A fetch failed because of a proxy. The page may be tried again *after* seconds, through another one if there are several."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message, "proxy")
        self.after = after


class LoginFailed(LocalFailure):
    """The login of a named session failed. Its pages wait for *after* seconds, and none of them is buried."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message, "login")
        self.after = after


class ElementNotFound(SilklineError):
    """No element of a page matches a selector. In a handler, the page fails as with any other exception."""

    def __init__(self, selector: str, url: str) -> None:
        super().__init__(f"no element matches {selector!r} on {url}")
        self.selector = selector
        self.url = url


class FormError(SilklineError):
    """A form of a page cannot be filled in or sent as the handler wants: it has no such field, option or button, or too many fields."""


class InvalidItem(SilklineError):
    """An item that no sink can store, or whose *fields* have other types than their annotations; the message names the field."""

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields


class SinkUnavailable(SilklineError):
    """Items cannot be written now. Nothing is lost: their requests are completed only after the items are stored."""


class StoreUnavailable(SilklineError):
    """Redis is unavailable, or cannot run the command. It is safe to call again."""

    one_node = False
    """Whether only one node of a cluster is affected: the shards of other nodes may be reachable."""


class PartlyUnavailable(StoreUnavailable):
    """Some shards cannot be reached. The call did its work on the others and may be repeated for *leases*.

    *result* is what the call would have returned, without those leases.
    """

    one_node = True

    def __init__(self, message: str, leases: Sequence[Lease], result: Any) -> None:
        super().__init__(message)
        self.leases = tuple(leases)
        self.result = result


class ShardMigrating(StoreUnavailable):
    """A Redis cluster is moving the keys of a shard to another node; nothing was changed. Call again when it is done."""
