"""robots.txt by RFC 9309: which URLs a site allows a user agent to fetch. Pure: nothing here reads a clock or the network.

The file may be hostile, so no part of it costs more than its length allows. Groups are read here, because protego stores each
rule once per agent of its group: 97 KiB of agents and rules took it 16 seconds. Then protego matches the rules of one group. It
searches for each part between two stars with `str.find`, which at worst compares every letter of the part at every letter of the
URL. So the cost is estimated before each match, and a URL that would take too long to match is not fetched.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from protego import Protego

from silkline.core.url import parse
from silkline.errors import RequestError

MAX_BYTES = 500 * 1024
"""What follows is not read; RFC 9309 asks for no less."""

MAX_CRAWL_DELAY = 60.0
"""The longest Crawl-delay in seconds. Without a limit, `Crawl-delay: 1e9` would stop a crawl."""

COSTLY = 10_000_000
"""Nanoseconds that matching one URL may take at most, as estimated for a processor of 2020."""

MOST_TRIED = 5000
"""Rules that are tried one by one to find the one that forbids a URL."""

_NS_PER_RULE, _NS_PER_WILDCARD_RULE, _NS_PER_STAR, _NS_PER_LETTER, _NS_PER_COMPARISON = (
    130,
    600,
    150,
    1.0,
    0.4,
)  # measured
_LONGEST_ESCAPE = 3  # protego compares escaped text, in which "&" is "%26"
_PLAIN = re.compile(r"[A-Za-z0-9_.~/=*$-]+")

_FIELDS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), "agent"),
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "disallow"),
    "allow": "allow",
    **dict.fromkeys(("crawl-delay", "crawldelay", "crawl delay"), "delay"),
    **dict.fromkeys(("sitemap", "sitemaps", "site-map"), "sitemap"),
}
_NAME = re.compile(r"[a-z0-9_-]+")
_COMPATIBLE = re.compile(r"\(compatible;\s*([a-z0-9_-]+)")
_ANY, _OWN = "*", "own"
"""The group for all user agents, and that for this one."""


class Group(NamedTuple):
    """The rules for some user agents."""

    rules: list[tuple[str, str]]
    delays: list[float]
    lines: list[int]
    """The line number of each rule."""


class Rule(NamedTuple):
    """A rule that forbids a URL, and its line number (0 if no single rule does)."""

    line: int
    text: str


class Robots:
    """The rules of one origin for one user agent.

    If robots.txt is not *reachable*, nothing is allowed, for this *reason*. The caller sets *expires*, the time to fetch it
    again on its own clock, and *overruns*, how often matching took too long.
    """

    __slots__ = ("_cost", "_matcher", "crawl_delay", "expires", "overruns", "reachable", "reason", "sitemaps", "weight")

    def __init__(
        self,
        rules: list[tuple[str, str]] | None = None,
        *,
        crawl_delay: float | None = None,
        sitemaps: tuple[str, ...] = (),
        expires: float = math.inf,
        reachable: bool = True,
        reason: str = "",
    ) -> None:
        rules = list(dict.fromkeys(rules or ()))
        self.crawl_delay = crawl_delay
        self.sitemaps = sitemaps
        self.expires = expires
        self.reachable = reachable
        self.reason = reason
        self.weight = 1 + len(rules) + len(sitemaps)
        """How much memory it takes, in rules."""
        self.overruns = 0
        self._cost = MatchingCost([path for _, path in rules])
        text = "".join(f"{kind}: {path}\n" for kind, path in rules)
        self._matcher = Protego.parse(f"user-agent: *\n{text}") if rules else None

    def allows(self, url: str) -> bool:
        """Return whether *url*, of this origin, may be fetched; False if that is unknown."""
        return self.match(url) is True

    def match(self, url: str) -> bool | None:
        """Return whether *url* may be fetched; None if it would take too long to match."""
        if self._matcher is None:
            return self.reachable
        if self._cost.exceeds(COSTLY, url):
            return None
        try:
            return self._matcher.can_fetch(url, _ANY)
        except ValueError:  # not a URL that urllib can split
            return False


class MatchingCost:
    """How long it may take to match a URL against some rules: an upper bound, whatever the rules and the URL are."""

    __slots__ = ("_comparisons", "_fixed", "_needles", "_wildcards")

    def __init__(self, paths: list[str]) -> None:
        wildcards = [path for path in paths if "*" in path]
        stars = sum(path.count("*") for path in wildcards)
        rules = len(paths) + sum("$" in path for path in paths)  # protego tries those twice
        self._fixed = rules * _NS_PER_RULE + len(wildcards) * _NS_PER_WILDCARD_RULE + stars * _NS_PER_STAR
        self._wildcards = len(wildcards)
        self._comparisons = 0
        self._needles: dict[str, int] = {}
        for path in wildcards:
            needles = [needle for needle in path.removesuffix("$").split("*")[1:] if needle]
            lengths = [_escaped_length(needle) for needle in needles]
            self._comparisons += max(lengths, default=0)
            for needle, length in zip(needles, lengths, strict=True):
                last = needle[-1] if _PLAIN.fullmatch(needle[-1]) else ""
                self._needles[last] = self._needles.get(last, 0) + length

    def exceeds(self, limit: float, url: str) -> bool:
        """Whether matching *url* may take more nanoseconds than *limit*."""
        length = len(url) * _LONGEST_ESCAPE
        fixed = self._fixed + self._wildcards * length * _NS_PER_LETTER
        if fixed + self._comparisons * length * _NS_PER_COMPARISON <= limit:
            return False
        length = _escaped_length(url)
        fixed = self._fixed + self._wildcards * length * _NS_PER_LETTER
        return fixed + self._most_comparisons(url, length) * _NS_PER_COMPARISON > limit

    def _most_comparisons(self, url: str, length: int) -> int:
        """`str.find` compares a needle only where its last letter is: in most URLs in few places."""
        more = url.count("%") + length - len(url)  # letters that appear when URL and needle are escaped alike
        places = {last: url.count(last) + more if last else length for last in self._needles}
        by_letter = sum(letters * min(places[last], length) for last, letters in self._needles.items())
        return min(by_letter, self._comparisons * length)


def _escaped_length(text: str) -> int:
    """The most letters that it takes once it is escaped."""
    return len(text) + (_LONGEST_ESCAPE - 1) * len(_PLAIN.sub("", text).encode(errors="replace"))


def read_robots(
    text: bytes, user_agent: str, *, expires: float = math.inf, max_crawl_delay: float = MAX_CRAWL_DELAY
) -> Robots:
    """Return the rules of a robots.txt for *user_agent*."""
    groups, sitemaps = _read_groups(_decode(cut(text)), name_of(user_agent))
    group = groups.get(_OWN) or groups.get(_ANY) or Group([], [], [])
    delay = min(max(group.delays), max_crawl_delay) if group.delays else None
    return Robots(group.rules, crawl_delay=delay, sitemaps=tuple(dict.fromkeys(sitemaps)), expires=expires)


def rule_against(text: bytes, user_agent: str, url: str) -> Rule | None:
    """Return the rule of a robots.txt that forbids *url* to this user agent; None if none does.

    This tries the rules one by one, so it is slow: it is meant for operators.
    """
    if read_robots(text, user_agent).allows(url):
        return None
    groups, _ = _read_groups(_decode(cut(text)), name_of(user_agent))
    group = groups.get(_OWN) or groups.get(_ANY) or Group([], [], [])
    numbered = list(zip(group.rules, group.lines, strict=True))[:MOST_TRIED]
    against = [(rule, line) for rule, line in numbered if rule[0] == "disallow" and not Robots([rule]).allows(url)]
    if not against:
        return Rule(0, "")
    (_, path), line = max(against, key=lambda pair: (len(pair[0][1]), -pair[1]))
    return Rule(line, f"Disallow: {path}")


def name_of(user_agent: str) -> str:
    """Return the name by which a robots.txt addresses a user agent: the product at its start, without the version.

    For ``Mozilla/5.0 (compatible; Foobot/1.0; …)`` it is the name after ``compatible``.
    """
    lowered = user_agent.strip().lower()
    compatible = _COMPATIBLE.search(lowered) if lowered.startswith("mozilla/") else None
    if compatible:
        return compatible.group(1)
    first = _NAME.match(lowered)
    return first.group() if first else lowered


def cut(text: bytes) -> bytes:
    """Return the lines up to the limit, without a line that exceeds it."""
    if len(text) <= MAX_BYTES:
        return text
    end = max(text.rfind(b"\n", 0, MAX_BYTES), text.rfind(b"\r", 0, MAX_BYTES))
    return text[: end + 1]


def _decode(text: bytes) -> str:
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoded = text.decode("utf-16", errors="replace")
    else:
        decoded = text.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    return decoded.replace("\0", "")


def _read_groups(text: str, name: str) -> tuple[dict[str, Group], list[str]]:
    """Return the rules for this user agent and those for all, with groups of the same agent joined; and the sitemaps."""
    groups: dict[str, Group] = {}
    sitemaps: list[str] = []
    addressed: set[str] = set()
    naming = False  # between the agents of a group and its first rule
    for line, field, value in _fields(text):
        if field == "sitemap":
            sitemaps += _sitemap(value)
        elif field == "agent":
            addressed = addressed if naming else set()
            naming = True
            if whom := _addressee(value, name):
                addressed.add(whom)
                groups.setdefault(whom, Group([], [], []))
        else:
            naming = False
            for whom in addressed:
                _add(groups[whom], line, field, value)
    return groups, sitemaps


def _fields(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the known fields, with their line numbers. Common misspellings and a missing colon are accepted."""
    for number, line in enumerate(
        text.splitlines(), 1
    ):  # as protego does, or a value could hold lines that only protego sees
        content = line.partition("#")[0].strip()
        head, colon, value = content.partition(":")
        field = _FIELDS.get(head.strip().lower()) if colon and len(head) < 40 else None
        if field is None:
            head = next(iter(content[:40].split(None, 1)), "")
            field, value = _FIELDS.get(head.lower()), content[len(head) :]
        if field is not None:
            yield number, field, value.strip()


def _addressee(agent: str, name: str) -> str | None:
    if agent == "*" or agent.startswith("* "):
        return _ANY
    called = _NAME.match(agent.lower())
    return _OWN if called and called.group() == name else None


def _add(group: Group, line: int, field: str, value: str) -> None:
    if field == "delay":
        delay = _seconds(value)
        if delay is not None:
            group.delays.append(delay)
    elif value:  # an empty rule forbids nothing
        group.rules.append((field, value))
        group.lines.append(line)


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None


def _sitemap(value: str) -> list[str]:
    try:
        return [parse(value).url]
    except RequestError:
        return []
