"""Dead letters: list, count, revive and purge them, by one filter."""

from __future__ import annotations

import heapq
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import msgspec
from msgspec.structs import replace

from silkline.core.lease import FailedAttempt
from silkline.core.request import Request, host_of
from silkline.errors import ConfigError
from silkline.frontier.store import record as codec
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import MAX_BATCH, Command, Flow, as_text, ask, ask_all, load
from silkline.frontier.verbs.claim import read_lease
from silkline.frontier.verbs.settle import one_line

GroupedBy = Literal["reason", "host"]
Counted = dict[bytes, int]
MOST_GROUPS = 1000
"""Groups that a count returns."""
ALL_REASONS = 1000
"""Reasons that a shard counts separately (dead_store.lua has the number). A reason may be on every shard, a host is on one."""
CANCELLED_CALL = "cancelled by its caller"
"""The reason of a call of a task that was cancelled. Only a filter with a reason or an id revives it; revive.lua has the same."""
LONGEST_NAME = 200
FIRST_TIES = 50
"""Letters that are read again to find the one after which a list continues."""
_CODE = re.compile(r"([^()]+: [A-Za-z0-9_.]+ \([^()]+:[0-9]+\)): ")
_KIND = re.compile(r"[^:]*: ")
_URL = re.compile(r"https?://\S+")
_ADDRESS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_BYTES = re.compile(r"[0-9][0-9,]* bytes")
_ID = re.compile(r"([0-9]{1,5})-[0-9]{1,20}")
_POSITION = re.compile(r"([0-9]{1,16}):([0-9]{1,5}-[0-9]{1,20})")


class DeadLetter(NamedTuple):
    """A request that was given up."""

    id: str
    request: Request
    reason: str
    status: int | None
    attempts: int
    crashes: int
    first: float
    last: float
    history: tuple[FailedAttempt, ...]
    host: str
    created: float | None = None
    """When the request was enqueued, as `Lease.created`."""

    @property
    def url(self) -> str:
        return self.request.url

    @property
    def position(self) -> str:
        """Where the letter is among the others, for the *after* of `dead`."""
        return f"{round(self.last * 1000)}:{self.id}"


class DeadGroup(NamedTuple):
    """Dead letters with the same reason or host. The group without a name counts the rest."""

    name: str
    letters: int


class DeadCount(NamedTuple):
    """How many dead letters match a filter, by reason and by host."""

    total: int
    reasons: list[DeadGroup]
    hosts: list[DeadGroup]
    """Both have the largest groups first; if there are too many, a group without a name counts the rest."""


