"""The flow that checks a crawl for damage and repairs it: what an evicted key, a lost write or a stray hand leaves behind.

Every look is one script that sees its part at one moment, so a crawl under load gives no false alarms. Repairs put things
right from what is there and may be run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from silkline.frontier.commands import Command
from silkline.frontier.effects import Flow, Scan, ask
from silkline.frontier.keys import ShardKeys
from silkline.frontier.plan import Plan
from silkline.frontier.script import load

TRIES = 5
"""So often a count is begun again because requests moved between two of its calls."""
SHOWN = 5

KINDS = {
    "lost": "hosts with requests are in no line: nobody would ever claim them",
    "empty": "hosts are in line without requests",
    "twice": "hosts are in two lines",
    "unlisted": "queues are not listed by their host: nobody would ever claim them",
    "hollow": "priorities are listed that have no requests",
    "leases": "hosts are said to have more or fewer leases than they have",
    "lease without time": "leases have no expiry: nobody would ever rescue them",
    "time without lease": "expiries belong to no lease",
    "letter without time": "dead letters have no time of burial: nobody would find them",
    "time without letter": "times of burial belong to no dead letter",
    "letter not listed": "dead letters are not listed by their host: a look for those of a host goes through all",
    "listed without letter": "dead letters are listed by host that are not there, or not as they are listed",
    "queued": "the counter of waiting requests is wrong",
    "seen": "the counter of seen URLs is wrong",
    "balance": "accepted requests are missing, or there are some that nobody accepted",
    "groups": "the groups of dead letters are not counted, or wrong",
}
"""What can be damaged."""


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


class Checkup(msgspec.Struct, kw_only=True):
    """What a check has found, what it has looked at, and what it could not look at."""

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

    return Command(load("check_hosts"), (keys.root,), (_flag(repair), side, cursor, *named), decode)


def check_twins(keys: ShardKeys, twin: str, side: str, cursor: str, *, repair: bool) -> Command[tuple[str, int, int]]:
    def decode(reply: list[Any]) -> tuple[str, int, int]:
        return reply[0].decode(), reply[1], reply[2]

    return Command(load("check_twins"), (keys.root,), (_flag(repair), twin, side, cursor), decode)


def check_listed(keys: ShardKeys, side: str, cursor: str, *, repair: bool) -> Command[tuple[str, int]]:
    def decode(reply: list[Any]) -> tuple[str, int]:
        return reply[0].decode(), reply[1]

    return Command(load("check_listed"), (keys.root,), (_flag(repair), side, cursor), decode)


def check_leases(keys: ShardKeys, cursor: str, *, repair: bool) -> Command[tuple[str, list[str]]]:
    def decode(reply: list[bytes]) -> tuple[str, list[str]]:
        return reply[0].decode(), [word.decode() for word in reply[1:]]

    return Command(load("check_leases"), (keys.root,), (_flag(repair), cursor), decode)


Counted = tuple[str, int, str, int]
"""Where to go on, what was counted, how many moves there were, and what the counter says."""


def check_queued(keys: ShardKeys, position: str, counted: int, moves: str, *, repair: bool) -> Command[Counted]:
    args = (_flag(repair), position or "ready 0", counted, moves)
    return Command(load("check_queued"), (keys.root,), args, _counted)


def check_seen(keys: ShardKeys, position: str, counted: int, moves: str, *, repair: bool) -> Command[Counted]:
    return Command(load("check_seen"), (keys.root,), (_flag(repair), position, counted, moves), _counted)


def _counted(reply: list[Any]) -> Counted:
    return reply[0].decode(), reply[1], reply[2].decode(), reply[3]


def check_balance(keys: ShardKeys, *, repair: bool) -> Command[list[int]]:
    return Command(load("check_balance"), (keys.root,), (_flag(repair),), list)


def recount(keys: ShardKeys, *, start: bool) -> Command[bool]:
    """Count groups of dead letters anew; the reply is whether there is more."""
    return Command(load("recount"), (keys.root,), (_flag(start),), lambda reply: reply[0] == b"more")


def _flag(value: bool) -> str:  # noqa: FBT001 - that is all it is about
    return "1" if value else ""


def fsck(plan: Plan, *, repair: bool = False) -> Flow[Checkup]:
    """Check all shards, and with *repair* put right what is wrong."""
    check = _Check(plan, repair=repair)
    for keys in plan.shards:
        yield from check.twins(keys)
        yield from check.listed(keys)
        yield from check.leases(keys)
    yield from check.hosts()
    for keys in plan.shards:
        counted = yield from check.counter(keys, "queued", check_queued)
        yield from check.counter(keys, "seen", check_seen)
        yield from check.balance(keys, repair=repair and counted)
    return check.result


class _Check:
    """One run over a crawl."""

    def __init__(self, plan: Plan, *, repair: bool) -> None:
        self._plan = plan
        self._repair = repair
        self.result = Checkup(crawl=plan.keys.crawl)

    def _report(
        self, keys: ShardKeys, kind: str, count: int, detail: str = "", *, repaired: bool | None = None
    ) -> None:
        if count:
            mended = self._repair if repaired is None else repaired
            damage = Damage(shard=keys.number, kind=kind, count=count, detail=detail, repaired=mended)
            self.result.damages.append(damage)

    def twins(self, keys: ShardKeys) -> Flow[None]:
        """Leases and dead letters, each from both sides."""
        for twin in ("lease", "letter"):
            for side, kind in (("text", f"{twin} without time"), ("time", f"time without {twin}")):
                cursor, lacking, checked = "0", 0, 0
                while cursor:
                    cursor, some, bad = yield from ask(check_twins(keys, twin, side, cursor, repair=self._repair))
                    checked, lacking = checked + some, lacking + bad
                self._report(keys, kind, lacking)
                if side == "text":
                    name = f"{twin}s" if twin == "lease" else "letters"
                    setattr(self.result, name, getattr(self.result, name) + checked)

    def listed(self, keys: ShardKeys) -> Flow[None]:
        """The list of dead letters by host, from both sides; times of burial come first, as it tells them."""
        for side, kind in (("letter", "letter not listed"), ("listed", "listed without letter")):
            cursor, wrong = "0", 0
            while cursor:
                cursor, some = yield from ask(check_listed(keys, side, cursor, repair=self._repair))
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
        """Hosts in the lines, and those of every queue there is; what is wrong must be so at a second look, too."""
        suspects: dict[ShardKeys, set[str]] = {}
        for keys in self._plan.shards:
            for side in ("ready", "waiting", "lanes"):
                cursor = "0"
                while cursor:
                    cursor, found = yield from ask(check_hosts(keys, side, cursor))
                    suspects.setdefault(keys, set()).update(f"0 {host}" for _, host in found)
        yield from self._queues(suspects)
        for keys, names in suspects.items():
            yield from self._confirm(keys, sorted(names))

    def _queues(self, suspects: dict[ShardKeys, set[str]]) -> Flow[None]:
        """Walk through the keys of the server for queues: a host in no line can be found in no other way."""
        crawl = re.escape(self._plan.keys.crawl)
        shape = re.compile(rf"silkline:\{{{crawl}:(\d+)\}}:queue:(-?\d+):(.*)".encode(), re.DOTALL)
        position: Any = (0, 0)
        while position is not None:
            scanned = yield Scan(f"silkline:{{{self._plan.keys.crawl}:*}}:queue:*", position)
            if scanned is None:
                self.result.notes.append(
                    "the server does not let us SCAN: hosts that are in no line were not looked for"
                )
                return
            names, position = scanned
            by_shard: dict[ShardKeys, list[str]] = {}
            for name in names:
                found = shape.fullmatch(name)
                if found and int(found[1]) < len(self._plan.shards):
                    queue = f"{found[2].decode()} {found[3].decode()}"
                    by_shard.setdefault(self._plan.shards[int(found[1])], []).append(queue)
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

    def counter(self, keys: ShardKeys, kind: str, check: Callable[..., Command[Counted]]) -> Flow[bool]:
        """Count, and begin again if something moved meanwhile. What one call can count is never too late.

        Answers whether it could be counted.
        """
        if kind == "queued" and self._has_hidden_queues(keys):
            return False
        for _ in range(TRIES):
            position, counted, moves, told = "", 0, "", 0
            while True:
                position, counted, moves, told = yield from ask(
                    check(keys, position, counted, moves, repair=self._repair)
                )
                if position in ("", "moved"):
                    break
            if not position:
                setattr(self.result, kind, getattr(self.result, kind) + counted)
                self._report(keys, kind, abs(counted - told), f"{told:,} are told, {counted:,} are there")
                return True
        self.result.notes.append(
            f"shard {keys.number}: {kind} could not be counted while requests move; pause the crawl"
        )
        return False

    def _has_hidden_queues(self, keys: ShardKeys) -> bool:
        """Whether there are queues that cannot be counted before they are repaired."""
        hidden = ("lost", "unlisted")
        return any(one.shard == keys.number and one.kind in hidden and not one.repaired for one in self.result.damages)

    def balance(self, keys: ShardKeys, *, repair: bool) -> Flow[None]:
        """Without *repair* it is only looked at: as long as nobody knows what waits, it would be put right by a wrong number."""
        accepted, found, dead, *sums = yield from ask(check_balance(keys, repair=repair))
        detail = f"{accepted:,} were accepted, {found:,} are there"
        self._report(keys, "balance", abs(accepted - found), detail, repaired=repair)
        if any(one != dead for one in sums):
            worst = max(abs(one - dead) for one in sums)
            self._report(keys, "groups", worst, f"{dead:,} dead letters, {sums[0]:,} counted")
            more = self._repair
            start = True
            while more:
                more = yield from ask(recount(keys, start=start))
                start = False


def _some(hosts: Sequence[str] | set[str]) -> str:
    names = sorted(set(hosts))
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
