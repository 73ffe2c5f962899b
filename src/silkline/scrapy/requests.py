"""A request of Scrapy ⇄ a request of the frontier. Only what differs from the default is stored, under one letter.

=====  ==========================================================================================================
key    what it holds, in the meta of the frontier's request
=====  ==========================================================================================================
``m``  meta, without the depth
``k``  cb_kwargs
``e``  the name of the errback
``u``  the URL, where the frontier would spell it otherwise
``r``  the Referer header; its path only, where it is on the same site
``h``  headers with several values, or with bytes that are no text
``o``  cookies, where they are not just names and values
``p``  the priority, where the frontier has another
``d``  dont_filter, where the frontier has another
``f``  flags
``c``  encoding
``C``  the class, and
``x``  its further attributes
=====  ==========================================================================================================

The callback is the frontier's handler, and ``meta["depth"]`` its depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from scrapy import Request as ScrapyRequest
from scrapy import Spider
from scrapy.http.headers import Headers
from scrapy.utils.misc import load_object

from silkline.core.errors import RequestError
from silkline.core.request import MAX_PRIORITY, MAX_RECORD_BYTES, Request, check
from silkline.core.url import parse
from silkline.frontier import codec
from silkline.scrapy.values import UnstorableValue, pack, unpack

BASE = frozenset(ScrapyRequest.attributes)
_NOTHING: dict[str, Any] = {}
_encode = msgspec.msgpack.Encoder().encode


class LostMeaning(RequestError):
    """A stored request that this spider cannot make sense of: its callback or its class is gone."""


def to_core(request: ScrapyRequest, spider: Spider, identity: bytes = b"") -> Request:
    """What the frontier stores of *request*, or an `UnstorableValue` that says what of it cannot be."""
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
    """Raise now what the frontier would refuse later, when the page that found it is done.

    What is small enough with all its names is small enough as a record; the others are looked at again.
    """
    if stored.method != "GET":
        check(stored)
    with suppress(TypeError, ValueError, OverflowError, RecursionError):  # then the codec says what is wrong
        if len(_encode(stored)) <= MAX_RECORD_BYTES:
            return
    codec.encode(stored, codec.address_of(stored))


def from_dict(fields: Mapping[str, Any]) -> Request:
    """From the dict that ``request.to_dict(spider=spider)`` makes: callbacks are names in it."""
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


def _assemble(  # noqa: PLR0913, PLR0917 - the parts of a request, once for both doors
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
    depth = 0
    if meta:
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
        identity,
    )  # fmt: skip


def _store_meta(meta: dict[str, Any], extra: dict[str, Any]) -> int:
    """Put meta into *extra*; answers the depth, which has a place of its own."""
    depth = meta.get("depth")
    if type(depth) is int and depth >= 0:
        if len(meta) > 1:
            extra["m"] = pack({key: value for key, value in meta.items() if key != "depth"}, "meta")
        return depth
    extra["m"] = pack(meta, "meta")
    return 0


def _store_headers(headers: Headers, origin: str, extra: dict[str, Any]) -> dict[str, str]:
    """The plain headers; the others go into *extra*."""
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
    """A subclass by its path, with what it has beyond a Request."""
    path = f"{kind.__module__}.{kind.__qualname__}"
    if "<" in path:
        raise UnstorableValue(f"its class {path} cannot be imported by name")
    further = {name: getattr(request, name) for name in kind.attributes if name not in BASE}
    return {"C": path, "x": pack(further, "attributes")} if further else {"C": path}


def _name(spider: Spider, function: Callable[..., Any], role: str) -> str:
    """The name under which the spider has *function* as a method."""
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
        f"its {role} {what} is not a method of the spider {spider.name!r}, so it has no name to store"
    )


def to_scrapy(stored: Request, spider: Spider) -> ScrapyRequest:
    """The request of Scrapy again, equal in everything; raises `LostMeaning` when the spider no longer has its callback."""
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
    cls = _rarely(extra, fields, spider) if extra else ScrapyRequest
    try:
        return cls(extra.get("u", stored.url), **fields)
    except (TypeError, ValueError) as error:
        raise LostMeaning(f"a {cls.__name__} cannot be made of what is stored: {error}") from None


def _rarely(extra: dict[str, Any], fields: dict[str, Any], spider: Spider) -> type[ScrapyRequest]:
    """Add the fields that few requests have; answers the class."""
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
    return _load_class(extra["C"])


def _load_class(path: str) -> type[ScrapyRequest]:
    try:
        found = load_object(path)
    except (ImportError, NameError, ValueError) as error:
        raise LostMeaning(f"its class {path} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, ScrapyRequest)):
        raise LostMeaning(f"its class {path} is no Request")
    return found


def _method(spider: Spider, name: str) -> Callable[..., Any]:
    found = getattr(spider, name, None)
    if not callable(found):
        raise LostMeaning(f"the spider {spider.name!r} has no method {name!r}")
    method: Callable[..., Any] = found
    return method


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
