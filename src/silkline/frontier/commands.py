"""Each verb as a value: the script, its key, its arguments, and how to read the reply. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from silkline.core.politeness import Politeness
from silkline.frontier.host_state import HostState, read_host
from silkline.frontier.keys import CRAWLS, CrawlKeys, ShardKeys
from silkline.frontier.overflow import Tally
from silkline.frontier.robots_file import RobotsFile, pack, unpack
from silkline.frontier.script import Script, load
from silkline.frontier.seen import bucket_finder

R = TypeVar("R")
Arg = str | bytes | int | float


class _TwoBytes(dict[int, str]):
    """Numbers as the scripts read them, made when they are first used."""

    def __missing__(self, number: int) -> str:
        text = self[number] = number.to_bytes(2, "little").decode("latin-1")
        return text


_TWO_BYTES = _TwoBytes()

MAX_BATCH = 1000
"""Requests or leases per script call, so that no call keeps the server busy for long."""


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One frontier operation: what to send, and how to read the reply.

    The client puts the clock and the call's number before *args* where the script's header asks for them.
    """

    script: Script
    keys: tuple[str, ...]
    args: Sequence[Arg]
    decode: Callable[[Any], R]
    when_out_of_memory: Any = None
    """The reply to assume when the server refuses to store more; None raises."""
    call: tuple[str, str] | None = None
    """Slot and number under which it acts once, whoever sends it; None leaves them to the client."""


class Offer(msgspec.Struct, frozen=True):
    """A request ready to be sent: where it goes and what is stored of it."""

    position: int
    item: object
    shard: int
    member: str
    host: str
    options: str
    record: str | bytes


class Grant(NamedTuple):
    """A shard's page allowance, and the epoch it belongs to."""

    epoch: int
    pages: int


NOTHING_GRANTED = Grant(0, 0)
NOTHING_WAITS = Tally(0, 0)


def create(keys: CrawlKeys, settings: bytes) -> Command[bytes]:
    return Command(load("create"), (keys.settings,), (settings,), bytes)


def found(keys: ShardKeys, fields: dict[str, int | float | str]) -> Command[bool]:
    args = [part for pair in fields.items() for part in pair]
    return Command(load("found"), (keys.root,), args, bool)


def register(name: str) -> Command[list[str]]:
    """Note that a crawl of this name exists ("" only asks); the reply is all their names."""

    def decode(reply: list[bytes]) -> list[str]:
        return sorted(word.decode(errors="backslashreplace") for word in reply)

    return Command(load("register"), (CRAWLS,), (name,), decode)


def unregister(name: str) -> Command[bool]:
    return Command(load("unregister"), (CRAWLS,), (name,), bool)


def remove(keys: ShardKeys) -> Command[bool]:
    """Remove a part of a shard; the reply is whether there is more of it."""
    return Command(load("remove"), (keys.root,), (), lambda reply: _text(reply) == "more")


def erase(keys: CrawlKeys) -> Command[bool]:
    return Command(load("erase"), (keys.settings,), (), bool)


def read_settings(keys: CrawlKeys) -> Command[bytes | None]:
    return Command(load("create"), (keys.settings,), ("",), lambda reply: reply or None)


def enqueue(
    keys: ShardKeys, offers: Sequence[Offer], call: tuple[str, str] | None = None, buckets: int = 0
) -> Command[tuple[str, int]]:
    """Offer requests; *buckets* is what the shard last told. Answers a letter each, and how many buckets there are."""

    def decode(reply: list[Any]) -> tuple[str, int]:
        return reply[0].decode(), reply[1]

    find = bucket_finder(buckets)
    packed = "".join([_pack(offer, find) for offer in offers]).encode("latin-1")
    full = [b"f" * len(offers), buckets]
    return Command(load("enqueue"), (keys.root,), (buckets, packed), decode, full, call)


def _pack(offer: Offer, find: Callable[[str], str]) -> str:
    """See enqueue.lua; bytes are written as the characters of the same number."""
    member, host, options, record = offer.member, offer.host, offer.options, offer.record
    if isinstance(record, bytes):
        record = record.decode("latin-1")
    bucket, size = find(member), len(record)
    sizes = _TWO_BYTES[len(host)], _TWO_BYTES[size & 0xFFFF], "\0\0" if size < 0x10000 else "\1\0"
    return (
        f"{chr(len(member))}{member}{chr(len(bucket))}{bucket}{sizes[0]}{host}"
        f"{chr(len(options))}{options}{sizes[1]}{sizes[2]}{record}"
    )


def forget(keys: ShardKeys, members: Sequence[str]) -> Command[int]:
    return Command(load("forget"), (keys.root,), members, int)


