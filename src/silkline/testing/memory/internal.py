"""MemoryInternals: the counterpart of `FrontierInternals`, which only Silkline's own processes use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from silkline.core.histogram import Histogram
from silkline.core.lease import Lease
from silkline.core.proxy_health import ProxyReply, ProxyReport
from silkline.core.request import Request, check
from silkline.frontier.admin_verbs.audit import append_audit, audit_entry
from silkline.frontier.admin_verbs.dead_letters import CANCELLED_CALL
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store import record as codec
from silkline.frontier.transport.server_info import Memory, out_of_memory
from silkline.frontier.verbs.claim import StartReport
from silkline.frontier.verbs.enqueue import Tick
from silkline.frontier.verbs.groups import GroupState, Joined, Opened
from silkline.frontier.verbs.history import Counts, HandlerNumbers, Levels
from silkline.frontier.verbs.hosts import StatusCounts
from silkline.frontier.verbs.results import CallProgress, progress_id, read_progress
from silkline.frontier.verbs.sessions import SessionReply, check_state
from silkline.frontier.verbs.workers import (
    DEFAULT_EXPIRY,
    WorkerOrder,
    check_limit,
    check_name,
    encode_info,
)
from silkline.testing.memory import requests
from silkline.testing.memory.admin import MemoryCrawlAdmin
from silkline.testing.memory.entries import MemoryEntry
from silkline.testing.memory.session import MemorySession


class MemoryInternals:
    """`MemoryFrontier.internal`. `FrontierInternals` documents the methods."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def join(self, worker: str, *, info: Mapping[str, Any] | None = None, expires: float = DEFAULT_EXPIRY) -> int:
        self._session.tally.worker = True
        encoded, expires_ms = encode_info(info), milliseconds("expires", expires)
        crawl = self._session.at_now()
        return crawl.roster.join(check_name(worker), crawl.time.server, expires_ms, encoded)

    async def leave(self, worker: str, *, shut: bool = False) -> int:
        crawl = self._session.at_now()
        return crawl.roster.leave(check_name(worker), crawl.time.server, shut=shut)

    async def remove_unused(self, creator: str, *, added: int, seen: int) -> bool:
        crawl = self._session.at_now()
        waiting = crawl.queued + len(crawl.delayed)
        is_unused = crawl.state == "open" and waiting == crawl.accepted == added and crawl.duplicates <= seen
        if not is_unused or await self.leave(creator, shut=True):
            return False
        await MemoryCrawlAdmin(self._session).remove()
        return True

    async def ordered(self, worker: str) -> WorkerOrder:
        answer: Any = self._session.at_now().roster.order(check_name(worker), "")
        return "work" if answer == "unknown" else answer

    async def add_history(
        self, counts: Counts, levels: Levels | None = None, by_handler: HandlerNumbers | None = None
    ) -> None:
        self._session.tally.worker = True
        crawl = self._session.at_now()
        crawl.history.add(crawl.time.server, counts, levels, by_handler)

    @property
    def waits(self) -> Counts:
        return Counts().add(self._session.tally.waits)

    async def add_answers(self, answers: Mapping[str, StatusCounts]) -> None:
        crawl = self._session.at_now()
        for host, counts in answers.items():
            crawl.host(self._session.known(host)).add_answers(counts, crawl.now)

    async def share_proxies(
        self, worker: str, since: int, rests: tuple[float, float], reports: Sequence[ProxyReport] = ()
    ) -> ProxyReply:
        crawl = self._session.at_now()
        return crawl.proxies.share(crawl.time.server, worker, since, rests, reports)

    async def started(self, starts: Sequence[StartReport]) -> dict[Lease, float]:
        crawl = self._session.at_now()
        return {start.lease: delay / 1000 for start in starts if (delay := crawl.started(start)) is not None}

    async def cancel_calls(self, ids: Iterable[str]) -> int:
        cancelled = requests.drop(self._session.at_now(), ids, CANCELLED_CALL)
        if cancelled:
            await self.report_ended()
        return cancelled

    @property
    def now(self) -> float:
        return self._session.now() / 1000

    async def open_group(self, request: Request, until: float, *, allow_failure: bool = False) -> Opened:
        check(request)
        crawl, address = self._session.at_now(), codec.address_of(request)
        rest = codec.stored(codec.without_slash(codec.encode(request, address)), crawl.now // 1000)
        entry = MemoryEntry(address.host, self._session.member(request), request.priority, rest)
        return crawl.open_group(entry, request, until, allow_failure=allow_failure)

    async def watch(self, group: str, batch: str, names: Sequence[tuple[str, int]], until: float) -> bool:
        crawl = self._session.at_now()
        crawl.groups.watch(group, batch, names, math.ceil(until * 1000) + crawl.time.ahead if until else 0)
        return True

    async def join_group(self, group: str, batch: str = "", letters: str = "", following: str = "") -> Joined:
        return self._session.at_now().join_group(group, batch, letters, following)

    async def group(self, name: str) -> GroupState | None:
        crawl = self._session.at_now()
        found = crawl.groups.groups.get(name)
        return found.state(name, crawl.time.ahead) if found else None

    async def groups(self, *, limit: int = 100) -> list[GroupState]:
        crawl = self._session.at_now()
        found = [group.state(name, crawl.time.ahead) for name, group in crawl.groups.groups.items()]
        return sorted(found, key=lambda group: (group.expires, group.url))[: check_limit(limit)]

    async def report_ended(self) -> int:
        return self._session.at_now().report_ended()

    async def hand_over(self, pairs: Sequence[tuple[Lease, Lease]]) -> None:
        self._session.at_now().hand_over(pairs)

    async def add_dead(self, letters: Sequence[tuple[Request, str]]) -> bool:
        return self._session.at_now().add_dead(letters)

    async def tick(self, request: Request, schedule: str) -> Tick:
        check(request)
        return self._session.at_now().tick(request, schedule)

    async def report_progress(self, lease: Lease, done: float, note: str = "") -> bool:
        return self._session.at_now().report_progress(lease, done, note)

    async def progress(self, url: str) -> CallProgress | None:
        crawl = self._session.at_now()
        stored = crawl.result(progress_id(crawl.layout, Request(url)))
        return read_progress(stored)

    async def feed_position(self, feed: str, token: int = 0, position: bytes = b"") -> bytes:
        positions = self._session.at_now().feed_positions
        last, stored = positions.get(feed, (0, b""))
        if position and token >= last:
            positions[feed] = (token, position)
            return position
        return stored

    async def session_state(self, name: str, version: int = 0, login: int = 0, state: bytes = b"") -> SessionReply:
        check_state(state)
        crawl = self._session.at_now()
        return crawl.sessions.state(crawl.time.server, name, version, login, state)

    async def memory(self) -> Memory:
        return Memory(0, None)

    async def cluster_state(self) -> str | None:
        return None

    @property
    def memory_refusals(self) -> int:
        return 0

    async def out_of_memory(self) -> str:
        return out_of_memory(await self.memory(), "memory")

    @property
    def timings(self) -> dict[str, Histogram]:
        return {}

    async def append_audit(self, by: str, what: str, about: str = "") -> None:
        append_audit("", by, what, about)  # raises if an argument is wrong
        crawl = self._session.at_now()
        crawl.audit_log.appendleft(audit_entry(crawl.time.server / 1000, by, what, about))
