"""Crawl: the definition of a crawl. A file creates it, and every worker loads that file."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack, overload

import msgspec

from silkline.core.politeness import Budget, Politeness
from silkline.core.request import FILE_META, Request, check_session, is_time
from silkline.core.retries import Backoff, Retries
from silkline.core.revisit import Revisit
from silkline.core.scope import Scope, site_of
from silkline.core.url import ParsedUrl, parse
from silkline.errors import ConfigError, PrivateStart, RequestError
from silkline.fetch.browser.fetcher import RenderingFetcher, make_renderer
from silkline.fetch.browser.options import BrowserOptions, Rendering, RenderingOf
from silkline.fetch.cache import CachingFetcher, HttpCache
from silkline.fetch.cookies.pool import Sessions
from silkline.fetch.fetcher import Fetcher, Response
from silkline.fetch.guard import Guard, own_network
from silkline.fetch.impersonation import impersonation_of
from silkline.fetch.limits import Limits
from silkline.fetch.proxies import Proxies
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.frontier.arguments import CrawlArguments
from silkline.frontier.frontier import Frontier
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.settings import Durability, QueueOrder
from silkline.frontier.sync import SyncFrontier
from silkline.sinks.downloads.store import Files
from silkline.sinks.sink import Sink
from silkline.tasks.app import CrawlTasks, Tasks
from silkline.worker.crawl.alerts import read_alert
from silkline.worker.crawl.handlers import BUILT_IN, Handlers, Middleware
from silkline.worker.crawl.revisits import SAFE
from silkline.worker.feeds.feed_name import check_feed

if TYPE_CHECKING:
    from silkline.worker.crawl.page import Page
    from silkline.worker.options import WorkerOptions
    from silkline.worker.process.summary import Summary

H = TypeVar("H", bound=Callable[..., Any])
StartUrls = str | Request | Iterable[str | Request] | Callable[[], Any]
Hook = Callable[..., Any]

PUBLIC_HEADERS = frozenset(
    {"accept", "accept-language", "cache-control", "dnt", "pragma", "upgrade-insecure-requests", "user-agent"}
)
"""Headers without secrets, which go to every site."""


class Storage(TypedDict, total=False):
    """How the frontier stores the crawl."""

    seen: str
    order: QueueOrder
    capacity: int
    host_share: float
    dead_limit: int
    durability: Durability
    shards: int


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How pages are fetched.

    - *contact*: a URL or an e-mail address of the operator of the crawl; it becomes part of the user agent.
    - *user_agent*: the User-Agent header, instead of one from the name of the crawl and *contact*.
    - *obey_robots*: whether robots.txt is obeyed. *max_crawl_delay*: the longest Crawl-delay of it that is obeyed, in seconds.
    - *max_redirects*: redirects of one page that are followed.
    - *limits*: limits on time, size and rate of a response; see `silkline.fetch.Limits`.
    - *headers*: sent with every request to the sites of the start URLs.
    - *header_sites*: sites that get *headers*, such as ``("example.com",)``, instead of those of the start URLs; ``"http://…"`` for a
      site without TLS. Headers without secrets, such as Accept-Language, go to all sites.
    - *allow_private*: whether the guard permits addresses in private networks.
    - *verify_tls*: whether certificates are checked.
    - *http2*: off because a hostile server can fill the memory of a worker through it (docs/how-to/fetching.md). By default, it is on only
      for requests that impersonate a browser.
    - *impersonate*: the browser that requests look like, such as ``"chrome"``, ``"firefox"`` or ``"safari26.4"``; see
      docs/how-to/fetching.md.
    - *cookies*: whether cookies are kept and sent as a browser does; see docs/how-to/sessions.md.
    - *session*: the session of requests that name none, or a pool of them, `silkline.fetch.Sessions`.
    - *proxy*: the URL of a proxy, such as ``"http://user:password@proxy.example:8080"``, a list of them, or `silkline.fetch.Proxies`;
      see docs/how-to/proxies.md.
    - *fetcher*: creates your own fetcher; see docs/how-to/fetching.md.
    - *cache*: an HTTP cache on disk, for development; see docs/how-to/development.md.
    - *browser*: the browser for pages that are rendered (`silkline.fetch.BrowserOptions`), or None to render none; see
      docs/how-to/browser.md.
    """

    contact: str | None = None
    user_agent: str | None = None
    obey_robots: bool = True
    max_crawl_delay: float = 60.0
    max_redirects: int = 10
    limits: Limits = Limits()
    headers: dict[str, str] = {}
    header_sites: tuple[str, ...] = ()
    allow_private: bool = False
    verify_tls: bool = True
    http2: bool | None = None
    impersonate: str | None = None
    cookies: bool = True
    session: str | Sessions | None = None
    proxy: Proxies | str | Sequence[str] | Callable[[], Any] | None = None
    fetcher: Callable[[FetchOptions], Fetcher] | None = None
    cache: HttpCache | None = None
    browser: BrowserOptions | None = BrowserOptions()

    def __post_init__(self) -> None:
        if self.impersonate:
            impersonation_of(self.impersonate)  # raises ConfigError
            if self.user_agent:
                raise ConfigError("impersonate sends the User-Agent of the browser; leave user_agent out")
        if self.browser is not None and not isinstance(self.browser, BrowserOptions):
            raise ConfigError(
                f"browser must be a BrowserOptions or None, got {self.browser!r}; to render pages: render=True"
            )
        if self.session is not None and not isinstance(self.session, Sessions):
            try:
                check_session(self.session)
            except RequestError as error:
                raise ConfigError(str(error)) from None
        if self.proxy is not None:  # its repr has no password
            msgspec.structs.force_setattr(self, "proxy", Proxies.of(self.proxy))

    def agent(self, crawl: str) -> str:
        """Return the User-Agent header."""
        if self.user_agent:
            return self.user_agent
        token = re.sub(r"[^A-Za-z0-9_.-]+", "-", crawl)
        return f"{token}/1.0 (Silkline{'; +' + self.contact if self.contact else ''})"

    @property
    def is_offline(self) -> bool:
        """Whether all pages come from the cache, so that no site is asked for anything."""
        return self.cache is not None and self.cache.offline

    def open(self, rendering_of: RenderingOf | None = None) -> Fetcher:
        """Create the fetcher of a worker. Pages are rendered for which *rendering_of* returns how."""
        guard = Guard(allow_private=self.allow_private)
        fetcher = self.fetcher(self) if self.fetcher else self._open(guard)
        if rendering_of is not None and self.browser is not None:
            proxies = getattr(fetcher, "proxies", None)
            if self.proxy is not None and proxies is None:
                raise ConfigError(
                    "the proxy of a fetcher of your own cannot be used by the browser; leave out render or proxy"
                )
            make = partial(make_renderer, self.browser, self.limits, guard, verify_tls=self.verify_tls, proxies=proxies)
            fetcher = RenderingFetcher(fetcher, rendering_of, make)
        return CachingFetcher(fetcher, self.cache) if self.cache else fetcher

    def _open(self, guard: Guard) -> Fetcher:
        return WreqFetcher(
            self.limits,
            guard=guard,
            verify=self.verify_tls,
            proxy=self.proxy,
            http2=self.http2,
            impersonate=self.impersonate,
        )


