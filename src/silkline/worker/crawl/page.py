"""Page: the argument of a handler, and its links.

A page is decoded and parsed when the handler first needs that. `Page.follow` returns the request for a link, or counts the
reason why the link is not followed. Most links of a site are on most of its pages, so each decision is cached for the next page
that has the link.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from silkline.core.request import FILE, Request, check
from silkline.core.scope import Scope
from silkline.core.url import MAX_URL_BYTES, ParsedUrl, join, parse
from silkline.errors import ConfigError, ElementNotFound, FormError, RequestError
from silkline.fetch import charset
from silkline.fetch.browser.rendered import Captured, RenderedResponse, matches
from silkline.sinks.downloads.store import StoredFile
from silkline.worker.crawl.bodies import Body, Fields, data_body, json_body
from silkline.worker.crawl.downloads import DownloadPlan
from silkline.worker.crawl.form import PageForm
from silkline.worker.crawl.reading import (
    Article,
    HtmlTable,
    StructuredData,
    next_link,
    read_structured_data,
    read_tables,
)
from silkline.worker.parsing import Engine, check_now, is_small
from silkline.worker.sandbox_child import WITHOUT_EVENTS

if TYPE_CHECKING:
    from parsel import Selector, SelectorList

    from silkline.fetch.fetcher import Headers, Response

LinkTarget = str | Request | LexborNode
_ONE = (str, Request, LexborNode)


class KnownHandlers(Protocol):
    """The handlers that links may go to."""

    def name_of(self, handler: object) -> str:
        """Return the registered name of a handler, given as a function or by its name."""

    def needs_args(self, name: str) -> bool:
        """Return whether the handler of that name cannot be called with a page alone."""

    def check_args(self, name: str, args: Mapping[str, Any]) -> None:
        """Raise `RequestError` unless the handler of that name can be called with a page and these arguments."""


_BASE_WITHIN = 65_536
_BASE = re.compile(rb"<base", re.IGNORECASE)
TOO_MANY = "too many links"
NOT_IN_ARCHIVE = "not in the archive"


class FollowOptions(TypedDict, total=False):
    """Further fields of a followed request; see `Request`.

    *json* and *data* become its body: a value as JSON, and fields as HTML forms send them. Its method is POST then, unless another
    one is given.
    """

    priority: int
    meta: dict[str, Any]
    args: dict[str, Any]
    json: Any
    data: Fields
    method: str
    headers: dict[str, str]
    body: bytes
    cookies: dict[str, str]
    session: str | bool | None
    auth: tuple[str, str]
    timeout: float
    dont_filter: bool
    not_before: float
    download_slot: str
    retries: Sequence[float]
    max_attempts: int
    expires: float


class Page:
    """A fetched page: its URL, the response, and methods to read it and to follow its links."""

    def __init__(
        self, request: Request, response: Response, handler: str, handlers: KnownHandlers, links: Links
    ) -> None:
        self.request = request
        self.url = response.url
        self.status: int = response.status
        self.headers: Headers = response.headers
        self.body: bytes = response.body
        self.elapsed: float = response.elapsed
        """Seconds that fetching took."""
        self.file: StoredFile | None = None
        """The stored file of a download, whose `body` is empty; None for other pages."""
        self.skipped: Counter[str] = Counter()
        """Links that were not followed, by reason."""
        self.handler = handler
        """The name of its handler, which `follow` uses by default."""
        self.names = handlers.name_of
        """Returns the registered name of a handler."""
        self._handlers = handlers
        self._links = links
        self._links_to: dict[tuple[str, LinkKind], LinksOfPage] = {}
        """The links of this page by their handler and kind."""
        self._room = links.scope.max_links
        """How many more links may be followed."""
        self._looks = links.most_looked_at
        """How many more links are read."""
        self._used: set[Engine] = set()
        self.tried: set[Engine] = set()
        """Parsers that the sandbox has tried on this page."""
        self._rendered = response if isinstance(response, RenderedResponse) else None

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"

    @property
    def meta(self) -> dict[str, Any]:
        """The `meta` of the request."""
        return self.request.meta

    @property
    def depth(self) -> int:
        """The number of links between a start URL and this page."""
        return self.request.depth

    @cached_property
    def encoding(self) -> str:
        """The Python codec of `text`."""
        return charset.charset_of(self.headers.get("content-type") or "", self.body)

    @cached_property
    def text(self) -> str:
        """The body as text."""
        return charset.decode(self.body, self.encoding)

    def json(self) -> Any:
        """Return the body, decoded as JSON. Raises `ValueError` if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise ValueError(f"{self.url} is not JSON: {error}") from None

    def screenshot(self) -> bytes:
        """Return the image of a rendered page as PNG, if its handler has ``render=Rendering(screenshot=True)``."""
        if self._rendered is None or self._rendered.screenshot is None:
            raise ConfigError(
                f"there is no screenshot of {self.url}; write @crawl.handler(render=Rendering(screenshot=True))"
            )
        return self._rendered.screenshot

    def captured(self, pattern: str = "*") -> list[Captured]:
        """Return the JSON responses that a rendered page has loaded, by path and query or by whole URL: ``/api/*``.

        Its handler names all that are kept: ``render=Rendering(capture=["/api/*"])``. Each has `url`, `status` and `json()`.
        """
        if self._rendered is None:
            raise ConfigError(
                f"{self.url} was not rendered; write @crawl.handler(render=Rendering(capture=[{pattern!r}]))"
            )
        return [found for found in self._rendered.captured if matches(pattern, found.url)]

    @property
    def is_html(self) -> bool:
        """Whether the server declares it as HTML or XML, or declares no type."""
        kind = (self.headers.get("content-type") or "html").lower()
        return "html" in kind or "xml" in kind

    @cached_property
    def is_small(self) -> bool:
        """Whether parsing the body is cheap in any case."""
        return is_small(self.body)

    @cached_property
    def source(self) -> bytes:
        """The body in UTF-8."""
        return self.body if self.encoding == "utf-8" else self.text.encode(errors="replace")

    @property
    def html(self) -> LexborHTMLParser:
        """The page as parsed by selectolax; raises `HostileHtml` if parsing it costs too much."""
        self._used.add("html")
        return self._html

    @cached_property
    def _html(self) -> LexborHTMLParser:
        self._check("html")
        return LexborHTMLParser(self.source, options=WITHOUT_EVENTS)

    def _check(self, engine: Engine) -> None:
        """Let the sandbox parse the page first, unless it is small or the worker has done so already."""
        small = self.is_small if self.source is self.body else is_small(self.source)
        if engine not in self.tried and not small:
            check_now(self.source, engine)
            self.tried.add(engine)

    def parse(self, engine: Engine) -> None:
        """Parse the page in advance."""
        _ = self._html if engine == "html" else self._selector

    @property
    def parsed_by(self) -> frozenset[Engine]:
        """The parsers that the handler has used."""
        return frozenset(self._used)

    def css(self, selector: str) -> list[LexborNode]:
        """Return all elements that match a CSS selector."""
        return self.html.css(selector)

    def css_first(self, selector: str) -> LexborNode | None:
        """Return the first element that matches a CSS selector; None if there is none."""
        return self.html.css_first(selector)

    def one(self, selector: str) -> LexborNode:
        """Return the first element that matches a CSS selector. Raises `ElementNotFound` if there is none."""
        element = self.html.css_first(selector)
        if element is None:
            raise ElementNotFound(selector, self.url)
        return element

    def text_of(self, selector: str) -> str:
        """Return the text of the first element that matches a CSS selector, each run of whitespace as one space.

        Raises `ElementNotFound` if there is none.
        """
        return " ".join(self.one(selector).text().split())

    def form(self, selector: str = "form") -> PageForm:
        """Return the first form that matches a CSS selector, or is inside the first element that does.

        Raises `ElementNotFound` if no element matches, and `FormError` if the element is no form.
        """
        element = self.one(selector)
        form = element if element.tag == "form" else element.css_first("form")
        if form is None:
            raise FormError(f"{selector!r} matches a <{element.tag}> without a form on {self.url}")
        return PageForm(self, form, selector)

    @cached_property
    def structured_data(self) -> StructuredData:
        """What the page declares for machines: JSON-LD, microdata and Open Graph."""
        return read_structured_data(self.html, self.urljoin)

    def article(self) -> Article:
        """Return the main text of the page, with its title, author, date and language; needs the extra ``article``.

        Raises `HostileHtml` if reading it costs too much.
        """
        if "_article" not in self.__dict__ and find_spec("trafilatura") is None:
            raise ConfigError("articles need trafilatura: pip install 'silkline[article]'")
        self._used.add("article")
        return self._article

    @cached_property
    def _article(self) -> Article:
        return msgspec.json.decode(check_now(self.source, "article"), type=Article) if self.is_html else Article()

    def set_article(self, found: bytes) -> None:
        """Set what the sandbox has read in advance."""
        self.__dict__["_article"] = msgspec.json.decode(found, type=Article)

    def tables(self, selector: str = "table") -> list[HtmlTable]:
        """Return the tables that match a CSS selector."""
        return read_tables(self.html.css(selector))

    @property
    def selector(self) -> Selector:
        """The page as a parsel selector, which supports XPath; needs the extra ``xpath``."""
        self._used.add("xpath")
        return self._selector

    @cached_property
    def _selector(self) -> Selector:
        try:
            from parsel import Selector  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigError("XPath needs parsel: pip install 'silkline[xpath]'") from None
        self._check("xpath")
        return Selector(self.text, base_url=self.url)

    def xpath(self, query: str) -> SelectorList[Selector]:
        """Return all matches as parsel selectors: ``.get()`` and ``.getall()`` return text."""
        return self.selector.xpath(query)

    @cached_property
    def base(self) -> ParsedUrl:
        """The URL that links are relative to: the page's ``<base>``, or else its own URL."""
        if _BASE.search(self.body, 0, _BASE_WITHIN):
            element = self.html.css_first("base[href]")
            with suppress(RequestError):
                return join(self._address, (element and element.attributes.get("href")) or "")
        return self._address

    @property
    def scope(self) -> Scope:
        """The scope of the crawl."""
        return self._links.scope

    def urljoin(self, href: str) -> str:
        """Return *href* as an absolute URL. Raises `RequestError` if it is not an http(s) URL."""
        return join(self.base, href).url

    def links(self, selector: str = "a[href]") -> list[str]:
        """Return the absolute http(s) URLs of all links, each once, without fragments.

        At most `most_looked_at` of the crawl's scope are returned; `skipped` counts the rest.
        """
        elements = self.html.css(selector)
        found: dict[str, None] = {}
        for element in elements[: self._links.most_looked_at]:
            href = element.attrs.get("href") or ""
            if len(href) <= MAX_URL_BYTES:
                with suppress(RequestError):
                    found[join(self.base, href).url] = None
        if len(elements) > self._links.most_looked_at:
            self.skipped[TOO_MANY] += len(elements) - self._links.most_looked_at
        return list(found)

    def follow(
        self,
        target: LinkTarget | Iterable[LinkTarget | None] | None,
        handler: object = None,
        **arguments: Unpack[FollowOptions],
    ) -> Request | list[Request] | None:
        """Return a request for *target*: an element, an href, a `Request`, or a list of them. None is ignored.

        A handler yields the result. The request goes to *handler*, by default that of this page. Links that are out of scope or
        not web addresses become None; `skipped` counts them. Links to images, PDFs and other files are followed only if *handler* is
        given. When the page has followed as many links as the scope allows, the rest are not examined.

        Raises `RequestError` if the handler cannot be called with the given *args*.
        """
        links = (
            self._links_of(self.handler, "page") if handler is None else self._links_of(self.names(handler), "named")
        )
        return self._followed(target, links, arguments)

    def download(
        self,
        target: LinkTarget | Iterable[LinkTarget | None] | None,
        to: str = "",
        handler: object = None,
        *,
        max_bytes: int | None = None,
        **arguments: Unpack[FollowOptions],
    ) -> Request | list[Request] | None:
        """Return a request that downloads *target*: an element such as an image, an href, a `Request`, or a list of them.

        A handler yields the result. The file is stored in the folder *to* of the crawl's files, under the hash of its content, and
        becomes an item; with *handler*, that gets a page with the *file* instead. Files may be on any site. One with more than
        *max_bytes* bytes fails. Links that are not downloaded are counted as those of `follow`.
        """
        plan = DownloadPlan(to, max_bytes).checked()
        links = self._links_of(FILE if handler is None else self.names(handler), "file")
        arguments["meta"] = plan.into(arguments.get("meta") or {})
        return self._followed(target, links, arguments)

    def _links_of(self, name: str, kind: LinkKind) -> LinksOfPage:
        links = self._links_to.get((name, kind))
        if links is None:
            links = self._links.of(self.base, self._address, name, self.request.depth + 1, kind)
            self._links_to[name, kind] = links
        return links

    def _followed(
        self, target: LinkTarget | Iterable[LinkTarget | None] | None, links: LinksOfPage, arguments: FollowOptions
    ) -> Request | list[Request] | None:
        body = None
        if arguments and ("json" in arguments or "data" in arguments):
            arguments, body = _take_body(arguments)
        if target is None or isinstance(target, _ONE):
            return next(iter(self._follow((target,), links, arguments, body)), None)
        if not isinstance(target, Iterable):
            raise ConfigError(f"follow takes an element, an href, a request, a list of them or None, got {target!r}")
        return self._follow(target, links, arguments, body)

    def follow_next(
        self, selector: str | None = None, handler: object = None, **arguments: Unpack[FollowOptions]
    ) -> Request | None:
        """Return a request for the next page of a listing, as `follow` does; None if there is none.

        Without a CSS *selector*, it is the link with ``rel="next"``, else one with a class or a text such as *next*.
        """
        element = next_link(self.html) if selector is None else self.html.css_first(selector)
        followed = self.follow(element, handler, **arguments)
        return followed if isinstance(followed, Request) else None

    def _follow(
        self, targets: Iterable[LinkTarget | None], links: LinksOfPage, arguments: FollowOptions, body: Body | None
    ) -> list[Request]:
        followed: list[Request] = []
        room, looks = self._room, self._looks
        needs_args = self._handlers.needs_args(links.handler)
        session = None if "session" in arguments else self.request.session  # a link stays in the session of its page
        for place, target in enumerate(targets):
            if not room or not looks:
                self.skipped[TOO_MANY] += len(targets) - place if isinstance(targets, Sized) else 1
                break
            href = target.url if isinstance(target, Request) else _href(target)
            if href is None:
                continue
            looks -= 1
            named = isinstance(target, Request) and target.handler is not None and links.kind == "page"
            decision = (self._links_of(links.handler, "named") if named else links).decide(href)
            if isinstance(decision, str):
                self.skipped[decision] += 1
                continue
            room -= 1
            if arguments or body or session or isinstance(target, Request):
                decision = _merged(decision, target, arguments, body)
                if session and decision.session is None:
                    decision = msgspec.structs.replace(decision, session=session)
                if decision.args or needs_args:
                    self._handlers.check_args(decision.handler or "", decision.args)
            elif needs_args:
                self._handlers.check_args(links.handler, {})
            followed.append(decision)
        self._room, self._looks = room, looks
        return followed

    @cached_property
    def _address(self) -> ParsedUrl:
        return parse(self.url)


