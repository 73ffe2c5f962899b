"""Claim: lease requests whose hosts may be fetched now, shard by shard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from silkline.core.lease import Lease, Leases
from silkline.core.url import check_host
from silkline.core.verdict import Bury
from silkline.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.frontier.store import record as codec
from silkline.frontier.store.keys import CrawlKeys, ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import MAX_BATCH, Arg, Command, Flow, LossCheck, ask, ask_all, ask_each, load
from silkline.frontier.transport.notifier import PollSchedule
from silkline.frontier.verbs.settle import (
    LOST_WRITES,
    READ_AGAIN_AFTER,
    Unreadable,
    set_aside,
    settle_command,
    token_batches,
    tokens_of,
)

log = logging.getLogger(__name__)
FAILED_AGAIN_AFTER = 0.5
"""Delay in seconds before a shard that failed is asked again, so that the others are asked first."""
MOST_SLACK = 60.0
MOST_ROUNDS = 100
"""How often a claim that has met only expired requests asks the same shard again."""
EXPIRED = "expired:"
"""How the reason of a dead letter begins that was not started in time."""
TRIED = b"\x1e"
"""First byte of a queued request that has attempts (entries.lua has the same)."""
VACATED = b"\x1f"
"""First byte of an entry whose page is downloaded (entries.lua has the same)."""
SUSPECT = 100
"""Added to the strikes of an entry once its worker was lost (entries.lua has the same)."""
SuspectPolicy = Literal["any", "alone", "beside", "none"]
"""Which suspects a claimer accepts; see `Frontier.claim`."""
SUSPECT_POLICIES = get_args(SuspectPolicy)


class ClaimTerms(NamedTuple):
    """The terms of a claim."""

    lease_ms: int
    slack_ms: int = 0
    """How late the claimer may start: hosts with a delay get that much more time between two starts."""
    suspects: SuspectPolicy = "any"
    reserve: Mapping[str, int] = MappingProxyType({})
    """How many requests to lease in reserve, by host."""
    prompt: Collection[str] = ()
    """Hosts to which the slack does not apply."""
    floor: int | None = None
    """The lowest priority to lease; None for all."""

    def slack_of(self, host: str) -> int:
        return 0 if host in self.prompt else self.slack_ms

    @property
    def slack_words(self) -> str | int:
        """The slack as claim.lua takes it."""
        return " ".join([str(self.slack_ms), *self.prompt]) if self.prompt and self.slack_ms else self.slack_ms


def claim_terms(
    n: int,
    wait: float,
    lease_ms: int,
    slack: float,
    suspects: SuspectPolicy,
    reserve: Mapping[str, int] | None = None,
    prompt: Collection[str] = (),
) -> ClaimTerms:
    if type(n) is not int or n < 1:
        raise ConfigError(f"n must be at least 1, got {n!r}")
    wait_seconds(wait)
    if not isinstance(slack, int | float) or not 0 <= slack <= MOST_SLACK:
        raise ConfigError(f"slack must be between 0 and {MOST_SLACK:g} seconds, got {slack!r}")
    if suspects not in SUSPECT_POLICIES:
        raise ConfigError(f"suspects must be one of {', '.join(SUSPECT_POLICIES)}, got {suspects!r}")
    for host, most in (reserve or {}).items():
        check_host(host)
        if type(most) is not int or most < 1:
            raise ConfigError(f"reserve must be at least 1 for each host, got {most!r} for {host!r}")
    for host in prompt:
        check_host(host)
    return ClaimTerms(lease_ms, round(slack * 1000), suspects, reserve or {}, prompt)


def wait_seconds(wait: float) -> float:
    if not isinstance(wait, int | float) or not wait >= 0:
        raise ConfigError(f"wait must be at least 0 seconds, got {wait!r}")
    return wait


def lease_ms(seconds: float) -> int:
    if not isinstance(seconds, int | float) or not 0.001 <= seconds <= 86_400:
        raise ConfigError(f"lease must be between 0.001 and 86400 seconds, got {seconds!r}")
    return round(seconds * 1000)


def claim(
    layout: CrawlLayout, schedule: PollSchedule, wanted: int, terms: ClaimTerms, clock: Callable[[], float]
) -> Flow[Leases]:
    """Ask the shards that may have requests, in turn, until there are enough.

    The shards with the highest priority come first. A shard that also has lower ones than the next shard is asked for them later.
    Shards of a node that is down are skipped. If no shard can be reached, the error is raised.
    """
    leases, suspects = Leases(), list[Lease]()
    order = schedule.due(clock())
    for place, number in enumerate(order, 1):  # shards may be added to the order meanwhile
        asked = clock()
        floor = schedule.floor(order, place, asked)
        above = terms if floor is None else terms._replace(floor=floor)
        try:
            claimed = yield from _claim_shard(layout, layout.shards[number], wanted - len(leases), above)
        except SilklineError as error:
            schedule.failed(number, FAILED_AGAIN_AFTER, asked=asked, now=clock())
            if isinstance(error, StoreUnavailable) and error.one_node and not schedule.all_failed:
                continue
            if leases:
                break  # they must reach the caller, or they would count as crashed
            raise
        leases += claimed.leases
        suspects += [lease for lease in claimed.leases if lease.suspect]
        leases.isolate = leases.isolate or claimed.isolate
        now, found = clock(), bool(claimed.leases)
        schedule.replied(number, claimed.look_in, asked=asked, now=now, found=found, priority=claimed.priority)
        if len(leases) >= wanted or any(lease.crashes for lease in suspects):
            break
        if floor is not None and claimed.look_in == 0 and claimed.priority < floor:
            schedule.poll_again(order, place, number, now)
        terms = terms._replace(suspects=_suspect_policy(terms, leases))
    yield from _begin_suspects(layout, suspects)
    return leases


def _suspect_policy(terms: ClaimTerms, leases: Leases) -> SuspectPolicy:
    """Return which suspects the other shards may add."""
    if any(lease.suspect for lease in leases):
        return "none"
    return "beside" if leases and terms.suspects == "alone" else terms.suspects


def _begin_suspects(layout: CrawlLayout, suspects: Sequence[Lease]) -> Flow[None]:
    """Mark suspects as begun: only then can they get a strike. If the mark cannot be stored, they get none."""
    if suspects:
        with suppress(SilklineError):
            yield from ask_all(begin(layout.shards[shard], tokens) for shard, tokens in token_batches(suspects))


def _claim_shard(layout: CrawlLayout, keys: ShardKeys, wanted: int, terms: ClaimTerms) -> Flow[Claimed]:
    if terms.reserve and layout.settings.shards > 1:
        mine = {host: most for host, most in terms.reserve.items() if layout.shard_of(host) == keys}
        terms = terms._replace(reserve=mine)
    claimed = yield from _claim_usable(layout, keys, min(wanted, MAX_BATCH), terms)
    if not claimed.starved or layout.settings.shards == 1:
        return claimed
    try:
        if not (yield from _obtain_pages(layout, keys, claimed.starved)):
            return claimed
        terms = terms._replace(suspects=_suspect_policy(terms, Leases(claimed.leases)))
        more = yield from _claim_usable(layout, keys, claimed.starved, terms)
    except SilklineError:
        if claimed.leases:
            return claimed
        raise
    return more._replace(leases=claimed.leases + more.leases, isolate=claimed.isolate or more.isolate)


def _claim_usable(layout: CrawlLayout, keys: ShardKeys, wanted: int, terms: ClaimTerms) -> Flow[Claimed]:
    """Claim. Requests that have expired become dead letters, and do not keep others from being claimed."""
    for _ in range(MOST_ROUNDS):
        claimed = yield from _claim_readable(keys, wanted, terms)
        expired = expired_of(claimed.leases, terms.lease_ms)
        if not expired:
            return claimed
        with suppress(SilklineError):  # then they return when their leases expire
            verdicts = [(lease, expiry_of(lease)) for lease in expired]
            yield from ask(settle_command(layout, keys.number, verdicts, started_at(expired[0], terms.lease_ms)))
        left = [lease for lease in claimed.leases if lease not in expired]
        claimed = claimed._replace(leases=left)
        if left:
            return claimed
    return claimed._replace(look_in=0.0)


def started_at(lease: Lease, lease_ms: int) -> float:
    """Return when the lease began, by the server's clock."""
    return lease.expires - lease.ahead - lease_ms / 1000


