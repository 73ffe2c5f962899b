"""Crawl: what is crawled and how, in one value that a file defines and every worker reads."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, overload

import msgspec

from silkline.core.backoff import Backoff
from silkline.core.budget import Budget
from silkline.core.errors import ConfigError, RequestError
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.retries import Retries
from silkline.core.scope import Scope
from silkline.core.url import parse
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.settings import Order
from silkline.frontier.wishes import Wishes
from silkline.sinks.sink import Sink
from silkline.worker.fetch.fetcher import Fetcher, Limits
from silkline.worker.fetch.guard import Guard
from silkline.worker.fetch.wreq_fetcher import WreqFetcher
from silkline.worker.handlers import Handler, Handlers
from silkline.worker.middleware import Middleware

H = TypeVar("H", bound=Callable[..., Any])
Start = str | Request | Iterable[str | Request] | Callable[[], Any]
Hook = Callable[..., Any]


class Storage(TypedDict, total=False):
    """How the frontier keeps the crawl."""

    seen: str
    order: Order
    capacity: int
    shards: int


class Fetching(msgspec.Struct, frozen=True, kw_only=True):
    """How pages are fetched.

    *contact* is a URL or an address under which the people behind the crawl can be reached; it stands in the user agent.
    With *allow_private* the guard lets requests into private networks.
    """

    contact: str | None = None
    user_agent: str | None = None
    obey_robots: bool = True
    max_crawl_delay: float = 60.0
    """Seconds; a robots.txt that asks for more gets this."""
    max_redirects: int = 10
    limits: Limits = Limits()
    headers: dict[str, str] = {}
    allow_private: bool = False
    verify_tls: bool = True
    fetcher: Callable[[Fetching], Fetcher] | None = None
    """Makes a fetcher of your own; see docs/how-to/fetching.md."""

    def agent(self, crawl: str) -> str:
        """The User-Agent header."""
        if self.user_agent:
            return self.user_agent
        token = re.sub(r"[^A-Za-z0-9_.-]+", "-", crawl)
        return f"{token}/1.0 (Silkline{'; +' + self.contact if self.contact else ''})"

    def open(self) -> Fetcher:
        """A fetcher."""
        if self.fetcher:
            return self.fetcher(self)
        return WreqFetcher(self.limits, guard=Guard(allow_private=self.allow_private), verify=self.verify_tls)


class Crawl:
    """A crawl: its name, where it starts, its handlers and its policies.

    The name is also that of the frontier's crawl: workers with the same file and the same server share the work.
    *start* is a URL, a list, or a function that gives them (also an async one, or a generator).
    """

    def __init__(
        self,
        name: str,
        start: Start = (),
        *,
        politeness: Politeness | None = None,
        scope: Scope | None = None,
        retries: Retries | Backoff | Sequence[float] | None = None,
        budget: Budget | None = None,
        fetching: Fetching | None = None,
        **storage: Unpack[Storage],
    ) -> None:
        CrawlKeys(name)  # refuses what cannot be a name
        self.name = name
        self.politeness = politeness or Politeness()
        self.scope = scope or Scope()
        self.retries = Retries.of(retries)
        self.budget = budget or Budget()
        self.fetching = fetching or Fetching()
        self.handlers = Handlers()
        self.middlewares: list[Middleware] = []
        self.start_hooks: list[Hook] = []
        self.finish_hooks: list[Hook] = []
        self.sink_makers: list[Callable[[], Sink]] = []
        self._storage = storage
        self._start = start
        self._check()

    def __repr__(self) -> str:
        return f"<Crawl {self.name!r}, {len(self.handlers)} handlers>"

    def _check(self) -> None:
        kinds = {"politeness": Politeness, "scope": Scope, "budget": Budget, "fetching": Fetching}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        unknown = set(self._storage) - set(Storage.__annotations__)
        if unknown:
            raise ConfigError(f"unknown setting {', '.join(sorted(unknown))} of the crawl {self.name!r}")
        if not callable(self._start):
            for request in self.listed_starts():
                _check_start(request, self.name)

    @overload
    def handler(self, handler: H) -> H: ...
    @overload
    def handler(self, *, name: str) -> Callable[[H], H]: ...

    def handler(self, handler: H | None = None, *, name: str | None = None) -> H | Callable[[H], H]:
        """Register a handler; the first one takes the start URLs."""

        def register(one: H) -> H:
            self.handlers.add(one, name)
            return one

        return register if handler is None else register(handler)

    def middleware(self, middleware: Middleware) -> Middleware:
        """Wrap every fetch of a page in *middleware*; the first one registered is outermost."""
        self.middlewares.append(middleware)
        return middleware

    def on_start(self, hook: Hook) -> Hook:
        """Call *hook* once, before a run claims its first page. What it returns or yields is enqueued."""
        self.start_hooks.append(hook)
        return hook

    def on_finish(self, hook: Hook) -> Hook:
        """Call *hook* with the summary once, when a run ends."""
        self.finish_hooks.append(hook)
        return hook

    def sink(self, make: Callable[[], Sink]) -> Callable[[], Sink]:
        """Have items written by a sink of your own as well: *make* gives it, once in every worker process."""
        self.sink_makers.append(make)
        return make

    @property
    def wishes(self) -> Wishes:
        """The settings that the frontier stores."""
        return {"politeness": self.politeness, "budget": self.budget, **self._storage}

    def listed_starts(self) -> list[Request]:
        """The start requests, if they are a list."""
        return [] if callable(self._start) else list(as_requests(self._start))

    async def starts(self) -> list[Request]:
        """All start requests."""
        given = await resolve(self._start()) if callable(self._start) else self._start
        return list(as_requests(given))

    def check_ready(self) -> None:
        """Refuse to run without a handler."""
        if not len(self.handlers):
            raise ConfigError(
                f"the crawl {self.name!r} has no handler; write a function and put @crawl.handler above it"
            )

    def handler_of(self, request: Request) -> Handler | None:
        """The handler that a request names."""
        return self.handlers.get(request.handler)


def _check_start(request: Request, crawl: str) -> None:
    try:
        parse(request.url)
    except RequestError as error:
        raise ConfigError(f"the crawl {crawl!r} cannot start at {request.url!r}: {error}") from None


def as_requests(given: Any) -> Iterable[Request]:
    """Requests of what users write: URLs, requests, lists of them, None."""
    if given is None:
        return
    if isinstance(given, str):
        yield Request(given)
    elif isinstance(given, Request):
        yield given
    elif isinstance(given, Iterable) and not isinstance(given, bytes | dict):
        for one in given:
            yield from as_requests(one)
    else:
        raise ConfigError(f"a start is a URL, a Request or a list of them, got {given!r:.200}")


async def resolve(given: Any) -> Any:
    """The value of what a user's function gave: awaited if it is a coroutine, gathered if it is an async generator."""
    if isinstance(given, Awaitable):
        return await given
    if isinstance(given, AsyncIterable):
        return [one async for one in given]
    return given
