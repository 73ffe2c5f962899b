"""The pool of proxies of one process: which one a fetch uses, and who is at fault if a fetch through it fails.

A failure through a proxy may be the proxy's or the web server's. It is the proxy's if the proxy cannot be reached, refuses the login,
or does not reply to a check, which is a request for a name that cannot exist. Such a proxy rests, longer after each failure, and is
then tried by one fetch. Of several proxies, each is also checked when it is new and when it has rested, so that pages do not wait for
dead ones. If the proxy replies to the check but made no connection to the host, the host is tried again later or through
another proxy; after several failures in a row the host counts as unreachable, if proxies work for other hosts. A failure of a proxy is
a `ProxyFailure`: the worker releases the page, which costs no attempt.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Literal, NamedTuple, Self, TypeAlias, get_args

import xxhash

from silkline.core.proxy_health import ProxyNews
from silkline.errors import FetchError, HostUnreachable, ProxyFailure, SilklineError
from silkline.fetch.fetcher import Response
from silkline.fetch.proxies import Download, Proxies, Proxy, proxy_names
from silkline.fetch.proxy.fleet import ProxyFleet, ShareProxies
from silkline.frontier.verbs.proxies import MOST_PROXIES

log = logging.getLogger(__name__)

FIRST_REST, LONGER, LONGEST_REST = 2.0, 4.0, 300.0
"""Seconds for which a proxy rests after a failure, the factor for each further one, and the longest rest."""
FEW, LONGEST_OF_FEW = 10, 30.0
"""With at most this many proxies, no rest is longer: the crawl waits for them."""
LATELY = 600.0
"""Seconds for which a response is a sign that proxies work, and that a host can be reached through them."""
IN_A_ROW = 3
"""Failures at a host in a row after which the host counts as unreachable."""
LIKE_THE_CHECK = 20
"""How often one page is released because of error pages that are like the reply of the proxy to its check; else `IN_A_ROW` times."""
SILENT, MANY = 60.0, 10
"""Seconds without a response, and failures in a row, after which an operator should look at the proxies."""
MOST_HOSTS, MOST_PAGES = 10_000, 10_000
CHECKS = 64
"""Checks in progress at a time."""
FIRST_CHECK = 1.0
"""Seconds for which a fetch waits for the first proxy that replies to its check."""
LOAD_AGAIN = 15.0
"""Seconds after which a list that could not be read is read again."""
JUDGED = frozenset({"connect", "tls", "reset", "timeout", "protocol"})
"""Kinds of errors that a proxy can cause."""
ASK_AGAIN = 2.0
"""Seconds after which the pool asks again whether another worker has checked a proxy, if it does not learn of it before."""
BLOCKS = frozenset({403, 429})
"""Statuses with which hosts refuse the address of a proxy."""


PooledState: TypeAlias = Literal["new", "ready", "returned", "resting", "checking", "gone"]
"""``ready``: it works. ``returned``: it has rested, and is tried by one fetch at a time. ``gone``: it is not listed any more."""


class PooledProxy:
    """A proxy in the pool: what it does, and how it has done so far."""

    __slots__ = (
        "check", "check_began", "failures", "name", "proxy", "replies", "rests_until", "running", "state", "why", "worked_at",
    )  # fmt: skip

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.name = ""
        """Its name among the workers of the crawl; empty if its health is not shared."""
        self.state: PooledState = "new"
        self.running = 0
        """Fetches in progress."""
        self.failures = 0
        """Failures since the last response."""
        self.rests_until = 0.0
        self.worked_at = float("-inf")
        self.why = ""
        """Why it failed last."""
        self.check: asyncio.Task[ProxyCheck] | None = None
        """The last check."""
        self.check_began = 0.0
        self.replies: int | None = None
        """The status with which it replied to the last check, if that was a page."""


class HostTrials:
    """How a host does through proxies."""

    __slots__ = ("believed_until", "failures", "opens", "worked_at")

    def __init__(self) -> None:
        self.believed_until = float("-inf")
        """Until when pages that look like error pages of a proxy count as its own."""
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


class ProxyCheck(NamedTuple):
    """How a proxy replied to a check."""

    why: str = ""
    """Why it does not work; empty if it replied."""
    status: int | None = None
    """The status of its reply, if that was a page."""


Check = Callable[[Proxy, bool], Awaitable[ProxyCheck]]
"""Checks a proxy. The flag asks for a tunnel."""


class ProxyPool:
    """Chooses the proxy of each fetch, and decides about failures.

    *check* asks a proxy whether it works, and *download* reads a list of proxies from a URL.
    """

    def __init__(
        self,
        proxies: Proxies,
        check: Check,
        download: Download,
        clock: Callable[[], float] = time.monotonic,
        *,
        tier: int = 0,
        learn_tier: Callable[[ProxyNews], None] | None = None,
    ) -> None:
        self._settings = proxies
        self.tier = tier
        """The place of this pool among several; 0 is the first."""
        self._learn_tier = learn_tier
        self._check = check
        self._download = download
        self._clock = clock
        self._all: dict[Proxy, PooledProxy] = {}
        self._order: list[PooledProxy] = []
        self._ready: deque[PooledProxy] = deque()
        """The proxies that work."""
        self._new: deque[PooledProxy] = deque()
        self._returned: deque[PooledProxy] = deque()
        self._queues = {"returned": self._returned, "ready": self._ready, "new": self._new}
        self.counts = dict.fromkeys(get_args(PooledState), 0)
        """The number of proxies in each state."""
        self._resting: list[tuple[float, int, PooledProxy]] = []
        self._numbers = itertools.count()
        self._longest = LONGEST_OF_FEW
        self._hosts: OrderedDict[str, HostTrials] = OrderedDict()
        self._error_pages: OrderedDict[str, int] = OrderedDict()
        """How often pages looked like error pages of a proxy, by URL."""
        self._worked_at = clock()
        self._has_worked = False
        self._failures = 0
        """Failures since the last response."""
        self._last_why = ""
        self._said = False
        self._tunnel = False
        self._turns = asyncio.Semaphore(CHECKS)
        self._vetted = asyncio.Event()
        self._fleet: ProxyFleet | None = None
        self._named: dict[str, PooledProxy] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._load_at = clock() if proxies.changes else float("inf")
        self._load_error = ""
        self._update(proxies.listed)

    def close(self) -> None:
        """End what is in progress besides fetches."""
        for task in (*self._tasks, *(pooled.check for pooled in self._order if pooled.check)):
            task.cancel()

    # ── the other workers of the crawl ──

    async def share_health(self, share: ShareProxies) -> None:
        """Share what is known of the proxies with the other workers of the crawl, until this is cancelled."""
        self._fleet = ProxyFleet(share, lambda: (FIRST_REST, self._longest), self._learn)
        await self._fleet.run()

    def report_tier(self, host: str, tier: int) -> None:
        """Report that a host is fetched through another tier now."""
        if self._fleet:
            self._fleet.report(host, "tier", str(tier))

    def pool_of(self, _: str) -> Self:
        """Return the pool through which a host is fetched. Without tiers, that is this one."""
        return self

    def judge_block(self, _pool: ProxyPool, _use: ProxyUse, _response: Response) -> None:
        """See `ProxyTiers`. Without tiers, each response counts."""

    async def report_rest(self) -> None:
        """Report the last counts."""
        if self._fleet:
            await self._fleet.send(counts=True)

    def _learn(self, news: ProxyNews) -> None:
        """Take over what another worker has found out."""
        if news.word == "tier":
            if self._learn_tier:
                self._learn_tier(news)
            return
        pooled = self._named.get(news.proxy)
        if pooled is None or pooled.state == "gone":
            return
        if news.word == "resting":
            pooled.failures, pooled.why = max(pooled.failures, news.failures), news.why
            self._last_why = news.why
            self._let_rest(pooled, news.seconds)
        elif news.word == "ready":
            if pooled.state == "new":
                self._move(pooled, "ready")
            elif pooled.state in ("resting", "checking"):
                self._move(pooled, "returned")

    def _let_rest(self, pooled: PooledProxy, seconds: float) -> None:
        if pooled.state != "resting":
            self._move(pooled, "resting")
        self._look_again(pooled, seconds)

    def _look_again(self, pooled: PooledProxy, seconds: float) -> None:
        """Let `_wake` look at a proxy when the time is over."""
        pooled.rests_until = self._clock() + seconds
        heapq.heappush(self._resting, (pooled.rests_until, next(self._numbers), pooled))

    # ── the list ──

    async def prepare(self, *, tunnel: bool) -> None:
        """Read the list of proxies if it is time for that, and check new ones. Only the first fetches wait for it."""
        if self._clock() >= self._load_at:
            if self._loading is None:
                self._loading = self._spawn(self._load())
            if not self._all:
                await asyncio.shield(self._loading)
        if self._unvetted:
            self._vet_new(tunnel=tunnel)
        if self._new and self._vets and not self._vetted.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._vetted.wait(), FIRST_CHECK)

    async def _load(self) -> None:
        before = self._load_error
        try:
            listed = await self._settings.load(self._download)
        except SilklineError as error:
            self._load_error = str(error)
        except Exception as error:  # noqa: BLE001 - of the user's function; its text may contain a password
            self._load_error = f"{self._settings!r} raised {type(error).__name__}"
        else:
            self._load_error = ""
            self._update(listed)
        self._loading = None
        self._load_at = self._clock() + (
            min(LOAD_AGAIN, self._settings.refresh) if self._load_error else self._settings.refresh
        )
        if self._load_error and self._load_error != before:
            log.warning("%s; this is tried again in a moment", self._load_error)

    def _update(self, listed: Iterable[Proxy]) -> None:
        """Take these proxies instead of those so far. What is known of a proxy that stays is kept."""
        wanted = dict.fromkeys(listed)
        for proxy in [proxy for proxy in self._all if proxy not in wanted]:
            self._move(self._all.pop(proxy), "gone")
        for proxy in wanted:
            if proxy not in self._all:
                pooled = self._all[proxy] = PooledProxy(proxy)
                self.counts["new"] += 1
                self._new.append(pooled)
        self._order = [self._all[proxy] for proxy in wanted]
        self._name()
        self._longest = LONGEST_OF_FEW if len(wanted) <= FEW else LONGEST_REST
        self._vets = len(wanted) > 1
        self._unvetted = [pooled for pooled in self._new if pooled.check is None] if self._vets else []

    def _name(self) -> None:
        """Name the proxies for other workers."""
        shared = self._order[:MOST_PROXIES]
        suffix = f" tier {self.tier + 1}" if self.tier else ""
        names = [f"{name}{suffix}" for name in proxy_names(pooled.proxy for pooled in shared)]
        self._named = dict(zip(names, shared, strict=True))
        for name, pooled in self._named.items():
            pooled.name = name

    def _move(self, pooled: PooledProxy, state: PooledState) -> None:
        """Change the state of a proxy."""
        if (queue := self._queues.get(pooled.state)) is not None:
            queue.remove(pooled)
        self.counts[pooled.state] -= 1
        self.counts[state] += 1
        pooled.state = state
        if (queue := self._queues.get(state)) is not None:
            queue.append(pooled)
        if state == "ready":
            self._vetted.set()

    # ── choosing ──

    @property
    def room(self) -> int | None:
        """The number of fetches that may be in progress; None for any number. A proxy that has rested gets one."""
        self._wake()
        if not self._all:
            return None if not self._load_error else int(self._clock() >= self._load_at)
        good = len(self._ready) + len(self._new)
        if good and self._settings.concurrency is None:
            return None
        return good * (self._settings.concurrency or 0) + len(self._returned)

    def use(self, host: str, session: str | None = None, *, tunnel: bool) -> ProxyUse:
        """Return the use of a proxy for one fetch of *host*. Raises `ProxyFailure` if none can be used now."""
        self._wake()
        now, trials = self._clock(), self._hosts.get(host)
        key = host if self._settings.rotate == "host" else session if self._settings.rotate == "session" else None
        for pooled in self._in_turn() if key is None else self._from(key):
            if self._is_free(pooled) and (trials is None or trials.opens.get(pooled, 0.0) <= now):
                return ProxyUse(pooled, host, now, tunnel=tunnel)
        raise ProxyFailure(self.trouble or f"no proxy can be used for {host} now", self._wait(trials, now))

    def _in_turn(self) -> Iterable[PooledProxy]:
        """Yield the proxies that can be used: those to be tried again, then those that work. A new one must be checked first."""
        for queue in (self._returned, self._ready) if self._vets else self._queues.values():
            for _ in range(len(queue)):
                queue.rotate(-1)
                yield queue[-1]

    def _from(self, key: str) -> Iterable[PooledProxy]:
        """Yield the proxies that can be used, in an order that depends on the key."""
        start = xxhash.xxh32_intdigest(key.encode()) % max(len(self._order), 1)
        order = itertools.chain(itertools.islice(self._order, start, None), itertools.islice(self._order, start))
        return (pooled for pooled in order if pooled.state in self._queues)

    def _is_free(self, pooled: PooledProxy) -> bool:
        most = 1 if pooled.state == "returned" else self._settings.concurrency
        return most is None or pooled.running < most

    def _wait(self, trials: HostTrials | None, now: float) -> float:
        """Return the seconds until a proxy can be used."""
        opens = list(trials.opens.values()) if trials else []
        soonest = min(opens, default=self._resting[0][0] if self._resting else now)
        return max(soonest - now, FIRST_REST / 4)

    def _wake(self) -> None:
        """Let proxies return that have rested."""
        now = self._clock()
        while self._resting and self._resting[0][0] <= now:
            due, _, pooled = heapq.heappop(self._resting)
            if pooled.rests_until != due or pooled.state not in ("resting", "checking", "new"):
                continue
            if pooled.state == "resting" and not self._vets and not self._fleet:
                self._move(pooled, "returned")
                continue
            if pooled.state == "resting":
                self._move(pooled, "checking")
            self._spawn(self._vet(pooled))

    # ── checking ──

    def _vet_new(self, *, tunnel: bool) -> None:
        """Check new proxies, so that pages do not wait for those that are dead. Dead ones may be together in the list."""
        self._tunnel = tunnel
        for pooled in random.sample(self._unvetted, len(self._unvetted)):
            self._spawn(self._vet(pooled))
        self._unvetted = []

    async def _vet(self, pooled: PooledProxy) -> None:
        began = self._clock()
        async with self._turns:
            if pooled.state not in ("new", "checking"):
                return
            if self._fleet and pooled.name:
                news = await self._fleet.ask(pooled.name)
                if news and news.word == "wait":
                    self._look_again(pooled, min(news.seconds, ASK_AGAIN))
                    return
                if news and news.word != "check":
                    self._learn(news)
                    return
            why = await self._ask_once(pooled, tunnel=self._tunnel)
            if self._fleet and pooled.name and not why:
                self._fleet.report(pooled.name, "passed")
        if pooled.state == "checking":
            self._move(pooled, "returned")
            if why:
                self._rest(pooled, why, began)
        elif pooled.state == "new":
            if why:
                self._rest(pooled, why, began)
            else:
                self._move(pooled, "ready")

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask_once(self, pooled: PooledProxy, *, tunnel: bool) -> str:
        """Return why a proxy does not work now, in words; empty if it replies to a check.

        Fetches that fail at a time share a check. That a proxy has replied before a fetch failed proves nothing.
        """
        now = self._clock()
        while True:
            if pooled.check is None or pooled.check.done():
                pooled.check = asyncio.create_task(self._ask(pooled.proxy, tunnel=tunnel))
                pooled.check_began = self._clock()
            began = pooled.check_began
            why, pooled.replies = await asyncio.shield(pooled.check)
            if why or began >= now:
                return why

    async def _ask(self, proxy: Proxy, *, tunnel: bool) -> ProxyCheck:
        return await self._check(proxy, tunnel)

    # ── judging ──

    def worked(self, use: ProxyUse, status: int, seconds: float) -> None:
        """Note a response."""
        pooled, now = use.pooled, self._clock()
        if self._fleet and pooled.name:
            self._fleet.count(pooled.name, fetched=1, ms=round(seconds * 1000), blocked=status in BLOCKS)
            if pooled.state != "ready":
                self._fleet.report(pooled.name, "worked")
        if pooled.state not in ("ready", "gone"):
            self._move(pooled, "ready")
            if self._said:
                self._said = False
                log.warning("the proxy %s works again", pooled.proxy)
        pooled.failures, pooled.why = 0, ""
        pooled.worked_at = self._worked_at = now
        self._has_worked, self._failures = True, 0
        trials = self._trials(use.host)
        trials.worked_at = now
        if trials.failures:
            trials.failures = 0
            trials.opens.clear()

    async def judge(self, use: ProxyUse, error: FetchError) -> FetchError | ProxyFailure:
        """Return *error* if the host is at fault for it, else the failure of the proxy."""
        if error.kind not in JUDGED:
            return error
        pooled = use.pooled
        why = use.fault or await self._ask_once(pooled, tunnel=use.tunnel)
        if why:
            self._rest(pooled, why, use.at)
            return self._failure(pooled, why, use.host)
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

    async def judge_page(self, use: ProxyUse, url: str, status: int, what: str) -> ProxyFailure | None:
        """Return the failure of the proxy for a response that looks like its error page; None if it counts as the response of the host.

        Some proxies mark the responses of hosts like pages of their own. So a page is released for this only a few times: more often if
        the proxy replies to its check with the same status, as one does that refuses all hosts.
        """
        trials = self._trials(use.host)
        if self._clock() < trials.believed_until:
            return None
        use.connecting = True
        failure = await self.judge(use, HostUnreachable(f"an error page of the proxy ({what})"))
        if not isinstance(failure, ProxyFailure):
            return None
        if use.pooled.state == "resting":
            return failure
        seen = self._error_pages.pop(url, 0) + 1
        if seen < (LIKE_THE_CHECK if use.pooled.replies == status else IN_A_ROW):
            self._error_pages[url] = seen
            if len(self._error_pages) > MOST_PAGES:
                self._error_pages.popitem(last=False)
            return failure
        log.debug("what looks like error pages of a proxy counts as responses of %s: %s", use.host, what)
        trials.believed_until = self._clock() + LATELY
        trials.failures = 0
        trials.opens.clear()
        return None

    def _failure(self, pooled: PooledProxy, why: str, host: str) -> ProxyFailure:
        if self._fleet and pooled.name:
            self._fleet.count(pooled.name, failed=1)
        others = self._ready or self._new
        after = 0.0 if others and len(self._all) > 1 else self._wait(self._hosts.get(host), self._clock())
        return ProxyFailure(f"the proxy {pooled.proxy} failed: {why}", after)

    def _rest(self, pooled: PooledProxy, why: str, began: float) -> None:
        """Let a proxy rest. Fetches that began before it rested do not make the rest longer."""
        self._failures += 1
        self._last_why = why
        if pooled.state in ("resting", "checking", "gone") or pooled.worked_at > began:
            return
        pooled.why = why
        pooled.failures += 1
        self._let_rest(pooled, self._rest_after(pooled.failures))
        if self._fleet and pooled.name:
            self._fleet.report(pooled.name, "failed", why)
        log.debug("the proxy %s failed and rests: %s", pooled.proxy, why)
        if not self._said and not self._works:
            self._said = True
            log.warning("%s. Pages wait until a proxy works; none of them is buried", self.trouble)

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
    def _works(self) -> bool:
        """Whether a proxy works, or has not been tried."""
        return bool(self._ready or self._new)

    @property
    def trouble(self) -> str:
        """Why no page can be fetched, in words; empty if a proxy works."""
        if not self._all:
            return self._load_error
        if not self._works and self._last_why:
            if len(self._order) == 1:
                return f"the proxy {self._order[0].proxy} does not work: {self._order[0].why}"
            return f"none of {len(self._order):,} proxies works; the last one failed: {self._last_why}"
        silent = self._clock() - self._worked_at
        if self._failures >= MANY and silent > SILENT:
            return f"no response came through proxies for {silent:.0f} s; the last failure: {self._last_why}"
        return ""
