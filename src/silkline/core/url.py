"""What a URL is to the frontier: its host, its stored path, and the form in which two spellings are one page."""

from __future__ import annotations

import re

import can_ada
import msgspec

from silkline.core.errors import ConfigError, InvalidUrl, RequestError, RequestTooLarge

MAX_URL_BYTES = 8 * 1024

_BLANK = "".join(map(chr, range(0x21)))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Address(msgspec.Struct, frozen=True):
    """An absolute http(s) URL in its parts; the fragment is gone."""

    scheme: str
    userinfo: str
    host: str  # with ":port" when it is not the scheme's own
    path: str  # with the query

    @property
    def url(self) -> str:
        return self.origin + self.path

    @property
    def origin(self) -> str:
        """Scheme, userinfo and host."""
        at = f"{self.userinfo}@" if self.userinfo else ""
        return f"{self.scheme}://{at}{self.host}"


def parse(url: object) -> Address:
    """Read an absolute http(s) URL as a browser would, or say why it is none."""
    if not isinstance(url, str):
        raise InvalidUrl(f"a URL must be a string, not {type(url).__name__}")
    if not url.isprintable() and _CONTROL.search(url.strip(" ")):
        raise InvalidUrl("the URL holds control characters")
    if len(url) > MAX_URL_BYTES:
        raise RequestTooLarge(f"the URL has {len(url)} characters, the cap is {MAX_URL_BYTES} bytes")
    try:
        href: str = can_ada.parse(url).href
    except (ValueError, TypeError):  # the latter for lone surrogates
        raise InvalidUrl(_why_unreadable(url)) from None
    return _split(href)


def join(base: Address, href: str) -> Address:
    """The address that *href* means on a page at *base*, read as a browser would; raises what `parse` raises."""
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


def _beside(base: Address, href: str) -> str:
    """A relative reference as an absolute one; dots and backslashes are left to the parser."""
    first, second = href[:1], href[1:2]
    if first in ("/", "\\"):
        return f"{base.scheme}:{href}" if second in ("/", "\\") else base.origin + href
    if first in ("#", ""):
        return base.url
    route = base.path.partition("?")[0]
    if first == "?":
        return base.origin + route + href
    return base.origin + route[: route.rindex("/") + 1] + href


def _split(href: str) -> Address:
    scheme, _, rest = href.partition("://")
    if scheme not in ("https", "http"):
        raise InvalidUrl(f"only http and https are crawled, not {href.partition(':')[0]}:")
    if len(href) > MAX_URL_BYTES:  # the parser answers in ASCII: characters are bytes
        raise RequestTooLarge(f"the URL takes {len(href)} bytes once escaped, the cap is {MAX_URL_BYTES}")
    if "#" in rest:
        rest = rest.partition("#")[0]
    host, _, path = rest.partition("/")
    userinfo = ""
    if "@" in host:
        userinfo, _, host = host.rpartition("@")
    return Address(scheme, userinfo, host, "/" + path)


def check_host(host: object) -> None:
    """Refuse what cannot be the host of any URL, and tell what was probably meant."""
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
        f"a host is written as in its URLs, such as 'example.com' or 'example.com:8080', got {host!r}{meant}"
    )


def _why_unreadable(url: str) -> str:
    if not url.strip():
        return "the URL is empty"
    if "://" not in url:
        return "not an absolute URL (it needs http:// or https:// and a host)"
    return "not a valid URL"


def canonical_path(path: str) -> str:
    """The path and query in the form that decides sameness.

    Escapes are folded to one spelling, query arguments sorted, an empty query dropped. Idempotent.
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