LOGIN_SESSION = "login"
"""The session of a crawl that has a login and names no session."""


class LoginHook(NamedTuple):
    """How to log in, and by which pages to see that a login has ended."""

    function: Callable[..., Any]
    ended: Callable[[Page], object] | None = None


class CrawlHeaders:
    """The headers of a crawl. They may be secret, so they go only to its own sites, and not over plain HTTP if those use HTTPS."""

    def __init__(self, headers: dict[str, str], homes: Iterable[ParsedUrl], sites: Iterable[str] = ()) -> None:
        self._public = {name: value for name, value in headers.items() if _is_public(name)}
        self._all = headers
        self._homes = {(site_of(home.host), home.scheme) for home in homes}
        named = [parse(site if "://" in site else f"https://{site}") for site in sites]
        self._homes |= {(site_of(home.host), home.scheme) for home in named}

    def __bool__(self) -> bool:
        return bool(self._all)

    def for_request(self, request: Request) -> dict[str, str]:
        """Return the headers to send with *request*. Its own headers take precedence."""
        address = parse(request.url)
        home = site_of(address.host)
        trusted = (home, address.scheme) in self._homes or (address.scheme == "https" and (home, "http") in self._homes)
        own = {name.lower() for name in request.headers}
        given = self._all if trusted else self._public
        return {**{name: value for name, value in given.items() if name.lower() not in own}, **request.headers}


