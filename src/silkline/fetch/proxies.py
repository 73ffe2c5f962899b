"""Proxies: how a proxy is written, which one a fetch uses, and who is at fault if a fetch through it fails.

A failure through a proxy may be the proxy's or the web server's. It is the proxy's if the proxy cannot be reached, refuses the login,
or does not reply to a check, which is a request for a name that cannot exist. Such a proxy rests, longer after each failure, and is
then tried by one fetch. If the proxy replies to the check but made no connection to the host, the host is tried again later or through
another proxy; after several failures in a row the host counts as unreachable, if proxies work for other hosts. A failure of a proxy is
a `ProxyFailure`: the worker releases the page, which costs no attempt.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import re
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from silkline.errors import ConfigError, FetchError, ProxyFailure

log = logging.getLogger(__name__)

PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
"""The schemes of proxies, and their default ports."""
FIRST_REST, LONGER, LONGEST_REST = 2.0, 4.0, 300.0
"""Seconds for which a proxy rests after a failure, the factor for each further one, and the longest rest."""
FEW, LONGEST_OF_FEW = 10, 30.0
"""With at most this many proxies, no rest is longer: the crawl waits for them."""
CHECK_TTL = 2.0
"""Seconds for which the result of a check applies."""
LATELY = 600.0
"""Seconds for which a response is a sign that proxies work, and that a host can be reached through them."""
IN_A_ROW = 3
"""Failures at a host in a row after which the host counts as unreachable."""
SILENT, MANY = 60.0, 10
"""Seconds without a response, and failures in a row, after which an operator should look at the proxies."""
MOST_HOSTS = 10_000
JUDGED = frozenset({"connect", "tls", "reset", "timeout", "protocol"})
"""Kinds of errors that a proxy can cause."""

_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]*:[0-9a-f:.]*")
_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?![^/?#])")


# ── settings ──


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, as it is read from its URL. Its text is the URL without user and password."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL with user and password."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user or self.password else ""
        return f"{self.scheme}://{login}{self.host}:{self.port}"

    @property
    def looks_up_names(self) -> bool:
        """Whether the proxy looks up the names of hosts, so that the guard cannot check their addresses."""
        return self.scheme != "socks5"


def read_proxy(text: object) -> Proxy:
    """Return the proxy that *text* names: ``http://USER:PASSWORD@HOST:PORT``, or ``HOST:PORT``. Errors contain no password."""
    if not isinstance(text, str):
        raise ConfigError(f"a proxy must be a URL such as http://USER:PASSWORD@HOST:PORT, got {type(text).__name__}")
    try:
        parts = urlsplit(text.strip() if "://" in text else f"http://{text.strip()}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if (
        not _HOST.fullmatch(host)
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or ("@" in text and "://" not in text)
    ):
        raise ConfigError(
            f"{_masked(text)} is not the URL of a proxy; write http://USER:PASSWORD@HOST:PORT, with special characters "
            "percent-encoded"
        )
    if parts.scheme not in PORTS:
        raise ConfigError(
            f"{_masked(text)} is not the URL of a proxy: use one of {', '.join(f'{one}://' for one in PORTS)}"
        )
    host = f"[{host}]" if ":" in host else host
    return Proxy(
        parts.scheme, host, port or PORTS[parts.scheme], unquote(parts.username or ""), unquote(parts.password or "")
    )


def _masked(text: str) -> str:
    """Return what can be shown of text that is not the URL of a proxy."""
    scheme, mark, rest = text.strip().rpartition("://")
    _, at, place = rest.rpartition("@")
    shown = _PLACE.match(place)
    if not re.fullmatch(r"[\w+.-]*", scheme) or not shown:
        return "what is given"
    more = "…" if len(shown[0]) < len(place) else ""
    return repr(f"{scheme}{mark}{'***@' if at else ''}{shown[0]}{more}"[:200])


class Proxies:
    """The proxies of a crawl, as they are set. The text and the repr have no passwords."""

    def __init__(self, source: str | Sequence[str]) -> None:
        urls = source if isinstance(source, list | tuple) else [source]
        self.listed = [read_proxy(url) for url in urls]
        if not self.listed:
            raise ConfigError("the list of proxies is empty; leave proxy out to fetch without one")

    @classmethod
    def of(cls, given: str | Sequence[str] | Proxies) -> Proxies:
        return given if isinstance(given, Proxies) else cls(given)

    def __repr__(self) -> str:
        return f"Proxies({', '.join(map(str, self.listed[:3]))}{', …' if len(self.listed) > 3 else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxies) and self.listed == other.listed

    __hash__ = object.__hash__


