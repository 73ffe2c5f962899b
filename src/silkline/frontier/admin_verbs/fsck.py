"""Fsck: check a crawl for damage and repair it. Evicted keys, lost writes and manual changes damage a crawl.

Each check is one script, which sees its part of the data at one moment, so a crawl under load gives no false alarms. Repairs use
the data that is left, and can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from silkline.core.politeness import Politeness
from silkline.frontier.admin_verbs.settings import apply_dead_limit
from silkline.frontier.admin_verbs.stats import snapshot
from silkline.frontier.store.keys import CrawlKeys, ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.settings import Settings
from silkline.frontier.transport.command import Command, Flow, Scan, ask, ask_all, load
from silkline.frontier.transport.scanning import START, ScanPosition
from silkline.frontier.verbs import claim, lifecycle
from silkline.frontier.verbs.claim import PageGrant
from silkline.frontier.verbs.lifecycle import create_command, open_crawl, register, set_crawl_field

TRIES = 5
"""How often a count is started again because requests moved between two of its calls."""
SHOWN = 5
KINDS = {
    "settings": "the settings of the crawl are missing: it cannot be opened",
    "ledger": "the ledger of the shard is missing: it cannot be used",
    "lost": "hosts with requests are not scheduled: no worker would claim them",
    "empty": "hosts without requests are scheduled",
    "twice": "hosts are scheduled twice, as ready and as waiting",
    "unlisted": "queues are missing from the priorities of their hosts: no worker would claim them",
    "hollow": "hosts list priorities without requests",
    "leases": "the lease counters of hosts are wrong",
    "lease without time": "leases have no expiry time: they would never be rescued",
    "time without lease": "expiry times belong to no lease",
    "letter without time": "dead letters have no burial time: they would not be listed",
    "time without letter": "burial times belong to no dead letter",
    "letter not listed": "dead letters are missing from the index by host: a search for one host reads all of them",
    "listed without letter": "the index by host has dead letters that do not exist, or wrong times",
    "queued": "the counter of waiting requests is wrong",
    "seen": "the counter of seen URLs is wrong",
    "balance": "accepted requests are missing, or requests were found that were not accepted",
    "dead limit": "the limit of dead letters is not the share of the shard",
    "groups": "the counts of dead letters by reason and by host are missing or wrong",
}
"""Kinds of damage, with the text that `silkline fsck` prints."""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of damage on one shard."""

    shard: int
    kind: str
    count: int
    detail: str
    repaired: bool

    @property
    def text(self) -> str:
        return KINDS[self.kind]


class FsckReport(msgspec.Struct, kw_only=True):
    """The damage that was found, how much was checked, and in `notes` what could not be checked."""

    crawl: str
    damages: list[Damage] = []
    notes: list[str] = []
    hosts: int = 0
    leases: int = 0
    letters: int = 0
    queued: int = 0
    seen: int = 0

    @property
    def sound(self) -> bool:
        return all(damage.repaired for damage in self.damages)


def check_hosts(
    keys: ShardKeys, side: str, cursor: str, named: Sequence[str] = (), *, repair: bool = False
) -> Command[tuple[str, list[tuple[str, str]]]]:
    def decode(reply: list[bytes]) -> tuple[str, list[tuple[str, str]]]:
        words = [word.decode() for word in reply]
        return words[0], [(words[i], words[i + 1]) for i in range(1, len(words), 2)]

    return Command(load("check_hosts"), (keys.ledger,), (_flag(repair), side, cursor, *named), decode)


def check_times(keys: ShardKeys, what: str, side: str, cursor: str, *, repair: bool) -> Command[tuple[str, int, int]]:
    def decode(reply: list[Any]) -> tuple[str, int, int]:
        return reply[0].decode(), reply[1], reply[2]

    return Command(load("check_times"), (keys.ledger,), (_flag(repair), what, side, cursor), decode)


def check_dead_by_host(keys: ShardKeys, side: str, cursor: str, *, repair: bool) -> Command[tuple[str, int]]:
    def decode(reply: list[Any]) -> tuple[str, int]:
        return reply[0].decode(), reply[1]

    return Command(load("check_dead_by_host"), (keys.ledger,), (_flag(repair), side, cursor), decode)


