"""URLs: their parts, the canonical form, in which two spellings of a page are equal, and the fingerprint."""

from __future__ import annotations

import re

import can_ada
import msgspec
import xxhash

from silkline.errors import ConfigError, InvalidUrl, RequestError, RequestTooLarge

MAX_URL_BYTES = 8 * 1024

_BLANK = "".join(map(chr, range(0x21)))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PASSWORD = re.compile(r"(https?://[^\s/?#:@]*):[^\s/?#]*@")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def mask_passwords(text: str) -> str:
    """Return *text* with the passwords of its URLs masked: ``https://user:***@host/``."""
    return _PASSWORD.sub(r"\1:***@", text) if "@" in text else text


class ParsedUrl(msgspec.Struct, frozen=True):
    """The parts of an absolute http(s) URL, without its fragment."""

    scheme: str
    userinfo: str
    host: str  # with ":port" unless it is the default port
    path: str  # with the query

    @property
    def url(self) -> str:
        return self.origin + self.path

    @property
    def origin(self) -> str:
        """Scheme, userinfo and host."""
        at = f"{self.userinfo}@" if self.userinfo else ""
        return f"{self.scheme}://{at}{self.host}"


def parse(url: object) -> ParsedUrl:
    """Parse an absolute http(s) URL as a browser would. Raises `RequestError`, with the reason, if it is not one."""
    if not isinstance(url, str):
        raise InvalidUrl(f"a URL must be a string, not {type(url).__name__}")
    if not url.isprintable() and _CONTROL.search(url.strip(" ")):
        raise InvalidUrl("the URL contains control characters")
    if len(url) > MAX_URL_BYTES:
        raise RequestTooLarge(f"the URL has {len(url)} characters, the cap is {MAX_URL_BYTES} bytes")
    try:
        href: str = can_ada.parse(url).href
    except (ValueError, TypeError):  # the latter for lone surrogates
        raise InvalidUrl(_why_unreadable(url)) from None
    return _split(href)


def join(base: ParsedUrl, href: str) -> ParsedUrl:
    """Return the URL that *href* means on a page at *base*, as a browser would. Raises the same errors as `parse`."""
    href = href.strip(_BLANK)
    if not href.isprintable():
        href = href.replace("\t", "").replace("\n", "").replace("\r", "")
    scheme = _SCHEME.match(href)
    if scheme:
        rest = href[scheme.end() :]
        if rest.startswith("//") or scheme.group()[:-1].lower() != base.scheme:
            return parse(href)
        href = rest  # "http:page" is relative to a page of the same scheme
    return parse(_beside(base, href))


def _beside(base: ParsedUrl, href: str) -> str:
    """Return a relative reference as an absolute one. The parser resolves dots and backslashes."""
    first, second = href[:1], href[1:2]
    if first in ("/", "\\"):
        return f"{base.scheme}:{href}" if second in ("/", "\\") else base.origin + href
    if first in ("#", ""):
        return base.url
    route = base.path.partition("?")[0]
    if first == "?":
        return base.origin + route + href
    return base.origin + route[: route.rindex("/") + 1] + href


def _split(href: str) -> ParsedUrl:
    scheme, _, rest = href.partition("://")
    if scheme not in ("https", "http"):
        raise InvalidUrl(f"only http and https are crawled, not {href.partition(':')[0]}:")
    if len(href) > MAX_URL_BYTES:  # the parser returns ASCII: characters are bytes
        raise RequestTooLarge(f"the URL takes {len(href)} bytes once escaped, the cap is {MAX_URL_BYTES}")
    if "#" in rest:
        rest = rest.partition("#")[0]
    host, _, path = rest.partition("/")
    userinfo = ""
    if "@" in host:
        userinfo, _, host = host.rpartition("@")
    if host[-1:] == "." or ".:" in host:
        host = _without_root(host)
    return ParsedUrl(scheme, userinfo, host, "/" + path)


def _without_root(host: str) -> str:
    """Remove a trailing dot: ``example.com.`` is the same host as ``example.com``."""
    name, colon, port = host.partition(":")
    if not name.strip(".") or name.endswith(".."):
        return host
    return name.removesuffix(".") + colon + port


def is_host(host: str) -> bool:
    """Return whether a URL can have this host, written like that."""
    try:
        return parse(f"https://{host}/").host == host
    except RequestError:
        return False


def check_host(host: object) -> None:
    """Raise `InvalidUrl` if no URL can have this host, with a hint at what was probably meant."""
    meant = ""
    for scheme in ("https", "http"):
        try:
            address = parse(str(host) if "://" in str(host) else f"{scheme}://{host}/")
        except RequestError:
            continue
        if address.host == host:
            return
        meant = f"; did you mean {address.host!r}?"
    raise ConfigError(
        f"a host must be written as in URLs, such as 'example.com' or 'example.com:8080', got {host!r}{meant}"
    )


def _why_unreadable(url: str) -> str:
    if not url.strip():
        return "the URL is empty"
    if "://" not in url:
        return "not an absolute URL (it needs http:// or https:// and a host)"
    return "not a valid URL"


def canonical_path(path: str) -> str:
    """Return the path and query in canonical form: two URLs with the same form are one page.

    Escapes get one spelling, query arguments are sorted, and an empty query is removed. Idempotent.
    """
    if "%" in path:
        path = _ESCAPE.sub(_fold_escape, path)
    route, mark, query = path.partition("?")
    if not mark:
        return path
    if "&" in query:
        query = "&".join(sorted(filter(None, query.split("&"))))
    return f"{route}?{query}" if query else route


def _fold_escape(match: re.Match[str]) -> str:
    digits = match.group(1)
    if digits is None:
        return "%25"
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else f"%{digits.upper()}"


def fingerprint(address: ParsedUrl, method: str = "GET", body: bytes = b"", *, seed: int = 0) -> int:
    """Return the fingerprint of a request: a 64-bit hash of method, canonical URL and body.

    Each crawl has its own *seed*, so that sites cannot construct colliding URLs.
    """
    text = f"{address.scheme}://{address.userinfo}@{address.host}{canonical_path(address.path)}"
    if method != "GET" or body:
        data = b"\n".join((method.upper().encode(), text.encode(), body))
    else:
        data = text.encode()
    digest: int = xxhash.xxh3_64_intdigest(data, seed)
    return digest
