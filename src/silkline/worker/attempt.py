"""One attempt at one leased request, from robots.txt to the verdict."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from silkline.core.lease import Lease
from silkline.core.request import FILE_META, SITEMAP, Request
from silkline.core.retries import Retries, RetryLater, retry_after
from silkline.core.revisit import LastVisit
from silkline.core.url import ParsedUrl, fingerprint, parse
from silkline.core.verdict import Bury, Complete, NextVisit, Release, RetryIn, Strike, Verdict
from silkline.errors import (
    ElementNotFound,
    FetchError,
    ForbiddenAddress,
    HostileHtml,
    LocalFailure,
    LoginFailed,
    NotArchived,
    ProxyFailure,
    RequestError,
    StoreUnavailable,
)
from silkline.fetch.browser.fetcher import RenderingFetcher
from silkline.fetch.fetcher import Response
from silkline.fetch.guard import own_network
from silkline.frontier.store import record
from silkline.frontier.verbs.workers import HANDLER, PACKAGE, PRIVATE
from silkline.runtime.counters import Counters, HostStatuses, of_handler
from silkline.runtime.start_windows import StartWindow, StartWindows, missed_verdict
from silkline.sinks.archive.exchange import Exchange
from silkline.sinks.sink import Record, record_of
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.downloads import Downloads
from silkline.worker.crawl.handlers import (
    BUILT_IN,
    Drop,
    Fetch,
    Handler,
    HandlerOutput,
    code_of,
    run_handler,
)
from silkline.worker.crawl.page import NOT_IN_ARCHIVE, Links, Page
from silkline.worker.crawl.revisits import PageRevisit
from silkline.worker.crawl.sitemap import BadSitemap, in_its_turn
from silkline.worker.failures import Failures, UnmetNeeds, was_cancelled
from silkline.worker.feeds.feed import BAD_ENTRY, read_again
from silkline.worker.parsing import Parser
from silkline.worker.recording import record_into
from silkline.worker.redirect import REDIRECTS, redirected
from silkline.worker.robots import RobotsGate
from silkline.worker.throttling import AdaptiveConcurrency


class Outcome(msgspec.Struct, frozen=True):
    """A lease, its verdict, and what is stored first: the items of its page, and what was sent and received for an archive."""

    lease: Lease
    verdict: Verdict
    records: Sequence[Record] = ()
    exchanges: Sequence[Exchange] = ()


class Transfer(msgspec.Struct, frozen=True):
    """What is known of a response after its page is gone."""

    status: int
    bytes: int
    seconds: float

    @classmethod
    def of(cls, response: Response) -> Transfer:
        return cls(response.status, size_of(response), response.elapsed)


def size_of(response: Response) -> int:
    """Return the bytes of the decompressed body, which may be in a file, and of what a rendered page has loaded."""
    return len(response.body) + response.loaded if response.file is None else response.file.size


log = logging.getLogger(__name__)

UPDATE_FILE = (
    "Start this worker with the crawl's latest file. If it has the latest file already, the handler was renamed or removed: "
    "keep the old handler in the file until its pages are crawled, or give its name to the new one: @crawl.handler(name=…), "
    "@app.task(name=…)"
)


class AttemptContext(msgspec.Struct, frozen=True):
    """What all attempts of a worker share."""

    crawl: Crawl
    fetch: Fetch
    gate: RobotsGate | None
    links: Links
    downloads: Downloads
    parser: Parser
    counters: Counters
    host_statuses: HostStatuses
    failures: Failures
    starts: StartWindows
    unmet_needs: UnmetNeeds
    rng: random.Random
    downloaded: Callable[[Lease], None]
    adaptive_concurrency: AdaptiveConcurrency
    mark: Callable[[Lease | None], None]
    check_items: Callable[[Sequence[object]], None] | None = None
    """Raises `InvalidItem` for items with wrong types."""
    rendering: RenderingFetcher | None = None
    """Renders pages that lack something, if the crawl renders pages."""
    archives: bool = False
    """Whether what is sent and received is recorded."""


class Attempt:
    """One try at one leased request."""

    def __init__(self, lease: Lease, context: AttemptContext, window: StartWindow) -> None:
        self._lease = lease
        self._window = window
        self._request = lease.request
        self._context = context
        self._crawl = context.crawl
        self._counters = context.counters
        self.elsewhere = 0.0
        """CPU seconds that the page took outside of the event loop."""
        self.transfer: Transfer | None = None
        """The size and time of the response, once there is one."""
        self._exchanges: list[Exchange] = []
        self._is_repeated = False
        """Whether its handler failed as it did on an earlier page."""
        self._revisit: PageRevisit | None = None
        crawl = self._crawl
        if (crawl.revisit or crawl.revisits) and (revisit := crawl.revisit_of(self._request)):
            self._revisit = PageRevisit(revisit, self._request)

    @property
    def handler(self) -> str:
        """The name of the handler."""
        return self._request.handler or self._crawl.handlers.first

    def log(self, verdict: Verdict) -> None:
        """Log how the attempt ended."""
        log_page(self._lease, verdict, self.handler, self.transfer, is_repeated=self._is_repeated)

    async def run(self) -> Outcome:
        """Run the attempt and return its outcome. Every error becomes a verdict; only a cancellation of this task is raised."""
        try:
            handler = self._crawl.handlers.get(self._request.handler)
            if handler is None:
                return self._end(self._unhandled())
            self._context.unmet_needs.handled()
            hindrance = self._missed() or await self._ask_gate() or self._missed()
            if hindrance:
                return self._end(self._unvisited(hindrance))
            self._context.starts.begun(self._lease)
            if self._context.archives:
                record_into(self._exchanges)
            return await self._respond(handler, await self._fetch())
        except FetchError as error:
            self.elsewhere += error.seconds if isinstance(error, HostileHtml) else 0.0
            return self._end(self._unvisited(self._unfetched(error)))
        except (LocalFailure, StoreUnavailable) as error:
            return self._end(self._not_its_fault(error))
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # middleware is the user's code, and Silkline's may have faults too
            if was_cancelled(error):
                raise
            return self._failed("fetching", error)

    def _unhandled(self) -> Verdict:
        """Return the verdict on a page without a handler: another worker may have it, and a bad entry of a feed needs none."""
        if self._request.handler == BAD_ENTRY:
            return read_again(self._request, self._crawl.handlers)
        return self._give_back(f"{HANDLER}{self._request.handler}", UPDATE_FILE)

    def _not_its_fault(self, error: LocalFailure | StoreUnavailable) -> Verdict:
        """Release the page. If the server is unreachable, the settler waits until it can do so."""
        if isinstance(error, StoreUnavailable):
            return Release()
        if isinstance(error, ProxyFailure | LoginFailed):
            self._counters.errors[error.kind] += 1
            log.debug("%s is tried again: %s", self._lease.url, error)
            return Release(error.after)
        self._counters.errors[f"local: {error.kind}"] += 1
        return Release(self._context.adaptive_concurrency.on_shortage(error))

    def _unfetched(self, error: FetchError) -> Verdict:
        """Return the verdict on a page that could not be fetched."""
        if isinstance(error, NotArchived):
            self._counters.skipped[NOT_IN_ARCHIVE] += 1
            return Complete()
        if isinstance(error, ForbiddenAddress) and (verdict := self._forbidden(error)):
            return verdict
        self._counters.errors[error.kind] += 1
        return self._retries.after_error(error, attempt=self._lease.attempt, rng=self._context.rng)

    def _forbidden(self, error: ForbiddenAddress) -> Verdict | None:
        """Give back a page that another worker may fetch, or that an operator may still permit; None if it must be buried.

        A link or a redirect is always buried: a site must not be able to block the crawl. So is a name that has a private
        address: many abandoned domains have one.
        """
        request, needs = self._request, self._context.unmet_needs
        if needs.others_may_fetch_private:
            return self._give_back(PRIVATE, "Start this worker with --allow-private")
        if request.depth or request.redirects:
            return None
        if needs.permission_is_open and own_network(request.url):
            return self._give_back(
                PRIVATE,
                "If it is your own network, allow it: silkline crawl set "
                f"{self._crawl.name} --allow-private, or FetchOptions(allow_private=True) in the file. Otherwise, to bury them: "
                f"silkline crawl set {self._crawl.name} --no-allow-private",
            )
        needs.warn_of_forbidden(self._lease, error, self._crawl.name)
        return None

    @property
    def _retries(self) -> Retries:
        return self._crawl.retries.for_request(self._request)

    def _unvisited(self, verdict: Verdict) -> Verdict:
        """Return the verdict on a page that was not fetched. One that is visited again has another chance at its next visit."""
        if self._revisit and isinstance(verdict, Bury):
            return self._revisit.failed(verdict)
        return verdict

    def _end(self, verdict: Verdict, records: Sequence[Record] = ()) -> Outcome:
        if self._revisit and isinstance(verdict, Complete) and verdict.next_visit is None:
            self._counters.revisited += self._request.visit is not None
            verdict = self._revisit.completed(verdict)
        return Outcome(self._lease, verdict, records, self._exchanges)

    def _give_back(self, need: str, advice: str) -> Verdict:
        """Release a page that needs something that this worker lacks, for another worker."""
        return self._context.unmet_needs.give_back(self._lease, need, advice)

    def _failed(self, where: str, error: BaseException) -> Outcome:
        return self._end(self._context.failures.failed(self._lease, where, error))

    def _missed(self) -> Verdict | None:
        """Return the verdict on a page that is too late to begin: the next page of its host would follow too closely."""
        if not self._window.missed:
            return None
        self._counters.missed += 1
        release = self._context.starts.missed(self._lease)
        if release is None:
            self._counters.errors["missed windows"] += 1
        return missed_verdict(self._lease, release, self._retries.backoff, self._context.rng)

    async def _ask_gate(self) -> Verdict | None:
        """Return the verdict on a page that robots.txt keeps from being fetched now; None if it may be fetched."""
        return await self._context.gate.check(self._lease, self._missed) if self._context.gate else None

    async def _fetch(self) -> Response:
        host = self._lease.host
        try:
            request = self._revisit.conditional(self._request) if self._revisit else self._request
            response = await self._context.fetch(request)
        except FetchError:
            self._context.host_statuses.note(host, None)
            raise
        self.transfer = Transfer.of(response)
        self._counters.fetched(host, response.status, self.transfer.bytes, response.elapsed)
        self._context.host_statuses.note(host, response.status)
        return response

    async def _respond(self, handler: Handler, response: Response) -> Outcome:
        """Return the outcome of a page that was fetched."""
        try:
            verdict = (
                self._not_modified(response)
                or self._redirect(response)
                or self._refuse(response)
                or self._unchanged(response)
            )
            return self._end(verdict) if verdict else await self._handle(handler, response)
        finally:
            if response.file is not None:
                response.file.discard()

    async def _page(self, handler: Handler, response: Response) -> Page:
        """Return the page for the handler. The file of a download is stored first."""
        handlers = self._crawl.handlers
        page = Page(self._request, response, handlers.name_of(handler), handlers, self._context.links)
        if FILE_META in self._request.meta:
            page.file, page.body = await self._context.downloads.store(self._request, response), b""
        return page

    def _not_modified(self, response: Response) -> Verdict | None:
        """Return the verdict on a page that is as it was at its last visit, as the server says; None if it must be read."""
        if not self._revisit or not self._revisit.is_not_modified(response):
            return None
        self._counters.not_modified += 1
        return Complete()

    def _redirect(self, response: Response) -> Verdict | None:
        """Return the verdict on a redirect, which becomes another request; None if the response is no redirect."""
        location = response.headers.get("location")
        if location is None or response.status not in REDIRECTS:
            return None
        self._counters.redirects += 1
        if len(self._request.redirects) >= self._crawl.fetching.max_redirects:
            return Bury(f"more than {self._crawl.fetching.max_redirects} redirects, the last one to {location:.500}")
        try:
            cookies = self._crawl.cookies_of(self._request, response)
            target = redirected(self._request, response.status, location, cookies)
            target = in_its_turn(target) if target.handler == SITEMAP else target
            record.encode(
                target, parse(target.url)
            )  # refused now rather than by the frontier: the page has no other link
        except (RequestError, BadSitemap) as error:
            return Bury(f"redirected to {location[:500]!r}, which cannot be crawled: {error}", response.status)
        if target.url in (*self._request.redirects, self._request.url):
            if target.cookies == self._request.cookies and not self._changes_session(response):
                return Bury(f"a loop of redirects, back to {target.url}", response.status)
            target = msgspec.structs.replace(target, dont_filter=True)  # the site has set its cookies first
        if self._revisit:
            self._revisit.redirects(response, location)
        objection = self._objection(parse(target.url), parse(self._request.url), target.depth)
        return self._stray(target, objection) if objection else Complete((target,))

    def _changes_session(self, response: Response) -> bool:
        """Return whether a response sets cookies of a named session, which the requests of redirects do not carry."""
        named = isinstance(self._crawl.session_of(self._request), str)
        return named and response.headers.get("set-cookie") is not None

    def _objection(self, target: ParsedUrl, here: ParsedUrl, depth: int) -> str | None:
        """Return why a redirect is not followed. A file may redirect to another one."""
        scope = self._crawl.scope
        if FILE_META in self._request.meta:
            return scope.file_objection(target)
        return scope.objection(target, here, depth, any_type=scope.skips_type(here))

    def _stray(self, target: Request, objection: str) -> Verdict:
        """Bury a start URL that redirects out of scope, so that the operator sees it; complete other pages."""
        if self._request.depth == 0:
            return Bury(f"redirected out of the crawl's scope ({objection}) to {target.url}")
        self._counters.skipped[f"redirect: {objection}"] += 1
        return Complete()

    def _refuse(self, response: Response) -> Verdict | None:
        """Return the verdict on a page whose status is an error; None if the handler gets it."""
        if response.status < 400 or response.status in self._retries.accept:
            return None
        self._counters.errors[f"status {response.status}"] += 1
        verdict = self._retries.after_status(
            response.status,
            attempt=self._lease.attempt,
            retry_after=retry_after(response.headers.get("retry-after"), time.time()),
            rng=self._context.rng,
        )
        return self._unvisited(verdict)

    def _unchanged(self, response: Response) -> Verdict | None:
        """Return the verdict on a page whose content is as it was at its last visit; None if the handler gets it."""
        if not self._revisit or not self._revisit.is_unchanged(response):
            return None
        self._counters.unchanged += 1
        return Complete()

    async def _handle(self, handler: Handler, response: Response) -> Outcome:
        """Run the handler on the page. Items and links count only if the handler completes."""
        page = await self._page(handler, response)
        name = page.handler
        if name not in BUILT_IN:
            self.elsewhere += await self._context.parser.prepare(page, name, self._lease.host)
        self._context.downloaded(self._lease)
        try:
            self._require_element(page, response)
            output = await self._run_handler(handler, name, page)
            records = self._records(page, output.items)
        except Drop as drop:
            self._counters.dropped += 1
            log.debug("dropped %s: %s", page.url, drop.why)
            return self._end(Complete())
        except RetryLater as later:
            return self._end(self._retry_later(later))
        except BadSitemap as error:
            return self._end(Bury(str(error), page.status))
        except HostileHtml:  # the handler had the page parsed
            self._context.parser.learn(page, name)
            raise
        except LocalFailure:
            raise
        except ModuleNotFoundError as error:
            return self._end(self._give_back(f"{PACKAGE}{error.name}", "Install the package where this worker runs"))
        except (Exception, asyncio.CancelledError) as error:  # whatever the user's code raises
            if was_cancelled(error):
                raise
            return await self._handler_failed(handler, name, response, error)
        self._context.failures.handler_succeeded(name)
        self._context.parser.learn(page, name)
        self._counters.pages += 1
        of_handler(self._counters.handlers, name).pages += 1
        self._counters.skipped.update(page.skipped)
        return self._end(Complete(output.requests), records)

    async def _handler_failed(self, handler: Handler, name: str, response: Response, error: BaseException) -> Outcome:
        """Return the outcome of a page whose handler has raised an exception."""
        if isinstance(error, ElementNotFound) and (rendered := await self._render(response)):
            return await self._handle_rendered(handler, rendered)
        of_handler(self._counters.handlers, name).exceptions += 1
        verdict = self._context.failures.handler_failed(self._lease, name, error, code_of(handler))
        self._is_repeated = self._context.failures.is_repeated
        return self._end(verdict)

    # ── automatic rendering ──

    def _require_element(self, page: Page, response: Response) -> None:
        """Raise `ElementNotFound` if a page lacks the element without which it must be rendered."""
        fetcher = self._context.rendering
        rendering = fetcher.may_need_browser(self._request, response) if fetcher else None
        if rendering and rendering.needs and page.css_first(rendering.needs) is None:
            raise ElementNotFound(rendering.needs, page.url)

    async def _render(self, response: Response) -> Response | None:
        """Return the rendered response of a page that lacks an element; None if that would not help."""
        fetcher = self._context.rendering
        rendering = fetcher.may_need_browser(self._request, response) if fetcher else None
        if fetcher is None or rendering is None:
            return None
        agent = self._crawl.fetching.agent(self._crawl.name)
        rendered = await fetcher.render(self._request, response, rendering, agent)
        self._counters.bytes += rendered.loaded
        self.transfer = Transfer.of(rendered)
        return rendered

    async def _handle_rendered(self, handler: Handler, rendered: Response) -> Outcome:
        """Handle a page again after it was rendered, and remember whether that has helped."""
        verdict = self._redirect(rendered)
        outcome = self._end(verdict) if verdict else await self._handle(handler, rendered)
        if self._context.rendering:
            self._context.rendering.browser_needs.note(self._request, helped=isinstance(outcome.verdict, Complete))
        return outcome

    async def _run_handler(self, handler: Handler, name: str, page: Page) -> HandlerOutput:
        self._context.mark(self._lease)
        began = time.perf_counter()
        try:
            return await run_handler(handler, page)
        finally:
            of_handler(self._counters.handlers, name).timing.note(time.perf_counter() - began)
            self._context.mark(None)

    def _records(self, page: Page, items: Sequence[object]) -> list[Record]:
        """Return the items with keys that are the same each time this page is crawled."""
        if not items:
            return []
        if self._context.check_items:
            self._context.check_items(items)
        request = self._request
        mark = fingerprint(parse(request.url), request.method, request.body)
        return [record_of(f"{mark:016x}-{number}", page.url, item) for number, item in enumerate(items)]

    def _retry_later(self, later: RetryLater) -> Verdict:
        verdict = self._retries.backoff.decide(attempt=self._lease.attempt, reason=later.why, rng=self._context.rng)
        if isinstance(verdict, RetryIn) and later.after is not None:
            return RetryIn(later.after, later.why)
        return verdict


def given_up(lease: Lease) -> Outcome:
    """Return the outcome of an attempt that was not started or was cancelled: the page is released."""
    return Outcome(lease, Release())


# ── the page log ──
# Levels are as in Scrapy, so that the log of a worker at its default level `info` does not grow with each page: pages that were
# fetched, skipped, retried or given back are `debug`, pages that failed for good are `info`. If a handler fails on many pages in the
# same way, only the first is `info`.

page_log = logging.getLogger("silkline.pages")
TASK = "task"
"""What is logged about an attempt that is not at a page."""

LONGEST_REASON = 500
_LEVELS = {Bury: logging.INFO, Strike: logging.INFO}


def log_page(
    lease: Lease,
    verdict: Verdict,
    handler: str | None,
    transfer: Transfer | None = None,
    what: str = "page",
    *,
    is_repeated: bool = False,
) -> None:
    """Log how an attempt at a page or a task ended; *handler* is the name of its handler."""
    level = logging.DEBUG if is_repeated else _LEVELS.get(type(verdict), logging.DEBUG)
    if not page_log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {"event": _event(verdict, transfer, what), "attempt": lease.attempt, "handler": handler}
    if transfer:
        fields |= {"status": transfer.status, "bytes": transfer.bytes, "seconds": round(transfer.seconds, 4)}
    if isinstance(verdict, RetryIn | Release):
        fields["retry_in"] = round(verdict.after, 3)
    if isinstance(verdict, Complete) and verdict.next_visit:
        fields["next_visit_in"] = round(verdict.next_visit.after, 3)
    if isinstance(verdict, Bury | RetryIn | Strike):
        fields["reason"] = _one_line(verdict.reason)
        if verdict.status is not None:
            fields["status"] = verdict.status
    page_log.log(level, "%s %s: %s (%s)", what, fields["event"], lease.url, _in_words(fields), extra=fields)


def _event(verdict: Verdict, transfer: Transfer | None, what: str) -> str:
    match verdict:
        case Complete(next_visit=NextVisit(visit=LastVisit(failures=failures))) if failures:
            return "failed visit"
        case Complete():
            return "fetched" if transfer else "done" if what == TASK else "skipped"
        case RetryIn():
            return "retried"
        case Bury() | Strike():
            return "failed"
        case _:
            return "given back"


def _in_words(fields: dict[str, Any]) -> str:
    parts = [f"attempt {fields['attempt']}"]
    if fields["handler"] and not fields.get("reason", "").startswith(f"handler {fields['handler']}: "):
        parts.append(f"handler {fields['handler']}")
    if "bytes" in fields:
        parts.insert(0, f"{fields['bytes']:,} bytes in {fields['seconds']:.3f} s")
    if "status" in fields:
        parts.insert(0, f"status {fields['status']}")
    if fields.get("retry_in"):
        parts.append(f"again in {fields['retry_in']:g} s")
    if "next_visit_in" in fields:
        parts.append(f"next visit in {fields['next_visit_in']:g} s")
    return ", ".join(parts) + (f": {fields['reason']}" if "reason" in fields else "")


def _one_line(reason: str) -> str:
    return " ".join(reason.split())[:LONGEST_REASON]
