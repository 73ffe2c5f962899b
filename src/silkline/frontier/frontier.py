"""Frontier: the crawl queue for async code. This class checks arguments and runs flows; the logic is in `verbs` and scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Self, TypeVar, Unpack
from weakref import WeakValueDictionary

from msgspec import UNSET

from silkline.core.lease import Lease, Leases
from silkline.core.request import Request
from silkline.core.robots_fetch import FRESH
from silkline.core.verdict import KEEP_RESULT, Bury, Complete, Release, RetryIn, Verdict
from silkline.errors import LeaseLost, SettingsConflict, UnknownCrawl
from silkline.frontier.admin import CrawlAdmin
from silkline.frontier.admin_verbs import stats
from silkline.frontier.admin_verbs.settings import set_politeness
from silkline.frontier.arguments import CrawlArguments, crawl_defaults, embedded_in, read_crawl_arguments
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.internal import FrontierInternals
from silkline.frontier.locks.locks import DEFAULT_TTL, Lock, RateLimiter, Semaphore, ServerLocks, name_for_site
from silkline.frontier.overflow import Overflow, open_overflow
from silkline.frontier.session import CrawlSession
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.connection import AsyncConnection, drive, run_blocking, run_or_undo, run_to_end, sleep
from silkline.frontier.transport.notifier import AsyncAwaited, AsyncNotifier, AsyncResultListener, PollSchedule
from silkline.frontier.transport.redis_url import read_url
from silkline.frontier.transport.server_info import check_server
from silkline.frontier.user_keys.inbox import DEFAULT_HOLD, Inbox, KeyKind, open_inbox
from silkline.frontier.verbs import claim, enqueue, lifecycle, results, robots, settle
from silkline.frontier.verbs.claim import ClaimTerms, SuspectPolicy, claim_terms, lease_ms, wait_seconds
from silkline.frontier.verbs.enqueue import Admissions, as_batch, as_requests
from silkline.frontier.verbs.results import Result, one_request
from silkline.frontier.verbs.robots import RobotsFile
from silkline.frontier.verbs.settle import RetryArguments, Settlement, as_leases, as_verdicts

R = TypeVar("R")

DEFAULT_LEASE = 10.0
DEFAULT_LOCK = 60.0
"""Long enough for a slow robots.txt with its redirects. If the fetcher dies, its host is blocked for this long, or until its lease
expires."""
RECALL_EVERY = 1.0
SHORT_WAIT = 0.001
"""A shorter wait of a claim may be over before it has read a message."""
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5
"""Seconds between two looks for a crawl that does not exist yet. The time doubles."""


class Frontier:
    """One crawl's requests on Redis or Valkey: what a worker needs. `admin` has the methods for operators.

    Open it with `Frontier.open`. Every method makes one atomic change of state on the server, or a few; the crawl is sound after each.
    Any number of processes may call it, and it is safe to call again after a lost connection.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        layout: CrawlLayout,
        lease: float,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self._session = CrawlSession(connection, layout, overflow, clock)
        self._admin = CrawlAdmin(self._session)
        self._internal = FrontierInternals(self._session)
        self._locks = ServerLocks(self._session, layout.keys)
        self._limiters: WeakValueDictionary[tuple[str, float | str, int], RateLimiter] = WeakValueDictionary()
        self._connection = connection
        self._overflow = overflow
        self._lease_ms = lease_ms(lease)
        self._schedule = PollSchedule(layout.settings.shards, layout.priorities)
        self._notifier = AsyncNotifier(connection, layout, self._schedule)
        self._results = AsyncResultListener(connection, layout.keys.results_channel(token_hex(8)))
        self._next_recall = 0.0
        self._suspects: SuspectPolicy = "any"
        self._embedded: EmbeddedServer | None = None
        self.url: str | None = None
        """The address it was opened with, password and all; None for the embedded server in ``.silkline``."""

    @classmethod
    async def open(  # noqa: PLR0913 - what users choose
        cls,
        url: str | None = None,
        *,
        crawl: str,
        create: bool = True,
        wait: float = 0.0,
        lease: float = DEFAULT_LEASE,
        overflow: Overflow | Path | str | None = None,
        clock: Callable[[], int] | None = None,
        client_name: str | None = None,
        **options: Unpack[CrawlArguments],
    ) -> Self:
        """Connect to *crawl* on the server at *url*, creating the crawl unless *create* is False.

        Then *wait* is how many seconds to wait for another process to create it, before `UnknownCrawl` is raised. A consumer that
        may come first opens the crawl in this way, because the process that creates a crawl decides on its settings.

        Without a *url*, an embedded server runs in ``.silkline/``; ``embedded:DIR`` names another directory. *lease* is how many
        seconds a claimed request stays leased unless extended. *overflow* is a SQLite file for links that do not fit into the queue.
        *clock* (milliseconds) replaces the server's clock, for tests. CLIENT LIST shows the connections as
        ``silkline:CRAWL:HOST:PID:ROLE``; *client_name* is the role, ``client`` by default.
        """
        keys = CrawlKeys(crawl)
        lease_ms(lease)
        wait_seconds(wait)
        settings = read_crawl_arguments(options)
        embedded = await run_blocking(EmbeddedServer.join, directory) if (directory := embedded_in(url)) else None
        connection = None
        try:
            target = read_url(embedded.url if embedded else str(url))
            connection = AsyncConnection(
                target, clock, embedded.ensure if embedded else None, crawl, client_name or "client"
            )
            await connection.start()
            check_server(connection.server, connection.target.public)
            layout = await _open_crawl(connection, keys, settings, create=create, wait=wait)
            store = await run_blocking(open_overflow, overflow)
        except BaseException:
            if connection:
                await connection.close()
            if embedded:
                await run_blocking(embedded.leave)
            raise
        frontier = cls(connection, layout, lease, store, clock)
        frontier._embedded = embedded
        frontier.url = url
        return frontier

    @property
    def crawl(self) -> str:
        """The name of the crawl."""
        return self.layout.keys.crawl

    @property
    def layout(self) -> CrawlLayout:
        """The settings of the crawl, read at the last `refresh`, and the names of its keys; for reading only."""
        return self._session.layout

    @property
    def admin(self) -> CrawlAdmin:
        """The methods for operators. They return counts, hosts, workers and dead letters, pause or cancel the crawl, and set options."""
        return self._admin

    @property
    def internal(self) -> FrontierInternals:
        """Private: what Silkline's own processes exchange. It may change in any release."""
        return self._internal

    @property
    def losses(self) -> int:
        """How often the server has lost, or may have lost, writes that it had acknowledged to this frontier.

        Code that remembers which requests are in the frontier must forget them when this number increases.
        """
        return self._connection.losses

    async def enqueue(self, requests: Iterable[str | Request] | str | Request, *, spill: bool = False) -> Admissions:
        """Offer requests. Returns one `Admission` per request: ADDED, SEEN, FULL or REFUSED (see `Admissions.refusals`).

        A request that was not added is not marked as seen, so it can be offered again. With *spill*, requests that are FULL go to
        the overflow, if this frontier has one, as the links of pages do; then `Admissions.spilled` is true.
        """
        overflow, repeats = self._overflow if spill else None, self._connection.repeats
        return await self._session.run(enqueue.enqueue(self.layout, as_requests(requests), overflow, repeats))

    async def claim(
        self,
        n: int = 1,
        *,
        wait: float = 0.0,
        lease: float | None = None,
        slack: float = 0.0,
        suspects: SuspectPolicy = "any",
        reserve: Mapping[str, int] | None = None,
        prompt: Collection[str] = (),
    ) -> Leases:
        """Lease up to *n* requests whose hosts may be fetched now; highest priority first, then the longest wait.

        The result may be empty. With *wait*, the call returns as soon as there is a request, or after that many seconds. Claim only
        what you can start at once: the delay between requests to a host is measured from the claim. If you may need up to *slack*
        seconds to start, pass it, and hosts with a delay get that much more time between two starts.

        A *suspect* is a request whose worker was lost while holding it. A claim returns at most one suspect; one that has a
        strike is the only request in its claim. Pass "none" while you hold a suspect. To run a request with a strike by
        itself, pass "alone" when you hold no other lease and "beside" otherwise, and check `Leases.isolate`.

        *reserve* is for Silkline's own workers: how many requests to lease in reserve, by host, if there is nothing else to lease
        and the host is at its cap. They hold no place of their host, see `Lease.reserve`. *prompt* names hosts to which *slack* does not
        apply: tasks, whose calls start at once.
        """
        terms = claim_terms(
            n, wait, self._lease_ms if lease is None else lease_ms(lease), slack, suspects, reserve, prompt
        )
        if self._suspects == "none" != suspects:
            self._schedule.poll_all()  # a shard may have requests that the last claim did not accept
        self._suspects = suspects
        deadline = time.monotonic() + wait
        if wait == 0:
            self._schedule.poll_all()  # without a subscription, notifications may have been missed
        while True:
            if self._session.tally.is_due:
                await run_to_end(self._session.report)
            if self._overflow:
                await run_to_end(self._recall)  # a batch that is cut off half-way is not offered again for a while
            leases = Leases()
            if wait < SHORT_WAIT or not self._notifier.is_quiet:
                if wait > 0:
                    await self._notifier.listen()
                leases = await run_or_undo(partial(self._claim, n, terms), self._give_back)
            if leases or time.monotonic() >= deadline:
                self._session.tally.claimed(leases, terms.lease_ms)
                return leases
            until = min(deadline, self._next_recall) if self._overflow else deadline
            await self._notifier.wait(self._session.tally.wake(until))

    async def _claim(self, n: int, terms: ClaimTerms) -> Leases:
        return await self._session.run(claim.claim(self.layout, self._schedule, n, terms, time.monotonic))

    async def _give_back(self, leases: Leases) -> None:
        """Release leases that the caller did not get. If this fails, they expire."""
        await self.settle([(lease, Release()) for lease in leases])

    async def extend(self, leases: Sequence[Lease], *, lease: float | None = None) -> list[Lease]:
        """Extend leases, many in one call. Returns the leases that are lost; raises nothing for them."""
        held = as_leases(leases)
        if not held:
            return []
        duration = self._lease_ms if lease is None else lease_ms(lease)
        _, lost = await self._session.run(settle.extend(self.layout, held, duration))
        return lost

    async def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        """Report that these pages are downloaded: their hosts may serve the next requests while the leases continue.

        Until then, or until its verdict, a lease counts against the concurrency of its host. Returns the leases that are lost. In a
        crawl with a budget of pages per host, a lease counts until its verdict.
        """
        return await self._session.run(settle.vacate(self.layout, held)) if (held := as_leases(leases)) else []

    async def complete(
        self, lease: Lease, links: Sequence[str | Request] = (), *, result: Any = UNSET, keep: float = KEEP_RESULT
    ) -> Settlement:
        """Complete a request. The *links* found on its page are stored first.

        *result* is a small value that can be written as JSON. `result` returns it for *keep* seconds.
        """
        return await self._settle_one(lease, Complete(links, result=result, keep=keep))

    async def result(self, request: str | Request, *, wait: float = 0.0) -> Result | None:
        """Return the result with which a request was completed.

        A request is identified by its method, URL, body and `download_slot`. If several requests share these, the latest result is
        returned.
        Returns None if there is none: the request is not completed, was completed without a result, its result has expired, or
        later results have taken its place (all results of a crawl take at most about 64 MiB). With *wait*, the call returns as soon as
        there is a result or a worker has made the request a dead letter, or after that many seconds.
        """
        wanted = one_request(request)
        if wait_seconds(wait) == 0:
            return await self._session.run(results.result(self.layout, wanted))
        awaited = self._results.expect(results.result_id(self.layout, wanted))
        try:
            return await self._wait_for_result(wanted, awaited, wait)
        finally:
            self._results.forget(awaited)

    async def _wait_for_result(self, wanted: Request, awaited: AsyncAwaited, wait: float) -> Result | None:
        """Wait for a notification, and look for the result now and then: it may get lost."""
        deadline = time.monotonic() + wait
        await self._results.listen()
        notified = self._results.subscribed
        channel = self._results.channel
        found = await self._session.run(
            results.await_result(self.layout, wanted, channel, wait)
            if notified
            else results.result(self.layout, wanted)
        )
        pause = results.FIRST_CHECK if notified else results.FIRST_PAUSE
        while not found and (now := time.monotonic()) < deadline:
            message = await self._results.wait(awaited, min(deadline, now + pause))
            ended = results.read_message(message) if message is not None else None
            if ended and (ended.result or ended.dead):
                return ended.result
            found = await self._session.run(results.result(self.layout, wanted))
            pause = min(2 * pause, results.LONGEST_CHECK if self._results.subscribed else results.LONGEST_PAUSE)
        return found

    async def retry(self, lease: Lease, after: float = 0.0, **how: Unpack[RetryArguments]) -> Settlement:
        """Retry the request *after* seconds, at the same priority.

        With ``block_host=True``, the whole host waits that long. With ``slow_host=True``, its delay doubles, to at least a quarter of a
        second and at most an hour, and decays once the site has had the time to answer one request at that pace.
        """
        return await self._settle_one(lease, RetryIn(after, **how))

    async def release(self, lease: Lease, after: float = 0.0) -> Settlement:
        """Return a request to its queue unused. It can be claimed again *after* seconds. This does not count as an attempt."""
        return await self._settle_one(lease, Release(after))

    async def bury(self, lease: Lease, reason: str, status: int | None = None) -> Settlement:
        """Make the request a dead letter, which an operator can revive."""
        return await self._settle_one(lease, Bury(reason, status))

    async def _settle_one(self, lease: Lease, verdict: Verdict) -> Settlement:
        outcome = await self.settle([(lease, verdict)])
        if outcome.lost:
            raise LeaseLost(outcome.lost)
        return outcome

    async def settle(self, verdicts: Iterable[tuple[Lease, Verdict]]) -> Settlement:
        """End many leases in one call per shard. Lost leases are returned in `Settlement.lost`, not raised."""
        pairs = as_verdicts(verdicts)
        outcome = await self._session.run(
            settle.settle(self.layout, pairs, self._session.now, self._overflow, lambda: self.losses)
        )
        self._session.tally.settled(pairs, outcome)
        return outcome

    async def forget(self, requests: Iterable[str | Request] | str | Request) -> int:
        """Remove requests from the seen filter, so that they can be enqueued again. Returns how many were in it."""
        return await self._session.run(enqueue.forget(self.layout, as_batch(requests)))

    async def mark_seen(self, identities: Iterable[bytes]) -> None:
        """Mark requests as seen by their `Request.identity`, without enqueueing them, such as pages that another crawler has fetched.

        Every shard stores all of them, because an identity does not contain its host.
        """
        await self._session.run(enqueue.mark_seen(self.layout, list(identities)))

    async def robots(self, url: str, *, lock: float = DEFAULT_LOCK, lease: Lease | None = None) -> RobotsFile:
        """Return the robots.txt of the origin of *url*: known, being fetched by another worker, or yours to fetch.

        One of the callers gets the state ``yours`` and must pass what it fetched to `keep_robots`. If it does not within *lock* seconds,
        or if its *lease* is lost, the next caller gets it. This uses neither the page budget nor a claim.
        """
        return await self._session.run(robots.robots(self.layout, url, lock, lease))

    async def keep_robots(
        self,
        url: str,
        text: bytes | None,
        *,
        fresh: float = FRESH,
        crawl_delay: float | None = None,
        reason: str = "",
    ) -> bool:
        """Store the robots.txt of the origin of *url* for all workers, for *fresh* seconds.

        *text* is empty if the site has none, and None if it could not be fetched, for the *reason* given. *crawl_delay* becomes that of
        the host (see `CrawlAdmin.set_host`). Returns whether the text was stored; a server that is out of memory does not store it, and then
        other workers fetch it again. With *fresh* at 0, the next caller of `robots` fetches it.
        """
        return await self._session.run(robots.keep_robots(self.layout, url, text, fresh, crawl_delay, reason))

    def inbox(self, keys: Iterable[str] | str, *, kind: KeyKind = "list", hold: float = DEFAULT_HOLD) -> Inbox:
        """Open lists, sets, sorted sets or streams of the user as a source of messages. Keys are read in the order given.

        The *kind* "any" accepts each of the four. Messages are removed from a stream, as from a list, even if its consumer groups have
        not read them.
        A message that was taken and is not acknowledged within *hold* seconds is delivered again, so that none is lost.
        """
        return open_inbox(self._connection, keys, kind, hold)

    def lock(self, name: str, ttl: float = DEFAULT_TTL) -> Lock:
        """Return a lock of this crawl, with one holder at a time in all processes. It is a context manager that returns a hold.

        The hold is renewed until the end of the block. A holder that dies loses it after *ttl* seconds. Its `token` is a fencing
        token, larger than that of every earlier hold. If it could not be renewed in time, `lost` is true, `check` raises
        `LockLost`, and so does the end of the block.
        """
        return Lock(self._locks, name, ttl)

    def semaphore(self, name: str, n: int, ttl: float = DEFAULT_TTL) -> Semaphore:
        """Return a semaphore of this crawl, with at most *n* holders at a time in all processes. It is used as a `lock` is."""
        return Semaphore(self._locks, name, n, ttl)

    def limiter(self, name: str, rate: float | str, burst: int = 1, *, site: str | None = None) -> RateLimiter:
        """Return a rate limiter for all processes of this crawl.

        It allows *burst* starts at once and *rate* starts per second; *rate* may also be a string such as ``"100/m"``. With *site*, a URL
        or a host, each registrable domain has its own limit: that of ``https://a.shop.example.co.uk/`` is ``example.co.uk``.

        `acquire`, and the limiter as a context manager, wait for a permit; `try_acquire` does not wait.
        """
        name = name if site is None else name_for_site(name, site)
        key = (name, rate, burst)
        known = self._limiters.get(key)
        if known is None:
            known = self._limiters[key] = RateLimiter(self._locks, name, rate, burst)
        return known

    async def finished(self) -> bool:
        """Return whether nothing is left to do on any shard or disk, and nothing has changed between two checks."""
        finished = await self._session.run(stats.finished(self.layout))
        if finished and self._connection.resend_now():
            finished = await self._session.run(stats.finished(self.layout))
        return finished

    async def refresh(self) -> None:
        """Reload the settings, which another client may have changed. Workers do this every few seconds."""
        self._session.layout = await self._session.run(lifecycle.refresh(self.layout))

    async def close(self) -> None:
        """Close the connection. Leases that are still held expire."""
        await self._notifier.stop()
        await self._results.stop()
        await self._session.report()
        if self._overflow:
            await run_blocking(self._overflow.close)
        await self._connection.close()
        if self._embedded:
            await run_blocking(self._embedded.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _recall(self) -> None:
        """Bring requests back from the overflow, if the next check is due."""
        if self._overflow and time.monotonic() >= self._next_recall:
            returned, again = await self._session.run(enqueue.recall(self.layout, self._overflow))
            if returned:
                self._schedule.poll_all()
            self._next_recall = time.monotonic() + (0 if again else RECALL_EVERY)


async def _open_crawl(
    connection: AsyncConnection, keys: CrawlKeys, settings: dict[str, Any], *, create: bool, wait: float
) -> CrawlLayout:
    """Find the crawl, or create it, or wait for it."""
    defaults = crawl_defaults(settings, cluster=connection.target.kind == "cluster")
    deadline, pause = time.monotonic() + wait, FIRST_LOOK
    wanted = settings.get("durability", "everysec")
    if wanted in ("always", "replicated"):
        await connection.check_durability(wanted)  # before anything is stored
        connection.set_durability(keys.crawl, wanted)
    while True:
        try:
            layout = await drive(connection, lifecycle.open_crawl(keys, settings, defaults, create=create))
            break
        except SettingsConflict:
            others = {name: value for name, value in settings.items() if name != "politeness"}
            layout = await drive(connection, lifecycle.open_crawl(keys, others, defaults, create=False))
            if not layout.settings.politeness_by_default:
                raise
            break
        except UnknownCrawl:
            left = deadline - time.monotonic()
            if create or left <= 0:
                raise
        await sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_LOOK)
    if layout.settings.durability != wanted:
        await connection.check_durability(layout.settings.durability)
        connection.set_durability(keys.crawl, layout.settings.durability)
    if "politeness" in settings and layout.settings.politeness_by_default:
        return await drive(connection, set_politeness(layout, settings["politeness"]))
    return layout
