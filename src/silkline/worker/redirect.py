"""Redirects: a redirect becomes another request, which is enqueued like any other."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from silkline.core.request import Request
from silkline.core.url import join, parse

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRETS = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_THE_ORIGIN = _SECRETS | {"origin", "referer"}
_OF_THE_BODY = frozenset({"content-type", "content-length", "content-encoding", "transfer-encoding", "origin"})
MOST_COOKIES = 50
LONGEST_COOKIE = 4_096
_COOKIE = re.compile(r"\s*([^\x00-\x20\x7f;,=]+)\s*=\s*([^\x00-\x20\x7f;,]*)\s*(?:;|$)")


def redirected(request: Request, status: int, location: str, set_cookies: Iterable[str] = ()) -> Request:
    """Return the request for *location*, to which a response with *status* redirects *request*.

    As in browsers, 303, and 301 or 302 of a POST, become a GET without a body. Cookies, passwords and other secrets stay within
    the origin. Raises `RequestError` if *location* is not a web address.
    """
    here = parse(request.url)
    there = join(here, location)
    stays = (there.scheme, there.host) == (here.scheme, here.host)
    target = msgspec.structs.replace(
        request,
        url=there.url,
        redirects=(*request.redirects, request.url),
        not_before=None,
        visit=None,
        cookies={**request.cookies, **_read_cookies(set_cookies)} if stays else {},
        auth=request.auth if stays else None,
        headers=request.headers if stays else _without(request.headers, _OF_THE_ORIGIN),
    )
    if (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST"):
        return msgspec.structs.replace(target, method="GET", body=b"", headers=_without(target.headers, _OF_THE_BODY))
    return target


def _without(headers: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}


def _read_cookies(lines: Iterable[str]) -> dict[str, str]:
    """Return the names and values in Set-Cookie lines, of a limited number of cookies."""
    cookies: dict[str, str] = {}
    for line in lines:
        found = _COOKIE.match(line)
        if found and len(line) <= LONGEST_COOKIE and len(cookies) < MOST_COOKIES:
            cookies[found.group(1)] = found.group(2)
    return cookies
