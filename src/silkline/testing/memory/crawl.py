"""A crawl in memory: its state and all rules by which it changes. No I/O; callers pass the time.

This is the reference model: simple code for a single thread. The model tests compare it with the Lua scripts step by step.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from silkline.core.lease import Lease, Leases
from silkline.core.politeness import Budget, Politeness
from silkline.core.request import Request, host_of
from silkline.core.robots import cut
from silkline.core.verdict import Bury, Complete, NextVisit, Release, RetryIn, Strike, Suspect, Verdict
from silkline.errors import ConfigError, FrontierError
from silkline.frontier.admin_verbs.audit import KEPT, AuditEntry
from silkline.frontier.admin_verbs.dead_letters import CANCELLED_CALL, DeadFilter
from silkline.frontier.store import record as codec
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.store.settings import OPEN_AGAIN, STRIKES, is_share
from silkline.frontier.verbs.claim import ClaimTerms, StartReport
from silkline.frontier.verbs.enqueue import CANCELLED, Admission, Tick
from silkline.frontier.verbs.groups import CALL_ENDED, CALL_FAILED, Joined, Opened, group_name
from silkline.frontier.verbs.hosts import HostArguments, HostState
from silkline.frontier.verbs.results import (
    KEEP_PROGRESS,
    RESULTS_MEMORY,
    Result,
    encode_result,
    keep_ms,
    progress_id,
    result_id,
)
from silkline.frontier.verbs.robots import LONGEST_REASON, RobotsFile
from silkline.frontier.verbs.settle import Postpone, one_line, record_of_visit, with_failed_attempt
from silkline.testing.clock import SteadyTime
from silkline.testing.memory.dead_letters import matching
from silkline.testing.memory.entries import (
    Held,
    KeptRobots,
    Letter,
    MemoryEntry,
    StoredLocks,
    StoredResult,
    read_lease,
    read_record,
)
from silkline.testing.memory.groups import MemoryGroup, MemoryGroups
from silkline.testing.memory.history import MemoryHistory
from silkline.testing.memory.host import ROUNDED, MemoryHost
from silkline.testing.memory.workers import MemoryProxies, MemoryRoster, MemorySessions

STALE = 86_400_000
NEVER = 315_360_000_000
"""Milliseconds after which a call that waits for a group would be due, from when it becomes a dead letter."""
BATCH = 100
"""Maximum number of leases rescued, requests promoted and hosts opened per claim."""
LOOK_AGAIN = 250
ISOLATE = 30_000

MANY = 100
"""With at least this many requests in its queue, a page whose links did not fit moves to the end."""
MOST_ATTEMPTS = 10
"""Number of attempts of a request from which on its strikes are not withdrawn."""
MOST_STRUCK = 100
"""Number of most recent strikes that can be withdrawn."""

PARENT_LOST = "the page it was found on is no longer leased to this worker"
HOST_SPENT = "the host's page budget is spent"


class MemoryCrawl:
    """The state of a crawl. Invariant: accepted = queued + delayed + leased + done + dead + discarded."""

    def __init__(self, layout: CrawlLayout) -> None:
        self.layout = layout
        self.now = 0
        """The time of the current call, in milliseconds. It never goes back."""
        self.time = SteadyTime()
        self.state = "open"
        self.hosts: dict[str, MemoryHost] = {}
        self.seen: set[str] = set()
        self.leases: dict[int, Held] = {}
        self.delayed: list[Held] = []
        self.letters: dict[int, Letter] = {}
        self.struck: dict[int, MemoryEntry] = {}
        """Requests that got a strike, by the token of the expired lease. The strike is withdrawn if the worker returns."""
        self.roster = MemoryRoster()
        self.proxies = MemoryProxies()
        self.sessions = MemorySessions()
        self.run_options = RunOptions()
        self.counted = layout.settings.budget.pages_per_host is not None
        """Whether pages are counted per host, even if they are no longer limited."""
        self.audit_log: deque[AuditEntry] = deque(maxlen=KEPT)
        self.ticks: dict[str, dict[str, int]] = {}
        """By host and schedule, the newest tick."""
        self.feed_positions: dict[str, tuple[int, bytes]] = {}
        self.kept_robots: dict[str, KeptRobots] = {}
        self.results: dict[str, StoredResult] = {}
        self.history = MemoryHistory()
        self.locks = StoredLocks()
        self.groups = MemoryGroups()
        self.queued = self.accepted = self.done = self.discarded = self.rescued = 0
        self.dead_dropped = self.late = self.duplicates = self.turned_away = self.over_share = 0
        self.full = False
        self.isolate = 0
        """Time until which one caller may finish its leases, to claim a suspect with a strike alone."""
        self._token = 0
        self._turn = 0
        self._line: list[tuple[int, int, MemoryHost]] = []
        """A heap of the ready hosts by priority and turn. An entry whose turn differs from its host's is outdated."""

    def set_time(self, time: int) -> None:
        """Set the time to *time* on the server's clock."""
        self.now = self.time.read(time)

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────
    def admit(self, entry: MemoryEntry, request: Request, parent: Lease | None) -> Admission | str:
        """Add a request; return an `Admission`, or the reason of a refusal."""
        if parent is not None and parent.token not in self.leases:
            return PARENT_LOST
        if self.state == "cancelled":
            return CANCELLED
        host, budget = self.host(entry.host), self.layout.settings.budget.pages_per_host
        if budget is not None and host.pages >= budget:
            return HOST_SPENT
        if not request.dont_filter and entry.member in self.seen:
            self.duplicates += 1
            return Admission.SEEN
        if not self.has_room() or self.has_share(host):
            self.turned_away += 1
            self.over_share += not self.full
            return Admission.FULL
        if not request.dont_filter:
            self.seen.add(entry.member)
        self.accepted += 1
        due = 0 if request.not_before is None else math.ceil(request.not_before * 1000) + self.time.ahead
        if due > self.now:
            self.delayed.append(Held(due, self._next_token(), entry))
        else:
            self._push(entry)
        return Admission.ADDED

    def tick(self, request: Request, schedule: str) -> Tick:
        """Enqueue the tick of a recurring task, unless its schedule had a later one, or another one the same."""
        address = codec.address_of(request)
        due = 0 if request.not_before is None else math.ceil(request.not_before * 1000)
        ticks = self.ticks.setdefault(address.host, {})
        taken = due in ticks.values()
        if due <= ticks.get(schedule, 0):
            answer = Admission.SEEN
        elif self.state == "cancelled":
            answer = Admission.REFUSED
        elif not taken and self.pending >= self.layout.settings.capacity:
            answer = Admission.FULL
        else:
            answer = Admission.SEEN if taken else Admission.ADDED
            ticks[schedule] = due
        if answer is Admission.ADDED:
            record = codec.stored(codec.without_slash(codec.encode(request, address)), self.now // 1000)
            entry = MemoryEntry(address.host, "", 0, record)
            self.delayed.append(Held(due + self.time.ahead, self._next_token(), entry))
            self.accepted += 1
        return Tick(answer, ticks.get(schedule, 0) / 1000, self.time.server / 1000)

    def has_room(self) -> bool:
        """Whether requests are accepted: no at 100 % of the capacity, yes again at 80 %. Checked at every enqueue."""
        capacity = self.layout.settings.capacity
        if self.pending >= capacity:
            self.full = True
        elif self.pending <= capacity * OPEN_AGAIN:
            self.full = False
        return not self.full

    def has_share(self, host: MemoryHost) -> bool:
        """Whether a host has reached its share of the capacity."""
        settings = self.layout.settings
        return is_share(host.queued, settings.capacity - self.pending, settings.host_share, settings.capacity)

    def forget(self, members: Iterable[str]) -> int:
        if self.layout.settings.seen.kind == "bloom":
            raise FrontierError("a bloom filter cannot forget")
        known = self.seen.intersection(members)
        self.seen -= known
        return len(known)

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────────────────
    def claim(self, wanted: int, terms: ClaimTerms) -> Leases:
        """Lease requests of ready hosts: highest priority first, then the host that has waited longest."""
        leases = self._claim(wanted, terms)
        self.time.keep(self.now, exactly=bool(leases))
        return leases

    def _claim(self, wanted: int, terms: ClaimTerms) -> Leases:
        self._rescue_expired()
        if self.state != "open":
            return Leases()
        suspects, in_the_way = self._promote_due()
        self._open_due_hosts(max(wanted, BATCH))
        if (budget := self.layout.settings.budget.pages) is not None:
            wanted = min(wanted, budget - self.done - len(self.leases))
        leases = self._lease_one_of(suspects, wanted, terms, in_the_way=in_the_way)
        if any(lease.crashes for lease in leases):
            return leases
        before = len(leases)
        while len(leases) < wanted and (host := self._next_host()):
            leases += [
                self._lease(entry, terms.lease_ms)
                for entry in host.take(wanted - len(leases), self.now, terms.slack_of(host.name))
            ]
            self._place(host)
        if self.layout.settings.budget.pages_per_host is None:
            for name, most in terms.reserve.items():
                leases += self._lease_in_reserve(self.host(name), min(most, wanted - len(leases)), terms.lease_ms)
        self.queued -= len(leases) - before
        return leases

    def _lease_in_reserve(self, host: MemoryHost, most: int, lease_ms: int) -> list[Lease]:
        """Lease requests of a host at its cap, without places."""
        leases = []
        for entry in host.take_in_reserve(most, self.now):
            lease = self._lease(entry, lease_ms)
            self.leases[lease.token].places = 0
            leases.append(msgspec.structs.replace(lease, reserve=True))
        return leases

    def hand_over(self, pairs: Sequence[tuple[Lease, Lease]]) -> None:
        """Hand over the places of downloaded pages to leases in reserve of the same hosts."""
        for old, new in pairs:
            giver, taker = self.leases.get(old.token), self.leases.get(new.token)
            if giver and taker and giver.places and not taker.places and giver.entry.host == taker.entry.host:
                giver.places, taker.places = 0, 1

    def _lease_one_of(self, suspects: list[Held], wanted: int, terms: ClaimTerms, *, in_the_way: bool) -> Leases:
        """Lease at most one suspect; a suspect with a strike only to a caller without other leases."""
        leases = Leases()
        for held in suspects:
            if wanted < 1 or leases or terms.suspects == "none":
                held.until = self.now + LOOK_AGAIN if in_the_way else held.until
            elif held.entry.crashes and terms.suspects == "beside":
                held.until = self.now + LOOK_AGAIN if in_the_way else held.until
                leases.isolate = leases.isolate or self.isolate <= self.now
                self.isolate = self.now + ISOLATE if self.isolate <= self.now else self.isolate
            else:
                leases += self._lease_suspect(held, terms)
        return leases

    def _lease_suspect(self, held: Held, terms: ClaimTerms) -> list[Lease]:
        host = self.host(held.entry.host)
        if host.concurrency < 1:
            self.delayed.remove(held)
            self.discarded += 1
            return []
        if host.may_start(self.now) < 1:
            opens = math.ceil(host.next_start(self.now))
            held.until = opens if opens > self.now else self.now + LOOK_AGAIN
            return []
        self.delayed.remove(held)
        lease = self._lease(held.entry, terms.lease_ms)
        host.start(1, self.now, terms.slack_of(host.name))
        self._place(host)
        held.entry.begun = True
        return [lease]

    def _next_host(self) -> MemoryHost | None:
        while self._line and self._line[0][2].turn != self._line[0][1]:
            heapq.heappop(self._line)
        return self._line[0][2] if self._line else None

    def _lease(self, entry: MemoryEntry, lease_ms: int) -> Lease:
        if not entry.attempts and not entry.suspect:
            entry.first = self.now
        entry.attempts += 1
        token = self._next_token()
        self.leases[token] = Held(self.now + lease_ms, token, entry)
        return read_lease(entry, token, self.now + lease_ms, self.time.ahead)

    def _rescue_expired(self) -> None:
        """Turn requests with expired leases into suspects. A suspect that a worker had begun gets a strike."""
        for held in _first_due(self.leases.values(), self.now):
            entry = self.leases.pop(held.token).entry
            if entry.begun:
                entry.crashes += 1
                self.struck[held.token] = entry
                self.struck = dict(list(self.struck.items())[-MOST_STRUCK:])
            self._suspect(held.token, entry, "crashed")
            self._unlease(self.host(entry.host), held.places)
        self.drop_excess()

    def _suspect(self, token: int, entry: MemoryEntry, reason: str) -> None:
        """Delay a suspect outside the queues, or bury it if it has too many strikes."""
        entry.suspect, entry.begun = True, False
        self.rescued += 1
        if self.state == "cancelled":
            self.discarded += 1
        elif entry.crashes >= STRIKES:
            self._bury(token, entry, reason)
        else:
            self.delayed.append(Held(self.now, token, entry))

    def _promote_due(self) -> tuple[list[Held], bool]:
        """Move due requests to the heads of their queues, in the order of their due times, and place their hosts.

        Returns the due suspects, which stay delayed, and whether more requests may be due.
        """
        all_due = _first_due(self.delayed, self.now)
        self._promote([held for held in all_due if not held.entry.suspect])
        return [held for held in all_due if held.entry.suspect], len(all_due) == BATCH

    def _promote(self, due: Sequence[Held]) -> None:
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
        """Extend leases; return those that are lost, and withdraw their strikes."""
        for lease in leases:
            if held := self.leases.get(lease.token):
                held.until = self.now + lease_ms
            else:
                self._withdraw_strike(lease.token)
        return [lease for lease in leases if lease.token not in self.leases]

    def started(self, start: StartReport) -> float | None:
        """Return the slack that a page did not need to its host; returns the host's delay, or None if it was not changed."""
        held = self.leases.get(start.lease.token)
        if held is None:
            return None
        host, claimed = self.host(held.entry.host), round(start.claimed * 1000)
        delay, slack, used = host.delay(self.now), round(start.slack * 1000), round(start.used * 1000)
        if (
            not delay
            or abs(host.spent - (claimed + delay + slack)) > ROUNDED
            or host.spent <= self.now
            or used >= slack
        ):
            return None
        host.spent = max(claimed, host.spent - slack + used)
        self._place(host)
        return delay

    def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        """Free the host slots of downloaded pages; return the leases that are lost."""
        held = [self.leases[token] for token in {lease.token: None for lease in leases} if token in self.leases]
        if not self.counted:
            names = [one.entry.host for one in held for _ in range(one.places)]
            for name in dict.fromkeys(names):
                self._unlease(self.host(name), names.count(name))
            for one in held:
                one.places = 0
        return [lease for lease in leases if lease.token not in self.leases]

    def settle(self, pairs: Sequence[tuple[Lease, Verdict]]) -> list[Lease]:
        """End leases, completions first; return the leases that are lost.

        A verdict on a lost lease has no effect, except that its strike is withdrawn, or becomes final if the verdict reports
        a lost worker.
        """
        lost = [lease for lease, _ in pairs if lease.token not in self.leases]
        self.late += len(lost)
        endings = [(lease, verdict) for lease, verdict in pairs if isinstance(verdict, Complete)]
        endings.sort(key=lambda pair: not _is_plain(pair[1]))  # plain ones come first
        completed = [lease for lease, _ in endings]
        kept = [pair for pair in pairs if isinstance(pair[1], Complete) and pair[1].result is not msgspec.UNSET]
        kept = [pair for pair in kept if pair[0].token in self.leases]
        ended = {lease.token: self.leases[lease.token].entry for lease in completed if lease.token in self.leases}
        self._complete([lease for lease in completed if lease.token in self.leases])
        for lease, complete in endings:
            if complete.next_visit is not None and lease.token in ended:
                self._delay_visit(lease, ended[lease.token], complete.next_visit)
        for lease, verdict in kept:
            assert isinstance(verdict, Complete)
            self._store_result(lease, verdict)
        for lease in completed:
            self._withdraw_strike(lease.token)
        for lease, verdict in pairs:
            if isinstance(verdict, Complete):
                continue
            if lease.token in self.leases:
                self._end(lease, verdict)
            elif isinstance(verdict, Strike | Suspect):
                self.struck.pop(lease.token, None)
            else:
                self._withdraw_strike(lease.token)
        self.drop_excess()
        return lost

    def _delay_visit(self, lease: Lease, entry: MemoryEntry, next_visit: NextVisit) -> None:
        """Delay a completed request until its next visit."""
        if self.state == "cancelled":
            return
        again = entry.afresh()
        again.record = record_of_visit(lease.request, next_visit) or again.record
        self.accepted += 1
        self.delayed.append(Held(self.now + max(0, round(next_visit.after * 1000)), lease.token, again))

    def _store_result(self, lease: Lease, verdict: Complete) -> None:
        """Keep the result of a request. If results take too much memory, those that expire first are dropped."""
        self._keep(result_id(self.layout, lease.request), encode_result(verdict.result), verdict.keep)

    def _keep(self, name: str, value: bytes, seconds: float) -> None:
        self.results[name] = StoredResult(self.now, self.now + keep_ms(seconds), value)
        self.results = {name: one for name, one in self.results.items() if one.expires > self.now}
        for oldest in sorted(self.results, key=lambda name: (self.results[name].expires, name)):
            if sum(one.size for one in self.results.values()) <= RESULTS_MEMORY:
                break
            del self.results[oldest]

    def report_progress(self, lease: Lease, done: float, note: str) -> bool:
        """Keep the progress of a leased request beside the results."""
        if lease.token not in self.leases:
            return False
        self._keep(progress_id(self.layout, lease.request), msgspec.json.encode((done, note)), KEEP_PROGRESS)
        return True

    def result(self, name: str) -> Result | None:
        found = self.results.get(name)
        if found is None or found.expires <= self.now:
            return None
        return Result(msgspec.json.decode(found.value), found.completed / 1000)

    def _withdraw_strike(self, token: int) -> None:
        """Remove one strike from the request of an expired lease whose worker has returned, wherever the request is.

        A request that was buried for its strikes is delayed again; one that was buried by a verdict stays buried.
        """
        entry = self.struck.pop(token, None)
        if entry is None or entry.attempts >= MOST_ATTEMPTS:
            return
        letter = next((letter for letter in self.letters.values() if letter.entry is entry), None)
        if letter is None:
            entry.crashes -= 1
        elif entry.crashes >= STRIKES:
            del self.letters[letter.token]
            entry.crashes -= 1
            self._suspect(letter.token, entry, letter.reason)
            self.rescued -= 1

    def _complete(self, leases: Sequence[Lease]) -> None:
        places: Counter[str] = Counter()
        for lease in leases:
            held = self.leases.pop(lease.token)
            places[lease.host] += held.places
            self._note_end(held.entry, CALL_ENDED)
        names = [lease.host for lease in leases]
        for name in dict.fromkeys(names):
            host, ended = self.host(name), names.count(name)
            self.done += ended
            host.pages += ended
            self._unlease(host, places[name])

    def _end(self, lease: Lease, verdict: RetryIn | Bury | Release | Strike | Suspect) -> None:
        held = self.leases.pop(lease.token)
        entry, host = held.entry, self.host(held.entry.host)
        after = max(0, round(verdict.after * 1000)) if isinstance(verdict, RetryIn | Release) else 0
        if isinstance(verdict, Release | Suspect):
            entry.attempts -= 1
        elif not isinstance(verdict, Strike) or verdict.noted:
            self._note_trial(entry, verdict)
        self._put(lease.token, entry, verdict, after)
        self._unlease(host, held.places)
        if isinstance(verdict, RetryIn) and verdict.block_host:
            host.own["block_until"] = max(host.blocked_until, self.now + after)
            self._place(host)
        if isinstance(verdict, RetryIn) and verdict.slow_host and host.slow(lease.token // 1024, self.now):
            self._place(host)

    def _put(
        self, token: int, entry: MemoryEntry, verdict: RetryIn | Bury | Release | Strike | Suspect, after: int
    ) -> None:
        """Move a request whose lease has ended to where its verdict says."""
        if isinstance(verdict, Strike) or (isinstance(verdict, Suspect) and entry.begun):
            entry.crashes += 1
        entry.begun = False
        if isinstance(verdict, Strike | Suspect):
            self._suspect(token, entry, one_line(verdict.reason) if isinstance(verdict, Strike) else "crashed")
        elif isinstance(verdict, Bury):
            self._bury(token, entry, one_line(verdict.reason), verdict.status)
        elif self.state == "cancelled":
            self.discarded += 1
        elif isinstance(verdict, Postpone) and not entry.suspect and self._waits_behind(entry):
            self.queued += 1
        elif after or entry.suspect:
            self.delayed.append(Held(self.now + after, token, entry))
        else:
            self._push(entry, at_head=True)

    def _waits_behind(self, entry: MemoryEntry) -> bool:
        """Move a page whose links did not fit to the end of its queue, if the queue is long. Return whether it was moved."""
        queue = self.host(entry.host).queues.get(entry.priority, deque())
        if len(queue) < MANY:
            return False
        queue.append(entry)
        return True

    def _note_trial(self, entry: MemoryEntry, verdict: RetryIn | Bury | Strike) -> None:
        known = read_record(entry, self.now)
        entry.record = with_failed_attempt(*known, verdict, self.time.server / 1000) or entry.record

    def _unlease(self, host: MemoryHost, ended: int) -> None:
        """Count ended leases; a host that was at its concurrency limit becomes ready or waiting again."""
        was_at_cap = host.leased >= host.concurrency
        host.leased -= ended
        if was_at_cap or self.state == "cancelled":
            self._place(host)

    # ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def open_group(self, entry: MemoryEntry, request: Request, until: float, *, allow_failure: bool) -> Opened:
        """Store a call that waits for a group, and an empty group."""
        name = group_name(request)
        if name in self.groups.groups:
            return "seen" if self.groups.groups[name].closed else "open"
        if self.state == "cancelled":
            return "refused"
        filtered = not request.dont_filter
        if filtered and entry.member in self.seen:
            return "seen"
        if self.pending >= self.layout.settings.capacity:
            return "full"
        if filtered:
            self.seen.add(entry.member)
        self.accepted += 1
        ends = math.ceil(until * 1000) + self.time.ahead
        due = 0 if request.not_before is None else math.ceil(request.not_before * 1000) + self.time.ahead
        held = Held(ends + NEVER, self._next_token(), entry)
        self.delayed.append(held)
        self.groups.groups[name] = MemoryGroup(held, due, ends, allow_failure)
        return "added"

    def join_group(self, name: str, batch: str, letters: str, following: str) -> Joined:
        answer = self.groups.join(name, batch, letters, following)
        if answer == "dropped" and (waits := self._take_waiting(name)):
            self.discarded += 1
            self._note_end(waits.entry, CALL_FAILED)
        if answer == "complete":
            self._complete_group(name)
        self.drop_excess()
        return answer

    def report_ended(self) -> int:
        """Report calls that have ended to their groups, and bury the calls of overdue groups. Returns how many groups have ended."""
        groups, ended = self.groups, 0
        groups.forget_overdue(self.now)
        late = sorted((group.until, name) for name, group in groups.groups.items() if group.until <= self.now)
        overdue = [name for _, name in late]
        while (complete := groups.take_notes()) or overdue:
            ended += len(complete)
            for name in complete:
                self._complete_group(name)
            for name in overdue:
                if group := groups.groups.get(name):
                    state = group.state(name, 0)
                    what = f"{state.left} of the {state.calls} calls that it waited for have not ended"
                    self._end_group(name, f"expired: {what if state.closed else 'its group was not closed'}")
                    ended += 1
            overdue = []
        self.drop_excess()
        return ended

    def _complete_group(self, name: str) -> None:
        """Enqueue the call of a group whose calls have all ended, or bury it if one of them has failed."""
        group = self.groups.groups[name]
        state = group.state(name, 0)
        failed = f"{state.failed} of the {state.calls} calls that it waited for failed"
        self._end_group(name, failed if state.failed and not group.allow_failure else "")

    def _end_group(self, name: str, reason: str) -> None:
        due = self.groups.groups[name].due
        if not (waits := self._take_waiting(name)):
            return
        if reason:
            waits.entry.first = self.now
            self._bury(waits.token, waits.entry, reason)
        elif self.state == "cancelled":
            self.discarded += 1
        elif due > self.now:
            self.delayed.append(Held(due, waits.token, waits.entry))
        else:
            self._push(waits.entry)

    def _take_waiting(self, name: str) -> Held | None:
        """Delete a group. Returns the call that waits, unless an operator has dropped it or made it run early."""
        waits = self.groups.groups.pop(name).waits
        if not any(held is waits for held in self.delayed):
            return None
        self.delayed = [held for held in self.delayed if held is not waits]
        return waits

    def _note_end(self, entry: MemoryEntry, outcome: str) -> None:
        """Note the end of a call for the groups that wait for it. A plain page is never a call."""
        if self.groups.watched > self.now and entry.record[3:4] in (codec.RICH, codec.SHORT):
            path = codec.address_of(read_record(entry, self.now)[0]).path
            self.groups.note_end(f"{entry.host}{path}", outcome)

    def _bury(self, token: int, entry: MemoryEntry, reason: str, status: int | None = None) -> None:
        self.letters[token] = Letter(self.now, token, entry, reason, status)
        self._note_end(entry, CALL_FAILED)

    # ── dead ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def add_dead(self, letters: Sequence[tuple[Request, str]]) -> bool:
        """Store requests that were never queued as dead letters; False if the crawl is cancelled."""
        if self.state == "cancelled":
            return False
        for request, reason in letters:
            address = codec.address_of(request)
            record = codec.stored(codec.without_slash(codec.encode(request, address)), self.now // 1000)
            entry = MemoryEntry(host_of(request, address), "", 0, record, first=self.now)
            self._bury(self._next_token(), entry, one_line(reason))
            self.accepted += 1
        self.drop_excess()
        return True

    def end_dead(self, chosen: DeadFilter, *, purge: bool) -> int:
        """Return dead letters to the ends of their queues with zero attempts, or delete them."""
        found = matching(self.letters.values(), chosen, shift=self.time.shift)
        if not purge and chosen.reason is None and chosen.id is None:
            found = [letter for letter in found if letter.reason != CANCELLED_CALL]
        for letter in found:
            del self.letters[letter.token]
            if purge or self.state == "cancelled":
                self.discarded += 1
            else:
                self._push(letter.entry.afresh())
        return len(found)

    def drop_excess(self) -> None:
        """Drop the oldest dead letters beyond the limit. Their URLs stay seen."""
        limit = self.layout.settings.dead_limit
        oldest = sorted(self.letters.values(), key=lambda letter: (letter.buried, letter.token))
        for letter in oldest[: len(oldest) - limit] if limit and len(oldest) > limit else ():
            del self.letters[letter.token]
            self.discarded += 1
            self.dead_dropped += 1

    # ── control ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def set_state(self, state: str) -> None:
        if self.state == "cancelled":
            raise FrontierError(f"the crawl {self.layout.keys.crawl!r} was cancelled; cancelled is final")
        self.state = state

    def set_host(self, name: str, pace: HostArguments) -> None:
        """Change the rate limits of a host. The remaining waiting time is scaled with the delay."""
        host = self.host(name)
        before, rest = host.delay(self.now), max(0, host.spent - self.now)
        host.set_pace(pace, self.time.ahead)
        if rest and before:
            host.spent = math.ceil(self.now + rest * host.delay(self.now) / before)
        if pace.get("crawl_delay") is not None and host.leased and host.delay(self.now) > before:
            host.spent = max(host.spent, self.now + host.delay(self.now))  # robots.txt was just fetched
        self._place(host)

    def change_settings(self, **changes: Any) -> None:
        settings = msgspec.structs.replace(self.layout.settings, **changes)
        self.layout = self.layout.with_settings(settings)
        for host in self.hosts.values():
            host.settings = settings

    def set_budget(self, budget: Budget) -> None:
        """Change the budget and place all hosts again."""
        before = self.layout.settings.budget.pages_per_host
        if budget.pages_per_host is not None and before is None and not self.counted and (self.done or self.leases):
            raise ConfigError(
                "pages were claimed without counting them by host, so the pages per host cannot be limited"
            )
        self.counted = self.counted or budget.pages_per_host is not None
        self.change_settings(budget=budget)
        if budget.pages_per_host != before:
            self._place_again()

    def set_politeness(self, politeness: Politeness) -> None:
        """Change the politeness. No host waits longer than before, or longer than the new delay."""
        self.change_settings(politeness=politeness, politeness_by_default=False)
        for host in self.hosts.values():
            host.spent = min(host.spent, self.now + host.delay(self.now) * host.burst(self.now))
        self._place_again()

    def _place_again(self) -> None:
        """Place all hosts again. A host that is ready or due and may start a request keeps its turn."""
        for _, host in sorted(self.hosts.items()):
            due = host.turn is not None or (host.opens is not None and host.opens <= self.now)
            if not due or host.may_start(self.now) < 1:
                self._place(host)

    def robots(self, origin: str, lock_ms: int, token: str | None = None) -> RobotsFile:
        """Return a fresh robots.txt; otherwise the first caller must fetch it. An older copy can be used for a day."""
        kept = self.kept_robots.setdefault(origin, KeptRobots())
        text, reason = (kept.text, kept.reason) if kept.fresh + STALE > self.now else (None, "")
        if kept.fresh > self.now:
            return RobotsFile("known", text, (kept.fresh - self.now) / 1000, reason)
        if kept.locked > self.now and not self._is_over(kept.token):
            return RobotsFile("fetching", text, (kept.locked - self.now) / 1000, reason)
        kept.locked, kept.token = self.now + lock_ms, token
        return RobotsFile("yours", text, lock_ms / 1000, reason)

    def _is_over(self, token: str | None) -> bool:
        if token is None:
            return False
        held = self.leases.get(
            int(token.partition(".")[0])
        )  # no writes are lost in memory, so the number identifies the lease
        return held is None or held.until <= self.now

    def keep_robots(self, origin: str, text: bytes | None, fresh_ms: int, reason: str = "") -> None:
        kept = self.kept_robots[origin] = KeptRobots(self.now + fresh_ms, 0, None if text is None else cut(text))
        kept.reason = reason[:LONGEST_REASON] if text is None else ""

    def cancel(self) -> int:
        self.state = "cancelled"
        return sum(self.drop(name) for name in self.hosts)

    def drop(self, name: str) -> int:
        """Drop the queued requests of a host; return their number."""
        before = self.discarded
        if self.state != "cancelled":
            queued = [entry for queue in self.host(name).queues.values() for entry in queue]
            for entry in queued + [held.entry for held in self.delayed if held.entry.host == name]:
                self._note_end(entry, CALL_FAILED)
        self._drop_queues(self.host(name))
        self._place(self.host(name))
        staying = [held for held in self.delayed if held.entry.host != name]
        self.discarded += len(self.delayed) - len(staying)
        self.delayed = staying
        return self.discarded - before

    def drop_some(self, queued: Iterable[MemoryEntry], delayed: Sequence[Held], reason: str) -> None:
        """Drop these requests, or bury them with a *reason*. A host whose highest priority has changed gets a new place."""
        self.delayed = [held for held in self.delayed if held not in delayed]
        for held in delayed:
            self._drop_one(held.entry, reason)
        tops: dict[str, int | None] = {}
        for entry in queued:
            host = self.host(entry.host)
            tops.setdefault(entry.host, host.top)
            host.queues[entry.priority].remove(entry)
            if not host.queues[entry.priority]:
                del host.queues[entry.priority]
            self.queued -= 1
            self._drop_one(entry, reason)
        for name, top in tops.items():
            if self.host(name).top != top:
                self._place(self.host(name))
        self.drop_excess()

    def _drop_one(self, entry: MemoryEntry, reason: str) -> None:
        if not reason:
            self.discarded += 1
            self._note_end(entry, CALL_FAILED)
            return
        token, entry.first = self._next_token(), entry.first or self.now
        self._bury(token, entry, reason)

    def promote_some(self, chosen: Sequence[Held]) -> None:
        """Move delayed requests to the heads of their queues. Suspects stay delayed, due now."""
        for held in chosen:
            if held.entry.suspect:
                held.until = self.now
        self._promote([held for held in chosen if not held.entry.suspect])

    # ── counts ───────────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def pending(self) -> int:
        return self.queued + len(self.delayed)

    @property
    def pages_spent(self) -> bool:
        budget = self.layout.settings.budget.pages
        return budget is not None and self.done >= budget

    @property
    def nothing_left(self) -> bool:
        return not self.leases and (self.pending == 0 or self.pages_spent)

    def state_of(self, host: MemoryHost) -> HostState:
        pages = host.pages if self.counted else 0
        return host.state(self.now, self.time.ahead)._replace(pages=pages, has_share=self.has_share(host))

    # ── hosts ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def host(self, name: str) -> MemoryHost:
        if name not in self.hosts:
            self.hosts[name] = MemoryHost(name, self.layout.settings)
        return self.hosts[name]

    def _push(self, entry: MemoryEntry, *, at_head: bool = False) -> None:
        host = self.host(entry.host)
        self.queued += 1
        if host.push(entry, at_head=at_head):
            self._place(host)

    def _place(self, host: MemoryHost) -> None:
        """Make a host ready, waiting or neither, by its requests, leases and rate limits. A ready host goes to the end of the line."""
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


def _is_plain(verdict: Complete) -> bool:
    return verdict.result is msgspec.UNSET and verdict.next_visit is None


def _first_due(held: Iterable[Held], now: int) -> list[Held]:
    due = sorted((one for one in held if one.until <= now), key=lambda one: (one.until, one.token))
    return due[:BATCH]
