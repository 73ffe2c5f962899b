"""Redirects: a redirect becomes another request, which is enqueued like any other."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from silkline.core.request import Request
from silkline.core.url import join, parse
from silkline.fetch.cookies.requests import carried

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRETS = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_THE_ORIGIN = _SECRETS | {"origin", "referer"}
_OF_THE_BODY = frozenset({"content-type", "content-length", "content-encoding", "transfer-encoding", "origin"})


def redirected(request: Request, status: int, location: str, set_cookies: Iterable[str] = ()) -> Request:
    """Return the request for *location*, to which a response with *status* redirects *request*.

    As in browsers, 303, and 301 or 302 of a POST, become a GET without a body. Passwords and other secrets stay within the origin, and
    cookies of the response (*set_cookies*) go where they may go. Raises `RequestError` if *location* is not a web address.
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
        cookies=carried(request.cookies, here, there, set_cookies),
        auth=request.auth if stays else None,
        headers=request.headers if stays else _without(request.headers, _OF_THE_ORIGIN),
    )
    if (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST"):
        return msgspec.structs.replace(target, method="GET", body=b"", headers=_without(target.headers, _OF_THE_BODY))
    return target


def _without(headers: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}
