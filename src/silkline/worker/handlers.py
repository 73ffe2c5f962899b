"""Handlers: the user's functions by their names, and how one is run on a page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from silkline.core.errors import ConfigError
from silkline.core.request import Request, check
from silkline.sinks.item import is_item
from silkline.worker.page import Page

Handler = Callable[[Page], Any]


class Yield(NamedTuple):
    """What a handler gave."""

    items: list[Any]
    requests: list[Request]


class Handlers:
    """The handlers of a crawl. A request names one of them; a name that is not here is never looked for elsewhere."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def add(self, handler: Handler, name: str | None = None) -> None:
        """Register *handler*, under its own name if no other is given."""
        called = name or getattr(handler, "__name__", "")
        if not callable(handler) or not called or called == "<lambda>":
            raise ConfigError(f"a handler is a function with a name, got {handler!r}")
        if called in self._by_name and self._by_name[called] is not handler:
            raise ConfigError(f"there are two handlers named {called!r}; give one another name: @crawl.handler(name=…)")
        self._by_name[called] = handler

    @property
    def first(self) -> str:
        """The name of the handler that takes the start URLs."""
        return next(iter(self._by_name))

    def name_of(self, handler: object) -> str:
        """The registered name of a handler, given by itself or by its name."""
        if isinstance(handler, str) and handler in self._by_name:
            return handler
        for name, known in self._by_name.items():
            if known is handler:
                return name
        what = handler if isinstance(handler, str) else getattr(handler, "__name__", repr(handler))
        raise ConfigError(f"{what!r} is no handler of this crawl; its handlers are {', '.join(self._by_name)}")

    def get(self, name: str | None) -> Handler | None:
        """The handler of that name; the first one for None."""
        return self._by_name.get(self.first if name is None else name)


async def run_handler(handler: Handler, page: Page) -> Yield:
    """Call a handler of any kind (function or generator, async or not) and gather what it gives."""
    given = handler(page)
    if inspect.iscoroutine(given):
        given = await given
    gathered = Yield([], [])
    if inspect.isasyncgen(given):
        async for value in given:
            _gather(value, gathered)
    elif inspect.isgenerator(given) or isinstance(given, list | tuple):
        for value in given:
            _gather(value, gathered)
    else:
        _gather(given, gathered)
    return gathered


def _gather(value: Any, into: Yield) -> None:
    if value is None:
        return
    if type(value) is Request:
        check(value)
        into.requests.append(value)
    elif type(value) is list and value and type(value[0]) is Request and _are_followed(value):
        into.requests.extend(value)  # what `follow` gives for many links, and has checked where there was need
    elif isinstance(value, list | tuple) or inspect.isgenerator(value):
        _gather_all(value, into)
    elif is_item(value):
        into.items.append(value)
    else:
        raise TypeError(
            f"a handler yields items (dict, dataclass, attrs, pydantic or msgspec) and requests (page.follow, Request), "
            f"not {type(value).__name__}: {value!r:.200}"
        )


def _are_followed(values: list[Any]) -> bool:
    return {type(one) for one in values} == {Request} and {type(one.url) for one in values} == {str}


def _gather_all(values: Iterable[Any], into: Yield) -> None:
    for value in values:
        _gather(value, into)
