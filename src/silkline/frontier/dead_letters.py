"""Dead letters: listed, counted, revived and purged, by one filter."""

from __future__ import annotations

import heapq
import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from msgspec.structs import replace

from silkline.core.errors import ConfigError
from silkline.frontier import letters
from silkline.frontier.commands import MAX_BATCH, Command
from silkline.frontier.effects import Flow, ask, ask_all
from silkline.frontier.filters import DeadFilter
from silkline.frontier.keys import ShardKeys
from silkline.frontier.letters import DeadLetter
from silkline.frontier.plan import Plan
from silkline.frontier.script import load

GroupedBy = Literal["reason", "host"]
Counted = dict[bytes, int]
MOST_GROUPS = 1000
"""So many groups a count tells apart."""
ALL_REASONS = 1000
"""So many reasons a shard counts apart (graves.lua has the number): a reason may be on every shard, a host is on one."""


class DeadGroup(NamedTuple):
    """Dead letters that have something in common; without a name, all that are in no other group."""

    name: str
    letters: int


class DeadCount(NamedTuple):
    """How many dead letters match a filter, and what they are."""

    total: int
    reasons: list[DeadGroup]
    hosts: list[DeadGroup]
    """Of both the largest groups first; of very many, one without a name counts the rest."""


def groups(keys: ShardKeys, by: str, most: int) -> Command[tuple[int, list[DeadGroup]]]:
    def decode(reply: list[Any]) -> tuple[int, list[DeadGroup]]:
        return reply[0], _groups(reply[1:])

    return Command(load("groups"), (keys.root,), (by, most, ""), decode)


def group_of(keys: ShardKeys, by: str, name: str) -> Command[int]:
    return Command(load("groups"), (keys.root,), (by, 1, name), lambda reply: int(reply[2]))


def tally(keys: ShardKeys, chosen: DeadFilter, skip: int, most: int) -> Command[tuple[int, int, Counted, Counted]]:
    def decode(reply: list[Any]) -> tuple[int, int, Counted, Counted]:
        return reply[0], reply[1], _counted(reply[2]), _counted(reply[3])

    return Command(load("tally"), (keys.root,), (skip, most, *chosen.arguments()), decode)


def _counted(pairs: list[Any]) -> Counted:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _groups(pairs: list[Any]) -> list[DeadGroup]:
    return [DeadGroup(pairs[i].decode(errors="replace"), int(pairs[i + 1])) for i in range(0, len(pairs), 2)]


def check_grouped(by: str, limit: int) -> None:
    if by not in get_args(GroupedBy):
        raise ConfigError(f"dead letters are grouped by reason or by host, not by {by!r}")
    if type(limit) is not int or not 1 <= limit <= 10_000:
        raise ConfigError(f"from 1 to 10000 groups can be told, got {limit!r}")


def check_newest(newest: int | None) -> None:
    if newest is not None and (type(newest) is not int or newest < 1):
        raise ConfigError(f"newest is how many letters are looked at, 1 or more, got {newest!r}")


def largest(counts: Counter[str], limit: int, total: int) -> list[DeadGroup]:
    """The largest groups, and at the end one without a name for the rest of the *total*."""
    chosen = heapq.nsmallest(limit, counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = total - sum(count for _, count in chosen)
    return [DeadGroup(*pair) for pair in chosen] + ([DeadGroup("", rest)] if rest > 0 else [])


def dead_groups(plan: Plan, by: str, limit: int, name: str | None = None) -> Flow[list[DeadGroup]]:
    """The largest groups, or one, read off the counts that the scripts keep."""
    check_grouped(by, limit)
    if name is not None:
        shards = (plan.shard_of(name),) if by == "host" else plan.shards
        counts_of_it = yield from ask_all(group_of(keys, by, name) for keys in shards)
        return [DeadGroup(name, sum(counts_of_it))]
    most = max(limit, ALL_REASONS) if by == "reason" else limit
    answers = yield from ask_all(groups(keys, by, most) for keys in plan.shards)
    counts: Counter[str] = Counter()
    for _, found in answers:
        counts.update(dict(found))
    return largest(counts, limit, sum(total for total, _ in answers))


def count_dead(plan: Plan, chosen: DeadFilter) -> Flow[DeadCount]:
    """Look at every letter that may match, of a host only at its own, a bounded number per command.

    Without a filter they are counted already.
    """
    if chosen == DeadFilter():
        all_reasons = yield from dead_groups(plan, "reason", MOST_GROUPS)
        all_hosts = yield from dead_groups(plan, "host", MOST_GROUPS)
        return DeadCount(sum(group.letters for group in all_reasons), all_reasons, all_hosts)
    total, reasons, hosts = 0, Counter[bytes](), Counter[bytes]()
    for keys in shards_of(plan, chosen):
        skip, looked = 0, MAX_BATCH
        while looked == MAX_BATCH:
            looked, matching, by_reason, by_host = yield from ask(tally(keys, chosen, skip, MAX_BATCH))
            total += matching
            reasons.update(by_reason)
            hosts.update(by_host)
            skip += looked
    return DeadCount(total, _ranked(reasons, total), _ranked(hosts, total))


def _ranked(counts: Counter[bytes], total: int) -> list[DeadGroup]:
    named: Counter[str] = Counter()
    for name, count in counts.items():
        named[name.decode(errors="replace")] += count
    return largest(named, MOST_GROUPS, total)


def dead(plan: Plan, chosen: DeadFilter, limit: int, newest: int | None = None) -> Flow[list[DeadLetter]]:
    """Up to *limit* dead letters that match, newest first; of the *newest* so many, each shard's share of them."""
    check_newest(newest)
    found: list[DeadLetter] = []
    shards = shards_of(plan, chosen)
    enough = sys.maxsize if newest is None else math.ceil(newest / len(shards))
    for keys in shards:
        mine: list[DeadLetter] = []
        skip, most, more = 0, min(MAX_BATCH, limit, enough), True  # without a filter the first look finds enough
        while more and most and len(mine) < limit:
            looked, some = yield from ask(letters.dead(keys, chosen, skip, most))
            mine += some
            skip, more = skip + looked, looked == most
            most = min(MAX_BATCH, enough - skip)
        found += mine
    return heapq.nlargest(limit, found, key=lambda letter: letter.last)


def end_dead(plan: Plan, chosen: DeadFilter, *, purge: bool) -> Flow[int]:
    """Revive (or purge) all that match and are dead by now, not what dies meanwhile; answers how many."""
    total = 0
    for keys in shards_of(plan, chosen):
        _, newest = yield from ask(letters.dead(keys, DeadFilter(host=chosen.host), 0, 1))
        if not newest:
            continue
        last = newest[0].last
        until_now = replace(chosen, before=last if chosen.before is None else min(last, chosen.before))
        skip, looked = 0, MAX_BATCH
        while looked == MAX_BATCH:
            looked, ended = yield from ask(letters.revive(keys, until_now, skip, MAX_BATCH, purge=purge))
            total += ended
            skip += looked - ended
    return total


def shards_of(plan: Plan, chosen: DeadFilter) -> Sequence[ShardKeys]:
    number = chosen.shard()
    if number is not None:
        return plan.shards[number : number + 1]
    return (plan.shard_of(chosen.host),) if chosen.host else plan.shards