class DeadFilterArguments(TypedDict, total=False):
    """Which dead letters: every given argument must match. Ages are in seconds."""

    id: str
    host: str
    reason: str
    status: int
    older_than: float
    newer_than: float


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters: every field that is set must match. *reason* matches a part of a reason or of its group, in any case.

    Times are unix times.
    """

    host: str | None = None
    reason: str | None = None
    status: int | None = None
    before: float | None = None
    after: float | None = None
    id: str | None = None

    def shard(self) -> int | None:
        """Return the number of the only shard that can hold a match, if the filter has an id."""
        if self.id is None:
            return None
        found = _ID.fullmatch(self.id)
        if not found:
            raise ConfigError(f"a dead letter's id looks like 0-1760000000000123, got {self.id[:40]!r}")
        return int(found[1])

    def arguments(self) -> tuple[str | int, ...]:
        """Return oldest, newest, host, reason, status and id as the scripts take them."""
        return (
            "-inf" if self.after is None else round(self.after * 1000),
            "+inf" if self.before is None else round(self.before * 1000),
            self.host or "",
            self.reason or "",
            "" if self.status is None else self.status,
            "" if self.id is None else self.id.partition("-")[2],
        )


def dead_filter(which: DeadFilterArguments, now: float) -> DeadFilter:
    unknown = set(which) - set(DeadFilterArguments.__annotations__)
    if unknown or which.get("host") == "":  # otherwise a typo would select all of them
        raise ConfigError(
            f"dead letters are chosen by {', '.join(DeadFilterArguments.__annotations__)}; got {dict(which)!r}"
        )
    older, newer = which.get("older_than"), which.get("newer_than")
    return DeadFilter(
        id=which.get("id"),
        host=which.get("host"),
        reason=which.get("reason"),
        status=which.get("status"),
        before=None if older is None else now - older,
        after=None if newer is None else now - newer,
    )


def dead(
    layout: CrawlLayout, chosen: DeadFilter, limit: int, newest: int | None = None, after: str = ""
) -> Flow[list[DeadLetter]]:
    """Return up to *limit* dead letters that match, newest first; with *newest*, search only that many, a share on each shard.

    With *after*, continue after the letter with that position. Of those buried in the same millisecond, more are read until it is found.
    """
    check_newest(newest)
    if not after:
        return (yield from _newest(layout, chosen, limit, newest))
    last, _ = read_position(after)
    until = replace(chosen, before=last if chosen.before is None else min(last, chosen.before))
    ties = FIRST_TIES
    while True:
        found = yield from _newest(layout, until, limit + ties, newest)
        rest = after_position(found, after)
        if len(rest) >= limit or len(found) < limit + ties:
            return rest[:limit]
        ties *= 4


def read_position(after: str) -> tuple[float, str]:
    """Return the burial time and the id of a position."""
    found = _POSITION.fullmatch(after)
    if not found:
        raise ConfigError(f"after must be the position of a dead letter, got {str(after)[:60]!r}")
    return int(found[1]) / 1000, found[2]


def after_position(letters: Sequence[DeadLetter], after: str) -> list[DeadLetter]:
    """Return the letters after this position. If that letter is gone, those that were buried earlier."""
    last, id_ = read_position(after)
    places = [place for place, letter in enumerate(letters) if letter.id == id_]
    return list(letters[places[0] + 1 :]) if places else [letter for letter in letters if letter.last < last]


def _newest(layout: CrawlLayout, chosen: DeadFilter, limit: int, newest: int | None) -> Flow[list[DeadLetter]]:
    found: list[DeadLetter] = []
    shards = shards_of(layout, chosen)
    enough = sys.maxsize if newest is None else math.ceil(newest / len(shards))
    for keys in shards:
        mine: list[DeadLetter] = []
        skip, most, more = 0, min(MAX_BATCH, limit, enough), True  # without a filter, the first command finds enough
        while more and most and len(mine) < limit:
            looked, some = yield from ask(dead_command(keys, chosen, skip, most))
            mine += some
            skip, more = skip + looked, looked == most
            most = min(MAX_BATCH, enough - skip)
        found += mine
    return heapq.nlargest(limit, found, key=lambda letter: letter.last)


def shards_of(layout: CrawlLayout, chosen: DeadFilter) -> Sequence[ShardKeys]:
    number = chosen.shard()
    if number is not None:
        return layout.shards[number : number + 1]
    return (layout.shard_of(chosen.host),) if chosen.host else layout.shards


def dead_command(keys: ShardKeys, chosen: DeadFilter, skip: int, most: int) -> Command[tuple[int, list[DeadLetter]]]:
    def decode(reply: list[Any]) -> tuple[int, list[DeadLetter]]:
        letters = [
            read_letter(keys.number, reply[i].decode(), float(reply[i + 1]) / 1000, reply[i + 2])
            for i in range(1, len(reply), 3)
        ]
        return int(reply[0]), letters

    return Command(load("dead"), (keys.ledger,), (skip, most, *chosen.arguments()), decode)


def read_letter(shard: int, token: str, buried: float, letter: bytes) -> DeadLetter:
    reason, status, entry = letter.split(b"\n", 2)
    try:
        lease = read_lease(entry, shard, token, buried)
    except Exception:  # noqa: BLE001 - one letter that cannot be read must not hide the others
        lease = read_lease(without_record(entry), shard, token, buried)
    return DeadLetter(
        id=f"{shard}-{token}",
        request=lease.request,
        reason=reason.decode(),
        status=int(status) if status else None,
        attempts=lease.attempt,
        crashes=lease.crashes,
        first=lease.first,
        last=buried,
        history=lease.history,
        host=lease.host,
        created=lease.created,
    )


def without_record(entry: bytes) -> bytes:
    """Return the entry with the host's front page as its record. The stored letter is not changed: a later version may read it."""
    return b"\n".join([*entry.split(b"\n", 5)[:5], b"/"])


