"""The guard decides which servers a fetch may connect to. It checks scheme, port and every address before the connection."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from urllib.parse import unquote

import msgspec

from silkline.core.url import parse
from silkline.errors import FetchError, ForbiddenAddress, HostUnreachable, RequestError
from silkline.fetch.addresses import LOOPBACK, IPAddress, read_address, why_forbidden
from silkline.fetch.resolver import Resolver, SystemResolver, is_localhost

FAILURE_TTL = 5.0
"""Seconds before a failed look-up is repeated."""
MAX_REMEMBERED = 10_000

# The "bad ports" of the Fetch standard, which browsers refuse as well: servers there do not speak HTTP, and a page must not be
# able to send its text to a mail server through a crawler.
BAD_PORTS = frozenset([
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540,
    548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
    6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
])  # fmt: skip

# Other names are not looked up, so that no other parser finds another host in the same URL.
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_.])?")

Forbid = Callable[[IPAddress], "str | None"]
"""Returns why an address is forbidden, in a word; None if it is permitted."""


class FetchTarget(msgspec.Struct, frozen=True):
    """The target of a request: a URL in its parts, checked except for the addresses of its host name.

    - *url*: without user and password, so that no server logs them. *auth*: user and password from the URL.
    - *host*: without the port, an IPv6 address in brackets. *port*: the port, also if it is the default one.
    - *literal*: the address, if the host is one.
    """

    url: str
    host: str
    port: int
    literal: IPAddress | None
    auth: tuple[str, str] | None


class CheckedAddresses(msgspec.Struct, frozen=True):
    """The checked addresses of a name, or why it has none."""

    found: tuple[IPAddress, ...]
    until: float
    failure: FetchError | None = None


def read_target(url: str) -> FetchTarget:
    """Parse and check *url*. Raises a `FetchError` if it cannot be fetched, whatever the addresses of its host."""
    try:
        address = parse(url)
    except RequestError as error:
        raise FetchError(f"{error}: {url[:200]!r}", "bad_url") from None
    name, port, literal = _read_host(address.host, address.scheme)
    auth = _credentials(address.userinfo) if address.userinfo else None
    return FetchTarget(f"{address.scheme}://{address.host}{address.path}", name, port, literal, auth)


@functools.lru_cache(4096)
def _read_host(host: str, scheme: str) -> tuple[str, int, IPAddress | None]:
    """Return the name (or address), the port, and the address if it is one."""
    name, port = host, 443 if scheme == "https" else 80
    if ":" in host and not host.endswith("]"):
        name, _, digits = host.rpartition(":")
        port = int(digits)
    literal = read_address(name)
    if literal is None and not _NAME.fullmatch(name):
        raise FetchError(f"{name!r} is not a valid host name", "bad_url")
    if port in BAD_PORTS:
        raise ForbiddenAddress(f"port {port} is not permitted: it belongs to another protocol")
    return name, port, literal


def _credentials(userinfo: str) -> tuple[str, str]:
    user, _, password = userinfo.partition(":")
    return unquote(user), unquote(password)


class Guard:
    """Looks up names, refuses forbidden addresses, and caches the result for *ttl* seconds.

    All addresses of a name must be permitted, else none is used: a name with a public and a private address is an attack. The
    fetcher connects only to the addresses found here, so a name that changes its address a moment later (DNS rebinding) has
    no effect.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        resolver: Resolver | None = None,
        forbid: Forbid | None = None,
        ttl: float = 60.0,
    ) -> None:
        self._resolver = resolver if resolver is not None else SystemResolver()
        self._allow_private = allow_private
        self._forbid = forbid or (lambda address: why_forbidden(address, allow_private=self._allow_private))
        self._ttl = ttl
        self._known: OrderedDict[str, CheckedAddresses] = OrderedDict()
        self._looking: dict[str, asyncio.Task[CheckedAddresses]] = {}

    def allow_private(self, allowed: bool) -> None:  # noqa: FBT001
        """Allow or refuse requests to private networks from now on."""
        self._allow_private = allowed
        self._known.clear()

    def known(self, target: FetchTarget) -> tuple[IPAddress, ...]:
        """Return the cached result of `addresses`; empty if a look-up is needed."""
        known = self._known.get(target.host)
        return known.found if known is not None and known.until > time.monotonic() else ()

    async def addresses(self, target: FetchTarget) -> tuple[IPAddress, ...]:
        """Return the addresses of the target's host. Raises `ForbiddenAddress` if one of them is not permitted."""
        host = target.host
        known = self._known.get(host)
        if known is None or known.until <= time.monotonic():
            known = await self._look_up_once(host, target.literal)
        if known.failure is not None:
            raise type(known.failure)(str(known.failure), known.failure.kind)  # a new one, with its own traceback
        return known.found

    async def _look_up_once(self, host: str, literal: IPAddress | None) -> CheckedAddresses:
        """Look up a name once for all concurrent callers. A caller that is cancelled does not end the look-up."""
        if literal is not None:
            return self._remember(host, [str(literal)])
        task = self._looking.get(host)
        if task is None:
            task = self._looking[host] = asyncio.get_running_loop().create_task(self._look_up(host))
            task.add_done_callback(lambda task: self._looked_up(host, task))
        return await asyncio.shield(task)

    def _looked_up(self, host: str, task: asyncio.Task[CheckedAddresses]) -> None:
        self._looking.pop(host, None)
        if not task.cancelled():
            task.exception()  # all callers may have been cancelled

    async def _look_up(self, host: str) -> CheckedAddresses:
        try:
            texts = await self._resolver.resolve(host)
        except FetchError as error:
            return self._keep(host, CheckedAddresses((), time.monotonic() + min(FAILURE_TTL, self._ttl), error))
        return self._remember(host, texts)

    def _remember(self, host: str, texts: Sequence[str]) -> CheckedAddresses:
        """Check the addresses and cache the result."""
        try:
            found = tuple(self._checked(host, text) for text in texts)
            if not found:
                raise HostUnreachable(f"{host} has no address", "dns")
        except FetchError as error:
            return self._keep(host, CheckedAddresses((), time.monotonic() + min(FAILURE_TTL, self._ttl), error))
        return self._keep(host, CheckedAddresses(found, time.monotonic() + self._ttl))

    def _keep(self, host: str, result: CheckedAddresses) -> CheckedAddresses:
        self._known[host] = result
        self._known.move_to_end(host)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return result

    def _checked(self, host: str, text: str) -> IPAddress:
        address = read_address(text.partition("%")[0])
        if address is None:
            raise HostUnreachable(f"the resolver returned {text!r} for {host}, which is not an address", "dns")
        if (word := self._forbid(address)) is not None:
            raise ForbiddenAddress(_refusal(host, address, word))
        return address

    async def check_written(self, target: FetchTarget) -> None:
        """Check what a URL says about its host, for a proxy that looks up names itself. Raises `ForbiddenAddress`.

        Addresses are checked as usual. Names that only have a meaning in a private network are refused, unless private addresses
        are permitted.
        """
        if target.literal is not None:
            await self.addresses(target)
        elif not self._allow_private and (word := private_name(target.host)):
            raise ForbiddenAddress(f"{target.host} is {word}; start with --allow-private if that is your own network")

    async def close(self) -> None:
        """Cancel the lookups in progress."""
        for task in list(self._looking.values()):
            task.cancel()
        await self._resolver.close()


def _refusal(host: str, address: IPAddress, word: str) -> str:
    what = f"{address} is a {word} address" if host == str(address) else f"{host} has the {word} address {address}"
    own = why_forbidden(address, allow_private=True) is None
    return f"{what}; start with --allow-private if that is your own network" if own else what


PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa", "intranet", "lan", "corp", "home", "private")
"""Ends of names that no public name server has."""


def private_name(host: str) -> str | None:
    """Return what a name is that only has a meaning in a private network, in words; None for all others."""
    name = host.rstrip(".")
    if "." not in name:
        return "a name without a domain"
    return "a name of a private network" if f".{name}".endswith(tuple(f".{end}" for end in PRIVATE_NAMES)) else None


def own_network(url: str) -> str | None:
    """Return the kind of a host that only `allow_private` permits, such as loopback, by its URL alone; None for all others."""
    try:
        target = read_target(url)
    except FetchError:
        return None
    address = LOOPBACK if is_localhost(target.host) else target.literal
    if address is None or why_forbidden(address, allow_private=True) is not None:
        return None
    return why_forbidden(address)
