"""The health of proxies, which the workers of a crawl share: each finds out a part of it, and no two check the same proxy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from silkline.core.proxy_health import (
    LONGEST_WHY,
    ProxyCounts,
    ProxyNews,
    ProxyReply,
    ProxyReport,
    ProxyState,
)
from silkline.errors import ConfigError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.command import Arg, Command, Flow, ask, load

MOST_PROXIES = 2_000
"""Proxies of a crawl whose health is stored."""
PROXIES_PER_CALL = 200
"""Limits the time that a call takes on the server."""
_ROW, _LISTED = 5, 4


def share_proxies(
    keys: CrawlKeys, worker: str, since: int, rests: tuple[float, float], reports: Sequence[ProxyReport]
) -> Flow[ProxyReply]:
    """Store reports, and return what has changed *since* that number. *rests* are the first and the longest rest of a proxy."""
    news: dict[str, ProxyNews] = {}
    for start in range(0, max(len(reports), 1), PROXIES_PER_CALL):
        command = share_command(keys, worker, since, rests, reports[start : start + PROXIES_PER_CALL])
        since, more = yield from ask(command)
        for one in more:
            if one.word != "ready" or one.proxy not in news:  # what the worker asked for comes first
                news[one.proxy] = one
    return ProxyReply(since, list(news.values()))


def share_command(
    keys: CrawlKeys, worker: str, since: int, rests: tuple[float, float], reports: Sequence[ProxyReport]
) -> Command[ProxyReply]:
    first, longest = rests
    args: list[Arg] = [worker, since, MOST_PROXIES, milliseconds("rest", first), milliseconds("rest", longest)]
    for proxy, event, why, counts in reports:
        args += [proxy, event, one_line_of(why), " ".join(map(str, counts)) if any(counts) else ""]
    return Command(load("share_proxies"), (keys.settings,), tuple(args), read_reply)


def one_line_of(why: str) -> str:
    return " ".join(why.split())[:LONGEST_WHY]


def read_reply(reply: list[Any]) -> ProxyReply:
    change, *rows = reply
    found = []
    for at in range(0, len(rows), _ROW):
        proxy, word, ms, failures, why = (part.decode(errors="replace") for part in rows[at : at + _ROW])
        found.append(ProxyNews(proxy, word, int(ms) / 1000, int(failures), why))
    return ProxyReply(int(change), found)


def proxies(keys: CrawlKeys, most: int) -> Command[list[ProxyState]]:
    """List the proxies of a crawl, those whose state changed last first."""

    def decode(reply: list[bytes]) -> list[ProxyState]:
        rows = [reply[at : at + _LISTED] for at in range(0, len(reply), _LISTED)]
        return [_read_state(*(part.decode(errors="replace") for part in row)) for row in rows]

    return Command(load("proxies"), (keys.settings,), (check_limit_of_proxies(most),), decode)


def _read_state(proxy: str, state: Any, numbers: str, why: str) -> ProxyState:
    rests_ms, failures, *counts, updated = map(int, numbers.split(" "))
    return proxy_state(proxy, state, rests_ms, failures, ProxyCounts(*counts), updated, why)


def proxy_state(
    proxy: str, state: Any, rests_ms: int, failures: int, counts: ProxyCounts, updated: int, why: str
) -> ProxyState:
    latency = counts.ms / counts.fetched / 1000 if counts.fetched else None
    return ProxyState(
        proxy,
        state,
        rests_ms / 1000,
        failures,
        why,
        counts.fetched,
        counts.failed,
        counts.blocked,
        latency,
        updated / 1000,
    )


def worst_first(proxies: Iterable[ProxyState]) -> list[ProxyState]:
    """Sort proxies for an operator: those that rest first, then those with the most failures."""
    return sorted(
        proxies,
        key=lambda proxy: (
            proxy.state != "resting",
            -proxy.failures,
            1.0 if proxy.success is None else proxy.success,
            -proxy.blocked,
            proxy.proxy,
        ),
    )


def check_limit_of_proxies(most: int) -> int:
    if type(most) is not int or not 1 <= most <= MOST_PROXIES:
        raise ConfigError(f"limit must be between 1 and {MOST_PROXIES}, got {most!r}")
    return most