def add_dead(layout: CrawlLayout, letters: Sequence[tuple[Request, str]]) -> Flow[bool]:
    """Store requests that were never queued as dead letters, each with its reason. Returns False if the crawl is cancelled."""
    by_shard: dict[ShardKeys, list[tuple[str, str, str | bytes]]] = {}
    for request, reason in letters:
        address = codec.address_of(request)
        host = host_of(request, address)
        made = (host, one_line(reason), codec.without_slash(codec.encode(request, address)))
        by_shard.setdefault(layout.shard_of(host), []).append(made)
    batches = [
        (keys, some[i : i + MAX_BATCH]) for keys, some in by_shard.items() for i in range(0, len(some), MAX_BATCH)
    ]
    answers = yield from ask_all(add_dead_command(keys, batch) for keys, batch in batches)
    return "cancelled" not in answers


def add_dead_command(keys: ShardKeys, letters: Sequence[tuple[str, str, str | bytes]]) -> Command[str]:
    return Command(load("add_dead"), (keys.ledger,), [part for letter in letters for part in letter], as_text)


def end_dead(layout: CrawlLayout, chosen: DeadFilter, *, purge: bool) -> Flow[int]:
    """Revive or purge the matching letters that are dead now, not those that die meanwhile. Returns how many."""
    total = 0
    for keys in shards_of(layout, chosen):
        _, newest = yield from ask(dead_command(keys, DeadFilter(host=chosen.host), 0, 1))
        if not newest:
            continue
        last = newest[0].last
        until_now = replace(chosen, before=last if chosen.before is None else min(last, chosen.before))
        skip, looked = 0, MAX_BATCH
        while looked == MAX_BATCH:
            looked, ended = yield from ask(revive(keys, until_now, skip, MAX_BATCH, purge=purge))
            total += ended
            skip += looked - ended
    return total


def revive(keys: ShardKeys, chosen: DeadFilter, skip: int, most: int, *, purge: bool) -> Command[tuple[int, int]]:
    def decode(reply: bytes) -> tuple[int, int]:
        looked, ended = reply.split()
        return int(looked), int(ended)

    args = (skip, most, *chosen.arguments(), "purge" if purge else "revive")
    return Command(load("revive"), (keys.ledger,), args, decode)


def dead_groups(layout: CrawlLayout, by: str, limit: int, name: str | None = None) -> Flow[list[DeadGroup]]:
    """Return the largest groups, or the one with this *name*, from the counts that the scripts keep."""
    check_grouped(by, limit)
    if name is not None:
        shards = (layout.shard_of(name),) if by == "host" else layout.shards
        counts_of_it = yield from ask_all(group_of(keys, by, name) for keys in shards)
        return [DeadGroup(name, sum(counts_of_it))]
    most = max(limit, ALL_REASONS) if by == "reason" else limit
    answers = yield from ask_all(groups(keys, by, most) for keys in layout.shards)
    counts: Counter[str] = Counter()
    for _, found in answers:
        counts.update(dict(found))
    return largest(counts, limit, sum(total for total, _ in answers))


def groups(keys: ShardKeys, by: str, most: int) -> Command[tuple[int, list[DeadGroup]]]:
    def decode(reply: list[Any]) -> tuple[int, list[DeadGroup]]:
        return reply[0], _groups(reply[1:])

    return Command(load("groups"), (keys.ledger,), (by, most, ""), decode)


def group_of(keys: ShardKeys, by: str, name: str) -> Command[int]:
    return Command(load("groups"), (keys.ledger,), (by, 1, name), lambda reply: int(reply[2]))


def dead_examples(layout: CrawlLayout, names: Sequence[str], newest: int) -> Flow[dict[str, DeadLetter]]:
    """Return the newest dead letter of each of these groups of reasons, searched among the *newest* letters, a share on each shard."""
    check_newest(newest)
    enough, examples = math.ceil(newest / len(layout.shards)), dict[str, DeadLetter]()
    for keys in layout.shards:
        missing, skip = set(names) - {""}, 0
        while missing and skip < enough:
            most = min(MAX_BATCH, enough - skip)
            read, found = yield from ask(dead_examples_command(keys, sorted(missing), skip, most))
            for name, letter in found.items():
                examples[name] = max(examples.get(name, letter), letter, key=lambda one: one.last)
            missing, skip = missing - set(found), skip + read
            if read < most:
                break
    return {name: examples[name] for name in names if name in examples}


