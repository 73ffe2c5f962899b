"""Converts requests between Scrapy and the frontier. Only fields that differ from their default are stored, under one letter.

=====  ==========================================================================================================
key    content, in the meta of the frontier's request
=====  ==========================================================================================================
``m``  meta, without the depth
``k``  cb_kwargs
``e``  the name of the errback
``u``  the URL, if the frontier normalizes it differently
``r``  the Referer header; only its path, if it is on the same site
``h``  headers with several values, or with bytes that are not UTF-8
``o``  cookies, unless they are just names and values
``p``  the priority, if the frontier's differs
``d``  dont_filter, if the frontier's differs
``f``  flags
``c``  encoding
``C``  the class, if it is not Request
``x``  the attributes that only the class has
=====  ==========================================================================================================

The callback is stored as the frontier's handler, ``meta["depth"]`` as its depth, and ``meta["download_slot"]`` also as the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from scrapy import Request as ScrapyRequest
from scrapy import Spider
from scrapy.http.headers import Headers

from silkline.core.request import MAX_PRIORITY, MAX_RECORD_BYTES, Request, check
from silkline.core.url import parse
from silkline.errors import RequestError
from silkline.frontier.store import record
from silkline.scrapy.convert.classes import UnstorableValue, UnusableRequest, find_class
from silkline.scrapy.convert.slots import SLOT, is_automatic, queue_of
from silkline.scrapy.convert.values import pack, unpack

BASE = frozenset(ScrapyRequest.attributes)
SCRAPY_CALLBACKS = frozenset({"_callback", "_errback", "_parse", "_parse_sitemap"})
"""Callbacks of CrawlSpider and SitemapSpider."""
_NOTHING: dict[str, Any] = {}
_encode = msgspec.msgpack.Encoder().encode


def to_core(request: ScrapyRequest, spider: Spider, identity: bytes = b"") -> Request:
    """Return *request* as the frontier stores it. Raises `UnstorableValue`, which names the part that cannot be stored."""
    try:
        return _to_core(request, spider, identity)
    except UnstorableValue as error:
        raise UnstorableValue(f"{request} cannot be stored: {error}") from None


def _to_core(request: ScrapyRequest, spider: Spider, identity: bytes) -> Request:
    callback, errback = request.callback, request.errback
    kind = type(request)
    extra = {} if kind is ScrapyRequest else _class_of(request, kind)
    if errback is not None:
        extra["e"] = _name(spider, errback, "errback")
    if request.cb_kwargs:
        extra["k"] = pack(request.cb_kwargs, "cb_kwargs")
    if request.encoding != "utf-8":
        extra["c"] = request.encoding
    if request.flags:
        extra["f"] = pack(list(request.flags), "flags")
    return _assemble(
        request.url,
        None if callback is None else _name(spider, callback, "callback"),
        request.method,
        request.headers,
        request.body,
        request.cookies,
        request.meta,
        request.priority,
        request.dont_filter,
        extra,
        identity,
    )


def check_storable(stored: Request) -> None:
    """Raise `RequestError` now if the frontier would refuse the request later, when the page that found it is done.

    A request that is small enough with the names of its fields is small enough as a record, which is slower to make.
    """
    if stored.method != "GET":
        check(stored)
    try:
        if len(_encode(stored)) <= MAX_RECORD_BYTES:
            return
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass  # `record.encode` raises a better error
    record.encode(stored, record.address_of(stored))


def from_dict(fields: Mapping[str, Any]) -> Request:
    """Return the frontier's request of a dict from ``request.to_dict(spider=spider)``, in which callbacks are names."""
    url = fields["url"]
    extra = {
        short: pack(fields[name], name)
        for short, name in (("e", "errback"), ("k", "cb_kwargs"), ("f", "flags"), ("C", "_class"))
        if fields.get(name)
    }
    if fields.get("encoding", "utf-8") != "utf-8":
        extra["c"] = fields["encoding"]
    further = {name: value for name, value in fields.items() if name not in BASE and name != "_class"}
    if further:
        extra["x"] = pack(further, "attributes")
    try:
        return _assemble(
            url,
            fields.get("callback"),
            fields.get("method") or "GET",
            Headers(fields.get("headers") or {}, encoding="utf-8"),
            fields.get("body") or b"",
            fields.get("cookies") or {},
            fields.get("meta") or {},
            fields.get("priority") or 0,
            bool(fields.get("dont_filter")),
            extra,
            b"",
        )
    except UnstorableValue as error:
        raise UnstorableValue(f"the request to {url} cannot be stored: {error}") from None


