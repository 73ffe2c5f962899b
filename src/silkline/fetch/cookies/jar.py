"""CookieJar: keeps the cookies of servers and returns them, as RFC 6265bis says and browsers do.

All pages are fetched as if their user had opened them, so SameSite does not keep a cookie from being sent. Its only effect is that
``SameSite=None`` needs ``Secure``.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import msgspec

from silkline.core.scope import is_public_suffix, site_of
from silkline.core.url import ParsedUrl

MOST_OF_SITE = 180
"""Cookies of one site, as in Chromium."""
MOST_BYTES_OF_SITE = 64 * 1024
MOST_BYTES = 16 * 2**20
"""Bytes of all cookies of a jar. The sites that were not used for the longest time lose theirs."""
OVERHEAD = 200
"""Bytes of a cookie besides its text."""
LONGEST = 4_096
"""Characters of name and value. Longer cookies are ignored."""
LONGEST_ATTRIBUTE = 1_024
LONGEST_LIFE = 400 * 86_400.0
"""Seconds after which every cookie expires."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MAX_AGE = re.compile(r"-?\d{1,18}")
_ADDRESS = re.compile(r"[\d.]+|\[.*")


class Cookie(msgspec.Struct, array_like=True):
    """A cookie. *domain* is a host, or with *subdomains* also all names below it; *expires* is a unix time, None for never."""

    name: str
    value: str
    domain: str
    path: str
    subdomains: bool
    secure: bool
    expires: float | None

    def __repr__(self) -> str:
        return f"<Cookie {self.name} of {self.domain}{self.path}>"  # values are secret

    @property
    def size(self) -> int:
        """About the bytes that it needs in memory."""
        text = self.name + self.value + self.domain + self.path
        return (len(text) if text.isascii() else len(text.encode(errors="replace"))) + OVERHEAD

    def is_for(self, host: str, path: str, *, secure: bool) -> bool:
        """Return whether a request to this host and path gets it."""
        return (
            (self.domain == host or (self.subdomains and host.endswith("." + self.domain)))
            and path.startswith(self.path)
            and (len(path) == len(self.path) or self.path[-1] == "/" or path[len(self.path)] == "/")
            and (secure or not self.secure)
        )


class SiteCookies(msgspec.Struct):
    """The cookies of a site by name, domain and path, the oldest first."""

    cookies: dict[tuple[str, str, str], Cookie] = {}
    size: int = 0


class CookieJar:
    """Keeps the cookies of all sites, within limits on their number and size. *clock* returns the unix time."""

    def __init__(self, clock: Callable[[], float] = time.time, *, most_bytes: int = MOST_BYTES) -> None:
        self._clock = clock
        self._most, self._most_of_site = most_bytes, min(most_bytes, MOST_BYTES_OF_SITE)
        self.sites: OrderedDict[str, SiteCookies] = OrderedDict()
        """The cookies by site, those of the least recently used one first; empty if there are none."""
        self._size = 0

    def __len__(self) -> int:
        return sum(len(site.cookies) for site in self.sites.values())

    def __iter__(self) -> Iterator[Cookie]:
        now = self._clock()
        for site in self.sites.values():
            yield from (one for one in site.cookies.values() if not is_over(one, now))

    def __repr__(self) -> str:
        return f"<CookieJar, {len(self)} cookies of {len(self.sites)} sites>"

    @property
    def size(self) -> int:
        """About the bytes that the cookies need in memory."""
        return self._size

    def store(self, address: ParsedUrl, lines: Iterable[str]) -> None:
        """Store the cookies of a response from *address*, given its Set-Cookie headers. Cookies that it may not set are ignored."""
        now = self._clock()
        for number, line in enumerate(lines):
            if number >= MOST_OF_SITE:
                return
            cookie = read_cookie(line, address, now)
            if cookie is not None and (address.scheme == "https" or not self._is_protected(cookie)):
                self.add(cookie)

    def add(self, cookie: Cookie) -> None:
        """Store a cookie. One that has expired deletes the stored one."""
        key, now = (cookie.name, cookie.domain, cookie.path), self._clock()
        home = site_of(cookie.domain)
        site = self.sites.get(home)
        if is_over(cookie, now):
            if site is not None and key in site.cookies:
                self._drop(home, site, key)
            return
        if site is None:
            site = self.sites[home] = SiteCookies()
        old = site.cookies.get(key)
        if old == cookie:
            return
        site.cookies[key] = cookie  # an old one keeps its place, as browsers keep the time of its creation
        self._grow(site, cookie.size - (old.size if old else 0))
        self.sites.move_to_end(home)
        self._shrink(home, site, now)

    def cookies_for(self, address: ParsedUrl) -> list[Cookie]:
        """Return the cookies to send to *address*, those with the longest paths first, then the oldest."""
        host = host_of(address)
        home = site_of(host)
        site = self.sites.get(home)
        if site is None:
            return []
        now, secure, path = self._clock(), address.scheme == "https", address.path.partition("?")[0]
        found = [one for one in site.cookies.values() if one.is_for(host, path, secure=secure)]
        over = [one for one in found if is_over(one, now)]
        for one in over:
            self._drop(home, site, (one.name, one.domain, one.path))
        if over:
            found = [one for one in found if not is_over(one, now)]
        if found:
            self.sites.move_to_end(home)
        return sorted(found, key=_by_path) if len(found) > 1 else found

    def clear(self) -> None:
        """Delete all cookies."""
        self.sites.clear()
        self._size = 0

    def _is_protected(self, cookie: Cookie) -> bool:
        """Return whether a cookie from plain HTTP would hide one that HTTPS has protected."""
        site = self.sites.get(site_of(cookie.domain))
        return site is not None and any(
            one.secure
            and one.name == cookie.name
            and (_covers(one.domain, cookie.domain) or _covers(cookie.domain, one.domain))
            and cookie.path.startswith(one.path.rstrip("/"))
            for one in site.cookies.values()
        )

    def _grow(self, site: SiteCookies, size: int) -> None:
        site.size += size
        self._size += size

    def _drop(self, home: str, site: SiteCookies, key: tuple[str, str, str]) -> None:
        self._grow(site, -site.cookies.pop(key).size)
        if not site.cookies:
            del self.sites[home]

    def _shrink(self, home: str, site: SiteCookies, now: float) -> None:
        """Delete cookies until the limits hold: of the site, those that have expired and then the oldest; else of other sites."""
        if len(site.cookies) > MOST_OF_SITE or site.size > self._most_of_site:
            for key in [key for key, one in site.cookies.items() if is_over(one, now)]:
                self._drop(home, site, key)
            while len(site.cookies) > MOST_OF_SITE or site.size > self._most_of_site:
                self._drop(home, site, next(iter(site.cookies)))
        while self._size > self._most:
            _, dropped = self.sites.popitem(last=False)
            self._size -= dropped.size