def expired_of(leases: Sequence[Lease], lease_ms: int) -> list[Lease]:
    """Return the leases of requests that must not start any more. One that was revived after it had expired may start."""
    return [
        lease
        for lease in leases
        if lease.request.expires is not None
        and round(lease.request.expires * 1000) <= round(started_at(lease, lease_ms) * 1000)
        and not any(failed.reason.startswith(EXPIRED) for failed in lease.history)
    ]


def expiry_of(lease: Lease) -> Bury:
    """Return the verdict on a request that has expired."""
    expires = lease.request.expires
    assert expires is not None
    return Bury(f"{EXPIRED} not started by {datetime.fromtimestamp(expires, UTC):%Y-%m-%d %H:%M:%S} UTC")


def _claim_readable(keys: ShardKeys, wanted: int, terms: ClaimTerms) -> Flow[Claimed]:
    """Claim. Requests whose records cannot be read are postponed and do not block the others."""
    [claimed] = yield from ask_each([claim_command(keys, wanted, terms)])
    if isinstance(claimed, StoreUnavailable):
        raise claimed
    if claimed.unreadable:
        log.warning(
            "%d requests of the crawl %r cannot be read by this version of Silkline and are set aside for %.0f s: %s",
            len(claimed.unreadable),
            keys.crawl,
            READ_AGAIN_AFTER,
            claimed.unreadable[0].error,
        )
        with suppress(SilklineError):  # then they return when their leases expire
            yield from ask(set_aside(keys, claimed.unreadable))
    return claimed