def _assemble(  # noqa: PLR0913, PLR0917 - the parts of a request, for both callers
    url: str,
    callback: str | None,
    method: str,
    headers: Headers,
    body: bytes,
    cookies: Any,
    meta: dict[str, Any],
    priority: int,
    dont_filter: bool,  # noqa: FBT001
    extra: dict[str, Any],
    identity: bytes,
) -> Request:
    address = parse(url)
    spelled = address.url
    if spelled != url:
        extra["u"] = url
    depth, slot = 0, None
    if meta:
        slot = queue_of(meta, url) if SLOT in meta else None
        depth = _store_meta(meta, extra)
    plain = _store_headers(headers, f"{address.scheme}://{address.host}/", extra) if headers else _NOTHING
    text_cookies: dict[str, str] = _NOTHING
    if cookies:
        text_cookies = _store_cookies(cookies, extra)
    if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        extra["p"] = priority
        priority = max(-MAX_PRIORITY, min(priority, MAX_PRIORITY))
    return Request(
        spelled, method, plain, body, extra, priority, depth, callback, dont_filter, None, text_cookies, None, None, (),
        identity, slot,
    )  # fmt: skip


def _store_meta(meta: dict[str, Any], extra: dict[str, Any]) -> int:
    """Put meta into *extra* and return the depth, which is stored separately."""
    if is_automatic(meta):
        meta = {key: value for key, value in meta.items() if key != SLOT}
    depth = meta.get("depth")
    if type(depth) is int and depth >= 0:
        if len(meta) > 1:
            extra["m"] = pack({key: value for key, value in meta.items() if key != "depth"}, "meta")
        return depth
    if meta:
        extra["m"] = pack(meta, "meta")
    return 0


def _store_headers(headers: Headers, origin: str, extra: dict[str, Any]) -> dict[str, str]:
    """Return the headers with one UTF-8 value, and put all others into *extra*."""
    plain: dict[str, str] = {}
    for name, values in headers.items():
        try:
            (value,) = values
            text = value.decode()
        except (ValueError, UnicodeDecodeError):
            extra.setdefault("h", []).append([name, list(values)])
            continue
        if name == b"Referer":
            extra["r"] = text[len(origin) - 1 :] if text.startswith(origin) else text
        else:
            plain[name.decode("latin-1")] = text
    return plain


def _store_cookies(cookies: Any, extra: dict[str, Any]) -> dict[str, str]:
    if isinstance(cookies, dict) and all(type(k) is str and type(v) is str for k, v in cookies.items()):
        return dict(cookies)
    extra["o"] = pack(dict(cookies) if isinstance(cookies, dict) else list(cookies), "cookies")
    return _NOTHING


def _class_of(request: ScrapyRequest, kind: type[ScrapyRequest]) -> dict[str, Any]:
    """Return the path of a subclass of Request, and the attributes that Request does not have."""
    path = f"{kind.__module__}.{kind.__qualname__}"
    if "<" in path:
        raise UnstorableValue(f"its class {path} cannot be imported by name")
    further = {name: getattr(request, name) for name in kind.attributes if name not in BASE}
    return {"C": path, "x": pack(further, "attributes")} if further else {"C": path}


def _name(spider: Spider, function: Callable[..., Any], role: str) -> str:
    """Return the name of a method of the spider."""
    if getattr(function, "__self__", None) is spider:
        name: str = function.__name__
        if getattr(spider, name, None) == function:
            return name
        for cls in type(spider).__mro__:
            mangled = f"_{cls.__name__.lstrip('_')}{name}"
            if getattr(spider, mangled, None) == function:
                return mangled
    what = getattr(function, "__qualname__", repr(function))
    raise UnstorableValue(
        f"its {role} {what} is not a method of the spider {spider.name!r}, and only methods can be stored, by name"
    )


