"""Request: what to fetch. A value, independent of Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import msgspec
import xxhash

from silkline.core.revisit import LastVisit
from silkline.core.url import ParsedUrl, fingerprint, is_host
from silkline.errors import InvalidUrl, RequestError

MAX_PRIORITY = 1000
"""Priorities are integers from -1000 to 1000, so that their order stays exact in the scores of a sorted set."""

MAX_RECORD_BYTES = 64 * 1024
MAX_RETRIES = 100
"""The most retries of one request."""
SITEMAP = "sitemap feed"
"""The handler of sitemaps, which is built in."""
FILE = "file download"
"""The handler of downloads that name none, which is built in."""
FILE_META = "silkline.file"
"""The key of `meta` that makes a request a download: where its file is stored."""
MAX_SESSION = 100
"""Characters of the name of a session."""
MAX_SLOT = 253
"""Characters of a `Request.download_slot`, as of a host name."""


class Request(msgspec.Struct, frozen=True):
    """One page to fetch. All fields except the URL have defaults; default values are not stored.

    - *url*, *method*, *headers*, *body*, *cookies*: what is sent. Method, URL and body together are the fingerprint.
    - *auth*: user and password for HTTP basic authentication.
    - *meta*: your own values, which can be written as JSON. The handler gets them.
    - *session*: the name of a session, whose cookies all workers share; False to use no cookies but its own, and to keep none.
    - *args*: keyword arguments of the handler, of the same kinds of values.
    - *handler*: the registered name of the handler; None for the default one.
    - *priority*: from -1000 to 1000; higher priorities of a host are fetched first.
    - *depth*: links between the start URL and this page.
    - *dont_filter*: whether the request is stored even if its fingerprint was seen.
    - *not_before*: unix time in seconds before which the request is not handed out.
    - *expires*: unix time in seconds: no attempt starts from then on, and the request becomes a dead letter.
    - *timeout*: maximum seconds for the whole fetch; None for the limit of the crawl.
    - *retries*: seconds to wait before each retry, such as ``[1, 10, 60]``, instead of what the crawl says; ``[]`` for one attempt.
    - *max_attempts*: how often the request is tried, with the delays of the crawl, instead of what the crawl says.
    - *download_slot*: the name of the queue in which the request waits, instead of that of its URL's host. Delay and concurrency apply
      to it.
    - *redirects*: the URLs that led here, the first one first.
    - *identity*: a fingerprint of another library, used instead of that of method, URL and body. It is used when the request is offered,
      and not stored with it.
    - *visit*: what is stored of earlier visits of the page, if the crawl visits pages again; None at the first visit. Silkline sets it.
    """

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
    cookies: dict[str, str] = {}
    auth: tuple[str, str] | None = None
    timeout: float | None = None
    redirects: tuple[str, ...] = ()
    identity: bytes = b""
    download_slot: str | None = None
    retries: Sequence[float] | None = None
    max_attempts: int | None = None
    expires: float | None = None
    args: dict[str, Any] = {}
    visit: LastVisit | None = None
    session: str | bool | None = None

    def found_on(self, page: Request) -> Request:
        """Return this request as a link of *page*, with a depth of one more. The target of a redirect has the same depth.

        What a sitemap lists has a depth of one, also below an index of sitemaps.
        """
        depth = page.depth + (not self.redirects or self.redirects[-1] != page.url)
        if page.handler == SITEMAP and page.depth:
            depth = page.depth
        return self if self.depth >= depth else msgspec.structs.replace(self, depth=depth)


class RequestBatch(Sequence[Request]):
    """Requests that have everything in common except the end of their URL and their meta, such as many calls of one task.

    They are checked and encoded together, in a third of the time. The *ends* are appended to the URL of the *template*, and must be
    written as `parse` would return them; the *metas* must be plain data whose keys are strings.
    """

    def __init__(self, template: Request, ends: Sequence[str], metas: Sequence[dict[str, Any]]) -> None:
        self.template = template
        self.ends = ends
        self.metas = metas

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> RequestBatch: ...
    def __getitem__(self, place: int | slice) -> Request | RequestBatch:
        if isinstance(place, slice):
            return RequestBatch(self.template, self.ends[place], self.metas[place])
        return msgspec.structs.replace(self.template, url=self.template.url + self.ends[place], meta=self.metas[place])


def check(request: Request) -> None:
    """Raise `RequestError` if a field of a request is invalid."""
    _check_target(request)
    if type(request.priority) is not int or not -MAX_PRIORITY <= request.priority <= MAX_PRIORITY:
        raise RequestError(
            f"priority must be an integer from -{MAX_PRIORITY} to {MAX_PRIORITY}, got {request.priority!r}"
        )
    if type(request.depth) is not int or request.depth < 0:
        raise RequestError(f"depth must be an integer of at least 0, got {request.depth!r}")
    _check_values(request)
    if request.handler is not None and not isinstance(request.handler, str):
        raise RequestError(f"handler must be the registered name of a handler, got {type(request.handler).__name__}")
    if not isinstance(request.dont_filter, bool):
        raise RequestError(f"dont_filter must be True or False, got {request.dont_filter!r}")
    if request.not_before is not None or request.expires is not None:
        _check_times(request)
    if request.download_slot is not None:
        _check_slot(request.download_slot)
    if request.retries is not None or request.max_attempts is not None:
        _check_retries(request)
    _check_manner(request)


def _check_values(request: Request) -> None:
    """Raise `RequestError` if headers, meta or args are invalid."""
    if not is_text_map(request.headers):
        raise RequestError("headers must be a dict of strings")
    if not isinstance(request.meta, dict) or (request.meta and not all(isinstance(name, str) for name in request.meta)):
        raise RequestError("meta must be a dict whose keys are strings")
    if request.args or not isinstance(request.args, dict):
        _check_args(request.args)
    if request.session is not None and request.session is not False:
        check_session(request.session)


def check_session(name: object) -> None:
    """Raise `RequestError` if a session cannot have this name."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_SESSION or not name.isprintable():
        raise RequestError(
            f"session must be a name of 1 to {MAX_SESSION} printable characters, False or None, got {name!r:.100}"
        )


