"""Impersonation: requests that look like those of a browser, in TLS, HTTP/2 and the order of headers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import wreq

from silkline.errors import ConfigError

_CHROMIUM = (
    "Host", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "Upgrade-Insecure-Requests", "User-Agent", "Accept", "Sec-Fetch-Site",
    "Sec-Fetch-Mode", "Sec-Fetch-User", "Sec-Fetch-Dest", "Referer", "Accept-Encoding", "Accept-Language", "Cookie", "Priority",
)  # fmt: skip
_FIREFOX = (
    "Host", "User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Referer", "Cookie", "Upgrade-Insecure-Requests",
    "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "Priority", "TE",
)  # fmt: skip
_SAFARI = (
    "Host", "Sec-Fetch-Dest", "User-Agent", "Accept", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Accept-Language", "Priority",
    "Accept-Encoding", "Cookie",
)  # fmt: skip
_ORDERS = {"chrome": _CHROMIUM, "edge": _CHROMIUM, "opera": _CHROMIUM, "firefox": _FIREFOX, "safari": _SAFARI}
"""Names of headers as the browsers write them over HTTP/1.1, in their order."""
OLDEST_ORDER = 18
"""The oldest Safari whose order of headers is known."""

_NAME = re.compile(r"([A-Za-z]+?)(\d+(?:_\d+)*)")


class Impersonation(NamedTuple):
    """The options of wreq that make a request look like that of a browser."""

    name: str
    options: dict[str, Any]


def _profiles() -> dict[str, tuple[str, tuple[int, ...], wreq.Profile]]:
    """Return all profiles of wreq by their names, such as ``chrome154`` and ``safari26.4``, with family and version."""
    found = {}
    for one in dir(wreq.Profile):
        if match := _NAME.fullmatch(one):
            family, version = match[1].lower(), tuple(map(int, match[2].split("_")))
            found[f"{family}{'.'.join(map(str, version))}"] = (family, version, getattr(wreq.Profile, one))
    return found


@lru_cache(64)
def impersonation_of(name: object) -> Impersonation:
    """Return the impersonation of that name: a browser for its newest version, or one version of it.

    Raises `ConfigError` if it is unknown.
    """
    profiles = _profiles()
    wanted = str(name).lower().replace("_", ".")
    of_family = [one for one, (family, _, _) in profiles.items() if family == wanted]
    if not isinstance(name, str) or (not of_family and wanted not in profiles):
        raise ConfigError(_unknown(name, profiles))
    newest = max(of_family, key=lambda one: profiles[one][1]) if of_family else wanted
    family, version, profile = profiles[newest]
    order = _ORDERS.get(family, ("Host",))
    if family == "safari" and version < (OLDEST_ORDER,):
        order = ("Host",)
    return Impersonation(newest, {"emulation": profile, "orig_headers": list(order)})


def _unknown(name: object, profiles: dict[str, tuple[str, tuple[int, ...], wreq.Profile]]) -> str:
    families = sorted({family for family, _, _ in profiles.values()})
    text = f"there is no browser {str(name)[:100]!r} to impersonate"
    family = re.sub(r"[\d._]+$", "", str(name).lower())
    if family in families:
        versions = sorted(version for one, version, _ in profiles.values() if one == family)
        words = ", ".join(f"{family}{'.'.join(map(str, version))}" for version in versions[-5:])
        return f"{text}; the newest of its versions are {words}"
    return f"{text}; use {', '.join(families)}, or one with a version, such as {impersonation_of('chrome').name!r}"
