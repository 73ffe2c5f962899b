"""The guard: where a fetch may go. Scheme, port and every address are checked before there is a connection."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from urllib.parse import unquote

import msgspec

from silkline.core.errors import FetchError, ForbiddenAddress, HostUnreachable, RequestError
from silkline.core.url import parse
from silkline.worker.fetch.addresses import IPAddress, read_address, why_forbidden
from silkline.worker.fetch.resolver import Resolver, SystemResolver

FAILURE_TTL = 5.0
"""Seconds for which a failed look-up is not repeated."""
MAX_REMEMBERED = 10_000

# The "bad ports" of the Fetch standard, which browsers refuse as well: whoever answers there does not speak HTTP, and a
# page must not be able to make us send its words to a mail server.
BAD_PORTS = frozenset([
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540,
    548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
    6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
])  # fmt: skip

# No name outside of this is looked up. With it, no second parser can see another host in the same URL than we did.
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_.])?")

Forbid = Callable[[IPAddress], "str | None"]
"""The word for what is wrong with an address; None when nothing is."""


class Target(msgspec.Struct, frozen=True):
    """Where a request goes: a URL taken apart and checked, but for the addresses of a name."""

    url: str
    """Without user and password, which no server is to find in its log."""
    host: str
    """Without the port, an IPv6 address in brackets."""
    port: int
    literal: IPAddress | None
    """The host, when it is an address."""
    auth: tuple[str, str] | None
    """User and password from the URL."""


class Addresses(msgspec.Struct, frozen=True):
    """The checked addresses of a name, or why it has none."""

    found: tuple[IPAddress, ...]
    until: float
    failure: FetchError | None = None


def read_target(url: str) -> Target:
    """Take *url* apart; a `FetchError` when it is not one to fetch, whoever its host is."""
    try:
        address = parse(url)
    except RequestError as error:
        raise FetchError(f"{error}: {url[:200]!r}", "bad_url") from None
    name, port, literal = _read_host(address.host, address.scheme)
    auth = _credentials(address.userinfo) if address.userinfo else None
    return Target(f"{address.scheme}://{address.host}{address.path}", name, port, literal, auth)


@functools.lru_cache(4096)
def _read_host(host: str, scheme: str) -> tuple[str, int, IPAddress | None]:
    """Name (or address), port, and the address if it is one."""
    name, port = host, 443 if scheme == "https" else 80
    if ":" in host and not host.endswith("]"):
        name, _, digits = host.rpartition(":")
        port = int(digits)
    literal = read_address(name)
    if literal is None and not _NAME.fullmatch(name):
        raise FetchError(f"{name!r} cannot be the name of a host", "bad_url")
    if port in BAD_PORTS:
        raise ForbiddenAddress(f"no page is fetched from port {port}, which belongs to another protocol")
    return name, port, literal


def _credentials(userinfo: str) -> tuple[str, str]:
    user, _, password = userinfo.partition(":")
    return unquote(user), unquote(password)


class Guard:
    """Looks up names, refuses forbidden addresses, and remembers what it found for *ttl* seconds.

    All addresses of a name must be permitted, else none is used: a name with one public and one private address is
    somebody's attempt. The fetcher connects to the addresses found here and to no others, so a name that means another
    address a moment later (DNS rebinding) gains nothing.
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
        self._forbid = forbid or (lambda address: why_forbidden(address, allow_private=allow_private))
        self._ttl = ttl
        self._known: OrderedDict[str, Addresses] = OrderedDict()
        self._looking: dict[str, asyncio.Task[Addresses]] = {}

    def known(self, target: Target) -> tuple[IPAddress, ...]:
        """What `addresses` would answer without a look-up; empty when it needs one."""
        known = self._known.get(target.host)
        return known.found if known is not None and known.until > time.monotonic() else ()

    async def addresses(self, target: Target) -> tuple[IPAddress, ...]:
        """The addresses of the target's host, all of them permitted; `ForbiddenAddress` if one is not."""
        host = target.host
        known = self._known.get(host)
        if known is None or known.until <= time.monotonic():
            known = await self._look_up_once(host, target.literal)
        if known.failure is not None:
            raise type(known.failure)(str(known.failure), known.failure.kind)  # anew: each with its own traceback
        return known.found

    async def _look_up_once(self, host: str, literal: IPAddress | None) -> Addresses:
        """Those who ask for the same name at the same time share one look-up; who gives up does not end it."""
        if literal is not None:
            return self._remember(host, [str(literal)])
        task = self._looking.get(host)
        if task is None:
            task = self._looking[host] = asyncio.get_running_loop().create_task(self._look_up(host))
            task.add_done_callback(lambda _: self._looking.pop(host, None))
        return await asyncio.shield(task)

    async def _look_up(self, host: str) -> Addresses:
        try:
            texts = await self._resolver.resolve(host)
        except FetchError as error:
            return self._keep(host, Addresses((), time.monotonic() + min(FAILURE_TTL, self._ttl), error))
        return self._remember(host, texts)

    def _remember(self, host: str, texts: Sequence[str]) -> Addresses:
        """Check the answers and keep the verdict."""
        try:
            found = tuple(self._checked(host, text) for text in texts)
            if not found:
                raise HostUnreachable(f"{host} has no address", "dns")
        except FetchError as error:
            return self._keep(host, Addresses((), time.monotonic() + min(FAILURE_TTL, self._ttl), error))
        return self._keep(host, Addresses(found, time.monotonic() + self._ttl))

    def _keep(self, host: str, answer: Addresses) -> Addresses:
        self._known[host] = answer
        self._known.move_to_end(host)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return answer

    def _checked(self, host: str, text: str) -> IPAddress:
        address = read_address(text.partition("%")[0])
        if address is None:
            raise HostUnreachable(f"the resolver says that {host} is at {text!r}, which is no address", "dns")
        if (word := self._forbid(address)) is not None:
            raise ForbiddenAddress(_refusal(host, address, word))
        return address

    async def close(self) -> None:
        for task in list(self._looking.values()):
            task.cancel()
        await self._resolver.close()


def _refusal(host: str, address: IPAddress, word: str) -> str:
    what = f"{address} is a {word} address" if host == str(address) else f"{host} has the {word} address {address}"
    own = why_forbidden(address, allow_private=True) is None
    return f"{what}; allow private addresses if that is your own network" if own else what
