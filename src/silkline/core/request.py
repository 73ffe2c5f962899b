"""Request: what is to be fetched. A value; it knows nothing of Redis."""

from __future__ import annotations

from typing import Any

import msgspec
import xxhash

from silkline.core.errors import InvalidUrl, RequestError
from silkline.core.url import Address, canonical_path

MAX_PRIORITY = 1000
"""Priorities reach from -1000 to 1000: small integers, so that order stays exact in a sorted set's score."""

MAX_RECORD_BYTES = 64 * 1024


class Request(msgspec.Struct, frozen=True):
    """One page to fetch. Everything but the URL has a default, and defaults cost no memory in the queue."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: bytes = b""
    meta: dict[str, Any] = {}
    priority: int = 0
    depth: int = 0
    handler: str | None = None
    dont_filter: bool = False
    not_before: float | None = None
    """Unix time in seconds before which the request is not handed out."""
    cookies: dict[str, str] = {}
    auth: tuple[str, str] | None = None
    """User and password for HTTP basic authentication."""
    timeout: float | None = None
    """Seconds that fetching it may take in all; None for the crawl's own limit."""
    redirects: tuple[str, ...] = ()
    """The URLs that led here, the first one first."""
    identity: bytes = b""
    """What tells this request from others, if its giver knows better than its method, URL and body do: a fingerprint of
    another library. It decides when the request is offered, and is not stored with it."""

    def found_on(self, page: Request) -> Request:
        """This request as a link of *page*: one link farther from the start, but a redirect is no farther."""
        depth = page.depth + (not self.redirects or self.redirects[-1] != page.url)
        return self if self.depth >= depth else msgspec.structs.replace(self, depth=depth)


def check(request: Request) -> None:
    """Refuse a request whose fields cannot mean anything."""
    _check_target(request)
    if type(request.priority) is not int or not -MAX_PRIORITY <= request.priority <= MAX_PRIORITY:
        raise RequestError(
            f"priority must be an integer from -{MAX_PRIORITY} to {MAX_PRIORITY}, got {request.priority!r}"
        )
    if type(request.depth) is not int or request.depth < 0:
        raise RequestError(f"depth must be an integer of at least 0, got {request.depth!r}")
    if not is_text_map(request.headers):
        raise RequestError("headers must be a dict of strings")
    if not isinstance(request.meta, dict) or not all(isinstance(name, str) for name in request.meta):
        raise RequestError("meta must be a dict whose keys are strings")
    if request.handler is not None and not isinstance(request.handler, str):
        raise RequestError(f"handler must be the registered name of a handler, got {type(request.handler).__name__}")
    if not isinstance(request.dont_filter, bool):
        raise RequestError(f"dont_filter must be True or False, got {request.dont_filter!r}")
    if request.not_before is not None and not is_time(request.not_before):
        raise RequestError(f"not_before must be a unix time in seconds, got {request.not_before!r}")
    _check_manner(request)


def _check_target(request: Request) -> None:
    """Refuse nonsense in what is asked for, and of whom."""
    if not isinstance(request.url, str):
        raise InvalidUrl(f"a URL must be a string, not {type(request.url).__name__}")
    if not isinstance(request.method, str) or not request.method.isalpha() or not request.method.isascii():
        raise RequestError(f"method must be an HTTP verb such as GET, got {request.method!r}")
    if not isinstance(request.body, bytes) or not isinstance(request.identity, bytes):
        raise RequestError(
            f"body and identity must be bytes, got {type(request.body).__name__} and {type(request.identity).__name__}"
        )


def _check_manner(request: Request) -> None:
    """Refuse nonsense in the rarer fields."""
    if not request.cookies and request.auth is None and request.timeout is None and request.redirects == ():
        return
    if not is_text_map(request.cookies):
        raise RequestError("cookies must be a dict of strings")
    auth = request.auth
    if auth is not None and not (isinstance(auth, tuple) and len(auth) == 2 and all(isinstance(x, str) for x in auth)):
        raise RequestError("auth must be a tuple of a user and a password")
    if request.timeout is not None and not (is_time(request.timeout) and request.timeout > 0):
        raise RequestError(f"timeout must be a number of seconds above 0, got {request.timeout!r}")
    if not isinstance(request.redirects, tuple) or not all(isinstance(url, str) for url in request.redirects):
        raise RequestError("redirects must be a tuple of URLs")


def is_text_map(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return not value or all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())


def is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11


def mark_of(request: Request, address: Address, *, seed: int = 0) -> int:
    """The 64-bit hash under which a request at *address* is seen: of its identity, or else of what it asks for."""
    if request.identity:
        return identity_fingerprint(request.identity, seed=seed)
    return fingerprint(address, request.method, request.body, seed=seed)


def fingerprint(address: Address, method: str = "GET", body: bytes = b"", *, seed: int = 0) -> int:
    """The identity under which a request is seen: a 64-bit hash of method, canonical URL and body.

    Each crawl has its own *seed*, so nobody outside can prepare two URLs that collide.
    """
    text = f"{address.scheme}://{address.userinfo}@{address.host}{canonical_path(address.path)}"
    if method != "GET" or body:
        data = b"\n".join((method.upper().encode(), text.encode(), body))
    else:
        data = text.encode()
    digest: int = xxhash.xxh3_64_intdigest(data, seed)
    return digest


def identity_fingerprint(identity: bytes, *, seed: int = 0) -> int:
    """The same of a `Request.identity` alone."""
    digest: int = xxhash.xxh3_64_intdigest(identity, seed)
    return digest