def _merged(link: Request, target: LinkTarget | None, arguments: FollowOptions, body: Body | None = None) -> Request:
    """Return the link as a request with the given options. A `Request` keeps its own values."""
    given: dict[str, Any] = {**arguments}
    if body:
        given |= _with_body(target if isinstance(target, Request) else link, given, body)
    if isinstance(target, Request):
        merged = msgspec.structs.replace(
            target, url=link.url, depth=link.depth, **{"handler": target.handler or link.handler, **given}
        )
    else:
        merged = msgspec.structs.replace(link, **given)
    check(merged)
    return merged


def _take_body(arguments: FollowOptions) -> tuple[FollowOptions, Body | None]:
    """Return the other options, and the body that *json* or *data* stands for."""
    others = arguments.copy()
    bodies = [json_body(others.pop("json"))] if "json" in others else []
    if "data" in others:
        bodies.append(data_body(others.pop("data")))
    if len(bodies) + ("body" in others) > 1:
        raise RequestError("a request has one body: use one of json=, data= and body=")
    return others, bodies[0]


def _with_body(request: Request, given: dict[str, Any], body: Body) -> dict[str, Any]:
    """Return the fields of a request with a body: its method is POST by default, and it has a Content-Type."""
    headers = given.get("headers", request.headers)
    if not any(name.lower() == "content-type" for name in headers):
        headers = {**headers, "Content-Type": body.content_type}
    method = given.get("method", "POST" if request.method == "GET" else request.method)
    return {"method": method, "headers": headers, "body": body.content}


