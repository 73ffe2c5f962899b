"""The life of a crawl: it is opened or created, paused, cancelled and removed.

A shard is created once, together with its crawl. If its ledger or the settings are missing later, they were deleted, evicted
or lost in a failover. Writing new ones would hide that requests were lost, and would hand out others twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from silkline.errors import DamagedCrawl, FrontierError, SettingsConflict, StoreUnavailable, UnknownCrawl
from silkline.frontier.overflow import Overflow
from silkline.frontier.store.keys import CRAWLS, CrawlKeys, ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.settings import Settings
from silkline.frontier.transport.command import MAX_BATCH, Command, Flow, as_text, ask, ask_all, ask_each, load, on_disk
from silkline.frontier.verbs.workers import leave

log = logging.getLogger(__name__)


class CrawlRecord(NamedTuple):
    """The hash of a crawl."""

    settings: bytes | None
    founded: bool
    """Whether all its shards were created. False for a crawl that only older versions have opened."""
    shut: bool
    """Whether it is being removed."""


def open_crawl(keys: CrawlKeys, wanted: dict[str, Any], defaults: dict[str, Any], *, create: bool) -> Flow[CrawlLayout]:
    """Find the crawl, or create it. Raises `SettingsConflict` if *wanted* contradicts the stored settings.

    On a cluster, an existing crawl can be opened as long as the node with its settings replies.
    """
    try:
        record = yield from read_record(keys)
    except StoreUnavailable as error:
        raise settings_out_of_reach(keys, error) from None
    if record.settings is None:
        if not create:
            known = yield from ask(register(""))
            others = f"; there are {', '.join(known[:10])}" if known else "; there are none yet"
            raise UnknownCrawl(f"there is no crawl named {keys.crawl!r} on this server{others}")
        settings = Settings.create(**{**defaults, **wanted})
        record = yield from ask(create_command(keys, settings.encode()))
    assert record.settings is not None
    layout = CrawlLayout(keys, Settings.decode(record.settings))
    conflicts = layout.settings.conflicts(wanted)
    if conflicts:
        raise SettingsConflict(f"the crawl {keys.crawl!r} was created with other settings: {'; '.join(conflicts)}")
    yield from init_shards(layout, record, create=create)
    try:
        yield from ask(register(keys.crawl))
    except StoreUnavailable as error:
        if not (record.founded and error.one_node):  # else the process that created the crawl has registered it
            raise
    return layout


def read_record(keys: CrawlKeys) -> Flow[CrawlRecord]:
    """Return the hash of a crawl; raise `DamagedCrawl` if its first shard exists, but no settings."""
    record = yield from ask(create_command(keys))
    if record.settings is not None or (yield from ask(init_shard(keys.shard(0)))) == "missing":
        return record
    record = yield from ask(create_command(keys))  # perhaps it was created in this moment: settings come before shards
    if record.settings is None:
        raise settings_lost(keys)
    return record


def init_shards(layout: CrawlLayout, record: CrawlRecord, *, create: bool) -> Flow[None]:
    """Create the shards of a new crawl; check that those of an existing crawl are there.

    If the process that created the crawl died too early, or the crawl was created by an earlier version, nothing records
    that its shards are complete. Then the missing ones are created.
    """
    if record.founded:
        yield from check_shards(layout, record, create=create)
        return
    fields = layout.settings.shard_fields()
    answers = yield from ask_all(init_shard(shard, fields) for shard in layout.shards)
    if "lost" in answers:
        raise ledgers_lost(layout, answers)
    yield from ask(set_crawl_field(layout.keys, "founded", "1"))


def check_shards(layout: CrawlLayout, record: CrawlRecord, *, create: bool = False) -> Flow[None]:
    """Raise `DamagedCrawl` if a shard has no ledger, unless the crawl is being removed.

    Shards on a node of a cluster that is down are not checked: their scripts notice it later.
    """
    replies = yield from ask_each(init_shard(shard, found=layout.priorities) for shard in layout.shards)
    answers = ["" if isinstance(reply, StoreUnavailable) else reply for reply in replies]
    _pass_over_unreachable(layout, [reply for reply in replies if isinstance(reply, StoreUnavailable)])
    if all(answer in ("stands", "") for answer in answers):
        return
    record = yield from ask(create_command(layout.keys))
    if record.settings is not None and not record.shut:
        raise ledgers_lost(layout, answers)
    if create:
        name = layout.keys.crawl
        raise UnknownCrawl(f"the crawl {name!r} is being removed; to finish that, run: silkline crawl rm {name}")


def _pass_over_unreachable(layout: CrawlLayout, errors: Sequence[StoreUnavailable]) -> None:
    """Log that some shards wait for their node; raise it if all of them do."""
    if not errors:
        return
    if len(errors) == len(layout.shards) or not errors[0].one_node:
        raise errors[0]
    log.warning(
        "%d of %d shards of the crawl %r cannot be reached: %s. Their requests wait; the other shards continue",
        len(errors),
        len(layout.shards),
        layout.keys.crawl,
        errors[0],
    )


def diagnose(layout: CrawlLayout) -> Flow[None]:
    """Raise `DamagedCrawl` if a crawl that a script did not find still has some of its keys."""
    try:
        record = yield from read_record(layout.keys)
        if record.settings is not None:
            yield from check_shards(layout, record)
    except StoreUnavailable:
        return


def settings_out_of_reach(keys: CrawlKeys, error: StoreUnavailable) -> StoreUnavailable:
    """On a cluster, an error that says which node has to reply before a crawl can be opened."""
    if error.one_node:
        need = f"To open the crawl {keys.crawl!r}, the node that has its settings (key {keys.settings}) must reply"
        error.args = (f"{error}. {need}",)
    return error


def settings_lost(keys: CrawlKeys) -> DamagedCrawl:
    return DamagedCrawl(
        f"the settings of the crawl {keys.crawl!r} are missing on this server (key {keys.settings}), but its requests are there. "
        f"Stop its workers and run: silkline fsck {keys.crawl} --repair"
    )


def ledgers_lost(layout: CrawlLayout, answers: list[str]) -> DamagedCrawl:
    lost = [shard for shard, answer in zip(layout.shards, answers, strict=True) if answer in ("lost", "missing")]
    name, of = layout.keys.crawl, f"{len(lost)} of {len(answers)} shards" if len(answers) > 1 else "the only shard"
    return DamagedCrawl(
        f"the ledger of {of} of the crawl {name!r} is missing on this server (key {lost[0].ledger}). "
        f"Stop its workers and run: silkline fsck {name} --repair"
    )


def create_command(keys: CrawlKeys, settings: bytes = b"") -> Command[CrawlRecord]:
    """Store a crawl's settings, unless it has some; without *settings*, only read them."""

    def decode(reply: list[bytes | None]) -> CrawlRecord:
        return CrawlRecord(reply[0] or None, bool(reply[1]), bool(reply[2]))

    return Command(load("create"), (keys.settings,), (settings,), decode)