def dead_examples_command(
    keys: ShardKeys, names: Sequence[str], skip: int, most: int
) -> Command[tuple[int, dict[str, DeadLetter]]]:
    def decode(reply: list[Any]) -> tuple[int, dict[str, DeadLetter]]:
        parts = zip(*(reply[i::4] for i in range(1, 5)), strict=True)
        found = {
            name.decode(): read_letter(keys.number, token.decode(), float(buried) / 1000, letter)
            for name, token, buried, letter in parts
        }
        return int(reply[0]), found

    return Command(load("dead_examples"), (keys.ledger,), (skip, most, *names), decode)


def reason_group(reason: str, host: str) -> str:
    """Normalize the reason of a letter of *host* for grouping. reasons.lua has the same.

    Failures of code are grouped by place, exception and line: ``handler product: KeyError (books.py:14)``. In other reasons,
    URLs, the host, IPv4 addresses and numbers of bytes are replaced by an ellipsis: ``dns: no address for …``.
    """
    code = _CODE.match(reason)
    group = (code[1] if code else _without_details(reason, host)).encode()
    if len(group) > LONGEST_NAME:
        group = re.sub(rb"[\xc0-\xff][\x80-\xbf]*$", b"", group[:LONGEST_NAME])
    return group.decode() or "(no reason)"


def _without_details(reason: str, host: str) -> str:
    found = _KIND.match(reason)
    kind = found[0] if found else ""
    text = _URL.sub("…", reason[len(kind) :])
    if host:
        text = re.sub(rf"(?<![A-Za-z0-9_.-]){re.escape(host)}(?::[0-9]+)?(?![A-Za-z0-9_-]|\.[A-Za-z0-9])", "…", text)
    return kind + _BYTES.sub("… bytes", _ADDRESS.sub("…", text))


def count_dead(layout: CrawlLayout, chosen: DeadFilter) -> Flow[DeadCount]:
    """Count the letters that match, a bounded number per command; with a host, only its own letters are read.

    Without a filter, the counts that the scripts keep are returned.
    """
    if chosen == DeadFilter():
        all_reasons = yield from dead_groups(layout, "reason", MOST_GROUPS)
        all_hosts = yield from dead_groups(layout, "host", MOST_GROUPS)
        return DeadCount(sum(group.letters for group in all_reasons), all_reasons, all_hosts)
    total, reasons, hosts = 0, Counter[bytes](), Counter[bytes]()
    for keys in shards_of(layout, chosen):
        skip, looked = 0, MAX_BATCH
        while looked == MAX_BATCH:
            looked, matching, by_reason, by_host = yield from ask(count_dead_command(keys, chosen, skip, MAX_BATCH))
            total += matching
            reasons.update(by_reason)
            hosts.update(by_host)
            skip += looked
    return DeadCount(total, _ranked(reasons, total), _ranked(hosts, total))


def count_dead_command(
    keys: ShardKeys, chosen: DeadFilter, skip: int, most: int
) -> Command[tuple[int, int, Counted, Counted]]:
    def decode(reply: list[Any]) -> tuple[int, int, Counted, Counted]:
        return reply[0], reply[1], _counted(reply[2]), _counted(reply[3])

    return Command(load("count_dead"), (keys.ledger,), (skip, most, *chosen.arguments()), decode)


def _counted(pairs: list[Any]) -> Counted:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _groups(pairs: list[Any]) -> list[DeadGroup]:
    return [DeadGroup(pairs[i].decode(errors="replace"), int(pairs[i + 1])) for i in range(0, len(pairs), 2)]


def check_grouped(by: str, limit: int) -> None:
    if by not in get_args(GroupedBy):
        raise ConfigError(f"dead letters are grouped by reason or by host, not by {by!r}")
    if type(limit) is not int or not 1 <= limit <= 10_000:
        raise ConfigError(f"limit must be between 1 and 10000, got {limit!r}")


def check_newest(newest: int | None) -> None:
    if newest is not None and (type(newest) is not int or newest < 1):
        raise ConfigError(f"newest must be at least 1, got {newest!r}")


def largest(counts: Counter[str], limit: int, total: int) -> list[DeadGroup]:
    """Return the largest groups, and a last one without a name for the rest of the *total*."""
    chosen = heapq.nsmallest(limit, counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = total - sum(count for _, count in chosen)
    return [DeadGroup(*pair) for pair in chosen] + ([DeadGroup("", rest)] if rest > 0 else [])


def _ranked(counts: Counter[bytes], total: int) -> list[DeadGroup]:
    named: Counter[str] = Counter()
    for name, count in counts.items():
        named[name.decode(errors="replace")] += count
    return largest(named, MOST_GROUPS, total)