def check_leases(keys: ShardKeys, cursor: str, *, repair: bool) -> Command[tuple[str, list[str]]]:
    def decode(reply: list[bytes]) -> tuple[str, list[str]]:
        return reply[0].decode(), [word.decode() for word in reply[1:]]

    return Command(load("check_leases"), (keys.ledger,), (_flag(repair), cursor), decode)


CountCheck = tuple[str, int, str, int]
"""Next position, what was counted so far, the number of moves, and the value of the counter."""


def check_queued(keys: ShardKeys, position: str, counted: int, moves: str, *, repair: bool) -> Command[CountCheck]:
    args = (_flag(repair), position or "ready 0", counted, moves)
    return Command(load("check_queued"), (keys.ledger,), args, _counted)


def check_seen(keys: ShardKeys, position: str, counted: int, moves: str, *, repair: bool) -> Command[CountCheck]:
    return Command(load("check_seen"), (keys.ledger,), (_flag(repair), position, counted, moves), _counted)


def _counted(reply: list[Any]) -> CountCheck:
    return reply[0].decode(), reply[1], reply[2].decode(), reply[3]


def check_balance(keys: ShardKeys, *, repair: bool) -> Command[list[int]]:
    return Command(load("check_balance"), (keys.ledger,), (_flag(repair),), list)


def recount(keys: ShardKeys, *, start: bool) -> Command[bool]:
    """Count a part of the groups of dead letters again; return whether there is more."""
    return Command(load("recount"), (keys.ledger,), (_flag(start),), lambda reply: reply[0] == b"more")


def _flag(value: bool) -> str:  # noqa: FBT001
    return "1" if value else ""


def fsck(layout: CrawlLayout, *, repair: bool = False) -> Flow[FsckReport]:
    """Check all shards, and with *repair* correct the damage."""
    check = _Check(layout, repair=repair)
    yield from check.ledgers()
    for keys in check.shards:
        yield from check.times(keys)
        yield from check.dead_by_host(keys)
        yield from check.leases(keys)
    yield from check.hosts()
    for keys in check.shards:
        counted = yield from check.counter(keys, "queued", check_queued)
        yield from check.counter(keys, "seen", check_seen)
        yield from check.balance(keys, repair=repair and counted)
        yield from check.dead_limit(keys)
    return check.result


def check_crawl(keys: CrawlKeys, *, repair: bool = False) -> Flow[FsckReport]:
    """Check a crawl, also one that cannot be opened because its settings or a ledger are lost."""
    record = yield from ask(create_command(keys))
    if record.settings is not None:
        return (yield from fsck(CrawlLayout(keys, Settings.decode(record.settings)), repair=repair))
    found = yield from find_settings(keys)
    if not found.shards:
        yield from open_crawl(keys, {}, {}, create=False)  # raises UnknownCrawl
    settings = found.settings
    detail = NO_COPY if settings is None else "restored from the copy in its shards" if repair else ""
    damage = Damage(shard=0, kind="settings", count=1, detail=detail, repaired=repair and settings is not None)
    if settings is None:
        return FsckReport(crawl=keys.crawl, damages=[damage])
    if repair:
        yield from write_settings(keys, settings, found)
    checked = yield from fsck(CrawlLayout(keys, settings), repair=repair)
    checked.damages.insert(0, damage)
    return checked