def to_scrapy(stored: Request, spider: Spider) -> ScrapyRequest:
    """Return the stored request as a request of Scrapy, equal to the original.

    Raises `UnusableRequest` if the spider no longer has its callback.
    """
    extra = stored.meta
    meta = unpack(extra["m"]) if "m" in extra else {}
    if stored.depth:
        meta["depth"] = stored.depth
    fields: dict[str, Any] = {
        "callback": _method(spider, stored.handler) if stored.handler is not None else None,
        "meta": meta,
        "priority": extra.get("p", stored.priority),
        "dont_filter": extra.get("d", stored.dont_filter),
    }
    if stored.method != "GET":
        fields["method"] = stored.method
    if stored.body:
        fields["body"] = stored.body
    if stored.headers or "r" in extra or "h" in extra:
        fields["headers"] = _headers(stored)
    if stored.cookies or "o" in extra:
        fields["cookies"] = dict(stored.cookies) or unpack(extra["o"])
    if stored.args:
        fields["cb_kwargs"] = dict(stored.args)
    cls = _rare_fields(extra, fields, spider) if extra else ScrapyRequest
    try:
        return cls(_url_of(stored), **fields)
    except (TypeError, ValueError) as error:
        raise UnusableRequest(f"a {cls.__name__} cannot be created from the stored request: {error}") from None


def _rare_fields(extra: dict[str, Any], fields: dict[str, Any], spider: Spider) -> type[ScrapyRequest]:
    """Add the fields that few requests have, and return the class."""
    if "e" in extra:
        fields["errback"] = _method(spider, extra["e"])
    if "k" in extra:
        fields["cb_kwargs"] = unpack(extra["k"])
    if "f" in extra:
        fields["flags"] = unpack(extra["f"])
    if "c" in extra:
        fields["encoding"] = extra["c"]
    if "C" not in extra:
        return ScrapyRequest
    fields |= unpack(extra.get("x", {}))
    return _request_class(extra["C"])


def _request_class(path: str) -> type[ScrapyRequest]:
    found = find_class(path)
    if not (isinstance(found, type) and issubclass(found, ScrapyRequest)):
        raise UnusableRequest(f"its class {path} is not a subclass of scrapy.Request")
    return found


def _method(spider: Spider, name: str) -> Callable[..., Any]:
    found = getattr(spider, name, None) if isinstance(name, str) else None
    if not callable(found):
        raise UnusableRequest(f"the spider {spider.name!r} has no method {name!r}")
    if name.startswith("_") and name not in SCRAPY_CALLBACKS and not _is_project_method(spider, name):
        raise UnusableRequest(
            f"{name!r} cannot be a callback of the spider {spider.name!r}: it begins with an underscore"
        )
    method: Callable[..., Any] = found
    return method


def _is_project_method(spider: Spider, name: str) -> bool:
    """Return whether a method, such as ``_parse_item``, is defined by the project rather than by Python or Scrapy."""
    if name.startswith("__"):
        return False
    owner = next((cls for cls in type(spider).__mro__ if name in vars(cls)), object)
    return owner is not object and owner.__module__.partition(".")[0] not in ("scrapy", "silkline")


def _url_of(stored: Request) -> str:
    """Return the URL as the spider wrote it. Raises `UnusableRequest` if it is not that of the stored request."""
    written = stored.meta.get("u")
    if written is None:
        return stored.url
    try:
        same = parse(written).url == stored.url
    except RequestError:
        same = False
    if not same:
        raise UnusableRequest(
            f"its URL is stored as {stored.url}, but spelled as another address: {str(written)[:200]!r}"
        )
    return str(written)


def _headers(stored: Request) -> dict[Any, Any]:
    headers: dict[Any, Any] = {**stored.headers}
    extra = stored.meta
    if "h" in extra:
        headers |= dict(extra["h"])
    referer = extra.get("r")
    if referer is not None:
        if referer.startswith("/"):
            address = parse(stored.url)
            referer = f"{address.scheme}://{address.host}{referer}"
        headers["Referer"] = referer
    return headers