def _href(target: LinkTarget | None) -> str | None:
    if isinstance(target, LexborNode):
        attributes = target.attrs
        return attributes.get("href") or attributes.get("src") or attributes.get("action")
    return target if isinstance(target, str) else None


# ── links ──

MOST_REMEMBERED = 10_000
"""Decisions on links that are cached."""
LONGEST_REMEMBERED = 500
"""The longest link in characters whose decision is cached."""

LinkKind = Literal["page", "named", "file"]
"""What a link is followed as: a page for the handler of its page, a page or file for a named handler, or a download."""

Decision = Request | str
"""The request for a link, or the reason why the link is not followed."""


class Links:
    """Decides on the links of a worker's pages by the crawl's scope, and caches the decisions."""

    def __init__(self, scope: Scope, archived: Callable[[ParsedUrl], bool] | None = None) -> None:
        self.scope = scope
        self.archived = archived
        """Whether an archive has a URL, if pages are read from one: links to others are not followed."""
        self.most_looked_at = scope.most_looked_at
        self._memory: dict[tuple[str, str, str, int, LinkKind], dict[str, Decision]] = {}
        self._count = 0

    def of(self, base: ParsedUrl, page: ParsedUrl, handler: str, depth: int, kind: LinkKind = "page") -> LinksOfPage:
        """Return the links of *page*, relative to *base*, that go to *handler*."""
        if self._count > MOST_REMEMBERED:
            self._memory.clear()
            self._count = 0
        return LinksOfPage(self, base, page, handler, depth, kind)

    def memory(self, place: str, page: ParsedUrl, handler: str, depth: int, kind: LinkKind) -> dict[str, Decision]:
        """Return what is stored for the hrefs at *place*. They lead to the same URLs on all pages with the same five values."""
        key = (place, page.host, handler, depth, kind)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = {}
            self.count()  # an empty one needs memory too
        return found

    def count(self) -> None:
        self._count += 1


