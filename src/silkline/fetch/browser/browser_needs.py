"""Automatic rendering: which pages need a browser, by host, handler and pattern of the path. Each worker finds out itself."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable

from silkline.core.request import Request
from silkline.core.url import parse

MOST_PATTERNS = 10_000
IN_A_ROW = 3
"""Pages of a pattern that lack something with and without a browser, before its pages are no longer rendered."""
VALID = 3_600.0
"""Seconds after which it is found out again."""
_DIGITS = re.compile(r"\d+")


class PatternNeeds:
    """What is known of the pages of one pattern."""

    __slots__ = ("failures", "needs_browser", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.needs_browser = False
        self.failures = 0
        """Pages in a row for which a browser made no difference."""


class BrowserNeeds:
    """Remembers for a limited time which pages need a browser."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, str | None, str], PatternNeeds] = OrderedDict()

    def needs_browser(self, request: Request) -> bool:
        """Return whether pages like this one were complete only in a browser."""
        found = self._find(request)
        return found is not None and found.needs_browser

    def is_hopeless(self, request: Request) -> bool:
        """Return whether pages like this one are no more complete in a browser."""
        found = self._find(request)
        return found is not None and found.failures >= IN_A_ROW

    def note(self, request: Request, *, helped: bool) -> None:
        """Note whether a page was complete in the browser, which was not without it."""
        key = _key(request)
        found = self._find(request)
        if found is None:
            found = self._known[key] = PatternNeeds(self._clock() + VALID)
            if len(self._known) > MOST_PATTERNS:
                self._known.popitem(last=False)
        if helped:
            found.needs_browser, found.failures = True, 0
        else:
            found.failures += 1

    def _find(self, request: Request) -> PatternNeeds | None:
        key = _key(request)
        found = self._known.get(key)
        if found is None:
            return None
        if found.until <= self._clock():
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return found


def _key(request: Request) -> tuple[str, str | None, str]:
    address = parse(request.url)
    return address.host, request.handler, pattern_of(address.path)


def pattern_of(path: str) -> str:
    """Return the pattern of a path: without its query and its last segment, and with # for numbers."""
    folder, _, last = path.partition("?")[0].rpartition("/")
    return _DIGITS.sub("#", folder) + ("/*" if last else "/")
