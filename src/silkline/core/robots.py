"""robots.txt as RFC 9309 has it: what a site lets our user agent fetch. Pure; nothing here reads a clock or the network.

The file is somebody else's and may be hostile, so nothing of it costs more than its length allows. Groups are read
here, because protego keeps each rule once per agent of its group: 97 KiB of agents and rules took it 16 seconds. What is
left, the rules of one group, is matched by protego. A URL that would take too long to match is not fetched.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from protego import Protego

from silkline.core.errors import RequestError
from silkline.core.url import parse

MAX_BYTES = 500 * 1024
"""What follows is not read; RFC 9309 asks for no less."""

MAX_CRAWL_DELAY = 60.0
"""A longer Crawl-delay, in seconds, is taken for this one: nobody is allowed to stop a crawl with `Crawl-delay: 1e9`."""

COSTLY = 10_000_000
"""Nanoseconds, roughly, that matching one URL may take."""

MOST_TRIED = 5000
"""Rules that are tried one by one, to tell which it was."""

_NS_PER_WILDCARD_RULE, _NS_PER_STAR = 600, 150  # measured; a letter of the URL costs each rule about one

_FIELDS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), "agent"),
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "disallow"),
    "allow": "allow",
    **dict.fromkeys(("crawl-delay", "crawldelay", "crawl delay"), "delay"),
    **dict.fromkeys(("sitemap", "sitemaps", "site-map"), "sitemap"),
}
_NAME = re.compile(r"[a-z0-9_-]+")
_COMPATIBLE = re.compile(r"\(compatible;\s*([a-z0-9_-]+)")
_ANYBODY = "*"


class Group(NamedTuple):
    """What is said to some agents."""

    rules: list[tuple[str, str]]
    delays: list[float]
    lines: list[int]
    """In which line each rule stands."""


class Rule(NamedTuple):
    """A rule that speaks against a URL, and the line in which it stands (0: none in particular)."""

    line: int
    text: str


class Robots:
    """The rules of one origin for one user agent.

    *expires* is the caller's: when to ask again, on the caller's clock. Of an origin whose robots.txt is not *reachable*
    nothing is allowed.
    """

    __slots__ = ("_matcher", "_stars", "_wildcards", "crawl_delay", "expires", "reachable", "sitemaps", "weight")

    def __init__(
        self,
        rules: list[tuple[str, str]] | None = None,
        *,
        crawl_delay: float | None = None,
        sitemaps: tuple[str, ...] = (),
        expires: float = math.inf,
        reachable: bool = True,
    ) -> None:
        rules = list(dict.fromkeys(rules or ()))
        self.crawl_delay = crawl_delay
        self.sitemaps = sitemaps
        self.expires = expires
        self.reachable = reachable
        self.weight = 1 + len(rules) + len(sitemaps)
        """How much memory it takes, in rules."""
        self._wildcards = sum("*" in path for _, path in rules)
        self._stars = sum(path.count("*") for _, path in rules)
        text = "".join(f"{kind}: {path}\n" for kind, path in rules)
        self._matcher = Protego.parse(f"user-agent: *\n{text}") if rules else None

    def allows(self, url: str) -> bool:
        """Whether *url*, of this origin, may be fetched. In doubt it may not."""
        if self._matcher is None:
            return self.reachable
        cost = self._wildcards * (_NS_PER_WILDCARD_RULE + len(url)) + self._stars * _NS_PER_STAR
        if cost > COSTLY:
            return False
        try:
            return self._matcher.can_fetch(url, _ANYBODY)
        except ValueError:  # not a URL that urllib can split
            return False


def read_robots(
    text: bytes, user_agent: str, *, expires: float = math.inf, max_crawl_delay: float = MAX_CRAWL_DELAY
) -> Robots:
    """Read a robots.txt for the crawler that calls itself *user_agent* when it fetches."""
    groups, sitemaps = _read_groups(_decode(cut(text)), name_of(user_agent))
    group = groups.get("ours") or groups.get(_ANYBODY) or Group([], [], [])
    delay = min(max(group.delays), max_crawl_delay) if group.delays else None
    return Robots(group.rules, crawl_delay=delay, sitemaps=tuple(dict.fromkeys(sitemaps)), expires=expires)


def rule_against(text: bytes, user_agent: str, url: str) -> Rule | None:
    """The rule of a robots.txt that forbids *url* to the crawler that calls itself so; None if none does.

    For people who ask why: it tries the rules one by one, so it is slow.
    """
    if read_robots(text, user_agent).allows(url):
        return None
    groups, _ = _read_groups(_decode(cut(text)), name_of(user_agent))
    group = groups.get("ours") or groups.get(_ANYBODY) or Group([], [], [])
    numbered = list(zip(group.rules, group.lines, strict=True))[:MOST_TRIED]
    against = [(rule, line) for rule, line in numbered if rule[0] == "disallow" and not Robots([rule]).allows(url)]
    if not against:
        return Rule(0, "")
    (_, path), line = max(against, key=lambda pair: (len(pair[0][1]), -pair[1]))
    return Rule(line, f"Disallow: {path}")


def name_of(user_agent: str) -> str:
    """What a robots.txt calls us: the product at the start of the user agent, without its version.

    Browsers are imitated as ``Mozilla/5.0 (compatible; Foobot/1.0; …)``; then it is the name after ``compatible``.
    """
    lowered = user_agent.strip().lower()
    compatible = _COMPATIBLE.search(lowered) if lowered.startswith("mozilla/") else None
    if compatible:
        return compatible.group(1)
    first = _NAME.match(lowered)
    return first.group() if first else lowered


def cut(text: bytes) -> bytes:
    """The lines up to the limit; one that would be cut in two is left out."""
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
    """The rules that are for us and those for anybody, groups of one agent joined; and the sitemaps."""
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
    """The lines that mean something, with their numbers. Misspellings that are common, and a missing colon, are forgiven."""
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
        return _ANYBODY
    called = _NAME.match(agent.lower())
    return "ours" if called and called.group() == name else None


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