class _Check:
    """One run over a crawl."""

    def __init__(self, layout: CrawlLayout, *, repair: bool) -> None:
        self._layout = layout
        self._repair = repair
        self.result = FsckReport(crawl=layout.keys.crawl)
        self.shards = layout.shards
        """The shards that have a ledger. The others cannot be checked."""

    def ledgers(self) -> Flow[None]:
        """Find shards without a ledger. They are not checked further, unless the ledger can be restored."""
        answers = yield from ask_all(lifecycle.init_shard(keys) for keys in self._layout.shards)
        lost = [keys for keys, answer in zip(self._layout.shards, answers, strict=True) if answer != "stands"]
        for keys in lost:
            detail = (yield from restore_ledger(self._layout, keys)) if self._repair else ""
            self._report(keys, "ledger", 1, detail, repaired=bool(detail))
            if not detail:
                self.shards = tuple(shard for shard in self.shards if shard != keys)
                if self._repair:
                    self.result.notes.append(f"shard {keys.number}: its ledger cannot be restored without SCAN")

    def _report(
        self, keys: ShardKeys, kind: str, count: int, detail: str = "", *, repaired: bool | None = None
    ) -> None:
        if count:
            done = self._repair if repaired is None else repaired
            damage = Damage(shard=keys.number, kind=kind, count=count, detail=detail, repaired=done)
            self.result.damages.append(damage)

    def times(self, keys: ShardKeys) -> Flow[None]:
        """Check that each lease has an expiry and each dead letter a burial time, and the reverse."""
        for what in ("lease", "letter"):
            for side, kind in (("text", f"{what} without time"), ("time", f"time without {what}")):
                cursor, lacking, checked = "0", 0, 0
                while cursor:
                    cursor, some, bad = yield from ask(check_times(keys, what, side, cursor, repair=self._repair))
                    checked, lacking = checked + some, lacking + bad
                self._report(keys, kind, lacking)
                if side == "text":
                    name = f"{what}s"
                    setattr(self.result, name, getattr(self.result, name) + checked)

    def dead_by_host(self, keys: ShardKeys) -> Flow[None]:
        """Check the index of dead letters by host. It contains burial times, so those are checked first."""
        for side, kind in (("letter", "letter not listed"), ("index", "listed without letter")):
            cursor, wrong = "0", 0
            while cursor:
                cursor, some = yield from ask(check_dead_by_host(keys, side, cursor, repair=self._repair))
                wrong += some
            self._report(keys, kind, wrong)

    def leases(self, keys: ShardKeys) -> Flow[None]:
        cursor, wrong = "0", list[str]()
        while cursor:
            cursor, some = yield from ask(check_leases(keys, cursor, repair=self._repair))
            if cursor == "many":
                self.result.notes.append(f"shard {keys.number}: too many leases to count them by host")
                return
            wrong += some
        self._report(keys, "leases", len(set(wrong)), _some(wrong))

    def hosts(self) -> Flow[None]:
        """Check the scheduled hosts, and the host of every queue. Only damage that a second check confirms is reported."""
        suspects: dict[ShardKeys, set[str]] = {}
        for keys in self.shards:
            for side in ("ready", "waiting", "lanes"):
                cursor = "0"
                while cursor:
                    cursor, found = yield from ask(check_hosts(keys, side, cursor))
                    suspects.setdefault(keys, set()).update(f"0 {host}" for _, host in found)
        yield from self._queues(suspects)
        for keys, names in suspects.items():
            yield from self._confirm(keys, sorted(names))

    def _queues(self, suspects: dict[ShardKeys, set[str]]) -> Flow[None]:
        """Scan the keys of the server for queues. A host that is not scheduled cannot be found in another way."""
        crawl = re.escape(self._layout.keys.crawl)
        shape = re.compile(rf"silkline:\{{{crawl}:(\d+)\}}:queue:(-?\d+):(.*)".encode(), re.DOTALL)
        standing = set(self.shards)
        position: ScanPosition | None = START
        while position is not None:
            scanned = yield Scan(f"silkline:{{{self._layout.keys.crawl}:*}}:queue:*", position)
            if scanned is None:
                self.result.notes.append(
                    "the server does not allow SCAN: hosts that are not scheduled were not searched"
                )
                return
            names, following = scanned
            if following and following.rounds > position.rounds:
                self.result.hosts = 0  # the nodes have changed, and the scan starts again
            position = following
            by_shard: dict[ShardKeys, list[str]] = {}
            for name in names:
                found = shape.fullmatch(name)
                keys_found = self._layout.keys.shard(int(found[1])) if found else None
                if found and keys_found in standing:
                    by_shard.setdefault(keys_found, []).append(f"{found[2].decode()} {found[3].decode()}")
            for keys, queues in by_shard.items():
                self.result.hosts += len(queues)
                _, wrong = yield from ask(check_hosts(keys, "named", "0", queues))
                hosts = {host for _, host in wrong}
                suspects.setdefault(keys, set()).update(q for q in queues if q.partition(" ")[2] in hosts)

    def _confirm(self, keys: ShardKeys, queues: list[str]) -> Flow[None]:
        faults: dict[str, set[str]] = {}
        for i in range(0, len(queues), 500):
            _, found = yield from ask(check_hosts(keys, "named", "0", queues[i : i + 500], repair=self._repair))
            for kind, host in found:
                faults.setdefault(kind, set()).add(host)
        for kind, hosts in faults.items():
            self._report(keys, kind, len(hosts), _some(hosts))

    def counter(self, keys: ShardKeys, kind: str, check: Callable[..., Command[CountCheck]]) -> Flow[bool]:
        """Count, and start again if requests moved between two calls. A count that fits into one call always succeeds.

        Returns whether it could be counted.
        """
        if kind == "queued" and self._has_hidden_queues(keys):
            return False
        for _ in range(TRIES):
            position, counted, moves, stored = "", 0, "", 0
            while True:
                position, counted, moves, stored = yield from ask(
                    check(keys, position, counted, moves, repair=self._repair)
                )
                if position in ("", "moved"):
                    break
            if not position:
                setattr(self.result, kind, getattr(self.result, kind) + counted)
                self._report(keys, kind, abs(counted - stored), f"the counter says {stored:,}, {counted:,} were found")
                return True
        self.result.notes.append(
            f"shard {keys.number}: {kind} could not be counted while requests move; pause the crawl and try again"
        )
        return False

    def _has_hidden_queues(self, keys: ShardKeys) -> bool:
        """Return whether some queues cannot be counted before they are repaired."""
        hidden = ("lost", "unlisted")
        return any(one.shard == keys.number and one.kind in hidden and not one.repaired for one in self.result.damages)

    def balance(self, keys: ShardKeys, *, repair: bool) -> Flow[None]:
        """Compare accepted with stored requests. *repair* requires a correct count of the queues, or it would store a wrong number."""
        accepted, found, dead, *sums = yield from ask(check_balance(keys, repair=repair))
        detail = f"{accepted:,} were accepted, {found:,} were found"
        self._report(keys, "balance", abs(accepted - found), detail, repaired=repair)
        if any(one != dead for one in sums):
            worst = max(abs(one - dead) for one in sums)
            self._report(keys, "groups", worst, f"{dead:,} dead letters, {sums[0]:,} counted")
            more = self._repair
            start = True
            while more:
                more = yield from ask(recount(keys, start=start))
                start = False

    def dead_limit(self, keys: ShardKeys) -> Flow[None]:
        """Compare the limit of dead letters with the settings. They differ if a change of the limit was interrupted."""
        stored = yield from ask(lifecycle.read_settings(self._layout.keys))
        settings = self._layout.settings if stored is None else Settings.decode(stored)
        shard = yield from ask(snapshot(keys))
        kept, share = int(shard.get("dead_limit", 0)), settings.share_of_dead
        if kept == share:
            return
        self._report(keys, "dead limit", 1, f"it is {kept or 'none'}, its share is {share or 'none'}")
        if self._repair:
            yield from apply_dead_limit(keys, settings)