def mark_seen(keys: ShardKeys, members: Sequence[str]) -> Command[str]:
    return Command(load("mark_seen"), (keys.root,), members, _text)


def control(keys: ShardKeys, state: str) -> Command[str]:
    return Command(load("control"), (keys.root,), (state,), _text)


def pace(keys: ShardKeys, politeness: Politeness, cursor: str) -> Command[str]:
    """Give a part of a shard's hosts another pace; the reply is the cursor of the next part, "0" after the last."""
    words = (round(politeness.delay * 1000), politeness.concurrency, politeness.burst, cursor)
    return Command(load("pace"), (keys.root,), words, _text)


def amend(keys: CrawlKeys, settings: bytes) -> Command[bool]:
    return Command(load("amend"), (keys.settings,), (settings,), bool)


def discard(keys: ShardKeys, host: str, skip: int) -> Command[tuple[int, int | None]]:
    def decode(reply: list[Any]) -> tuple[int, int | None]:
        return int(reply[0]), int(reply[1]) if reply[1] else None

    return Command(load("discard"), (keys.root,), (host, skip), decode)


def set_policy(keys: ShardKeys, host: str, words: Sequence[str | int]) -> Command[str]:
    return Command(load("policy"), (keys.root,), (host, *words), _text)


def hosts(keys: ShardKeys, most: int, named: Sequence[str]) -> Command[list[HostState]]:
    def decode(rows: list[list[Any]]) -> list[HostState]:
        return [read_host(row) for row in rows]

    return Command(load("hosts"), (keys.root,), (most, *named), decode)


def snapshot(keys: ShardKeys) -> Command[dict[str, str]]:
    def decode(reply: list[bytes]) -> dict[str, str]:
        return {reply[i].decode(): reply[i + 1].decode() for i in range(0, len(reply), 2)}

    return Command(load("snapshot"), (keys.root,), (), decode)


def seen(keys: ShardKeys, member: str, host: str) -> Command[tuple[bool, list[int]]]:
    def decode(reply: list[Any]) -> tuple[bool, list[int]]:
        return bool(reply[0]), [int(priority) for priority in reply[1].split()]

    return Command(load("seen"), (keys.root,), (member, host), decode)


def locate(
    keys: ShardKeys, place: str, start: int, parts: tuple[str, str], host: str, priority: int
) -> Command[tuple[int, list[tuple[int, bytes, bytes]]]]:
    """Entries of one place that hold one of the *parts*: how many were looked at, then position, score and entry of each."""

    def decode(reply: list[Any]) -> tuple[int, list[tuple[int, bytes, bytes]]]:
        return reply[0], [(reply[i], reply[i + 1], reply[i + 2]) for i in range(1, len(reply), 3)]

    return Command(load("locate"), (keys.root,), (place, start, MAX_BATCH, *parts, host, priority), decode)


def robots(keys: ShardKeys, origin: str, lock_ms: int, token: int | None = None) -> Command[RobotsFile]:
    def decode(reply: list[bytes]) -> RobotsFile:
        state: Any = reply[0].decode()
        return RobotsFile(state, unpack(reply[2]), int(reply[1]) / 1000)

    return Command(load("robots"), (keys.root,), (origin, lock_ms, "" if token is None else token), decode)


def keep_robots(keys: ShardKeys, origin: str, fresh_ms: int, text: bytes | None) -> Command[bool]:
    """The reply is whether it was kept; a server without memory does not."""
    args = (origin, fresh_ms, pack(text))
    return Command(load("keep_robots"), (keys.root,), args, lambda reply: _text(reply) == "kept", b"no memory")


def grant(keys: CrawlKeys, budget: int, shard: int, held: Grant, wanted: int) -> Command[Grant]:
    args = (budget, shard, held.epoch, held.pages, wanted)
    return Command(load("grant"), (keys.settings,), args, _grant)


def allow(keys: ShardKeys, verb: str, grant: Grant = NOTHING_GRANTED) -> Command[Grant]:
    return Command(load("allow"), (keys.root,), (verb, grant.epoch, grant.pages), _grant)


def note(keys: CrawlKeys, store: str = "", tally: Tally = NOTHING_WAITS) -> Command[dict[str, int]]:
    """Note how many requests a store outside Redis holds; the reply is what all of them hold."""

    def decode(reply: list[bytes]) -> dict[str, int]:
        return {reply[i].decode(): int(reply[i + 1]) for i in range(0, len(reply), 2)}

    return Command(load("note"), (keys.settings,), (store, *tally), decode)


def _grant(reply: list[int]) -> Grant:
    return Grant(int(reply[0]), int(reply[1]))


def _text(reply: bytes) -> str:
    return reply.decode()