def init_shard(
    keys: ShardKeys, fields: dict[str, int | float | str] | None = None, found: dict[int, int] | None = None
) -> Command[str]:
    """Create a shard, or without *fields* check that it exists. Returns stands, founded, missing or lost.

    If its highest priority that may be claimed is not 0, it is stored in *found*.
    """

    def decode(reply: bytes) -> str:
        state, _, priority = reply.decode().partition(" ")
        if priority and found is not None:
            found[keys.number] = int(priority)
        return state

    args = [part for pair in (fields or {}).items() for part in pair]
    return Command(load("init_shard"), (keys.ledger,), args, decode)


def set_crawl_field(keys: CrawlKeys, field: str, value: str | bytes) -> Command[bool]:
    """Write a field of a crawl; return whether the crawl exists."""
    return Command(load("set_crawl_field"), (keys.settings,), (field, value), bool)


def register(name: str) -> Command[list[str]]:
    """Add the name of a crawl ("" only reads); return all names."""

    def decode(reply: list[bytes]) -> list[str]:
        return sorted(word.decode(errors="backslashreplace") for word in reply)

    return Command(load("register"), (CRAWLS,), (name,), decode)


def unregister(name: str) -> Command[bool]:
    return Command(load("unregister"), (CRAWLS,), (name,), bool)


def read_settings(keys: CrawlKeys) -> Command[bytes | None]:
    return Command(load("create"), (keys.settings,), ("",), lambda reply: reply[0] or None)


def refresh(layout: CrawlLayout) -> Flow[CrawlLayout]:
    """Return the layout with the settings that are stored now. Raises `UnknownCrawl` if they are those of another crawl."""
    stored = yield from ask(read_settings(layout.keys))
    if stored is None:
        raise UnknownCrawl(f"the crawl {layout.keys.crawl!r} has been removed")
    settings = Settings.decode(stored)
    if settings.seed != layout.settings.seed:
        raise UnknownCrawl(
            f"the crawl {layout.keys.crawl!r} has been removed, and another one was created with its name"
        )
    return layout.with_settings(settings)


