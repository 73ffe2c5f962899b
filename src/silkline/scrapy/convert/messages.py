"""Start messages: what users push to Redis, a URL or a JSON object with a ``url`` and other fields."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import scrapy
from scrapy import Spider

from silkline.core.request import Request as CoreRequest
from silkline.core.url import parse
from silkline.errors import InvalidUrl, SilklineError
from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.user_keys.inbox import MOST_BYTES, Message

HANDLER = "start message"
"""The handler of a request that stands for an unreadable message."""

_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""A URL such as ``data:`` or ``file:``, for which Scrapy has a download handler."""
_A_MESSAGE = 'a message is a URL, or a JSON object with a "url"'


class BadMessage(ValueError):
    """A message that is not a request; its text is the reason."""


def read_message(spider: Spider, data: bytes | str, encoding: str = "utf-8") -> scrapy.Request:
    """Return the request of a message. It has ``dont_filter=True``, unless the message sets it."""
    text = _decode(data, encoding)
    if text.startswith(("{", "[", '"')) or text.isdigit():
        fields = _load(text)
    else:
        fields = {"url": text}
    return _make(spider, fields)


def check_size(message: Message) -> None:
    """Raise `BadMessage` for a message of which only the beginning is here."""
    if message.oversized:
        raise BadMessage(
            f"it has {message.oversized:,} bytes, the limit is {MOST_BYTES:,}; the whole message is in {InboxKeys(message.key).refused}"
        )


def unreadable_message(key: str, data: bytes) -> CoreRequest:
    """Return a request of the frontier that stands for an unreadable message.

    The scheduler reads the message again when it claims the request, and buries it if that fails. Reviving the dead letter
    repeats this.
    """
    url = f"https://message.invalid/{quote(key, safe='')}"
    return CoreRequest(url, "POST", body=data, handler=HANDLER, dont_filter=True)


def read_again(spider: Spider, data: bytes) -> list[scrapy.Request]:
    """Return the requests of a message, read by the spider if it can."""
    if hasattr(spider, "make_request_from_data"):
        return as_requests(spider.make_request_from_data(data))
    return [read_message(spider, data)]


def reason_of(error: Exception) -> str:
    """Return why a message is not a request."""
    return str(error) if isinstance(error, BadMessage | SilklineError) else f"{type(error).__name__}: {error}"


def _decode(data: bytes | str, encoding: str) -> str:
    try:
        text = data.decode(encoding) if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise BadMessage(f"it is not valid {encoding}: {error}") from None
    if not text.strip():
        raise BadMessage(f"it is empty; {_A_MESSAGE}")
    return text.strip()


def _load(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise BadMessage(f"it is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadMessage(f"it is a JSON {type(fields).__name__}; {_A_MESSAGE}")
    if not isinstance(fields.get("url"), str) or not fields["url"].strip():
        raise BadMessage(f'it has no "url"; {_A_MESSAGE}')
    return fields


def _make(spider: Spider, fields: dict[str, Any]) -> scrapy.Request:
    options = {name: check(name, fields[name]) for name, check in _CHECKS.items() if fields.get(name) is not None}
    for name in ("callback", "errback"):
        if name in options:
            options[name] = _method(spider, name, options[name])
    form = {name: fields[name] for name in fields if name not in _CHECKS}
    if form:
        _add_form(options, form)
    options.setdefault("dont_filter", True)
    try:
        if _OTHER_SCHEME.match(options["url"]) is None:
            parse(options["url"])  # its errors say more than those of Scrapy
        return scrapy.Request(**options)
    except (InvalidUrl, ValueError, TypeError) as error:
        raise BadMessage(f"it is not a request: {error}") from None


def _add_form(options: dict[str, Any], form: dict[str, Any]) -> None:
    """Add unknown fields as form data: as the body of a POST, else to the query of the URL."""
    pairs = [(name, _words(f'"{name}" is form data and', value)) for name, value in form.items()]
    encoded = urlencode(pairs, doseq=True, encoding=options.get("encoding", "utf-8"))
    if options.get("method") == "POST":
        if "body" in options:
            raise BadMessage(f"it has both a body and form data ({', '.join(form)})")
        options["body"] = encoded
        headers = options.setdefault("headers", {})
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/x-www-form-urlencoded"
    else:
        parts = urlsplit(options["url"])
        options["url"] = urlunsplit(parts._replace(query=f"{parts.query}&{encoded}" if parts.query else encoded))


def _words(what: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, dict | list) or one is None for one in values):
        raise BadMessage(f"{what} must be a string, a number or a list of them")
    return [one if isinstance(one, str) else json.dumps(one) for one in values]


def _method(spider: Spider, role: str, name: str) -> Callable[..., Any]:
    found = None if name.startswith("_") else getattr(spider, name, None)
    if not callable(found):
        raise BadMessage(f"its {role} {name!r} is not a public method of the spider {spider.name!r}")
    return found  # type: ignore[no-any-return]


# ── the fields ───────────────────────────────────────────────────────────────────────────────────────────────────────
def _checker(kind: type | tuple[type, ...], words: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BadMessage(f'its "{name}" must be {words}, got {json.dumps(value)[:100]}')
        return value

    return check


_text = _checker(str, "a string")
_object = _checker(dict, "an object")


def _url(name: str, value: Any) -> str:
    return str(_text(name, value)).strip()


def _verb(name: str, value: Any) -> str:
    return str(_text(name, value)).upper()


def _headers(name: str, value: Any) -> dict[str, Any]:
    fields = _object(name, value)
    return {field: _words(f'its header "{field}"', words) for field, words in fields.items()}


def _cookies(name: str, value: Any) -> Any:
    if isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        return value
    raise BadMessage(f'its "{name}" must be an object, or a list of objects with "name" and "value"')


def _encoding(name: str, value: Any) -> str:
    try:
        return codecs.lookup(_text(name, value)).name
    except LookupError:
        raise BadMessage(f'its "{name}" is unknown: {value!r}') from None


def _flags(name: str, value: Any) -> list[str]:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    raise BadMessage(f'its "{name}" must be a list of strings')


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "url": _url,
    "method": _verb,
    "meta": _object,
    "headers": _headers,
    "cookies": _cookies,
    "body": _text,
    "priority": _checker(int, "a whole number"),
    "callback": _text,
    "errback": _text,
    "cb_kwargs": _object,
    "dont_filter": _checker(bool, "true or false"),
    "encoding": _encoding,
    "flags": _flags,
}


def as_requests(made: Any) -> list[scrapy.Request]:
    """Return the requests that `make_request_from_data` has returned: one, several or none."""
    if isinstance(made, scrapy.Request):
        return [made]
    if not made and not isinstance(made, Iterable):
        return []
    if not isinstance(made, Iterable):
        raise BadMessage(f"make_request_from_data returned a {type(made).__name__} instead of a request")
    requests = list(made)
    if wrong := [one for one in requests if not isinstance(one, scrapy.Request)]:
        raise BadMessage(f"make_request_from_data returned a {type(wrong[0]).__name__} among its requests")
    return requests
