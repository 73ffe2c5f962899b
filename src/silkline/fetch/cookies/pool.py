"""Sessions: a pool of sessions for sites that block visitors after a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import xxhash

from silkline.core.request import Request
from silkline.errors import ConfigError
from silkline.fetch.fetcher import Response

MOST_IN_POOL = 500
SLOWED = frozenset({429, 503})
"""Statuses by which a site asks for fewer requests. The host is slowed down as without sessions."""
_SEARCHED = 256 * 1024
"""Bytes of a page in which text is searched."""


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of sessions, one of which each request without a session gets; see docs/how-to/sessions.md.

    - *size*: how many sessions there are at a time.
    - *retire_on*: what shows that a site blocks a session: statuses, text in the page, and functions that get the page. The session is
      replaced by a new one then, without its cookies.
    """

    size: int = 10
    retire_on: Sequence[int | str | Callable[[Any], object]] = (403, 429)

    def __post_init__(self) -> None:
        if type(self.size) is not int or not 1 <= self.size <= MOST_IN_POOL:
            raise ConfigError(f"a pool has from 1 to {MOST_IN_POOL} sessions, got size={self.size!r}")
        if isinstance(self.retire_on, str | bytes) or not isinstance(self.retire_on, Sequence):
            raise ConfigError(f"retire_on must be a list of statuses, texts and functions, got {self.retire_on!r:.200}")
        for one in self.retire_on:
            if not (callable(one) or (isinstance(one, str) and one) or (type(one) is int and 100 <= one <= 599)):
                raise ConfigError(f"retire_on must be a list of statuses, texts and functions, got {one!r:.200} in it")

    def name_for(self, request: Request) -> str:
        """Return the session of a request. A retry, and the target of a redirect, have the same one."""
        url = request.redirects[0] if request.redirects else request.url
        return f"pool-{xxhash.xxh3_64_intdigest(url.encode()) % self.size + 1}"

    def why_blocked(self, response: Response, page: Callable[[], object]) -> str:
        """Return what shows that a site blocks the session, in words; empty if nothing does. *page* returns the page."""
        text = None
        for one in self.retire_on:
            if isinstance(one, int):
                if response.status == one:
                    return f"status {one}"
            elif isinstance(one, str):
                text = response.body[:_SEARCHED].lower() if text is None else text
                if one.lower().encode() in text:
                    return f"the page contains {one[:100]!r}"
            elif one(page()):
                return getattr(one, "__name__", "a function").strip("<>")
        return ""
