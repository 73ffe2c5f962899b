"""Which cookies a request has: those of a jar, and those that a redirect has set."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice

import msgspec

from silkline.core.request import Request
from silkline.core.url import ParsedUrl, parse
from silkline.errors import RequestError
from silkline.fetch.cache import CachedResponse
from silkline.fetch.cookies.jar import MOST_OF_SITE, CookieJar, is_over, read_cookie
from silkline.fetch.fetcher import Response


def with_cookies(request: Request, jar: CookieJar) -> Request:
    """Return *request* with the cookies that a browser with this jar sends, as a header.

    Its own cookies replace those of the same name. A request that has such a header gets none.
    """
    if request.headers and any(name.lower() == "cookie" for name in request.headers):
        return request
    try:
        found = jar.cookies_for(parse(request.url))
    except RequestError:
        return request  # the fetcher raises the error
    sent = "; ".join(f"{one.name}={one.value}" for one in found if one.name not in request.cookies)
    return msgspec.structs.replace(request, headers={**request.headers, "Cookie": sent}) if sent else request


def cookies_of(request: Request) -> dict[str, str]:
    """Return the cookies that are sent with a request: its own ones, and those in its headers."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        if name.lower() == "cookie":
            pairs = (one.partition("=") for one in value.split(";"))
            found |= {name.strip(): value.strip() for name, equals, value in pairs if equals}
    return {**found, **request.cookies}


def with_only(cookies: dict[str, str], request: Request) -> Request:
    """Return *request* with these cookies and no others."""
    headers = {name: value for name, value in request.headers.items() if name.lower() != "cookie"}
    return msgspec.structs.replace(request, headers=headers, cookies=cookies)


def store_cookies(jar: CookieJar, request: Request, response: Response) -> None:
    """Store the cookies of a response. Those of a response from the cache have lost their values."""
    if not isinstance(response, CachedResponse):
        jar.store(parse(request.url), response.headers.get_all("set-cookie"))


MOST_CARRIED, MOST_CARRIED_BYTES = 50, 8 * 1024
"""Cookies that the request for the target of a redirect has at most, and their bytes: it waits in the queue with them."""


def carried(cookies: dict[str, str], here: ParsedUrl, there: ParsedUrl, lines: Iterable[str]) -> dict[str, str]:
    """Return the cookies of the request for *there*, to which a response from *here* redirects a request with *cookies*.

    Another worker may fetch it, which has not seen the response. So the Set-Cookie headers of that are applied to the cookies.
    """
    kept = dict(cookies) if (there.scheme, there.host) == (here.scheme, here.host) else {}
    jar, now = CookieJar(), time.time()
    for line in islice(lines, MOST_OF_SITE):
        if cookie := read_cookie(line, here, now):
            jar.add(cookie)
            if is_over(cookie, now):
                kept.pop(cookie.name, None)
    room = MOST_CARRIED_BYTES
    for one in jar.cookies_for(there)[:MOST_CARRIED] if jar.sites else ():
        room -= len(one.name) + len(one.value)
        if room >= 0:
            kept[one.name] = one.value
    return kept