def _is_public(header: str) -> bool:
    name = header.lower()
    return name in PUBLIC_HEADERS or name.startswith("sec-")


class Crawl:
    """A crawl: its name, where it starts, its handlers and its policies.

    The name is also that of the frontier's crawl: workers with the same file and the same server share the work.
    *start* is a URL, a list of URLs, or a function that returns them (also an async one, or a generator). *feeds* are further
    sources of URLs that are read while the crawl runs: ``["redis:KEY", "urls.csv"]``; see docs/how-to/feeds.md. With *until_idle*, workers
    leave the crawl when its queue and its feeds were empty for that many seconds. With *check_items*, a page fails if the fields of its
    items have other types than their class says. *files* is where `Page.download` stores files: a folder, an object store, or
    `silkline.sinks.Files` with further limits; see docs/how-to/files.md. *render* is how pages are rendered in a browser whose
    handlers do not say it; see docs/how-to/browser.md. With *revisit*, an interval such as ``"1h"`` or a `Revisit`, pages are visited
    again after they are done, so the crawl never finishes; see docs/how-to/revisit.md. *alerts* are rules such as ``"error-rate=20%"`` by
    which it is unhealthy; see docs/how-to/alerts.md.
    """

    def __init__(  # noqa: PLR0913 - the settings of a crawl
        self,
        name: str,
        start: StartUrls = (),
        *,
        politeness: Politeness | None = None,
        scope: Scope | None = None,
        retries: Retries | Backoff | Sequence[float] | None = None,
        budget: Budget | None = None,
        fetching: FetchOptions | None = None,
        feeds: Sequence[str] = (),
        until_idle: float | None = None,
        check_items: bool = False,
        files: Files | str | os.PathLike[str] | None = None,
        render: Rendering | Literal["auto"] | bool = False,
        revisit: Revisit | str | float | None = None,
        alerts: Sequence[str] = (),
        **storage: Unpack[Storage],
    ) -> None:
        CrawlKeys(name)  # raises ConfigError for an invalid name
        self.name = name
        self.politeness = politeness or Politeness()
        self.scope = scope or Scope()
        self.retries = Retries.of(retries)
        self.budget = budget or Budget()
        self.fetching = fetching or FetchOptions()
        self.feeds = [check_feed(feed) for feed in ([feeds] if isinstance(feeds, str) else feeds)]
        self.until_idle = until_idle
        self.check_items = check_items
        self.files = Files.of(files)
        self.render = Rendering.of(render)
        self.alerts = [read_alert(rule) for rule in ([alerts] if isinstance(alerts, str) else alerts)]
        self.revisit = Revisit.of(revisit)
        self.revisits: dict[str, Revisit | None] = {}
        """How often the pages of a handler are visited again, by its name, for handlers that say it."""
        self.handlers = Handlers()
        self.tasks: Tasks = CrawlTasks(name, lambda: self.arguments)
        self.task = self.tasks.task
        """Registers a task, as `Tasks.task` does. Its calls are in the frontier of the crawl, beside the pages."""
        self.middlewares: list[Middleware] = []
        self.login_hook: LoginHook | None = None
        self.start_hooks: list[Hook] = []
        self.finish_hooks: list[Hook] = []
        self.sink_makers: list[Callable[[], Sink]] = []
        self._runs = False
        self._storage = storage
        self._start = start
        self._check()

    @classmethod
    def of_tasks(cls, tasks: Tasks) -> Crawl:
        """Return a crawl without pages, whose workers run these tasks."""
        crawl = cls(tasks.name, politeness=tasks.arguments["politeness"])
        crawl.tasks, crawl.task = tasks, tasks.task
        return crawl

    @property
    def has_pages(self) -> bool:
        """Whether it has handlers for pages, and not only tasks."""
        return len(self.handlers) > 0

    def __repr__(self) -> str:
        return f"<Crawl {self.name!r}, {len(self.handlers)} handlers>"

    def _check(self) -> None:
        kinds = {"politeness": Politeness, "scope": Scope, "budget": Budget, "fetching": FetchOptions}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        if self.until_idle is not None and not (is_time(self.until_idle) and self.until_idle > 0):
            raise ConfigError(f"until_idle must be a number of seconds above 0, or None, got {self.until_idle!r}")
        unknown = set(self._storage) - set(Storage.__annotations__)
        if unknown:
            raise ConfigError(
                f"unknown setting {', '.join(sorted(unknown))} of the crawl {self.name!r}{_meant(self._storage)}"
            )
        if not callable(self._start):
            for request in self.listed_starts():
                _check_start(request, self.name)

    @overload
    def handler(self, handler: H) -> H: ...
    @overload
    def handler(
        self,
        *,
        name: str | None = None,
        render: Rendering | Literal["auto"] | bool | None = None,
        revisit: Revisit | str | float | Literal[False] | None = None,
    ) -> Callable[[H], H]: ...

    def handler(
        self,
        handler: H | None = None,
        *,
        name: str | None = None,
        render: Rendering | Literal["auto"] | bool | None = None,
        revisit: Revisit | str | float | Literal[False] | None = None,
    ) -> H | Callable[[H], H]:
        """Register a handler. The first one handles the start URLs. With *render*, its pages are rendered in a browser.

        *revisit* says how often its pages are visited again, instead of what the crawl says; False for never.
        """

        def register(function: H) -> H:
            self.handlers.add(function, name, render)
            if revisit is not None:
                self.revisits[self.handlers.name_of(function)] = Revisit.of(None if revisit is False else revisit)
            return function

        return register if handler is None else register(handler)

    def revisit_of(self, request: Request) -> Revisit | None:
        """Return how often the page of a request is visited again; None for never.

        Files are downloaded once, and feeds have an interval for sitemaps. A request with `dont_filter` is not visited again: as often as it
        is stored, as often it would come. Neither is a POST, such as a form, unless its handler says it: it may order something. What a
        rendered page shows may change while its document does not.
        """
        name = self.handlers.first if request.handler is None else request.handler
        revisit = self.revisits.get(name, self.revisit if request.method in SAFE else None)
        if revisit is None or request.dont_filter or name in BUILT_IN or FILE_META in request.meta:
            return None
        return msgspec.structs.replace(revisit, conditional=False) if self.rendering_of(request) else revisit

    def middleware(self, middleware: Middleware) -> Middleware:
        """Wrap every fetch of a page in *middleware*; the first one registered is outermost."""
        self.middlewares.append(middleware)
        return middleware

    @overload
    def login(self, login: H) -> H: ...
    @overload
    def login(self, *, ended: Callable[[Page], object] | None = None) -> Callable[[H], H]: ...

    def login(self, login: H | None = None, *, ended: Callable[[Page], object] | None = None) -> H | Callable[[H], H]:
        """Call a function to log in to a session, once for all workers; see docs/how-to/sessions.md.

        *ended* returns whether a page shows that the login has ended, by default by the status 401. Then the function is called again.
        """

        def register(function: H) -> H:
            if self.login_hook is not None:
                raise ConfigError(f"the crawl {self.name!r} has two logins; one function gets the name of the session")
            self.login_hook = LoginHook(function, ended)
            return function

        return register if login is None else register(login)

    def session_of(self, request: Request) -> str | bool | None:
        """Return the session of a request: a name, None for the cookies of the worker, False for none."""
        if not self.fetching.cookies:
            return False
        if request.session is not None:
            return request.session
        default = self.fetching.session
        return "pool" if isinstance(default, Sessions) else default or (LOGIN_SESSION if self.login_hook else None)

    def cookies_of(self, request: Request, response: Response) -> list[str]:
        """Return the Set-Cookie headers of a response that only this worker has; an empty list if none of its cookies must be carried."""
        return response.headers.get_all("set-cookie") if self.session_of(request) is None else []

    def on_start(self, hook: Hook) -> Hook:
        """Call *hook* once, before a run claims its first page. The URLs and requests that it returns or yields are enqueued."""
        self.start_hooks.append(hook)
        return hook

    def on_finish(self, hook: Hook) -> Hook:
        """Call *hook* with the summary once, when a run ends."""
        self.finish_hooks.append(hook)
        return hook

    def sink(self, make: Callable[[], Sink]) -> Callable[[], Sink]:
        """Write items to your own sink too. *make* returns it, and is called once in every worker process."""
        self.sink_makers.append(make)
        return make

    async def run(
        self, *outs: str, redis: str | None = None, options: WorkerOptions | None = None, fresh: bool = False
    ) -> Summary:
        """Crawl in the event loop that runs, as in Jupyter or FastAPI, until the crawl is finished.

        The arguments are those of `silkline.run`, which starts an event loop. Signal handlers are left alone: to stop a run,
        cancel its task. Then the pages in progress are given back, and the next run continues.
        """
        if self._runs:
            raise ConfigError(f"the crawl {self.name!r} runs in this process already; await that run first")
        self._runs = True
        try:
            module = import_module("silkline.worker.process.run")  # which imports this one
            summary: Summary = await module.run_here(self, outs, redis, options, fresh=fresh, own_process=False)
            return summary
        finally:
            self._runs = False

    async def frontier(self) -> Frontier:
        """Return the frontier of the crawl, in a handler or a task that of its worker: for locks, limiters, semaphores and results.

        Outside of a worker, it is opened at SILKLINE_REDIS, or else on the embedded server in ``.silkline``.
        """
        return await self.tasks.frontier()

    def sync_frontier(self) -> SyncFrontier:
        """Return the same for plain functions in threads, such as tasks without `async`."""
        return self.tasks.sync_frontier()

    @property
    def arguments(self) -> CrawlArguments:
        """The settings that the frontier stores."""
        return {"politeness": self.politeness, "budget": self.budget, **self._storage}

    def listed_starts(self) -> list[Request]:
        """Return the start requests; an empty list if a function returns them."""
        return [] if callable(self._start) else list(as_requests(self._start))

    def start_with(self, start: StartUrls) -> None:
        """Replace the start URLs."""
        self._start = start

    async def starts(self) -> list[Request]:
        """Return all start requests."""
        given = await resolve(self._start()) if callable(self._start) else self._start
        return list(as_requests(given))

    def check_ready(self) -> None:
        """Raise `ConfigError` if the crawl cannot run: it has no handler, or headers for unknown sites."""
        self.tasks.check()
        both = set(self.handlers.names) & set(self.tasks.names)
        if both:
            raise ConfigError(
                f"the crawl {self.name!r} has a handler and a task named {min(both)!r}; rename one of them"
            )
        sites = [name for name in self.tasks.names if "." in name or name == "localhost"]
        if sites and self.has_pages:
            raise ConfigError(
                f"the task {sites[0]!r} has the name of a site, and its rate would replace the delay of that site; "
                "give it a name without a dot: @crawl.task(name=…)"
            )
        if type(self.tasks) is Tasks and not len(self.tasks):
            raise ConfigError(f"{self.name!r} has no task; write a function and put @app.task above it")
        if not len(self.handlers) and (self._start or not len(self.tasks)):
            raise ConfigError(
                f"the crawl {self.name!r} has no handler; write a function and put @crawl.handler above it"
            )
        self._check_start_args()
        if not self.fetching.cookies and (self.login_hook or self.fetching.session):
            raise ConfigError(
                f"the crawl {self.name!r} has a login or a session, which needs cookies; leave out cookies=False"
            )
        bound = sorted(name for name in self.fetching.headers if not _is_public(name))
        if bound and callable(self._start) and not self.fetching.header_sites:
            raise ConfigError(
                f"the headers {', '.join(bound)} of the crawl {self.name!r} go only to the sites of its start URLs, which are "
                'unknown because start is a function; name the sites: FetchOptions(headers=…, header_sites=("example.com",))'
            )

    def _check_start_args(self) -> None:
        """Raise `ConfigError` if the handler of a start URL needs arguments that its request does not have."""
        for request in self.listed_starts():
            name = self.handlers.first if request.handler is None else request.handler
            if request.args or self.handlers.needs_args(name):
                try:
                    self.handlers.check_args(name, request.args)
                except RequestError as error:
                    raise ConfigError(f"the crawl {self.name!r} cannot start at {request.url}: {error}") from None

    def open_fetcher(self) -> Fetcher:
        """Create the fetcher of a worker. Raises `ConfigError` if pages are rendered, and no browser is installed."""
        if self.render is None and not any(self.handlers.renderings.values()):
            return self.fetching.open()
        fetcher = self.fetching.open(self.rendering_of)
        if not self.fetching.is_offline and (prepare := getattr(fetcher, "prepare", None)):
            prepare()
        return fetcher

    def rendering_of(self, request: Request) -> Rendering | None:
        """Return how the page of a request is rendered; None if it is not. ``meta["render"]`` takes precedence."""
        handlers = self.handlers
        name = handlers.first if request.handler is None else request.handler
        wanted = request.meta.get("render")
        if wanted is False or FILE_META in request.meta:
            return None
        rendering = handlers.renderings.get(name, self.render)
        return rendering or (self.render or Rendering() if wanted is True else None)

    @property
    def headers(self) -> CrawlHeaders:
        """Return the headers that are sent with the requests of this crawl."""
        sites = self.fetching.header_sites
        homes = [] if sites else [parse(request.url) for request in self.listed_starts()]
        return CrawlHeaders(self.fetching.headers, homes, sites)


