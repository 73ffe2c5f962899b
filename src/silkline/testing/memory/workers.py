"""The workers of a crawl in memory, what they know of its proxies, and their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from silkline.core.proxy_health import (
    CHECK_LIMIT,
    KNOWN_FOR,
    LONGER,
    MOST_COUNTED,
    NO_COUNTS,
    RECENTLY,
    TIER_LASTS,
    ProxyCounts,
    ProxyNews,
    ProxyReply,
    ProxyReport,
    ProxyState,
)
from silkline.errors import UnknownCrawl
from silkline.frontier.verbs.proxies import MOST_PROXIES, one_line_of, proxy_state
from silkline.frontier.verbs.sessions import MOST_SESSIONS, SESSION_TTL, SessionReply
from silkline.frontier.verbs.workers import KEEP_LOST, WorkerOrder, WorkerState


class MemoryRoster:
    """The workers by name: until when they count as alive, start, last heartbeat, and reported info."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, int, dict[str, Any]]] = {}
        self._shut = False
        self._orders: dict[str, WorkerOrder] = {}

    def join(self, worker: str, now: int, expires_ms: int, info: bytes) -> int:
        if self._shut:
            raise UnknownCrawl("the crawl is being removed")
        kept = now - round(KEEP_LOST * 1000)
        self._known = {name: one for name, one in self._known.items() if one[0] > kept}
        self._orders = {name: order for name, order in self._orders.items() if name in self._known}
        _, joined, _, known = self._known.get(worker, (0, now, now, {}))
        self._known[worker] = (now + expires_ms, joined, now, msgspec.json.decode(info) if info else known)
        return self._alive(now) - 1

    def leave(self, worker: str, now: int, *, shut: bool) -> int:
        self._known.pop(worker, None)
        self._orders.pop(worker, None)
        others = self._alive(now)
        self._shut = self._shut or (shut and not others)
        return others

    def order(self, worker: str, order: str) -> str:
        if worker not in self._known:
            return "unknown"
        if order:
            self._orders[worker] = cast("WorkerOrder", order)
        return self._orders.get(worker, "work")

    def workers(self, now: int, most: int) -> list[WorkerState]:
        latest = sorted(((one[0], name) for name, one in self._known.items()), reverse=True)[:most]
        return [
            WorkerState(name, expires > now, joined / 1000, beat / 1000, info, self._orders.get(name, "work"))
            for expires, name in latest
            for _, joined, beat, info in [self._known[name]]
        ]

    def lost(self, now: int) -> int:
        """Return how many workers were lost in the last hour."""
        return sum(now - round(KEEP_LOST * 1000) < expires <= now for expires, *_ in self._known.values())

    def _alive(self, now: int) -> int:
        return sum(expires > now for expires, *_ in self._known.values())