# ── the pool of one process ──


class PooledProxy:
    """A proxy in the pool: what it does, and how it has done so far."""

    __slots__ = ("check", "checked_at", "failures", "proxy", "rests_until", "running", "why", "worked_at")

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.running = 0
        """Fetches in progress."""
        self.failures = 0
        """Failures since the last response. With any, it is tried by one fetch at a time."""
        self.rests_until = 0.0
        self.worked_at = float("-inf")
        self.why = ""
        """Why it failed last."""
        self.check: asyncio.Task[str] | None = None
        self.checked_at = float("-inf")


class HostTrials:
    """How a host does through proxies."""

    __slots__ = ("failures", "opens", "worked_at")

    def __init__(self) -> None:
        self.failures = 0
        """Failures since its last response, through any proxies that work."""
        self.opens: dict[PooledProxy, float] = {}
        """When the host may be tried again through a proxy that made no connection to it."""
        self.worked_at = float("-inf")


class ProxyUse:
    """One fetch through a proxy; a context manager that counts it."""

    __slots__ = ("at", "connecting", "fault", "host", "pooled", "tunnel")

    def __init__(self, pooled: PooledProxy, host: str, at: float, *, tunnel: bool) -> None:
        self.pooled = pooled
        self.host = host
        self.at = at
        self.tunnel = tunnel
        """Whether the proxy only passes bytes on, rather than requests."""
        self.connecting = False
        """Whether the fetch failed before the request was sent to the host."""
        self.fault = ""
        """Why the proxy is at fault for sure."""

    @property
    def proxy(self) -> Proxy:
        return self.pooled.proxy

    def __enter__(self) -> Self:
        self.pooled.running += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.pooled.running -= 1


Check = Callable[[Proxy, bool], Awaitable[str]]
"""Returns why a proxy does not work, or an empty text. The flag asks for a tunnel."""


