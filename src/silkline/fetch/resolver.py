"""Resolves names in threads, with a timeout and a limit for each site."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from silkline.core.scope import site_of
from silkline.errors import HostUnreachable, LocalFailure
from silkline.fetch.local import has_network, local_failure, no_network

THREADS = 32
"""A lookup blocks its thread, for a long time if a name server does not reply. The few threads of the event loop are not enough."""
SHARE = THREADS // 4
"""Look-ups of names of one site (a registered domain) at a time."""
SILENT, SILENT_FOR = SHARE, 30.0
"""Look-ups in a row to which the name servers of a site did not reply, before its names are refused, and for how many
seconds: each look-up would occupy a page and a thread until the timeout."""
PROBE = "silkline.invalid"
"""A name that cannot exist (RFC 6761): a resolver that works replies so."""
PROBE_TIMEOUT, PROBE_TTL = 5.0, 5.0
MANY, STRETCH = 3, 60.0
"""When look-ups of 3 sites got no reply within 60 seconds, the resolver of this machine may have lost its own servers. It still
replies from its cache then, so names that cannot be in the cache are looked up."""
WITNESSES, ANY_SITE = 3, "example.com"
"""How many sites are used for such names: those that were looked up last, or a site that always has name servers."""
MOST_SITES = 10_000

Lookup = Callable[[str], Sequence[str]]


class Resolver(Protocol):
    """Turns a host name into addresses. Give the guard another one to use DNS over HTTPS, or a fake in tests."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return every address of *host*, the best first.

        Raises `HostUnreachable` of kind ``dns`` if it has none, and `LocalFailure` if this machine can look up nothing now.
        """

    async def close(self) -> None:
        """Release threads and connections."""


class SiteLookups:
    """The look-ups of one site, which may use a share of the threads."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(SHARE)
        self.silent = 0
        """Look-ups without a reply since the last one with one."""
        self.refused_until = 0.0


