"""Verbs that need several commands, as generators: each yields what to send and is sent the answers.

Two clients drive them, one async and one sync. Every prefix of a flow is safe: whatever happens between two steps,
nothing is lost and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from silkline.core.errors import ConfigError, FrontierError, SilklineError, UnknownCrawl
from silkline.core.lease import Admission, Admissions, Lease
from silkline.core.lookout import Lookout
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.verdict import Release, Verdict
from silkline.frontier import admitting, commands, leasing
from silkline.frontier.admitting import send_offers, store_links
from silkline.frontier.commands import MAX_BATCH, Grant
from silkline.frontier.effects import Flow, ask, ask_all, on_disk
from silkline.frontier.keys import CrawlKeys, ShardKeys
from silkline.frontier.leasing import Claimed, Terms
from silkline.frontier.offers import make_offers
from silkline.frontier.overflow import Overflow, Taken
from silkline.frontier.plan import Plan
from silkline.frontier.settings import Settings

FULL_AGAIN_AFTER = 5.0
"""Seconds after which a page is tried again whose links found no room."""

FAILED_AGAIN_AFTER = 0.5
"""Seconds for which a shard that failed is spared, so that the others are asked first."""


@dataclass(slots=True)
class Settlement:
    """How a batch of leases ended."""

    lost: list[Lease] = field(default_factory=list)
    """No longer held by this worker; nothing was changed for them."""
    postponed: list[Lease] = field(default_factory=list)
    """Put back, because the crawl had no room for their links."""
    links: Admissions = field(default_factory=Admissions)


def open_crawl(keys: CrawlKeys, wishes: dict[str, Any], defaults: dict[str, Any], *, create: bool) -> Flow[Plan]:
    """Find the crawl, or create it; *wishes* must not contradict what is stored."""
    stored = yield from ask(commands.read_settings(keys))
    if stored is None:
        if not create:
            known = yield from ask(commands.register(""))
            others = f"; there are {', '.join(known[:10])}" if known else "; there are none yet"
            raise UnknownCrawl(f"there is no crawl named {keys.crawl!r} on this server{others}")
        settings = Settings(**{**defaults, **wishes})
        stored = yield from ask(commands.create(keys, settings.encode()))
    plan = Plan(keys, Settings.decode(stored))
    conflicts = plan.settings.conflicts(wishes)
    if conflicts:
        raise ConfigError(f"the crawl {keys.crawl!r} was created with other settings: {'; '.join(conflicts)}")
    yield from ask_all(commands.found(shard, plan.settings.shard_fields()) for shard in plan.shards)
    yield from ask(commands.register(keys.crawl))
    return plan


def claim(plan: Plan, lookout: Lookout, wanted: int, terms: Terms, clock: Callable[[], float]) -> Flow[list[Lease]]:
    """Ask the shards that may have something, in turn, until there is enough."""
    leases: list[Lease] = []
    for number in lookout.due(clock()):
        asked = clock()
        try:
            claimed = yield from _claim_shard(plan, plan.shards[number], wanted - len(leases), terms)
        except SilklineError:
            lookout.answered(number, FAILED_AGAIN_AFTER, asked=asked, now=clock())
            if leases:
                break  # they must reach the caller, or they would be taken for crashed
            raise
        leases += claimed.leases
        lookout.answered(number, claimed.look_in, asked=asked, now=clock())
        if len(leases) >= wanted:
            break
    return leases


def _claim_shard(plan: Plan, keys: ShardKeys, wanted: int, terms: Terms) -> Flow[Claimed]:
    claimed = yield from _claim_readable(keys, min(wanted, MAX_BATCH), terms)
    if not claimed.starved or plan.settings.shards == 1:
        return claimed
    try:
        if not (yield from _obtain_pages(plan, keys, claimed.starved)):
            return claimed
        more = yield from _claim_readable(keys, claimed.starved, terms)
    except SilklineError:
        if claimed.leases:
            return claimed
        raise
    return more._replace(leases=claimed.leases + more.leases)


def _claim_readable(keys: ShardKeys, wanted: int, terms: Terms) -> Flow[Claimed]:
    """Claim; if a record is from a later version, give everything back unharmed and refuse."""
    claimed = yield from ask(leasing.claim(keys, wanted, terms))
    if claimed.unreadable:
        tokens = [lease.token for lease in claimed.leases] + [token for token, _ in claimed.unreadable]
        yield from ask(leasing.release_tokens(keys, tokens))
        raise claimed.unreadable[0][1]
    return claimed


def _obtain_pages(plan: Plan, keys: ShardKeys, wanted: int) -> Flow[bool]:
    """Get more of the page budget for a shard: from what is left, else from shards that do not use theirs."""
    budget = plan.settings.budget.pages
    assert budget is not None
    if (yield from _grant(plan, keys, budget, wanted)):
        return True
    for other in plan.shards:
        if other != keys:
            held = yield from ask(commands.allow(other, "surrender"))
            yield from ask(commands.grant(plan.keys, budget, other.number, held, 0))
    return (yield from _grant(plan, keys, budget, wanted))


def _grant(plan: Plan, keys: ShardKeys, budget: int, wanted: int) -> Flow[bool]:
    held: Grant = yield from ask(commands.allow(keys, "read"))
    granted = yield from ask(commands.grant(plan.keys, budget, keys.number, held, wanted))
    now_held = yield from ask(commands.allow(keys, "allow", granted))
    return now_held.pages > held.pages


def settle(
    plan: Plan, pairs: Sequence[tuple[Lease, Verdict]], clock: Callable[[], float], overflow: Overflow | None
) -> Flow[Settlement]:
    """End leases. Links are stored before the page they were found on is completed."""
    outcome = Settlement()
    pairs = _first_verdicts(pairs, outcome)
    outcome.links, full = yield from store_links(plan, pairs)
    if full and overflow:
        yield from _spill(plan, overflow, [_as_request(link, lease) for lease, link in full])
        outcome.links.spilled = True
    elif full:
        pairs = _postpone(pairs, {lease for lease, _ in full}, outcome)
    for wave in _lease_waves(pairs):
        lost = yield from ask_all(leasing.settle(plan.shards[shard], batch, clock()) for shard, batch in wave)
        for (_, batch), tokens in zip(wave, lost, strict=True):
            outcome.lost += [lease for lease, _ in batch if lease.token in tokens]
    return outcome


def _first_verdicts(pairs: Sequence[tuple[Lease, Verdict]], outcome: Settlement) -> list[tuple[Lease, Verdict]]:
    """A lease ends once: the first verdict on it holds, and for any other it is lost."""
    first: dict[Lease, Verdict] = {}
    for lease, verdict in pairs:
        if lease in first:
            outcome.lost.append(lease)
        else:
            first[lease] = verdict
    return list(first.items())


def _lease_waves(
    pairs: Sequence[tuple[Lease, Verdict]],
) -> list[list[tuple[int, list[tuple[Lease, Verdict]]]]]:
    by_shard: dict[int, list[tuple[Lease, Verdict]]] = {}
    for pair in pairs:
        by_shard.setdefault(pair[0].shard, []).append(pair)
    most = max((len(batch) for batch in by_shard.values()), default=0)
    return [
        [(shard, batch[i : i + MAX_BATCH]) for shard, batch in by_shard.items() if len(batch) > i]
        for i in range(0, most, MAX_BATCH)
    ]


def _postpone(
    pairs: Sequence[tuple[Lease, Verdict]], crowded: set[Lease], outcome: Settlement
) -> list[tuple[Lease, Verdict]]:
    """Put pages back whose links found no room, rather than complete them and lose the links."""
    outcome.postponed = [lease for lease, _ in pairs if lease in crowded]
    return [(lease, Release(FULL_AGAIN_AFTER) if lease in crowded else verdict) for lease, verdict in pairs]


def enqueue(plan: Plan, items: Sequence[object], overflow: Overflow | None) -> Flow[Admissions]:
    """Offer requests; those that find no room are put into the *overflow*, if there is one."""
    answers = yield from admitting.enqueue(plan, items)
    full = [item for item, answer in zip(items, answers, strict=True) if answer is Admission.FULL]
    if full and overflow:
        yield from _spill(plan, overflow, [item if isinstance(item, Request) else Request(str(item)) for item in full])
        answers.spilled = True
    return answers


def _spill(plan: Plan, overflow: Overflow, requests: list[Request]) -> Flow[None]:
    yield from on_disk(partial(overflow.put, plan.shelf, requests))
    yield from _note_overflow(plan, overflow)


def _note_overflow(plan: Plan, overflow: Overflow) -> Flow[int]:
    """Tell all clients how much waits on this disk, so that none takes the crawl for finished."""
    tally = yield from on_disk(partial(overflow.tally, plan.shelf))
    if tally.version:  # something was in it once
        yield from ask(commands.note(plan.keys, overflow.name, tally))
    return tally.requests


def recall(plan: Plan, overflow: Overflow) -> Flow[tuple[int, bool]]:
    """Bring back what waits on the disk, as far as there is room.

    Answers how many came back, and whether it is worth trying again at once.
    """
    rows = yield from on_disk(partial(overflow.take, plan.shelf, MAX_BATCH))
    full = (yield from _offer_again(plan, overflow, rows)) if rows else []
    left = yield from _note_overflow(plan, overflow)  # also of a change whose maker died before it could tell
    return len(rows) - len(full), left > 0 and bool(rows) and not full


def _offer_again(plan: Plan, overflow: Overflow, rows: Taken) -> Flow[list[int]]:
    """Move rows from the disk to the shards; answers those that found no room.

    If we die in between, the same batch is offered again. The seen filter then tells that it came in already; requests
    that pass by the filter are known by the name of their batch.
    """
    unfiltered = any(request.dont_filter for _, request in rows)
    call = (f"{overflow.name}:{rows.batch}", "1") if unfiltered else None
    answers = yield from send_offers(plan, *make_offers(plan, [request for _, request in rows]), call=call)
    full = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is Admission.FULL]
    done = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is not Admission.FULL]
    yield from on_disk(partial(overflow.settle, done, full))
    return full


def _as_request(link: object, parent: Lease) -> Request:
    request = link if isinstance(link, Request) else Request(str(link))
    return request.found_on(parent.request)


def extend(plan: Plan, leases: Sequence[Lease], lease_ms: int) -> Flow[tuple[float, list[Lease]]]:
    """Keep leases for longer; answers until when, and those that are lost."""
    batches = _token_batches(leases)
    answers = yield from ask_all(leasing.extend(plan.shards[shard], tokens, lease_ms) for shard, tokens in batches)
    until = max((expires for expires, _ in answers), default=0.0)
    return until, _lost_of(leases, batches, [lost for _, lost in answers])


def vacate(plan: Plan, leases: Sequence[Lease]) -> Flow[list[Lease]]:
    """Free the places of hosts whose pages have landed; answers the leases that are lost."""
    batches = _token_batches(leases)
    answers = yield from ask_all(leasing.vacate(plan.shards[shard], tokens) for shard, tokens in batches)
    return _lost_of(leases, batches, answers)


TokenBatches = list[tuple[int, list[int]]]
"""A shard, and tokens of its leases."""


def _token_batches(leases: Sequence[Lease]) -> TokenBatches:
    by_shard: dict[int, list[int]] = {}
    for lease in leases:
        by_shard.setdefault(lease.shard, []).append(lease.token)
    return [
        (shard, tokens[i : i + MAX_BATCH])
        for shard, tokens in by_shard.items()
        for i in range(0, len(tokens), MAX_BATCH)
    ]


def _lost_of(leases: Sequence[Lease], batches: TokenBatches, answers: Sequence[set[int]]) -> list[Lease]:
    pairs = zip(batches, answers, strict=True)
    lost = {(shard, token) for (shard, _), tokens in pairs for token in tokens}
    return [lease for lease in leases if (lease.shard, lease.token) in lost]


def cancel(plan: Plan) -> Flow[int]:
    """Stop the crawl for good and drop all that waits; what is under way may still complete."""
    dropped = 0
    for keys in plan.shards:
        yield from ask(commands.control(keys, "cancelled"))
    for keys in plan.shards:
        dropped += yield from discard(keys, "")
    return dropped


def discard(keys: ShardKeys, host: str) -> Flow[int]:
    """Drop all that waits on a shard, or for one of its hosts, a bounded number per command."""
    dropped, skip = 0, 0
    while True:
        some, more = yield from ask(commands.discard(keys, host, skip))
        dropped += some
        if more is None:
            return dropped
        skip = more


def set_politeness(plan: Plan, politeness: Politeness) -> Flow[Plan]:
    """On all shards, then in the settings: if it is cut short, whoever compares the settings does it again."""
    for keys in plan.shards:
        cursor = yield from ask(commands.pace(keys, politeness, "0"))
        while cursor != "0":
            cursor = yield from ask(commands.pace(keys, politeness, cursor))
    changed = Plan(plan.keys, msgspec.structs.replace(plan.settings, politeness=politeness), plan.buckets)
    if not (yield from ask(commands.amend(plan.keys, changed.settings.encode()))):
        raise UnknownCrawl(f"the crawl {plan.keys.crawl!r} has been removed")
    return changed


def set_state(plan: Plan, state: str) -> Flow[None]:
    answers = yield from ask_all(commands.control(keys, state) for keys in plan.shards)
    if any(answer != state for answer in answers):
        raise FrontierError(f"the crawl {plan.keys.crawl!r} was cancelled; cancelled is final")