def host_of(address: ParsedUrl) -> str:
    """Return the host without its port: cookies do not distinguish ports."""
    host = address.host
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host


def is_over(cookie: Cookie, now: float) -> bool:
    """Return whether a cookie has expired."""
    return cookie.expires is not None and cookie.expires <= now


def _by_path(cookie: Cookie) -> int:
    return -len(cookie.path)


def _covers(domain: str, host: str) -> bool:
    return host == domain or host.endswith("." + domain)


# ── Set-Cookie ──


def read_cookie(line: str, address: ParsedUrl, now: float) -> Cookie | None:
    """Return the cookie of a Set-Cookie header from *address*; None for one that browsers ignore. *now* is the unix time."""
    pair, *parts = line.split(";")
    name, equals, given_value = pair.partition("=")
    name, value = name.strip(" \t"), _as_sent(given_value.strip(" \t"))
    if not equals or not name or value is None or len(name) + len(value) > LONGEST or _CONTROL.search(line):
        return None
    given = _attributes(parts)
    secure, host = "secure" in given, host_of(address)
    domain = given.get("domain", "").removeprefix(".").lower()
    if (secure or given.get("samesite", "").lower() == "none") and not (secure and address.scheme == "https"):
        return None
    if (
        domain
        and domain != host
        and (not _covers(domain, host) or is_public_suffix(domain) or _ADDRESS.fullmatch(host))
    ):
        return None
    subdomains = bool(domain) and not _ADDRESS.fullmatch(host) and not is_public_suffix(domain)
    path = given.get("path", "")
    is_default = not path.startswith("/")
    if not _keeps_its_prefix(name, secure=secure, bound=not domain and path == "/"):
        return None
    return Cookie(
        name,
        value,
        domain or host,
        _default_path(address.path) if is_default else path,
        subdomains,
        secure,
        _expiry(given, now),
    )


def _attributes(parts: Iterable[str]) -> dict[str, str]:
    """Return the attributes by their lower-case names; the last one of a name counts."""
    given = {}
    for part in parts:
        name, _, value = part.partition("=")
        value = value.strip(" \t")
        if len(value) <= LONGEST_ATTRIBUTE:
            given[name.strip(" \t").lower()] = value
    return given


def _as_sent(value: str) -> str | None:
    """Return a value so that it is sent with the same bytes, which are encoded in UTF-8; None if that is impossible."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return None


def _keeps_its_prefix(name: str, *, secure: bool, bound: bool) -> bool:
    """Return whether a cookie has what the prefix of its name promises. *bound*: it is only for its host, and all of its paths."""
    lower = name.lower()
    if lower.startswith("__host-"):
        return secure and bound
    return secure or not lower.startswith("__secure-")


def _default_path(path: str) -> str:
    """Return the folder of the page."""
    route = path.partition("?")[0]
    return route[: route.rindex("/")] or "/"


def _expiry(given: dict[str, str], now: float) -> float | None:
    age = given.get("max-age", "")
    if _MAX_AGE.fullmatch(age):
        return now + min(float(age), LONGEST_LIFE) if float(age) > 0 else 0.0
    expires = read_date(given["expires"]) if "expires" in given else None
    return None if expires is None else min(expires, now + LONGEST_LIFE)


_TOKENS = re.compile(r"[^\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)")
_DAY, _YEAR = re.compile(r"(\d{1,2})(?!\d)"), re.compile(r"(\d{2,4})(?!\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def read_date(text: str) -> float | None:
    """Return the unix time of a date in a cookie, by the tolerant rules of RFC 6265; None if it is no date."""
    clock = day = month = year = None
    for token in _TOKENS.findall(text[:100]):
        if clock is None and (found := _TIME.match(token)):
            clock = tuple(map(int, found.groups()))
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
    if clock is None or day is None or month is None or year is None:
        return None
    year += 1900 if 70 <= year <= 99 else 2000 if year <= 69 else 0
    hours, minutes, seconds = clock
    if not 1 <= day <= 31 or year < 1601 or hours > 23 or minutes > 59 or seconds > 59:
        return None
    return float(timegm((year, month, day, hours, minutes, seconds)))