class Claimed(NamedTuple):
    """The reply of a shard to a claim."""

    leases: list[Lease]
    look_in: float | None
    """Seconds until the next poll makes sense; None to wait for a notification."""
    starved: int
    unreadable: list[Unreadable]
    """Requests whose records could not be read."""
    isolate: bool = False
    priority: int = 0
    """The priority of the next request that may be claimed now, if there is one."""


def claim_command(keys: ShardKeys, wanted: int, terms: ClaimTerms) -> Command[Claimed]:
    def decode(reply: list[bytes]) -> Claimed:
        began, ahead = map(int, reply[0].split())
        expires = (began + terms.lease_ms) / 1000
        leases, unreadable = [], []
        isolate = len(reply) % 2 == 0  # the word isolate comes last
        for i in range(3, len(reply) - isolate, 2):
            token = reply[i].decode()
            try:
                leases.append(read_lease(reply[i + 1], keys.number, token, expires, ahead / 1000))
            except Exception as error:  # noqa: BLE001 - one record that cannot be read must not hide the others
                unreadable.append(Unreadable(token, _attempt_of(reply[i + 1]), error))
        look_in = int(reply[1]) / 1000 if reply[1] else None
        if reply[2] == b"0":  # most replies
            return Claimed(leases, look_in, 0, unreadable, isolate)
        words = reply[2].split()
        return Claimed(leases, look_in, int(words[0]), unreadable, isolate, int(words[1]) if len(words) > 1 else 0)

    suspects = "alone" if terms.suspects == "any" else terms.suspects
    reserve = [arg for pair in terms.reserve.items() for arg in pair]
    floor = "" if terms.floor is None else terms.floor
    args = (wanted, terms.lease_ms, terms.slack_words, suspects, floor, *reserve)
    return Command(load("claim"), (keys.ledger,), args, decode, waits=False, loss_check=_CLAIMED)


_CLAIMED = LossCheck(lost=lambda reply: reply[2].endswith(LOST_WRITES), kept=lambda _: False)


def _attempt_of(entry: bytes) -> int:
    try:
        return int(entry.split(b"\n", 3)[2])
    except (IndexError, ValueError):
        return 1


def read_lease(
    entry: bytes, shard: int, token: str, expires: float, ahead: float = 0.0, near: float | None = None
) -> Lease:
    """Return the lease of an entry. If *expires* is not a time soon after the request was stored, *near* is one."""
    host_, priority, attempts, doubt_, first, record = entry.split(b"\n", 5)
    near = expires if near is None else near
    if attempts == b"1" and doubt_ == b"0" and host_[:1] != VACATED:  # most requests, in two thirds of the time
        host = host_.decode()
        request, history, created = codec.decode_stored(record, host, 0 if priority == b"0" else int(priority), near)
        return Lease(
            request=request, shard=shard, wire_token=token, host=host, attempt=1, first=_seconds(first),
            expires=expires, ahead=ahead, history=history, created=created,
        )  # fmt: skip
    host = host_.removeprefix(VACATED).decode()
    request, history, created = codec.decode_stored(record, host, int(priority), near)
    doubt = int(doubt_)
    return Lease(
        request=request,
        shard=shard,
        wire_token=token,
        host=host,
        attempt=int(attempts),
        crashes=doubt % SUSPECT,
        suspect=doubt > 0,
        reserve=host_.startswith(VACATED),
        first=int(first) / 1000,
        expires=expires,
        ahead=ahead,
        history=history,
        created=created,
    )