def _some(hosts: Sequence[str] | set[str]) -> str:
    names = sorted(set(hosts))
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


NO_COPY = (
    "its shards hold no copy: an earlier version created the crawl, and it was never opened with this one. The seed of its "
    "fingerprints cannot be recovered, and without it every URL would be new. Remove the crawl, or restore a backup"
)


class SettingsCopy(NamedTuple):
    """The data of a crawl that each ledger also stores."""

    settings: Settings
    state: str
    grant: PageGrant
    """The pages of the budget that the shard was granted."""


def read_copy(keys: ShardKeys) -> Command[SettingsCopy | None]:
    """Read the data of the crawl that a shard stores; None without a copy of the settings."""

    def decode(reply: list[bytes | None]) -> SettingsCopy | None:
        stored, delay, concurrency, burst, state, epoch, allowance = reply
        if stored is None:
            return None
        pace = Politeness(delay=int(delay or 0) / 1000, concurrency=int(concurrency or 1), burst=int(burst or 1))
        settings = msgspec.structs.replace(Settings.decode(stored), politeness=pace)
        return SettingsCopy(settings, (state or b"open").decode(), PageGrant(int(epoch or 0), int(allowance or 0)))

    return Command(load("read_copy"), (keys.ledger,), (), decode)


def restore(keys: ShardKeys, fields: dict[str, Any]) -> Command[bool]:
    return Command(load("restore"), (keys.ledger,), [part for pair in fields.items() for part in pair], bool)