def check_private(crawl: Crawl, starts: Iterable[Request]) -> None:
    """Raise `PrivateStart` for a start URL in a private network, unless private addresses are allowed."""
    if crawl.fetching.allow_private or crawl.fetching.fetcher is not None:
        return
    for request in starts:
        if word := own_network(request.url):
            raise PrivateStart(
                f"the crawl {crawl.name!r} starts at {request.url}, which is a {word} address, but workers connect to public "
                "addresses only. If it is your own network, allow it: fetching=FetchOptions(allow_private=True) in the file"
            )


def _check_start(request: Request, crawl: str) -> None:
    try:
        parse(request.url)
    except RequestError as error:
        raise ConfigError(f"the crawl {crawl!r} cannot start at {request.url!r}: {error}") from None


def as_requests(given: Any) -> Iterable[Request]:
    """Yield the requests in *given*: a URL, a request, a list of them, or None."""
    if given is None:
        return
    if isinstance(given, str):
        yield Request(given)
    elif isinstance(given, Request):
        yield given
    elif isinstance(given, Iterable) and not isinstance(given, bytes | dict):
        for item in given:
            yield from as_requests(item)
    else:
        raise ConfigError(f"start must be a URL, a Request or a list of them, got {given!r:.200}")


async def resolve(given: Any) -> Any:
    """Return the result of a user's function: a coroutine is awaited, and an async generator becomes a list."""
    if isinstance(given, Awaitable):
        return await given
    if isinstance(given, AsyncIterable):
        return [item async for item in given]
    return given


def _meant(given: Mapping[str, Any]) -> str:
    """Name the group that a setting belongs to: "delay" is a field of the politeness."""
    groups: dict[str, type[msgspec.Struct]] = {
        "politeness": Politeness, "budget": Budget, "scope": Scope, "fetching": FetchOptions,
    }  # fmt: skip
    for setting, value in given.items():
        for group, kind in groups.items():
            if setting in kind.__struct_fields__:
                return f"; write {group}={kind.__name__}({setting}={value!r})"
    return ""
