"""Scope: which links belong to a crawl. A pure decision, made where a link is followed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal

import msgspec
from publicsuffixlist import PublicSuffixList

from silkline.core.url import ParsedUrl
from silkline.errors import ConfigError

Stay = Literal["host", "site", "anywhere"]

NOT_PAGES = frozenset(
    [
        "7z",
        "apk",
        "avi",
        "avif",
        "bin",
        "bmp",
        "bz2",
        "css",
        "dmg",
        "doc",
        "docx",
        "eot",
        "epub",
        "exe",
        "flac",
        "gif",
        "gz",
        "ico",
        "iso",
        "jar",
        "jpeg",
        "jpg",
        "js",
        "m4a",
        "m4v",
        "mkv",
        "mov",
        "mp3",
        "mp4",
        "mpeg",
        "mpg",
        "msi",
        "odp",
        "ods",
        "odt",
        "ogg",
        "ogv",
        "otf",
        "pdf",
        "png",
        "ppt",
        "pptx",
        "ps",
        "psd",
        "rar",
        "rpm",
        "rss",
        "rtf",
        "svg",
        "swf",
        "tar",
        "tgz",
        "tif",
        "tiff",
        "ttf",
        "wav",
        "webm",
        "webp",
        "wma",
        "wmv",
        "woff",
        "woff2",
        "xls",
        "xlsx",
        "xz",
        "zip",
        "zst",
    ]
)
"""File extensions that are rarely text pages."""

_NUMERIC = re.compile(r"[\d.]+|\[.*")


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Which links of a page are followed.

    *stay* on the page's ``host``, on its ``site`` (the name under a public suffix and all that is below it), or go
    ``anywhere``. *allow* and *deny* are regular expressions that are searched for in the URL: one of *allow* must match,
    if there are any, and none of *deny*. Links deeper than *max_depth* are not followed, and neither are files with one of
    *skip_extensions*, unless `Page.follow` names a handler for them. To files that `Page.download` fetches, only *deny* and the traps
    apply.

    The last three guard against traps: pages that generate endless links. Of one page, at most *max_links* links are followed, and four
    times as many are examined. A URL has at most *max_url* characters. A segment occurs at most *max_repeats* times in a path:
    ``/a/b/a/b/a/b/a`` is a trap.
    """

    stay: Stay = "site"
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    max_depth: int | None = None
    skip_extensions: frozenset[str] = NOT_PAGES
    max_links: int = 5_000
    max_url: int = 2_000
    max_repeats: int = 3

    def __post_init__(self) -> None:
        if self.stay not in ("host", "site", "anywhere"):
            raise ConfigError(f"scope stay must be 'host', 'site' or 'anywhere', got {self.stay!r}")
        for name in ("allow", "deny"):
            patterns = getattr(self, name)
            if isinstance(patterns, str) or not all(isinstance(one, str) for one in patterns):
                raise ConfigError(f"scope {name} must be a list of regular expressions, got {patterns!r}")
            for pattern in patterns:
                _check_pattern(name, pattern)
        if self.max_depth is not None and self.max_depth < 0:
            raise ConfigError(f"scope max_depth must be at least 0, got {self.max_depth}")
        for name in ("max_links", "max_url", "max_repeats"):
            if getattr(self, name) < 1:
                raise ConfigError(f"scope {name} must be at least 1, got {getattr(self, name)}")

    @property
    def most_looked_at(self) -> int:
        """Maximum number of links of one page that are examined, whether they are followed or not."""
        return 4 * self.max_links

    def objection(self, link: ParsedUrl, page: ParsedUrl, depth: int, *, any_type: bool = False) -> str | None:
        """Return why *link*, found on *page* and *depth* links from the start, is not followed; None if it is.

        With *any_type*, files with one of *skip_extensions* are followed too.
        """
        if self.too_deep(depth):
            return "too deep"
        if link.host != page.host and not self._reaches(link.host, page.host):
            return f"another {self.stay}"
        objection = self._shape_objection(link, any_type=any_type)
        if objection is None and (self.allow or self.deny):
            return self._pattern_objection(link.url)
        return objection

    def file_objection(self, link: ParsedUrl) -> str | None:
        """Return why the file at *link* is not downloaded; None if it is. Files may be anywhere: only *deny* and traps apply."""
        objection = self._shape_objection(link, any_type=True)
        if objection is None and any(_compiled(pattern).search(link.url) for pattern in self.deny):
            return "denied"
        return objection

    def skips_type(self, link: ParsedUrl) -> bool:
        """Return whether *link* has one of *skip_extensions*."""
        route = link.path.partition("?")[0]
        return "." in route and route.rpartition(".")[2].lower() in self.skip_extensions

    def too_deep(self, depth: int) -> bool:
        """Return whether links at *depth* are too deep to be followed."""
        return self.max_depth is not None and depth > self.max_depth

    def _shape_objection(self, link: ParsedUrl, *, any_type: bool) -> str | None:
        if len(link.path) + len(link.host) > self.max_url:
            return "too long"
        route = link.path.partition("?")[0]
        if not any_type and self.skips_type(link):
            return "file type"
        if route.count("/") > self.max_repeats and _repeats(route) > self.max_repeats:
            return "trap"
        return None

    def _reaches(self, host: str, home: str) -> bool:
        if self.stay == "site":
            return site_of(host) == site_of(home)
        return self.stay == "anywhere"

    def _pattern_objection(self, url: str) -> str | None:
        if self.allow and not any(_compiled(pattern).search(url) for pattern in self.allow):
            return "not allowed"
        if any(_compiled(pattern).search(url) for pattern in self.deny):
            return "denied"
        return None


@lru_cache(100_000)
def site_of(host: str) -> str:
    """Return the registered domain: ``shop.example.co.uk:8080`` belongs to the site ``example.co.uk``."""
    name = re.sub(r":\d+$", "", host)
    if _NUMERIC.fullmatch(name):
        return name
    return _suffixes().privatesuffix(name) or name


def is_public_suffix(name: str) -> bool:
    """Return whether anyone can register names below this one, such as ``co.uk`` or ``github.io``."""
    return bool(_suffixes().is_public(name))


@cache
def _suffixes() -> PublicSuffixList:
    """Load the public suffix list at first use: it takes a tenth of a second."""
    return PublicSuffixList()


@lru_cache(1_000)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _check_pattern(name: str, pattern: str) -> None:
    try:
        _compiled(pattern)
    except re.error as error:
        raise ConfigError(f"scope {name}: {pattern!r} is not a regular expression: {error}") from None


def _repeats(route: str) -> int:
    """Return how often the most frequent segment of a path occurs in it."""
    return max(Counter(filter(None, route.split("/"))).values(), default=0)
