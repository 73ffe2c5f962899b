"""Fetches one page as a worker does: the guard, robots.txt, the crawl's headers and middleware, and its redirects.

Each request is a step, with what the guard and robots.txt said about it. Nothing is stored on a server.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.url import mask_passwords, parse
from silkline.errors import FetchError, ForbiddenAddress, LocalFailure, RequestError
from silkline.fetch.cache import CachedResponse
from silkline.fetch.cookies.jar import CookieJar
from silkline.fetch.fetcher import Response
from silkline.fetch.guard import Guard, read_target
from silkline.fetch.proxies import Proxies
from silkline.frontier.verbs.robots import RobotsFile, origin_of
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.handlers import Fetch
from silkline.worker.redirect import REDIRECTS, redirected
from silkline.worker.robots import Allowed, Denied, FetchFirst, RobotsChecker, RobotsResponse, Unreachable, getter
from silkline.worker.worker import page_fetch

BY_NAME = "permitted by name"


class FetchProblem(msgspec.Struct, frozen=True):
    """Why there is no page: *kind* is one word, as in the reasons of dead letters."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class FetchStep(msgspec.Struct):
    """One request, and what was found out about it."""

    url: str
    method: str
    guard: str = ""
    """What the guard says: permitted, refused, or permitted by name, if a proxy looks up the addresses; empty if it was not asked."""
    addresses: list[str] = []
    """The addresses that the guard permits."""
    lookup: float | None = None
    """Seconds that looking them up took."""
    robots: str = ""
    """What robots.txt says: allowed, denied, unreachable or ignored; empty if it is not needed, as offline."""
    robots_reason: str = ""
    crawl_delay: float | None = None
    status: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    http_version: str | None = None
    headers: list[tuple[str, str]] = []
    cached_at: float | None = None
    """Unix time at which the response was stored in the cache, if it is from there."""


class FetchTrace(msgspec.Struct):
    """All steps of a fetch, and the last response or the problem. *request* is the one of the last step."""

    request: Request
    steps: list[FetchStep]
    response: Response | None = None
    problem: FetchProblem | None = None