class SystemResolver:
    """The resolver of the operating system: hosts file, DNS and whatever else is configured."""

    def __init__(self, timeout: float = 10.0, *, lookup: Lookup | None = None) -> None:
        self._timeout = timeout
        self._look_up = lookup or _look_up
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="silkline-dns")
        self._sites: OrderedDict[str, SiteLookups] = OrderedDict()
        self._health = ResolverHealth(self._look_up)
        site_of(PROBE)  # reads a file, for which there may be no descriptor later

    async def resolve(self, host: str) -> Sequence[str]:
        name = "localhost" if is_localhost(host) else host
        domain = site_of(name)
        site = self._site(domain)
        if site.refused_until > time.monotonic():
            raise HostUnreachable(f"no address for {host}: the name servers of its site do not reply", "dns")
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._in_thread(site, name)
        except TimeoutError:
            raise await self._no_reply(host, domain, f"no reply within {self._timeout:g} s") from None
        except socket.gaierror as error:
            if error.errno == socket.EAI_AGAIN:
                raise await self._no_reply(host, domain, error.strerror) from None
            site.silent = 0
            raise HostUnreachable(f"no address for {host}: {error.strerror}", "dns") from None
        except (OSError, UnicodeError) as error:
            local = local_failure(error.errno) if isinstance(error, OSError) else None
            raise local or HostUnreachable(f"no address for {host}: {error}", "dns") from None
        site.silent = 0
        self._health.works_for(name, domain)
        return found

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._health.close()

    def _site(self, domain: str) -> SiteLookups:
        site = self._sites.get(domain)
        if site is None:
            site = self._sites[domain] = SiteLookups()
            if len(self._sites) > MOST_SITES:
                self._sites.popitem(last=False)
        return site

    async def _in_thread(self, site: SiteLookups, name: str) -> Sequence[str]:
        """Look up a name in the site's turn. The turn ends with the look-up, which continues if its caller is cancelled."""
        await site.turns.acquire()
        loop = asyncio.get_running_loop()

        def release(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(site.turns.release)

        looking: Future[Sequence[str]] = self._threads.submit(self._look_up, name)
        looking.add_done_callback(release)
        return await asyncio.wrap_future(looking)

    async def _no_reply(self, host: str, domain: str, why: str | None) -> HostUnreachable | LocalFailure:
        """Return the error for a name that could not be looked up: a failure of this machine, or of the name's servers."""
        failure = await self._health.failure(domain)
        if failure is not None:
            return failure
        site = self._site(domain)
        site.silent += 1
        if site.silent >= SILENT:
            site.refused_until = time.monotonic() + SILENT_FOR
        return HostUnreachable(f"no address for {host}: {why}", "dns")


class ResolverHealth:
    """Whether the resolver of this machine works: looks up a name that it looked up before, or one that cannot exist.

    If look-ups of many sites fail, also names that it cannot have in its cache.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._look_up = lookup
        self._threads = ThreadPoolExecutor(1 + WITNESSES, thread_name_prefix="silkline-dns-probe")
        self._name = PROBE
        self._witnesses: OrderedDict[str, None] = OrderedDict()
        self._failed: dict[str, float] = {}  # sites whose last look-up got no reply, and when
        self._asking: asyncio.Task[None] | None = None
        self._known: LocalFailure | None = None
        self._looked_upstream = False
        self._until = 0.0

    def works_for(self, name: str, site: str) -> None:
        """Note that a name was looked up."""
        self._failed.pop(site, None)
        if name == "localhost":
            return
        self._name = name
        self._witnesses[site] = None
        self._witnesses.move_to_end(site)
        if len(self._witnesses) > 2 * WITNESSES:
            self._witnesses.popitem(last=False)

    async def failure(self, site: str) -> LocalFailure | None:
        """Return what is wrong with the resolver or the network of this machine; None if only *site* got no reply."""
        self._note(site)
        while self._until <= time.monotonic() or (self._known is None and self._many and not self._looked_upstream):
            if self._asking is None or self._asking.done():
                self._asking = asyncio.get_running_loop().create_task(self._ask())
            await asyncio.shield(self._asking)
        return self._known

    @property
    def _many(self) -> bool:
        return len(self._failed) >= MANY

    def _note(self, site: str) -> None:
        now = time.monotonic()
        self._failed[site] = now
        self._failed = {site: when for site, when in self._failed.items() if when > now - STRETCH}

    async def _ask(self) -> None:
        upstream = self._many
        self._known = await self._probe(upstream=upstream)
        self._looked_upstream = upstream
        self._until = time.monotonic() + PROBE_TTL

    async def _probe(self, *, upstream: bool) -> LocalFailure | None:
        if not has_network():
            return no_network()
        if not await self._replies(self._name):
            return LocalFailure("the DNS resolver of this machine does not reply", "resolver")
        if upstream and not await self._reaches_others():
            return LocalFailure(
                "the DNS resolver of this machine has no reply for any site: it seems to have lost its own servers",
                "resolver",
            )
        return None

    async def _reaches_others(self) -> bool:
        """Whether there is a reply for a name that cannot be in a cache, below a site that is not in question."""
        sites = [site for site in reversed(self._witnesses) if site not in self._failed][:WITNESSES] or [ANY_SITE]
        names = [f"silkline-{secrets.token_hex(6)}.{site}" for site in sites]
        return any(await asyncio.gather(*map(self._replies, names)))

    async def _replies(self, name: str) -> bool:
        """Return whether the resolver replies for a name, if only that it does not exist."""
        looking = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, name)
        try:
            await asyncio.wait_for(looking, PROBE_TIMEOUT)
        except TimeoutError:
            return False
        except socket.gaierror as error:
            return error.errno != socket.EAI_AGAIN
        except (OSError, UnicodeError):
            return True
        return True

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_localhost(host: str) -> bool:
    """Return whether a name is that of this machine. By RFC 6761, every name below localhost is; some systems differ."""
    return f".{host.rstrip('.')}".endswith(".localhost")


def _look_up(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except socket.gaierror:
        # Without a descriptor, the hosts file cannot be read, and the name is "not known". Then opening a socket raises the real error.
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
        raise
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