class FoundSettings(NamedTuple):
    """The copies that the shards store of a crawl whose settings are lost."""

    shards: list[ShardKeys]
    copies: list[SettingsCopy | None]

    @property
    def settings(self) -> Settings | None:
        return next((one.settings for one in self.copies if one), None)


def find_settings(keys: CrawlKeys) -> Flow[FoundSettings]:
    shards = yield from _shards_of(keys)
    return FoundSettings(shards, (yield from ask_all(read_copy(shard) for shard in shards)))


def _shards_of(keys: CrawlKeys) -> Flow[list[ShardKeys]]:
    """Return the shards that have a ledger."""
    shape = re.compile(rf"silkline:\{{{re.escape(keys.crawl)}:(\d+)\}}:ledger".encode())
    names = yield from scan_keys(f"silkline:{{{keys.crawl}:*}}:ledger")
    if names is None:  # the server does not allow SCAN: try the first shard
        stands = (yield from ask(lifecycle.init_shard(keys.shard(0)))) == "stands"
        return [keys.shard(0)] if stands else []
    numbers = sorted({int(found[1]) for name in names if (found := shape.fullmatch(name))})
    return [keys.shard(number) for number in numbers]


def write_settings(keys: CrawlKeys, settings: Settings, found: FoundSettings) -> Flow[None]:
    """Store the settings that were found, and the page grants, which the ledgers also have."""
    yield from ask(create_command(keys, settings.encode()))
    yield from ask(set_crawl_field(keys, "founded", "1"))
    if settings.budget.pages is not None and settings.shards > 1:
        for shard, one in zip(found.shards, found.copies, strict=True):
            if one:
                yield from ask(set_crawl_field(keys, f"granted:{shard.number}", f"{one.grant.epoch} {one.grant.pages}"))
    yield from ask(register(keys.crawl))


def scan_keys(match: str) -> Flow[set[bytes] | None]:
    """Return the names of all keys that match; None if the server does not allow SCAN."""
    found: set[bytes] = set()
    position: ScanPosition | None = START
    while position is not None:
        scanned = yield Scan(match, position)
        if scanned is None:
            return None
        names, position = scanned
        found.update(names)
    return found


def restore_ledger(layout: CrawlLayout, keys: ShardKeys) -> Flow[str]:
    """Write the ledger of a shard that has lost it. Returns how it was restored, or "" if nothing was written."""
    seen, bloom = f"{keys.root}:seen:", f"{keys.root}:bloom:"
    names = yield from scan_keys(f"{keys.root}:*")
    if names is None:
        return ""
    texts = [name.decode(errors="replace") for name in names]
    fields: dict[str, Any] = dict(layout.settings.shard_fields())
    buckets = [int(name.removeprefix(seen)) for name in texts if name.startswith(seen)]
    layers = [int(name.removeprefix(bloom).partition(":")[0]) for name in texts if name.startswith(bloom)]
    fields["buckets"] = count_buckets(buckets, int(fields["buckets"]))
    fields["layers"] = (
        max(layers, default=-1) + 2
    )  # the fill of the last layer is unknown: the next URL starts another layer
    copies = yield from ask_all(read_copy(other) for other in layout.shards if other != keys)
    states = {one.state for one in copies if one}
    if len(states) == 1:
        [fields["state"]] = states
    if layout.settings.budget.pages is not None and layout.settings.shards > 1:
        budget = layout.settings.budget.pages
        held = yield from ask(claim.grant_pages(layout.keys, budget, keys.number, PageGrant(0, 0), 0))
        fields |= {"epoch": held.epoch, "allowance": held.pages}
    yield from ask(restore(keys, fields))
    return _unknown(layout, states)


def count_buckets(numbers: list[int], least: int) -> int:
    """Return the number of buckets of a seen filter, given the numbers of those that are not empty. n buckets are numbered n to 2n - 1.

    If several counts are possible, they differ only in empty buckets, so any of them is correct.
    """
    return max(least, (max(numbers, default=0) + 2) // 2)


def _unknown(layout: CrawlLayout, states: set[str]) -> str:
    done = "its done pages are its seen URLs minus the requests that are stored"
    if layout.settings.seen.kind == "bloom":
        done = "its done pages and seen URLs are unknown and start at 0"
    state = f"its state is that of the other shards ({next(iter(states))})" if len(states) == 1 else "it is open"
    return f"restored from its other keys; {state}; {done}; statistics start at 0"