@lru_cache(maxsize=16)
def _seconds(milliseconds: bytes) -> float:
    """Return a number of a reply in seconds. Requests that are claimed together for the first time have the same."""
    return int(milliseconds) / 1000


class StartReport(NamedTuple):
    """When a page started, compared with its claim. Times are in seconds, *claimed* on the clock of its shard."""

    lease: Lease
    claimed: float
    slack: float
    """The slack of its claim."""
    used: float
    """How much of the slack the page needed; less than 0 if it started earlier than its claim planned."""


def started(layout: CrawlLayout, starts: Sequence[StartReport]) -> Flow[dict[Lease, float]]:
    """Return unused slack. Returns the delays in seconds of the hosts for which that was possible, by lease."""
    by_shard: dict[int, list[StartReport]] = {}
    for start in starts:
        by_shard.setdefault(start.lease.shard, []).append(start)
    batches = [
        (shard, some[i : i + MAX_BATCH]) for shard, some in by_shard.items() for i in range(0, len(some), MAX_BATCH)
    ]
    replies = yield from ask_each(started_command(layout.shards[shard], some) for shard, some in batches)
    return {
        start.lease: delay
        for (_, some), reply in zip(batches, replies, strict=True)
        if not isinstance(reply, StoreUnavailable)
        for start, delay in zip(some, reply, strict=True)
        if delay is not None
    }


def started_command(keys: ShardKeys, starts: Sequence[StartReport]) -> Command[list[float | None]]:
    def decode(reply: bytes) -> list[float | None]:
        return [None if word == b"-" else float(word) / 1000 for word in reply.split()]

    args: list[Arg] = []
    for start in starts:
        times = (start.claimed, start.slack, start.used)
        args += [start.lease.wire_token, *(round(seconds * 1000) for seconds in times)]
    return Command(load("started"), (keys.ledger,), args, decode)


def begin(keys: ShardKeys, tokens: Sequence[str]) -> Command[set[str]]:
    return Command(load("begin"), (keys.ledger,), tokens, tokens_of)


class PageGrant(NamedTuple):
    """A shard's page allowance, and the epoch it belongs to."""

    epoch: int
    pages: int


NOTHING_GRANTED = PageGrant(0, 0)


def _obtain_pages(layout: CrawlLayout, keys: ShardKeys, wanted: int) -> Flow[bool]:
    """Get more of the page budget for a shard: from what is left, else from shards that do not use theirs."""
    budget = layout.settings.budget.pages or 0  # the script prefers the stored one
    if (yield from _grant_more(layout, keys, budget, wanted)):
        return True
    for other in layout.shards:
        if other != keys:
            held = yield from ask(set_allowance(other, "surrender"))
            yield from ask(grant_pages(layout.keys, budget, other.number, held, 0))
    return (yield from _grant_more(layout, keys, budget, wanted))


def _grant_more(layout: CrawlLayout, keys: ShardKeys, budget: int, wanted: int) -> Flow[bool]:
    held: PageGrant = yield from ask(set_allowance(keys, "read"))
    granted = yield from ask(grant_pages(layout.keys, budget, keys.number, held, wanted))
    now_held = yield from ask(set_allowance(keys, "allow", granted))
    return now_held.pages > held.pages


def set_allowance(keys: ShardKeys, verb: str, grant: PageGrant = NOTHING_GRANTED) -> Command[PageGrant]:
    return Command(load("set_allowance"), (keys.ledger,), (verb, grant.epoch, grant.pages), _read_grant)


def grant_pages(keys: CrawlKeys, budget: int, shard: int, held: PageGrant, wanted: int) -> Command[PageGrant]:
    args = (budget, shard, held.epoch, held.pages, wanted)
    return Command(load("grant_pages"), (keys.settings,), args, _read_grant)


def _read_grant(reply: list[int]) -> PageGrant:
    return PageGrant(int(reply[0]), int(reply[1]))