@dataclass(slots=True)
class StoredProxy:
    """What is known of a proxy. Times are in ms; words are names of workers."""

    change: int = 0
    failures: int = 0
    rests_until: int = 0
    check_until: int = 0
    worked_at: int = 0
    counts: ProxyCounts = NO_COUNTS
    updated: int = 0
    checker: str = ""
    worker: str = ""
    accuser: str = ""
    why: str = ""

    def news(self, name: str, now: int) -> ProxyNews | None:
        """Return what a worker must know of it; None if it must be checked first."""
        if self.rests_until > now:
            return ProxyNews(name, "resting", (self.rests_until - now) / 1000, self.failures, self.why)
        if self.worked_at > now - KNOWN_FOR * 1000:
            return ProxyNews(name, "ready", 0.0, self.failures, self.why)
        return None

    def asked(self, name: str, now: int, worker: str) -> ProxyNews:
        """Decide what a worker that wants to check it must do."""
        if known := self.news(name, now):
            return known
        if self.check_until > now and self.checker != worker:
            return ProxyNews(name, "wait", (self.check_until - now) / 1000, self.failures, self.why)
        self.checker, self.check_until = worker, now + round(CHECK_LIMIT * 1000)
        return ProxyNews(name, "check", 0.0, self.failures, self.why)

    def count(self, now: int, worker: str, counts: ProxyCounts) -> None:
        self.counts = ProxyCounts(*(old + new for old, new in zip(self.counts, counts, strict=True)))
        while self.counts.fetched + self.counts.failed > MOST_COUNTED:
            self.counts = ProxyCounts(*(count // 2 for count in self.counts))
        if counts.fetched and self.rests_until <= now:
            self.worked_at, self.worker = now, worker

    def passed(self, now: int, worker: str) -> None:
        self.check_until, self.rests_until, self.worked_at, self.worker = 0, 0, now, worker

    def worked(self, now: int, worker: str) -> bool:
        had_failed = bool(self.failures or self.rests_until)
        self.passed(now, worker)
        self.failures, self.why, self.accuser = 0, "", ""
        return had_failed

    def failed(self, now: int, worker: str, why: str, rests: tuple[int, int]) -> bool:
        if self.rests_until > now:
            return False
        self.check_until = 0
        if self.worker != worker and self.worked_at > now - RECENTLY * 1000 and self.accuser in ("", worker):
            self.accuser = worker
            return False
        self.failures, self.why, self.accuser, self.worked_at = self.failures + 1, why, "", 0
        self.rests_until = now + min(rests[0] * LONGER ** min(self.failures - 1, 10), rests[1])
        return True


class MemoryProxies:
    """The proxies of a crawl by name."""

    def __init__(self) -> None:
        self._known: dict[str, StoredProxy] = {}
        self._tiers: dict[str, tuple[int, int]] = {}
        """The change and the tier of hosts that are not at the first one."""

    def share(
        self, now: int, worker: str, since: int, rests: tuple[float, float], reports: Sequence[ProxyReport]
    ) -> ProxyReply:
        asked: dict[str, ProxyNews] = {}
        changes = [*(proxy.change for proxy in self._known.values()), *(when for when, _ in self._tiers.values())]
        change = max(max(changes, default=0) + 1, now)
        rests_ms = round(rests[0] * 1000), round(rests[1] * 1000)
        for report in reports:
            if report.event == "tier":
                change += self._move(now, report, change)
                continue
            proxy = self._known.get(report.proxy) or StoredProxy()
            if any(report.counts):
                proxy.count(now, worker, report.counts)
            if report.event == "check":
                asked[report.proxy] = proxy.asked(report.proxy, now, worker)
            if self._apply(proxy, now, worker, report, rests_ms) or report.proxy not in self._known:
                proxy.change, change = change, change + 1
            proxy.updated = now
            self._known[report.proxy] = proxy
        oldest = sorted(self._known, key=lambda name: self._known[name].change)
        for name in oldest[: max(len(self._known) - MOST_PROXIES, 0)]:
            del self._known[name]
        return ProxyReply(change - 1, self._news(now, since, asked))

    def _move(self, now: int, report: ProxyReport, change: int) -> bool:
        """Move a host to another tier; return whether it was not there before."""
        when, tier = self._tiers.get(report.proxy, (0, 0))
        if when > now - TIER_LASTS * 1000 and tier >= int(report.why):
            return False
        self._tiers[report.proxy] = change, int(report.why)
        return True

    def _news(self, now: int, since: int, asked: dict[str, ProxyNews]) -> list[ProxyNews]:
        """Return what has changed since a change, and what the worker asked for."""
        news = dict(asked)
        changed = sorted((proxy.change, name) for name, proxy in self._known.items() if proxy.change > since)
        for _, name in changed:
            if (one := self._known[name].news(name, now)) and not (one.word == "ready" and name in news):
                news[name] = one
        for host, (when, tier) in self._tiers.items():
            if when > since and (left := when + TIER_LASTS * 1000 - now) > 0:
                news[host] = ProxyNews(host, "tier", left / 1000, tier)
        return list(news.values())

    @staticmethod
    def _apply(proxy: StoredProxy, now: int, worker: str, report: ProxyReport, rests: tuple[int, int]) -> bool:
        """Apply the event of a report; return whether the state has changed."""
        match report.event:
            case "passed":
                proxy.passed(now, worker)
                return True
            case "worked":
                return proxy.worked(now, worker)
            case "failed":
                return proxy.failed(now, worker, one_line_of(report.why), rests)
        return False

    def listed(self, now: int, most: int) -> list[ProxyState]:
        latest = sorted(((proxy.change, name) for name, proxy in self._known.items()), reverse=True)[:most]
        return [
            proxy_state(
                name,
                "resting" if proxy.rests_until > now else "ready" if proxy.worked_at else "unknown",
                max(proxy.rests_until - now, 0),
                proxy.failures,
                proxy.counts,
                proxy.updated,
                proxy.why,
            )
            for _, name in latest
            for proxy in [self._known[name]]
        ]


class MemorySessions:
    """The states of named sessions."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[int, int, bytes, int]] = {}
        """By name: version, login, state, and the time in ms at which it is dropped."""

    def state(self, now: int, name: str, version: int, login: int, state: bytes) -> SessionReply:
        self._stored = {one: stored for one, stored in self._stored.items() if stored[3] > now}
        last, last_login, stored, _ = self._stored.get(name, (0, 0, b"", 0))
        if not state or not (login > last_login or (login == last_login and version == last)):
            return SessionReply(False, last, last_login, b"" if version == last else stored)  # noqa: FBT003
        last = max(last + 1, now)
        self._stored[name] = (last, login, state, now + round(SESSION_TTL * 1000))
        if len(self._stored) > MOST_SESSIONS:
            del self._stored[min(self._stored, key=lambda one: (self._stored[one][3], one))]
        return SessionReply(True, last, login, b"")  # noqa: FBT003
