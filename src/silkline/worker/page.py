"""Page: what a handler gets. Nothing is decoded or parsed before somebody asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from silkline.core import charset
from silkline.core.errors import ConfigError, RequestError
from silkline.core.request import Request, check
from silkline.core.url import Address, join, parse
from silkline.worker.links import Links

if TYPE_CHECKING:
    from parsel import Selector, SelectorList

    from silkline.worker.fetch.fetcher import Headers, Response

Target = str | Request | LexborNode
Names = Callable[[object], str]
"""From a handler, or its name, to its registered name."""

_BASE_WITHIN = 65_536


class FollowWishes(TypedDict, total=False):
    """What else a followed request carries; see `Request`."""

    priority: int
    meta: dict[str, Any]
    method: str
    headers: dict[str, str]
    body: bytes
    cookies: dict[str, str]
    auth: tuple[str, str]
    timeout: float
    dont_filter: bool
    not_before: float


class Page:
    """A fetched page: its address, what came back, and ways to read it and to go on from it."""

    def __init__(self, request: Request, response: Response, handler: str, names: Names, links: Links) -> None:
        self.request = request
        self.url = response.url
        self.status: int = response.status
        self.headers: Headers = response.headers
        self.body: bytes = response.body
        self.elapsed: float = response.elapsed
        """Seconds that fetching took."""
        self.skipped: Counter[str] = Counter()
        """Links that were not followed, by reason."""
        self._handler = handler
        self._names = names
        self._links = links
        self._followed = 0

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"

    @property
    def meta(self) -> dict[str, Any]:
        """What the request carried."""
        return self.request.meta

    @property
    def depth(self) -> int:
        """Links between a start URL and this page."""
        return self.request.depth

    @cached_property
    def encoding(self) -> str:
        """The codec by which `text` is read."""
        return charset.charset_of(self.headers.get("content-type") or "", self.body)

    @cached_property
    def text(self) -> str:
        """The body as text."""
        return charset.decode(self.body, self.encoding)

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise ValueError(f"{self.url} is not JSON: {error}") from None

    @cached_property
    def html(self) -> LexborHTMLParser:
        """The parsed page, of selectolax."""
        return LexborHTMLParser(self.body if self.encoding == "utf-8" else self.text)

    def css(self, selector: str) -> list[LexborNode]:
        """All elements that match."""
        return self.html.css(selector)

    def css_first(self, selector: str) -> LexborNode | None:
        """The first element that matches, or None."""
        return self.html.css_first(selector)

    @cached_property
    def selector(self) -> Selector:
        """The page for parsel, which knows XPath; needs the extra ``xpath``."""
        try:
            from parsel import Selector  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigError("XPath needs parsel: pip install 'silkline[xpath]'") from None
        return Selector(self.text, base_url=self.url)

    def xpath(self, query: str) -> SelectorList[Selector]:
        """All that matches, of parsel: ``.get()`` and ``.getall()`` give text."""
        return self.selector.xpath(query)

    @cached_property
    def base(self) -> Address:
        """What links are relative to: the page's ``<base>``, else its own address."""
        if self.body.find(b"<base", 0, _BASE_WITHIN) >= 0 or self.body.find(b"<BASE", 0, _BASE_WITHIN) >= 0:
            element = self.html.css_first("base[href]")
            with suppress(RequestError):
                return join(self._address, (element and element.attributes.get("href")) or "")
        return self._address

    def urljoin(self, href: str) -> str:
        """*href* as an absolute web address; raises `RequestError` if it is none."""
        return join(self.base, href).url

    def links(self, selector: str = "a[href]") -> list[str]:
        """The absolute http(s) addresses of all links, each once, without fragments."""
        found: dict[str, None] = {}
        for element in self.html.css(selector):
            with suppress(RequestError):
                found[join(self.base, element.attributes.get("href") or "").url] = None
        return list(found)

    def follow(
        self,
        target: Target | Iterable[Target | None] | None,
        handler: object = None,
        **wishes: Unpack[FollowWishes],
    ) -> Request | list[Request] | None:
        """A request for *target*: an element, an href, a `Request`, or many of them; None is ignored.

        Yield it. It goes to *handler* (this page's own, if none is named). Links out of the crawl's scope and links that are
        no web addresses become None; `skipped` counts them.
        """
        name = self._handler if handler is None else self._names(handler)
        if target is None or isinstance(target, str | Request | LexborNode):
            return next(iter(self._follow([target], name, wishes)), None)
        if not isinstance(target, Iterable):
            raise ConfigError(f"follow takes an element, an href, a request, a list of them or None, got {target!r}")
        return self._follow(target, name, wishes)

    def _follow(self, targets: Iterable[Target | None], handler: str, wishes: FollowWishes) -> list[Request]:
        links = self._links.of(self.base, self._address, handler, self.request.depth + 1)
        room = self._links.scope.max_links - self._followed
        followed: list[Request] = []
        for target in targets:
            href = target.url if isinstance(target, Request) else _href(target)
            decision = None if href is None else links.decide(href)
            if isinstance(decision, str):
                self.skipped[decision] += 1
            elif decision and len(followed) >= room:
                self.skipped["too many links"] += 1
            elif decision:
                followed.append(
                    _merged(decision, target, wishes) if wishes or isinstance(target, Request) else decision
                )
        self._followed += len(followed)
        return followed

    @cached_property
    def _address(self) -> Address:
        return parse(self.url)


def _merged(link: Request, target: Target | None, wishes: FollowWishes) -> Request:
    """The link with what else is wished for it; a request that is followed keeps what it says itself."""
    if isinstance(target, Request):
        merged = msgspec.structs.replace(
            target, url=link.url, depth=link.depth, **{"handler": target.handler or link.handler, **wishes}
        )
    else:
        merged = msgspec.structs.replace(link, **wishes)
    check(merged)
    return merged


def _href(target: Target | None) -> str | None:
    if isinstance(target, LexborNode):
        attributes = target.attributes
        return attributes.get("href") or attributes.get("src") or attributes.get("action")
    return target if isinstance(target, str) else None