class ProxyPool:
    """Chooses the proxy of each fetch, and decides about failures. *check* asks a proxy whether it works."""

    def __init__(self, proxies: Iterable[Proxy], check: Check, clock: Callable[[], float] = time.monotonic) -> None:
        self._check = check
        self._clock = clock
        self._all = [PooledProxy(proxy) for proxy in proxies]
        self._longest = LONGEST_OF_FEW if len(self._all) <= FEW else LONGEST_REST
        self._ready = deque(self._all)
        self._resting: list[tuple[float, int]] = []
        """When each resting proxy returns, and its index."""
        self._indexes = {pooled: index for index, pooled in enumerate(self._all)}
        self._returned = 0
        """Proxies in `_ready` that have not worked since their last failure."""
        self._hosts: OrderedDict[str, HostTrials] = OrderedDict()
        self._worked_at = clock()
        self._has_worked = False
        self._failures = 0
        """Failures since the last response."""
        self._last_why = ""
        self._said = False

    # ── choosing ──

    @property
    def room(self) -> int | None:
        """The number of fetches that may be in progress; None for any number. A proxy that has rested gets one."""
        self._wake()
        return None if len(self._ready) > self._returned else self._returned

    def use(self, host: str, *, tunnel: bool) -> ProxyUse:
        """Return the use of a proxy for one fetch of *host*. Raises `ProxyFailure` if none can be used now."""
        self._wake()
        now = self._clock()
        trials = self._hosts.get(host)
        for _ in range(len(self._ready)):
            pooled = self._ready[0]
            self._ready.rotate(-1)
            if pooled.failures and pooled.running:
                continue
            if trials is None or trials.opens.get(pooled, 0.0) <= now:
                return ProxyUse(pooled, host, now, tunnel=tunnel)
        raise ProxyFailure(self.trouble or f"no proxy can be used for {host} now", self._wait(trials, now))

    def _wait(self, trials: HostTrials | None, now: float) -> float:
        """Return the seconds until a proxy can be used."""
        opens = [trials.opens.get(pooled, now) for pooled in self._ready] if trials else []
        soonest = min(opens, default=self._resting[0][0] if self._resting else now)
        return max(soonest - now, FIRST_REST / 4)

    def _wake(self) -> None:
        """Let proxies return that have rested."""
        now = self._clock()
        while self._resting and self._resting[0][0] <= now:
            due, index = heapq.heappop(self._resting)
            pooled = self._all[index]
            if pooled.rests_until == due:
                pooled.rests_until = 0.0
                self._returned += 1
                self._ready.append(pooled)

    # ── judging ──

    def worked(self, use: ProxyUse) -> None:
        """Note a response."""
        pooled, now = use.pooled, self._clock()
        if pooled.failures:
            self._restore(pooled)
        pooled.worked_at = self._worked_at = now
        self._has_worked, self._failures = True, 0
        trials = self._trials(use.host)
        trials.worked_at = now
        if trials.failures:
            trials.failures = 0
            trials.opens.clear()

    def _restore(self, pooled: PooledProxy) -> None:
        if pooled.rests_until:
            pooled.rests_until = 0.0  # its entry among those that rest has no meaning any more
            self._ready.append(pooled)
        else:
            self._returned -= 1
        pooled.failures, pooled.why = 0, ""
        if self._said:
            self._said = False
            log.warning("the proxy %s works again", pooled.proxy)

    async def judge(self, use: ProxyUse, error: FetchError) -> FetchError | ProxyFailure:
        """Return *error* if the host is at fault for it, else the failure of the proxy."""
        if error.kind not in JUDGED:
            return error
        pooled = use.pooled
        why = use.fault or await self.why_broken(use)
        if why:
            self._rest(pooled, why, use.at)
            return self._failure(use.pooled, why, use.host)
        if not use.connecting or pooled.worked_at > use.at:
            return error
        trials, now = self._trials(use.host), self._clock()
        trials.failures += 1
        alive = self._has_worked and now - self._worked_at < LATELY
        if trials.failures >= IN_A_ROW and alive and now - trials.worked_at > LATELY:
            return error
        self._failures += 1
        self._last_why = str(error)
        trials.opens[pooled] = now + self._rest_after(trials.failures)
        return self._failure(pooled, f"{error}, though the proxy replies", use.host)

    def _failure(self, pooled: PooledProxy, why: str, host: str) -> ProxyFailure:
        return ProxyFailure(f"the proxy {pooled.proxy} failed: {why}", self._wait(self._hosts.get(host), self._clock()))

    async def why_broken(self, use: ProxyUse) -> str:
        """Return why a proxy does not work, in words; empty if it replies to a check. Fetches that fail at a time share a check."""
        pooled = use.pooled
        if pooled.check is None or (pooled.check.done() and self._clock() - pooled.checked_at > CHECK_TTL):
            pooled.check = asyncio.create_task(self._ask(pooled, tunnel=use.tunnel))
        return await asyncio.shield(pooled.check)

    async def _ask(self, pooled: PooledProxy, *, tunnel: bool) -> str:
        why = await self._check(pooled.proxy, tunnel)
        pooled.checked_at = self._clock()
        return why

    def _rest(self, pooled: PooledProxy, why: str, began: float) -> None:
        """Let a proxy rest. Fetches that began before it rested do not make the rest longer."""
        self._failures += 1
        self._last_why = pooled.why = why
        if pooled.rests_until or pooled.worked_at > began:
            return
        self._ready.remove(pooled)
        if pooled.failures:
            self._returned -= 1
        pooled.failures += 1
        pooled.rests_until = self._clock() + self._rest_after(pooled.failures)
        heapq.heappush(self._resting, (pooled.rests_until, self._indexes[pooled]))
        log.debug("the proxy %s failed and rests: %s", pooled.proxy, why)
        if not self._said and len(self._ready) == self._returned:
            self._said = True
            log.warning("%s. Pages wait for it, and none of them is buried", self.trouble)

    def _rest_after(self, failures: int) -> float:
        return min(FIRST_REST * LONGER ** min(failures - 1, 10), self._longest)

    def _trials(self, host: str) -> HostTrials:
        trials = self._hosts.get(host)
        if trials is None:
            trials = self._hosts[host] = HostTrials()
            if len(self._hosts) > MOST_HOSTS:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(host)
        return trials

    # ── what an operator should know ──

    @property
    def trouble(self) -> str:
        """Why no page can be fetched, in words; empty if a proxy works."""
        if len(self._ready) == self._returned:
            if len(self._all) == 1:
                return f"the proxy {self._all[0].proxy} does not work: {self._all[0].why}"
            return f"none of {len(self._all):,} proxies works; the last one failed: {self._last_why}"
        silent = self._clock() - self._worked_at
        if self._failures >= MANY and silent > SILENT:
            return f"no response came through proxies for {silent:.0f} s; the last failure: {self._last_why}"
        return ""
