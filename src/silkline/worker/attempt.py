"""One attempt at one leased request, from robots.txt to the verdict: the story of a page."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence

import msgspec

from silkline.core.errors import FetchError, RequestError, StoreUnavailable
from silkline.core.lease import Lease
from silkline.core.redirect import REDIRECTS, redirected
from silkline.core.request import Request, fingerprint
from silkline.core.retries import Retries
from silkline.core.retry_after import retry_after
from silkline.core.url import parse
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier import codec
from silkline.sinks.sink import Record, record_of
from silkline.worker.answers import HostAnswers
from silkline.worker.crawl import Crawl
from silkline.worker.failures import Failures, is_to_stop
from silkline.worker.fetch.fetcher import Response
from silkline.worker.gate import Gate
from silkline.worker.handlers import Handler, run_handler
from silkline.worker.links import Links
from silkline.worker.middleware import Fetch
from silkline.worker.outcome import Outcome
from silkline.worker.page import Page
from silkline.worker.starts import Starts, Window
from silkline.worker.steering import Drop, RetryLater
from silkline.worker.tally import Tally

log = logging.getLogger(__name__)


class Tools(msgspec.Struct, frozen=True):
    """What every attempt of a worker shares."""

    crawl: Crawl
    fetch: Fetch
    gate: Gate | None
    links: Links
    tally: Tally
    answers: HostAnswers
    failures: Failures
    starts: Starts
    rng: random.Random
    landed: Callable[[Lease], None]


class Attempt:
    """One try at one leased request."""

    def __init__(self, lease: Lease, tools: Tools, window: Window) -> None:
        self._lease = lease
        self._window = window
        self._request = lease.request
        self._tools = tools
        self._crawl = tools.crawl
        self._tally = tools.tally

    async def run(self) -> Outcome:
        """Everything that can happen to a page ends in a verdict; only that we are to stop passes through."""
        try:
            handler = self._crawl.handler_of(self._request)
            if handler is None:
                return self._end(Bury(f"no handler is named {self._request.handler!r} in the crawl's file"))
            hindrance = self._missed() or await self._ask_gate() or self._missed()
            if hindrance:
                return self._end(hindrance)
            self._tools.starts.begun()
            response = await self._fetch()
            verdict = self._redirect(response) or self._refuse(response)
            return self._end(verdict) if verdict else await self._handle(handler, response)
        except FetchError as error:
            self._tally.errors[error.kind] += 1
            return self._end(self._retries.after_error(error, attempt=self._lease.attempt, rng=self._tools.rng))
        except StoreUnavailable:
            return given_up(self._lease)  # the settler waits until it can tell
        except (Exception, asyncio.CancelledError) as error:  # middleware is the user's code; ours may have faults too
            if is_to_stop(error):
                raise
            return self._failed("fetching", error)

    @property
    def _retries(self) -> Retries:
        return self._crawl.retries

    def _end(self, verdict: Verdict, records: Sequence[Record] = ()) -> Outcome:
        return Outcome(self._lease, verdict, records)

    def _failed(self, where: str, error: BaseException) -> Outcome:
        return self._end(self._tools.failures.failed(self._lease, where, error))

    def _missed(self) -> Verdict | None:
        """Too late to begin: the host's next page would come too soon after this one."""
        if not self._window.missed:
            return None
        self._tools.starts.missed()
        self._tally.missed += 1
        return Release()

    async def _ask_gate(self) -> Verdict | None:
        """None when the page may be fetched now."""
        return await self._tools.gate.hindrance(self._lease, self._missed) if self._tools.gate else None

    async def _fetch(self) -> Response:
        host = self._lease.host
        try:
            response = await self._tools.fetch(self._request)
        except FetchError:
            self._tools.answers.note(host, None)
            raise
        self._tally.fetched(host, response.status, len(response.body), response.elapsed)
        self._tools.answers.note(host, response.status)
        return response

    def _redirect(self, response: Response) -> Verdict | None:
        """A redirect becomes a request of its own, to be fetched when its host may be."""
        location = response.headers.get("location")
        if location is None or response.status not in REDIRECTS:
            return None
        self._tally.redirects += 1
        if len(self._request.redirects) >= self._crawl.fetching.max_redirects:
            return Bury(f"more than {self._crawl.fetching.max_redirects} redirects, the last one to {location:.500}")
        try:
            target = redirected(self._request, response.status, location, response.headers.get_all("set-cookie"))
            codec.encode(
                target, parse(target.url)
            )  # the only link of its page: if it is refused, nothing is left of it
        except RequestError as error:
            return Bury(f"redirected to {location[:500]!r}, which cannot be crawled: {error}", response.status)
        if target.url in (*self._request.redirects, self._request.url):
            if target.cookies == self._request.cookies:
                return Bury(f"a loop of redirects, back to {target.url}", response.status)
            target = msgspec.structs.replace(target, dont_filter=True)  # it wanted us to have its cookies first
        objection = self._crawl.scope.objection(parse(target.url), parse(self._request.url), target.depth)
        return self._stray(target, objection) if objection else Complete((target,))

    def _stray(self, target: Request, objection: str) -> Verdict:
        """A redirect out of scope: of a start URL somebody should know, of other pages it is an ordinary day."""
        if self._request.depth == 0:
            return Bury(f"redirected out of the crawl's scope ({objection}) to {target.url}")
        self._tally.skipped[f"redirect: {objection}"] += 1
        return Complete()

    def _refuse(self, response: Response) -> Verdict | None:
        """What becomes of a page whose status is no good; None if it is."""
        if self._retries.welcomes(response.status):
            return None
        self._tally.errors[f"status {response.status}"] += 1
        return self._retries.after_status(
            response.status,
            attempt=self._lease.attempt,
            retry_after=retry_after(response.headers.get("retry-after"), time.time()),
            rng=self._tools.rng,
        )

    async def _handle(self, handler: Handler, response: Response) -> Outcome:
        """Give the page to its handler; what it yields counts only if it comes to its end."""
        self._tools.landed(self._lease)
        name = self._crawl.handlers.name_of(handler)
        page = Page(self._request, response, name, self._crawl.handlers.name_of, self._tools.links)
        try:
            given = await run_handler(handler, page)
            records = self._records(page, given.items)
        except Drop as drop:
            self._tally.dropped += 1
            log.debug("dropped %s: %s", page.url, drop.why)
            return self._end(Complete())
        except RetryLater as later:
            return self._end(self._retry_later(later))
        except (Exception, asyncio.CancelledError) as error:  # whatever the user's code raises
            if is_to_stop(error):
                raise
            return self._failed(f"handler {name}", error)
        self._tally.pages += 1
        self._tally.skipped.update(page.skipped)
        return self._end(Complete(given.requests), records)

    def _records(self, page: Page, items: Sequence[object]) -> list[Record]:
        """The items with keys that are the same whenever this page is crawled."""
        if not items:
            return []
        request = self._request
        mark = fingerprint(parse(request.url), request.method, request.body)
        return [record_of(f"{mark:016x}-{number}", page.url, item) for number, item in enumerate(items)]

    def _retry_later(self, later: RetryLater) -> Verdict:
        verdict = self._retries.backoff.decide(attempt=self._lease.attempt, reason=later.why, rng=self._tools.rng)
        if isinstance(verdict, RetryIn) and later.after is not None:
            return RetryIn(later.after, later.why)
        return verdict


def given_up(lease: Lease) -> Outcome:
    """An attempt that was not begun, or stopped on the way out: costs nothing."""
    return Outcome(lease, Release())
