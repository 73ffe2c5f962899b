"""The user's functions: handlers, what a handler may raise, and middleware around the fetch of a page.

::

    @crawl.middleware
    async def signed(request, call_next):
        response = await call_next(with_signature(request))
        return response
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, Literal, NamedTuple

from silkline.core.request import FILE, SITEMAP, Request, check
from silkline.errors import ConfigError, RequestError
from silkline.fetch.browser.options import Rendering
from silkline.fetch.fetcher import Response
from silkline.sinks.sink import is_item
from silkline.worker.crawl.downloads import file_of
from silkline.worker.crawl.page import Page
from silkline.worker.crawl.sitemap import read_sitemap


class Drop(Exception):
    """Raise it in a handler to skip a page: the page counts as done, and none of its items and links are stored."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


Handler = Callable[..., Any]
"""It is called with the page, and with the `args` of its request by name."""


BUILT_IN: dict[str, Handler] = {SITEMAP: read_sitemap, FILE: file_of}
"""Handlers of sitemaps and of downloads. They are in every crawl, and their names cannot be those of functions."""


class HandlerOutput(NamedTuple):
    """The items and requests that a handler yielded or returned."""

    items: list[Any]
    requests: list[Request]


class Handlers:
    """The handlers of a crawl. A request names one of them; only registered functions are called."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}
        self._demanding: set[str] = set()
        self.renderings: dict[str, Rendering | None] = {}
        """How the pages of handlers are rendered that have such a setting."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def add(
        self,
        handler: Handler,
        name: str | None = None,
        render: Rendering | Literal["auto"] | bool | None = None,  # noqa: FBT001
    ) -> None:
        """Register *handler* under *name*; by default, under the name of the function."""
        called = name or getattr(handler, "__name__", "")
        if not callable(handler) or not called or called == "<lambda>":
            raise ConfigError(f"a handler must be a function with a name, got {handler!r}")
        demands = needs_args(handler, called)
        if called in self._by_name and self._by_name[called] is not handler:
            raise ConfigError(f"two handlers are named {called!r}; rename one: @crawl.handler(name=…)")
        self._by_name[called] = handler
        if demands:
            self._demanding.add(called)
        if render is not None:
            self.renderings[called] = Rendering.of(render)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    @property
    def first(self) -> str:
        """The name of the handler of the start URLs; "" if there is no handler, because the crawl has only tasks."""
        return next(iter(self._by_name), "")

    def name_of(self, handler: object) -> str:
        """Return the registered name of a handler, which may be given as a function or by its name."""
        if isinstance(handler, str) and handler in self._by_name:
            return handler
        for name, known in (*self._by_name.items(), *BUILT_IN.items()):
            if known is handler:
                return name
        what = handler if isinstance(handler, str) else getattr(handler, "__name__", repr(handler))
        raise ConfigError(f"{what!r} is not a handler of this crawl; its handlers are {', '.join(self._by_name)}")

    def needs_args(self, name: str) -> bool:
        """Return whether a handler has arguments without defaults, besides the page."""
        return name in self._demanding

    def check_args(self, name: str, args: Mapping[str, Any]) -> None:
        """Raise `RequestError` unless the handler of that name can be called with a page and these arguments."""
        if (handler := self.get(name)) is not None:
            check_args(handler, name, args)

    def get(self, name: str | None) -> Handler | None:
        """Return the handler of that name, or the first one for None; None if there is none. Some are built in."""
        return self._by_name.get(self.first if name is None else name) or BUILT_IN.get(name or "")


def code_of(handler: Handler) -> CodeType | None:
    """Return the code of a handler without its decorators; None if it is not a Python function."""
    function = inspect.unwrap(getattr(handler, "__func__", handler))
    return getattr(function, "__code__", None)


def check_args(handler: Handler, name: str, args: Mapping[str, Any]) -> None:
    """Raise `RequestError` unless *handler* can be called with a page and these arguments."""
    try:
        signature = _signature_of(handler)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, **args)
    except TypeError as error:
        given = f"the arguments {', '.join(map(repr, args))}" if args else "no arguments besides the page"
        raise RequestError(
            f"the handler {_described(handler, name, signature)} cannot be called with {given}: {error}; pass them with "
            "page.follow(…, args={…})"
        ) from None


def needs_args(handler: Handler, name: str) -> bool:
    """Return whether the handler needs arguments. Raises `ConfigError` if it cannot be called with a page and arguments by name."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return False  # written in C, for example: the first page shows whether it can be called
    needed = [one.name for one in list(signature.parameters.values())[1:] if _is_needed(one)]
    try:
        signature.bind(None, **dict.fromkeys(needed))
    except TypeError as error:
        raise ConfigError(
            f"the handler {_described(handler, name, signature)} cannot be called with a page and further arguments by name: {error}"
        ) from None
    return bool(needed)


def _is_needed(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return named and parameter.default is parameter.empty


def _described(handler: Handler, name: str, signature: inspect.Signature) -> str:
    code = code_of(handler)
    return f"{name}{signature}" + (f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else "")


_signature_of = lru_cache(1_000)(inspect.signature)


async def run_handler(handler: Handler, page: Page) -> HandlerOutput:
    """Call a handler (a function or generator, async or not) with the page and its arguments, and return what it yields or returns."""
    given = handler(page, **page.request.args) if page.request.args else handler(page)
    if inspect.iscoroutine(given):
        given = await given
    gathered = HandlerOutput([], [])
    if inspect.isasyncgen(given):
        async for value in given:
            _gather(value, gathered)
    elif inspect.isgenerator(given) or isinstance(given, list | tuple):
        for value in given:
            _gather(value, gathered)
    else:
        _gather(given, gathered)
    return gathered


def _gather(value: Any, into: HandlerOutput) -> None:
    if value is None:
        return
    if type(value) is Request:
        check(value)
        into.requests.append(value)
    elif type(value) is list and value and type(value[0]) is Request and _are_followed(value):
        into.requests.extend(value)  # from `follow`, which has checked them if necessary
    elif isinstance(value, list | tuple) or inspect.isgenerator(value):
        _gather_all(value, into)
    elif is_item(value):
        into.items.append(value)
    elif inspect.iscoroutine(value):
        value.close()
        raise TypeError(f"a coroutine was yielded, not its result: write await before {value.__name__}(…)")
    elif inspect.isasyncgen(value):
        raise TypeError(
            f"an async generator was yielded, not its results: write async for … in {value.__name__}(…), and yield each"
        )
    else:
        raise TypeError(
            f"a handler yields items (dict, dataclass, attrs, pydantic or msgspec) and requests (page.follow, Request), "
            f"not {type(value).__name__}: {value!r:.200}"
        )


def _are_followed(values: list[Any]) -> bool:
    return {type(value) for value in values} == {Request} and {type(value.url) for value in values} == {str}


def _gather_all(values: Iterable[Any], into: HandlerOutput) -> None:
    for value in values:
        _gather(value, into)


Fetch = Callable[[Request], Awaitable[Response]]
Middleware = Callable[[Request, Fetch], Awaitable[Response]]


def wrap(fetch: Fetch, middlewares: Sequence[Middleware]) -> Fetch:
    """Return *fetch* wrapped in all *middlewares*; the first one is outermost."""
    for middleware in reversed(middlewares):
        fetch = _inside(middleware, fetch)
    return fetch


def _inside(middleware: Middleware, call_next: Fetch) -> Fetch:
    return lambda request: middleware(request, call_next)
