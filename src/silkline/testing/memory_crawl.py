"""A crawl in memory: its whole state, and every rule by which it changes. No I/O; it is told the time.

This is the reference model: written from the specification, in the plainest way, for one reader at a time. The property
tests compare what the scripts do with what this does, step by step.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

import msgspec

from silkline.core.errors import FrontierError
from silkline.core.lease import Admission, Lease
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.robots import cut
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier.acts import KEPT, Act
from silkline.frontier.filters import DeadFilter
from silkline.frontier.leasing import Terms, one_line, with_trial
from silkline.frontier.plan import Plan
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.settings import OPEN_AGAIN, STRIKES
from silkline.frontier.wishes import HostWishes
from silkline.testing.memory_entries import Entry, Held, KeptRobots, Letter, read_lease, read_record
from silkline.testing.memory_history import MemoryHistory
from silkline.testing.memory_host import MemoryHost
from silkline.testing.memory_letters import matching
from silkline.testing.memory_roster import MemoryRoster
from silkline.testing.memory_time import SteadyTime

STALE = 86_400_000
BATCH = 100
"""So many leases are rescued, requests promoted and hosts opened per claim."""

PARENT_LOST = "the page it was found on is no longer leased to this worker"
CANCELLED = "the crawl is cancelled"
HOST_SPENT = "the host's page budget is spent"


class MemoryCrawl:
    """accepted = queued + delayed + leased + done + dead + discarded, always."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0
        """The time of the call under way, in milliseconds. It does not go back."""
        self.time = SteadyTime()
        self.state = "open"
        self.hosts: dict[str, MemoryHost] = {}
        self.seen: set[str] = set()
        self.leases: dict[int, Held] = {}
        self.delayed: list[Held] = []
        self.letters: dict[int, Letter] = {}
        self.roster = MemoryRoster()
        self.acts: deque[Act] = deque(maxlen=KEPT)
        self.kept_robots: dict[str, KeptRobots] = {}
        self.history = MemoryHistory()
        self.queued = self.accepted = self.done = self.discarded = self.rescued = 0
        self.late = self.duplicates = self.turned_away = 0
        self.full = False
        self._token = 0
        self._turn = 0
        self._line: list[tuple[int, int, MemoryHost]] = []
        """A heap of the ready hosts, by priority and turn. An entry with another turn than its host's is out of date."""

    def tell(self, time: int) -> None:
        """It is *time* on the server's clock."""
        self.now = self.time.read(time)

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────
    def admit(self, entry: Entry, request: Request, parent: Lease | None) -> Admission | str:
        """Take a request in, or say why not: an `Admission`, or the reason of a refusal."""
        if parent is not None and parent.token not in self.leases:
            return PARENT_LOST
        if self.state == "cancelled":
            return CANCELLED
        host, budget = self.host(entry.host), self.plan.settings.budget.pages_per_host
        if budget is not None and host.pages >= budget:
            return HOST_SPENT
        if not request.dont_filter and entry.member in self.seen:
            self.duplicates += 1
            return Admission.SEEN
        if not self.has_room():
            self.turned_away += 1
            return Admission.FULL
        if not request.dont_filter:
            self.seen.add(entry.member)
        self.accepted += 1
        due = 0 if request.not_before is None else math.ceil(request.not_before * 1000)
        if due > self.now:
            self.delayed.append(Held(due, self._next_token(), entry))
        else:
            self._push(entry)
        return Admission.ADDED

    def has_room(self) -> bool:
        """Full at 100 % of the capacity, open again at 80 %; decided anew whenever requests are offered."""
        capacity = self.plan.settings.capacity
        if self.pending >= capacity:
            self.full = True
        elif self.pending <= capacity * OPEN_AGAIN:
            self.full = False
        return not self.full

    def forget(self, members: Iterable[str]) -> int:
        if self.plan.settings.seen.kind == "bloom":
            raise FrontierError("a bloom filter cannot forget")
        known = self.seen.intersection(members)
        self.seen -= known
        return len(known)

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────────────────
    def claim(self, wanted: int, terms: Terms) -> list[Lease]:
        """Lease requests of hosts that are ready: best priority first, then the host that waits longest."""
        leases = self._claim(wanted, terms)
        self.time.keep(self.now, exactly=bool(leases))
        return leases

    def _claim(self, wanted: int, terms: Terms) -> list[Lease]:
        self._rescue_expired()
        if self.state != "open":
            return []
        self._promote_due()
        self._open_due_hosts(max(wanted, BATCH))
        if (budget := self.plan.settings.budget.pages) is not None:
            wanted = min(wanted, budget - self.done - len(self.leases))
        leases: list[Lease] = []
        while len(leases) < wanted and (host := self._next_host()):
            leases += [
                self._lease(entry, terms.lease_ms)
                for entry in host.take(wanted - len(leases), self.now, terms.slack_ms)
            ]
            self._place(host)
        self.queued -= len(leases)
        return leases

    def _next_host(self) -> MemoryHost | None:
        while self._line and self._line[0][2].turn != self._line[0][1]:
            heapq.heappop(self._line)
        return self._line[0][2] if self._line else None

    def _lease(self, entry: Entry, lease_ms: int) -> Lease:
        if not entry.attempts and not entry.crashes:
            entry.first = self.now
        entry.attempts += 1
        token = self._next_token()
        self.leases[token] = Held(self.now + lease_ms, token, entry)
        return read_lease(entry, token, self.now + lease_ms)

    def _rescue_expired(self) -> None:
        """Return what lost workers held to the heads of the queues, or bury what took too many of them down."""
        for held in _first_due(self.leases.values(), self.now):
            entry = self.leases.pop(held.token).entry
            entry.crashes += 1
            self.rescued += 1
            if self.state == "cancelled":
                self.discarded += 1
            elif entry.crashes >= STRIKES:
                self.letters[held.token] = Letter(self.now, held.token, entry, "crashed", None)
            else:
                self._push(entry, at_head=True)
            self._unlease(self.host(entry.host), held.places)

    def _promote_due(self) -> None:
        """What is due goes to the heads of the queues, the first due before the others; then their hosts take turns."""
        due = _first_due(self.delayed, self.now)
        self.delayed = [held for held in self.delayed if held not in due]
        self.queued += len(due)
        opened = {
            held.entry.host for held in reversed(due) if self.host(held.entry.host).push(held.entry, at_head=True)
        }
        for name in dict.fromkeys(held.entry.host for held in due):
            if name in opened:
                self._place(self.host(name))

    def _open_due_hosts(self, most: int) -> None:
        due = [(host.opens, name, host) for name, host in self.hosts.items() if host.opens is not None]
        for opens, _, host in sorted(due)[:most]:
            if opens <= self.now:
                self._place(host)

    # ── back ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def extend(self, leases: Sequence[Lease], lease_ms: int) -> list[Lease]:
        """Keep leases for longer; answers those that are lost."""
        for lease in leases:
            if held := self.leases.get(lease.token):
                held.until = self.now + lease_ms
        return [lease for lease in leases if lease.token not in self.leases]

    def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        """Free the places of hosts whose pages have landed; answers the leases that are lost."""
        held = [self.leases[token] for token in {lease.token: None for lease in leases} if token in self.leases]
        if self.plan.settings.budget.pages_per_host is None:
            names = [one.entry.host for one in held for _ in range(one.places)]
            for name in dict.fromkeys(names):
                self._unlease(self.host(name), names.count(name))
            for one in held:
                one.places = 0
        return [lease for lease in leases if lease.token not in self.leases]

    def settle(self, pairs: Sequence[tuple[Lease, Verdict]]) -> list[Lease]:
        """End leases, completions first; answers those that were not held, for which nothing changes."""
        lost = [lease for lease, _ in pairs if lease.token not in self.leases]
        self.late += len(lost)
        held = [(lease, verdict) for lease, verdict in pairs if lease.token in self.leases]
        self._complete([lease for lease, verdict in held if isinstance(verdict, Complete)])
        for lease, verdict in held:
            if not isinstance(verdict, Complete):
                self._end(lease, verdict)
        return lost

    def _complete(self, leases: Sequence[Lease]) -> None:
        places: Counter[str] = Counter()
        for lease in leases:
            places[lease.host] += self.leases.pop(lease.token).places
        names = [lease.host for lease in leases]
        for name in dict.fromkeys(names):
            host, ended = self.host(name), names.count(name)
            self.done += ended
            host.pages += ended
            self._unlease(host, places[name])

    def _end(self, lease: Lease, verdict: RetryIn | Bury | Release) -> None:
        held = self.leases.pop(lease.token)
        entry, host = held.entry, self.host(held.entry.host)
        after = 0 if isinstance(verdict, Bury) else max(0, round(verdict.after * 1000))
        if isinstance(verdict, Release):
            entry.attempts -= 1
        else:
            self._note_trial(entry, verdict)
        if isinstance(verdict, Bury):
            letter = Letter(self.now, lease.token, entry, one_line(verdict.reason), verdict.status)
            self.letters[lease.token] = letter
        elif self.state == "cancelled":
            self.discarded += 1
        elif after:
            self.delayed.append(Held(self.now + after, lease.token, entry))
        else:
            self._push(entry, at_head=True)
        self._unlease(host, held.places)
        if isinstance(verdict, RetryIn) and verdict.block_host:
            host.own["block_until"] = max(host.blocked_until, self.now + after)
            self._place(host)
        if isinstance(verdict, RetryIn) and verdict.slow_host and host.slow(lease.token // 1024, self.now):
            self._place(host)

    def _note_trial(self, entry: Entry, verdict: RetryIn | Bury) -> None:
        entry.record = with_trial(*read_record(entry), verdict, self.time.server / 1000) or entry.record

    def _unlease(self, host: MemoryHost, ended: int) -> None:
        """A host that was at its cap comes back into the line."""
        was_at_cap = host.leased >= host.concurrency
        host.leased -= ended
        if was_at_cap or self.state == "cancelled":
            self._place(host)

    # ── dead ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def end_dead(self, chosen: DeadFilter, *, purge: bool) -> int:
        """Return dead letters to the tails of their queues with a clean slate, or delete them."""
        found = matching(self.letters.values(), chosen)
        for letter in found:
            del self.letters[letter.token]
            if purge or self.state == "cancelled":
                self.discarded += 1
            else:
                letter.entry.wipe()
                self._push(letter.entry)
        return len(found)

    # ── control ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def set_state(self, state: str) -> None:
        if self.state == "cancelled":
            raise FrontierError(f"the crawl {self.plan.keys.crawl!r} was cancelled; cancelled is final")
        self.state = state

    def set_host(self, name: str, pace: HostWishes) -> None:
        """What is left of the host's rest shrinks or grows like its delay."""
        host = self.host(name)
        before, rest = host.delay(self.now), max(0, host.spent - self.now)
        host.set_pace(pace)
        if rest and before:
            host.spent = math.ceil(self.now + rest * host.delay(self.now) / before)
        self._place(host)

    def set_politeness(self, politeness: Politeness) -> None:
        """Nobody rests longer for it, and nobody longer than the new delay. Who is ready keeps its turn."""
        settings = msgspec.structs.replace(self.plan.settings, politeness=politeness)
        self.plan = Plan(self.plan.keys, settings, self.plan.buckets)
        for host in self.hosts.values():
            host.settings = settings
            if host.turn is None:
                host.spent = min(host.spent, self.now + host.delay(self.now) * host.burst(self.now))
                self._place(host)

    def robots(self, origin: str, lock_ms: int, token: int | None = None) -> RobotsFile:
        """Known while it is fresh; else the first to ask is to fetch it. An older copy is of use for a day."""
        kept = self.kept_robots.setdefault(origin, KeptRobots())
        text = kept.text if kept.fresh + STALE > self.now else None
        if kept.fresh > self.now:
            return RobotsFile("known", text, (kept.fresh - self.now) / 1000)
        if kept.locked > self.now and not self._is_over(kept.token):
            return RobotsFile("fetching", text, (kept.locked - self.now) / 1000)
        kept.locked, kept.token = self.now + lock_ms, token
        return RobotsFile("yours", text, lock_ms / 1000)

    def _is_over(self, token: int | None) -> bool:
        return token is not None and (token not in self.leases or self.leases[token].until <= self.now)

    def keep_robots(self, origin: str, text: bytes | None, fresh_ms: int) -> None:
        self.kept_robots[origin] = KeptRobots(self.now + fresh_ms, 0, None if text is None else cut(text))

    def cancel(self) -> int:
        self.state = "cancelled"
        return sum(self.drop(name) for name in self.hosts)

    def drop(self, name: str) -> int:
        """Drop all that waits for a host; answers how many requests."""
        before = self.discarded
        self._drop_queues(self.host(name))
        self._place(self.host(name))
        staying = [held for held in self.delayed if held.entry.host != name]
        self.discarded += len(self.delayed) - len(staying)
        self.delayed = staying
        return self.discarded - before

    # ── counts ───────────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def pending(self) -> int:
        return self.queued + len(self.delayed)

    @property
    def pages_spent(self) -> bool:
        budget = self.plan.settings.budget.pages
        return budget is not None and self.done >= budget

    @property
    def nothing_left(self) -> bool:
        return not self.leases and (self.pending == 0 or self.pages_spent)

    # ── hosts ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def host(self, name: str) -> MemoryHost:
        if name not in self.hosts:
            self.hosts[name] = MemoryHost(name, self.plan.settings)
        return self.hosts[name]

    def _push(self, entry: Entry, *, at_head: bool = False) -> None:
        host = self.host(entry.host)
        self.queued += 1
        if host.push(entry, at_head=at_head):
            self._place(host)

    def _place(self, host: MemoryHost) -> None:
        """Put a host where its requests, its leases and its pace say; among the ready ones, at the end of the line."""
        if host.concurrency < 1 or self.state == "cancelled":
            self._drop_queues(host)
        host.turn = host.opens = None
        if host.queues:
            host.forget_what_is_over(self.now)
        if not host.queues or host.paused or host.leased >= host.concurrency:
            return
        if (opens := host.next_start(self.now)) > self.now:
            host.opens = opens
        else:
            assert host.top is not None
            self._turn += 1
            host.turn = self._turn
            host.since = self.now
            heapq.heappush(self._line, (-host.top, host.turn, host))

    def _drop_queues(self, host: MemoryHost) -> None:
        dropped = host.drop()
        self.queued -= dropped
        self.discarded += dropped

    def _next_token(self) -> int:
        self._token = max(self._token, self.now * 1024) + 1
        return self._token


def _first_due(held: Iterable[Held], now: int) -> list[Held]:
    due = sorted((one for one in held if one.until <= now), key=lambda one: (one.until, one.token))
    return due[:BATCH]