def set_state(layout: CrawlLayout, state: str) -> Flow[None]:
    answers = yield from ask_all(set_state_command(keys, state) for keys in layout.shards)
    if any(answer != state for answer in answers):
        raise FrontierError(f"the crawl {layout.keys.crawl!r} was cancelled; cancelled is final")


def cancel(layout: CrawlLayout) -> Flow[int]:
    """End the crawl for good and drop all waiting requests. Leased requests may still complete. Returns how many were dropped."""
    dropped = 0
    for keys in layout.shards:
        yield from ask(set_state_command(keys, "cancelled"))
    for keys in layout.shards:
        dropped += yield from discard(keys, "")
    return dropped


def discard(keys: ShardKeys, host: str) -> Flow[int]:
    """Drop all waiting requests of a shard, or of one of its hosts, a bounded number per command. Returns how many."""
    dropped, position = 0, "0"
    while position:
        some, position = yield from ask(discard_command(keys, host, position))
        dropped += some
    return dropped


def set_state_command(keys: ShardKeys, state: str) -> Command[str]:
    return Command(load("set_state"), (keys.ledger,), (state,), as_text)


def discard_command(keys: ShardKeys, host: str, position: str) -> Command[tuple[int, str]]:
    """Drop a part of the waiting requests. Returns how many, and the next position, "" at the end."""

    def decode(reply: list[Any]) -> tuple[int, str]:
        return int(reply[0]), as_text(reply[1])

    return Command(load("discard"), (keys.ledger,), (host, position), decode)


def remove(layout: CrawlLayout, overflow: Overflow | None) -> Flow[None]:
    """Remove the shards, then the settings, then the name. If it is interrupted, running it again finishes it.

    The settings are marked first, so that removed shards do not count as lost. The shards are removed twice: a process that
    creates the crawl at that moment may have created some of them again.
    """
    yield from ask(set_crawl_field(layout.keys, "shut", "1"))
    yield from _remove_shards(layout)
    yield from ask(erase(layout.keys))
    yield from _remove_shards(layout)
    if overflow:
        yield from _empty(layout, overflow)
    yield from ask(unregister(layout.keys.crawl))


def remove_unused(layout: CrawlLayout, overflow: Overflow | None, creator: str, *, added: int, seen: int) -> Flow[bool]:
    """Remove a crawl that no process uses but *creator*, which has enqueued *added* requests. Returns whether it was removed.

    First every shard refuses further requests, if all that it ever accepted still wait. Then the counts cannot grow any more. If they
    show that another process has offered requests, or a worker has joined, the shards are opened again. So no request is lost that was
    accepted while the caller looked; one that is offered in between is refused with an error. *seen* of the caller's own requests
    were duplicates.
    """
    replies = yield from ask_each(close_unused(keys, "close") for keys in layout.shards)
    counts = [reply for reply in replies if reply and not isinstance(reply, StoreUnavailable)]
    is_unused = len(counts) == len(layout.shards) and sum(one[0] for one in counts) == added
    if is_unused and sum(one[1] for one in counts) <= seen:
        try:
            others = yield from ask(leave(layout.keys, creator, shut=True))
        except StoreUnavailable:
            others = 1
        if not others:
            yield from remove(layout, overflow)
            return True
    yield from ask_each(close_unused(keys, "open") for keys in layout.shards)
    return False


def close_unused(keys: ShardKeys, verb: str) -> Command[list[int]]:
    """Cancel the crawl on a shard if its requests all wait, or open it again. Returns accepted requests and duplicates, or nothing."""
    return Command(load("close_unused"), (keys.ledger,), (verb,), lambda reply: [int(count) for count in reply])


def _remove_shards(layout: CrawlLayout) -> Flow[None]:
    """Remove a bounded part of every shard, concurrently, until all are gone. The first step cancels all of them."""
    left = layout.shards
    while left:
        answers = yield from ask_all(remove_command(keys) for keys in left)
        left = tuple(keys for keys, more in zip(left, answers, strict=True) if more)


def _empty(layout: CrawlLayout, overflow: Overflow) -> Flow[None]:
    """Delete the requests of this process's overflow. Another process that has taken some finds no crawl for them."""
    while rows := (yield from on_disk(partial(overflow.take, layout.overflow_name, MAX_BATCH))):
        yield from on_disk(partial(overflow.settle, [row for row, _ in rows], []))


def remove_command(keys: ShardKeys) -> Command[bool]:
    """Remove a part of a shard; the reply is whether there is more of it."""
    return Command(load("remove"), (keys.ledger,), (), lambda reply: as_text(reply) == "more")


def erase(keys: CrawlKeys) -> Command[bool]:
    return Command(load("erase"), (keys.settings,), (), bool)