def _check_args(args: object) -> None:
    """Raise `RequestError` if the arguments of a handler are not plain data, so that they would not arrive as they are."""
    if not isinstance(args, dict):
        raise RequestError(f"args must be a dict of the handler's arguments, got {type(args).__name__}")
    for name, value in args.items():
        if not isinstance(name, str):
            raise RequestError(f"args must be a dict whose keys are strings, got the key {name!r:.100}")
        try:
            _check_plain(value, name)
        except RecursionError:
            raise RequestError(f"args[{name!r}] is nested too deeply") from None


def _check_plain(value: object, name: str) -> None:
    if isinstance(value, list | tuple):
        for one in value:
            _check_plain(one, name)
    elif isinstance(value, dict):
        for key, one in value.items():
            _check_plain(one, name)
            if not isinstance(key, str):
                raise RequestError(f"args[{name!r}] has the key {key!r:.100}, but keys must be strings")
    elif value is not None and not isinstance(value, str | int | float):
        raise RequestError(
            f"args[{name!r}] has a {type(value).__name__}, but arguments are stored in the queue as plain data: text, numbers, True, "
            "False, None, lists and dicts"
        )


def _check_times(request: Request) -> None:
    """Raise `RequestError` if the request could never start."""
    for name, time in (("not_before", request.not_before), ("expires", request.expires)):
        if time is not None and not is_time(time):
            raise RequestError(f"{name} must be a unix time in seconds, got {time!r}")
    if request.not_before is not None and request.expires is not None and request.expires <= request.not_before:
        raise RequestError(
            f"expires must be later than not_before, or the request never starts; got {request.expires!r} and {request.not_before!r}"
        )


def _check_slot(slot: object) -> None:
    """Raise `RequestError` if a slot cannot take the place of a host."""
    if not isinstance(slot, str) or len(slot) > MAX_SLOT or not is_host(slot):
        raise RequestError(
            f"download_slot must be written as a host in URLs, such as 'proxy-1' or 'shop.example', with at most {MAX_SLOT} characters,"
            f" got {str(slot)[:100]!r}"
        )


def _check_retries(request: Request) -> None:
    """Raise `RequestError` if the request's own retries cannot be used."""
    waits, attempts = request.retries, request.max_attempts
    if waits is not None and not (
        isinstance(waits, list | tuple) and len(waits) <= MAX_RETRIES and all(is_time(seconds) for seconds in waits)
    ):
        raise RequestError(f"retries must be a list of at most {MAX_RETRIES} numbers of seconds, got {waits!r:.200}")
    if attempts is not None and (type(attempts) is not int or not 1 <= attempts <= MAX_RETRIES + 1):
        raise RequestError(f"max_attempts must be an integer from 1 to {MAX_RETRIES + 1}, got {attempts!r:.200}")
    if waits is not None and attempts is not None:
        raise RequestError(
            "retries and max_attempts cannot be used together: the length of retries limits the attempts"
        )


def _check_target(request: Request) -> None:
    """Raise `RequestError` if the URL, method or another field is invalid."""
    if not isinstance(request.url, str):
        raise InvalidUrl(f"a URL must be a string, not {type(request.url).__name__}")
    if not isinstance(request.method, str) or not request.method.isalpha() or not request.method.isascii():
        raise RequestError(f"method must be an HTTP verb such as GET, got {request.method!r}")
    if not isinstance(request.body, bytes) or not isinstance(request.identity, bytes):
        raise RequestError(
            f"body and identity must be bytes, got {type(request.body).__name__} and {type(request.identity).__name__}"
        )


def _check_manner(request: Request) -> None:
    """Raise `RequestError` if a field that few requests have is invalid."""
    if (
        not request.cookies
        and request.auth is None
        and request.timeout is None
        and request.redirects == ()
        and request.visit is None
    ):
        return
    if not isinstance(request.visit, LastVisit | None):
        raise RequestError(f"visit must be a LastVisit or None, got {type(request.visit).__name__}")
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


def host_of(request: Request, address: ParsedUrl) -> str:
    """Return the host in whose queue a request for *address* waits: its `download_slot`, if it has one."""
    return request.download_slot or address.host


def mark_of(request: Request, address: ParsedUrl, *, seed: int = 0) -> int:
    """Return the fingerprint of a request for *address*: of its identity, if it has one, else of method, URL and body."""
    if request.identity:
        return identity_fingerprint(request.identity, seed=seed)
    return fingerprint(address, request.method, request.body, seed=seed)


def identity_fingerprint(identity: bytes, *, seed: int = 0) -> int:
    """Return the fingerprint of a `Request.identity`."""
    digest: int = xxhash.xxh3_64_intdigest(identity, seed)
    return digest