class LinksOfPage:
    """Decides on the links of one page. Requests are immutable, so pages with the same link share one."""

    def __init__(
        self, links: Links, base: ParsedUrl, page: ParsedUrl, handler: str, depth: int, kind: LinkKind
    ) -> None:
        self._links = links
        self._base = base
        self._page = page
        self.handler = handler
        self._depth = depth
        self.kind = kind
        folder = base.path[: base.path.partition("?")[0].rindex("/")]
        self._absolute = links.memory(base.origin, page, handler, depth, kind)
        self._relative = links.memory(base.origin + folder + "/", page, handler, depth, kind)

    def decide(self, href: str) -> Decision:
        """Return the request for *href* on this page, or the reason why it is not followed."""
        first = href[:1]
        if first == "/":
            memory = self._absolute
        elif first in ("?", "#", ""):
            return self._decide(href)  # they depend on the whole URL of the page
        else:
            memory = self._relative
        decision = memory.get(href)
        if decision is None:
            decision = self._decide(href)
            if len(href) <= LONGEST_REMEMBERED:
                memory[href] = decision
                self._links.count()
        return decision

    def _decide(self, href: str) -> Decision:
        if len(href) > self._links.scope.max_url:
            href = href.partition("#")[0].strip()
            if len(href) > self._links.scope.max_url:
                return "too long"  # without parsing it
        try:
            link = join(self._base, href)
        except RequestError:
            return "not a web address"
        reason = self._objection(link)
        if not reason and self._links.archived and not self._links.archived(link):
            reason = NOT_IN_ARCHIVE
        return reason or Request(link.url, handler=self.handler, depth=self._depth)

    def _objection(self, link: ParsedUrl) -> str | None:
        scope = self._links.scope
        if self.kind == "file":
            return scope.file_objection(link)
        return scope.objection(link, self._page, self._depth, any_type=self.kind == "named")
