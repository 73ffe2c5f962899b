"""Groups: a call of a task that waits until other calls have ended.

The call that waits is a delayed request on the shard of its task, with its group beside it. A call that has ended may be on another
shard, where a watch notes its end in the script that ends it. A client takes these notes and reports them to the groups. Each step may be
repeated, and nothing is lost if the client dies between two of them: notes are deleted after they were reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, cast

from silkline.core.request import Request, check, mark_of
from silkline.core.url import parse
from silkline.frontier.store import record
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.record import member
from silkline.frontier.transport.command import MAX_BATCH, Arg, Command, Flow, as_text, ask, ask_each, load

CALL_ENDED, CALL_FAILED, CALL_PENDING, NO_CALL = "d", "f", ".", "x"
"""How a call of a group is noted: it is done, has failed, has not ended, or was not enqueued."""
MOST_ROUNDS = 1000
"""How often notes are taken in one go: each round has some hundreds."""
LEAST_TAKEN = 10
"""Notes that are taken from one of many shards at a time."""
SHOWN_GROUPS = 100

Opened = Literal["added", "open", "seen", "full", "refused"]
Joined = Literal["joined", "closed", "complete", "dropped", "gone"]


class GroupState(NamedTuple):
    """A call that waits until all calls of its group have ended."""

    url: str
    """That of the call that waits."""
    calls: int
    """Calls that have joined the group."""
    left: int
    """Those that have not ended."""
    failed: int
    closed: bool
    """Whether no more calls can join. Only then can the group be complete."""
    allow_failure: bool
    """Whether the call also runs if some calls have failed. Otherwise, it becomes a dead letter."""
    expires: float
    """Unix time at which the call becomes a dead letter if it still waits."""


def group_name(request: Request) -> str:
    """Return the name of the group for which a call waits: the host and the path of the call."""
    address = parse(request.url)
    return f"{address.host}{address.path}"


def home_of(layout: CrawlLayout, group: str) -> ShardKeys:
    """Return the shard of a group, which is that of the call that waits."""
    return layout.shard_of(group.partition("/")[0])


def open_group(layout: CrawlLayout, request: Request, until: float, *, allow_failure: bool) -> Flow[Opened]:
    """Store a call that waits, and an empty group. Until *until*, calls can join and end."""
    address = parse(request.url)
    check(request)
    seed, kind = layout.settings.seed, layout.settings.seen.kind
    args: list[Arg] = [
        group_name(request),
        address.host,
        "" if request.dont_filter else member(mark_of(request, address, seed=seed), kind),
        request.priority,
        0 if request.not_before is None else math.ceil(request.not_before * 1000),
        int(allow_failure),
        math.ceil(until * 1000),
        record.without_slash(record.encode(request, address)),
    ]
    return (yield from ask(open_command(layout.shard_of(address.host), args)))


def open_command(keys: ShardKeys, args: Sequence[Arg]) -> Command[Opened]:
    def decode(reply: bytes) -> Opened:
        return cast("Opened", reply.decode())

    return Command(load("open_group"), (keys.ledger,), args, decode, b"full")


def join_group(layout: CrawlLayout, group: str, batch: str, letters: str, following: str) -> Flow[Joined]:
    """Add a batch of enqueued calls to a group, a letter for each; then ``close`` it, ``drop`` it, or neither (empty)."""
    return (yield from ask(join_command(home_of(layout, group), group, batch, letters, following)))


def join_command(keys: ShardKeys, group: str, batch: str, letters: str, following: str) -> Command[Joined]:
    def decode(reply: bytes) -> Joined:
        return cast("Joined", reply.decode())

    return Command(load("join_group"), (keys.ledger,), (group, batch, letters, following), decode)


def watch(layout: CrawlLayout, group: str, batch: str, names: Sequence[tuple[str, int]], until: float) -> Flow[bool]:
    """Watch calls of a batch, given their names and numbers; or all calls of a batch, given its own name and their count.

    With an *until* of 0, end these watches. Returns False if too many groups wait for one of the calls, or the server is out of memory.
    """
    by_shard: dict[ShardKeys, list[Arg]] = {}
    for name, number in names:
        by_shard.setdefault(home_of(layout, name), []).extend((name, number))
    for keys, args in by_shard.items():
        if (yield from ask(watch_command(keys, group, batch, args, until))) != "watched":
            return False
    return True


def watch_command(keys: ShardKeys, group: str, batch: str, names: Sequence[Arg], until: float) -> Command[str]:
    args = (math.ceil(until * 1000), group, batch, *names)
    return Command(load("watch"), (keys.ledger,), args, as_text, b"full")


class Notes(NamedTuple):
    """What a shard noted for groups."""

    overdue: int
    """How many groups of this shard are overdue."""
    ended: list[bytes]
    """Notes that calls have ended."""


def take_ended(keys: ShardKeys, most: int, reported: Sequence[bytes]) -> Command[Notes]:
    """Take notes, after deleting those that were reported."""
    return Command(load("take_ended"), (keys.ledger,), (most, *reported), lambda reply: Notes(reply[0], reply[1:]))


def report_ended(keys: ShardKeys, ended: Sequence[Arg]) -> Command[int]:
    """Report ended calls to their groups. Returns how many groups have ended."""
    return Command(load("report_ended"), (keys.ledger,), ended, int)


def report_all(layout: CrawlLayout, shards: Iterable[int]) -> Flow[int]:
    """Report what these shards have noted to the groups, and end overdue groups. Returns how many groups have ended.

    A call that waited and is buried has ended, too, so its own shard may have notes afterwards. If a shard is out of reach, the notes stay,
    and are reported later.
    """
    ended = 0
    reported: dict[int, list[bytes]] = {number: [] for number in shards}
    for _ in range(MOST_ROUNDS):
        if not reported:
            break
        taken = yield from _take(layout, reported)
        by_home = _by_home(layout, taken)
        replies = yield from ask_each(report_ended(layout.shards[home], args) for home, args in by_home.items())
        reached = {home: reply for home, reply in zip(by_home, replies, strict=True) if isinstance(reply, int)}
        ended += sum(reached.values())
        reported = {
            number: [note for note in notes.ended if _home_of_note(layout, note) in reached]
            for number, notes in taken.items()
            if notes.ended
        }
        if len(reached) < len(by_home):
            yield from _take(layout, reported)  # only to delete what was reported
            break
        reported |= {home: reported.get(home, []) for home, groups in reached.items() if groups}
    return ended


def _take(layout: CrawlLayout, reported: Mapping[int, Sequence[bytes]]) -> Flow[dict[int, Notes]]:
    """Take notes of these shards, after deleting those that were reported. Shards out of reach are left out."""
    most = max(LEAST_TAKEN, MAX_BATCH // max(1, len(reported)))
    replies = yield from ask_each(take_ended(layout.shards[number], most, some) for number, some in reported.items())
    return {number: reply for number, reply in zip(reported, replies, strict=True) if isinstance(reply, Notes)}


def _by_home(layout: CrawlLayout, taken: Mapping[int, Notes]) -> dict[int, list[Arg]]:
    """Return what to report to which shard: what was noted, and nothing to those that only have overdue groups."""
    by_home: dict[int, list[Arg]] = {}
    for number, notes in taken.items():
        if notes.overdue:
            by_home.setdefault(number, [])
        for note in notes.ended:
            by_home.setdefault(_home_of_note(layout, note), []).extend(note.split(b" "))
    return by_home


def _home_of_note(layout: CrawlLayout, note: bytes) -> int:
    return home_of(layout, note.partition(b" ")[0].decode()).number


def groups(layout: CrawlLayout, limit: int = SHOWN_GROUPS) -> Flow[list[GroupState]]:
    """Return groups that are not complete, up to *limit* of each shard, those that expire first."""
    found: list[GroupState] = []
    for keys in layout.shards:
        found += yield from ask(list_command(keys, limit))
    return sorted(found, key=lambda group: (group.expires, group.url))[:limit]


def group_state(layout: CrawlLayout, name: str) -> Flow[GroupState | None]:
    """Return one group; None if there is none, or if it has ended."""
    found = yield from ask(list_command(home_of(layout, name), 1, name))
    return found[0] if found else None


def list_command(keys: ShardKeys, limit: int, name: str = "") -> Command[list[GroupState]]:
    def decode(reply: list[bytes]) -> list[GroupState]:
        rows = [reply[i : i + 7] for i in range(0, len(reply), 7)]
        return [
            GroupState(
                url=f"https://{name.decode()}",
                calls=int(calls),
                left=int(left),
                failed=int(failed),
                closed=closed == b"1",
                allow_failure=lenient == b"1",
                expires=int(expires) / 1000,
            )
            for name, expires, closed, lenient, calls, left, failed in rows
        ]

    return Command(load("list_groups"), (keys.ledger,), (limit, name), decode)