class OnePage:
    """Fetches pages for a command, one after the other. *obeys_robots* is False to fetch what robots.txt forbids."""

    def __init__(self, crawl: Crawl, *, obeys_robots: bool = True) -> None:
        self._crawl = crawl
        fetching = crawl.fetching
        self._obeys = obeys_robots and fetching.obey_robots and not fetching.is_offline
        self._files = KnownRobots()
        self._jar = CookieJar()
        agent, longest = fetching.agent(crawl.name), fetching.max_crawl_delay
        self._checker = RobotsChecker(self._files, agent, max_crawl_delay=longest)

    async def fetch(self, request: Request) -> FetchTrace:
        """Fetch a page and follow its redirects. Errors of the web are in the result."""
        fetching = self._crawl.fetching
        guard = Guard(allow_private=fetching.allow_private)
        fetcher = self._crawl.open_fetcher()
        trace = FetchTrace(request, [])
        get = getter(fetcher, fetching.agent(self._crawl.name))
        try:
            await self._follow(trace, page_fetch(self._crawl, fetcher, jar=self._jar), get, guard)
        except (FetchError, LocalFailure) as error:
            trace.problem = FetchProblem(error.kind, str(error))
        finally:
            await fetcher.close()
            await guard.close()
        return trace

    async def _follow(
        self, trace: FetchTrace, fetch: Fetch, get: Callable[[str], Awaitable[RobotsResponse]], guard: Guard
    ) -> None:
        while True:
            step = FetchStep(mask_passwords(trace.request.url), trace.request.method)
            trace.steps.append(step)
            await self._ask_guard(step, trace.request, guard)
            trace.problem = await self._ask_robots(step, trace.request, get)
            if trace.problem:
                return
            response = await fetch(trace.request)
            _note(step, response)
            location = response.headers.get("location")
            if location is None or response.status not in REDIRECTS:
                trace.response = response
                return
            trace.problem = self._redirect(trace, response, location)
            if trace.problem:
                return

    async def _ask_guard(self, step: FetchStep, request: Request, guard: Guard) -> None:
        """Look up the addresses. A page from the cache needs none, and a fetcher of the user has its own rules."""
        fetching = self._crawl.fetching
        began = time.monotonic()
        try:
            target = read_target(request.url)
            if fetching.is_offline or fetching.fetcher is not None:
                return
            if fetching.proxy is not None and any(proxy.looks_up_names for proxy in Proxies.of(fetching.proxy).listed):
                await guard.check_written(target)
                step.guard = BY_NAME
                return
            addresses = await guard.addresses(target)
        except ForbiddenAddress:
            step.guard = "refused"
            raise
        step.guard = "permitted"
        step.lookup = time.monotonic() - began
        step.addresses = [str(address) for address in addresses]

    async def _ask_robots(
        self, step: FetchStep, request: Request, get: Callable[[str], Awaitable[RobotsResponse]]
    ) -> FetchProblem | None:
        """Note what robots.txt says; return the problem if the page must not be fetched."""
        if not self._obeys:
            step.robots = "" if self._crawl.fetching.is_offline else "ignored"
            return None
        verdict = await self._checker.verdict(request.url)
        if isinstance(verdict, FetchFirst):
            with suppress(FetchError):  # then it is unreachable, with the reason
                await self._checker.fetch(verdict, get)
            verdict = await self._checker.verdict(request.url)
        step.crawl_delay = self._files.delay_of(request.url)
        match verdict:
            case Allowed():
                step.robots = "allowed"
                return None
            case Denied(reason):
                step.robots, step.robots_reason = "denied", reason
                return FetchProblem("robots", reason)
            case Unreachable(_, reason):
                step.robots, step.robots_reason = "unreachable", reason
                return FetchProblem("robots", reason)
            case _:
                raise AssertionError(verdict)

    def _redirect(self, trace: FetchTrace, response: Response, location: str) -> FetchProblem | None:
        """Continue with the target of a redirect; return the problem if a worker does not follow it."""
        request, most = trace.request, self._crawl.fetching.max_redirects
        if len(request.redirects) >= most:
            return FetchProblem("redirect", f"more than {most} redirects, the last one to {location:.500}")
        try:
            cookies = self._crawl.cookies_of(request, response)
            target = redirected(request, response.status, location, cookies)
        except RequestError as error:
            return FetchProblem("redirect", f"redirected to {location[:500]!r}, which cannot be crawled: {error}")
        if target.url in (*request.redirects, request.url) and target.cookies == request.cookies:
            return FetchProblem("redirect", f"a loop of redirects, back to {target.url}")
        scope, here, there = self._crawl.scope, parse(request.url), parse(target.url)
        objection = scope.objection(there, here, target.depth, any_type=scope.skips_type(here))
        if objection:
            return FetchProblem("redirect", f"redirected out of the crawl's scope ({objection}) to {target.url}")
        trace.request = target
        return None


class KnownRobots:
    """The robots.txt files that a command has read, instead of those on a server."""

    def __init__(self) -> None:
        self._files: dict[str, RobotsFile] = {}
        self._delays: dict[str, float | None] = {}

    async def robots(self, url: str, *, lock: float = 0.0, lease: Lease | None = None) -> RobotsFile:  # noqa: ARG002
        """See `Frontier.robots`."""
        return self._files.get(origin_of(parse(url)), RobotsFile("yours", None, 0.0))

    async def keep_robots(
        self,
        url: str,
        text: bytes | None,
        *,
        fresh: float = 0.0,
        crawl_delay: float | None = None,
        reason: str = "",
    ) -> bool:
        """See `Frontier.keep_robots`."""
        origin = origin_of(parse(url))
        self._files[origin] = RobotsFile("known", text, fresh, reason)
        self._delays[origin] = crawl_delay
        return True

    def delay_of(self, url: str) -> float | None:
        """Return the Crawl-delay of a site."""
        return self._delays.get(origin_of(parse(url)))


def _note(step: FetchStep, response: Response) -> None:
    step.status, step.bytes, step.seconds = response.status, len(response.body), response.elapsed
    step.http_version, step.headers = response.http_version, list(response.headers.pairs)
    step.cached_at = response.fetched_at if isinstance(response, CachedResponse) else None


def as_report(trace: FetchTrace, agent: str) -> dict[str, Any]:
    """Return the trace as plain data, for ``--json``."""
    last = trace.steps[-1]
    return {
        "url": trace.steps[0].url,
        "final_url": last.url,
        "status": last.status if trace.response else None,
        "seconds": sum(step.seconds or 0.0 for step in trace.steps),
        "bytes": last.bytes if trace.response else None,
        "user_agent": agent,
        "problem": trace.problem,
        "steps": trace.steps,
    }
