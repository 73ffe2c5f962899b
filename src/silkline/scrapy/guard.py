"""The guard for Scrapy: a spider connects to public addresses only, unless SILKLINE_ALLOW_PRIVATE allows others.

Link-local addresses, where clouds keep credentials, are refused in any case. A project of scrapy-redis allows all others by default.

Addresses are checked when Twisted resolves a name, just before it connects, so a name whose address changes after a first
look-up does not get through. A downloader middleware turns a refusal into an error that explains it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine, Iterable
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.settings import BaseSettings
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer

from silkline.errors import ConfigError, ForbiddenAddress
from silkline.fetch.addresses import read_address, why_forbidden

log = logging.getLogger(__name__)

SETTING = "SILKLINE_ALLOW_PRIVATE"
MAX_REFUSED = 10_000


class PrivateHosts:
    """The hosts in private networks to which a spider may connect: none, all, or some by name."""

    def __init__(self, setting: object) -> None:
        self.all = setting is True
        self.hosts = frozenset() if isinstance(setting, bool) else frozenset(map(_lower, _listed(setting)))

    @classmethod
    def read(cls, settings: BaseSettings) -> PrivateHosts:
        value: Any = settings.get(SETTING, default=False)
        if isinstance(value, str) and value.lower() in ("true", "false", "1", "0", ""):
            value = value.lower() in ("true", "1")
        elif value is None or (type(value) is int and value in (0, 1)):
            value = bool(value)
        return cls(value)

    def refusal_reason(self, host: str, address: str) -> str | None:
        """Return why this address of a host is forbidden, in a word; None if it is allowed."""
        parsed = read_address(address.partition("%")[0])
        if parsed is None:
            return None
        return why_forbidden(parsed, allow_private=self.all or _lower(host) in self.hosts)


def _listed(setting: object) -> list[str]:
    if isinstance(setting, str):
        return [host.strip() for host in setting.split(",") if host.strip()]
    if isinstance(setting, Iterable):
        hosts = list(setting)
        if all(isinstance(host, str) for host in hosts):
            return hosts
    raise ConfigError(f"{SETTING} must be True, False or a list of host names, got {setting!r}")


def _lower(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


@implementer(IResolutionReceiver)
class _AddressFilter:
    """Passes allowed addresses on to another receiver."""

    def __init__(self, receiver: Any, host: str, guarded: GuardedResolver) -> None:
        self._receiver = receiver
        self._host = host
        self._guarded = guarded

    def resolutionBegan(self, resolution: Any) -> None:  # noqa: N802 - Twisted's name
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        if self._guarded.allows(self._host, address.host):
            self._receiver.addressResolved(address)

    def resolutionComplete(self) -> None:  # noqa: N802
        self._receiver.resolutionComplete()


@implementer(IHostnameResolver)
class GuardedResolver:
    """Resolves names with the previous resolver, and leaves out forbidden addresses."""

    def __init__(self, resolver: Any, private_hosts: PrivateHosts) -> None:
        self._resolver = resolver
        self.private_hosts = private_hosts
        self.proxies: set[str] = set()
        """Hosts that the project itself has named as proxies."""
        self.refused: dict[str, str] = {}
        """The most recent refusals: host -> address and reason."""

    def resolveHostName(self, resolutionReceiver: Any, hostName: str, *args: Any, **kwargs: Any) -> Any:  # noqa: N802, N803
        sieve = _AddressFilter(resolutionReceiver, hostName, self)
        return self._resolver.resolveHostName(sieve, hostName, *args, **kwargs)

    def allows(self, host: str, address: str) -> bool:
        why = None if _lower(host) in self.proxies else self.private_hosts.refusal_reason(host, address)
        if why is None:
            return True
        self.refused.pop(host, None)
        self.refused[host] = f"{address} ({why})"
        if len(self.refused) > MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
        return False


def install(settings: BaseSettings) -> None:
    """Guard the reactor of this process, if it has one. All crawlers share it, and the last one's setting applies.

    Scrapy installs a resolver when the reactor starts, which may be after a spider has opened, so the guard is installed
    after that.
    """
    private_hosts = PrivateHosts.read(settings)
    if is_reactor_installed():
        reactor = _reactor()
        reactor.callWhenRunning(_guard, reactor, private_hosts)


def _guard(reactor: Any, private_hosts: PrivateHosts) -> None:
    current = reactor.nameResolver
    if isinstance(current, GuardedResolver):
        current.private_hosts = private_hosts
    else:
        reactor.installNameResolver(GuardedResolver(current, private_hosts))


def _reactor() -> Any:
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs a reactor

    return reactor


class GuardMiddleware:
    """Refuses requests to forbidden addresses, and explains look-ups for which the guard has left no address."""

    def __init__(self, crawler: Crawler) -> None:
        self._private_hosts = PrivateHosts.read(crawler.settings)
        self._names: set[str] = set()
        """Recent hosts that need no check here: they are no addresses, or allowed ones. The resolver checks what names resolve to."""
        self._logged: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @property
    def _resolver(self) -> GuardedResolver | None:
        """None without a reactor."""
        found = _reactor().nameResolver if is_reactor_installed() else None
        return found if isinstance(found, GuardedResolver) else None

    def process_request(self, request: Request, spider: Spider | None = None) -> Coroutine[Any, Any, None] | None:
        del spider
        url = urlparse_cached(request)
        host = url.hostname
        if url.scheme not in ("http", "https") or not host:
            return None
        if host not in self._names:
            if why := self._private_hosts.refusal_reason(host, host):
                raise self._refuse(host, f"{host} ({why})")
            if len(self._names) > MAX_REFUSED:
                self._names.clear()
            self._names.add(host)
        resolver = self._resolver
        if resolver is None:
            return self._look_up(host)
        proxy = request.meta.get("proxy")
        if proxy and (name := urlsplit(str(proxy)).hostname):
            resolver.proxies.add(_lower(name))
        return None

    async def _look_up(self, host: str) -> None:
        """Without a reactor the name is looked up twice, here and when it is connected to."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            return  # the download reports the error
        for address in (str(one[4][0]) for one in found):
            if why := self._private_hosts.refusal_reason(host, address):
                raise self._refuse(host, f"{address} ({why})")

    def process_exception(self, request: Request, exception: Exception, spider: Spider | None = None) -> None:
        """Raise `Forbidden` if the look-up failed because all addresses were refused. Scrapy reports it as a DNS error."""
        del spider
        host = urlsplit(request.url).hostname or ""
        refused = self._resolver.refused.get(host) if self._resolver else None
        if refused and any(word in type(exception).__name__ for word in ("DNSLookup", "CannotResolve")):
            raise self._refuse(host, refused) from None

    def _refuse(self, host: str, what: str) -> Forbidden:
        """Return the error for a refused host, and log it once per host."""
        error = Forbidden(
            f"{host} is at {what}, and Silkline does not connect to such addresses, also with {SETTING} = True"
            if self._private_hosts.all
            else f"{host} is at {what}, and Silkline connects to public addresses only. To allow it, set "
            f'{SETTING} = ["{host}"], or True for all private networks'
        )
        if host not in self._logged:
            if len(self._logged) > MAX_REFUSED:
                self._logged.clear()
            self._logged.add(host)
            log.error("%s", error)
        return error


class Forbidden(ForbiddenAddress, IgnoreRequest):
    """A refused request. Scrapy logs no traceback for it, and it becomes a dead letter of the crawl."""
