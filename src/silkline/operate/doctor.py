"""The doctor: what is wrong with a server, and how to mend it. Pure: facts go in, findings come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from silkline.frontier.facts import Facts
from silkline.operate.advisories import AS_OF, known_against, safe_version
from silkline.operate.numbers import as_memory

Grade = Literal["bad", "warn", "fine", "unknown"]

SKEW, GREAT_SKEW = 0.5, 5.0
"""Seconds by which clocks may differ: block_until and not_before come from clients."""
SHORT, VERY_SHORT = 0.75, 0.9
"""Parts of the memory limit."""
SMALL = 64 * 2**20
INTSET = 512
"""Members up to which buckets of the seen filter must stay intsets; splitting keeps them well below."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    grade: Grade
    check: str
    text: str
    fix: str = ""
    where: str = ""


def examine(nodes: Sequence[Facts]) -> list[Finding]:
    """Everything that can be said of a server's nodes, the worst first."""
    found = [
        msgspec.structs.replace(finding, where=facts.where if len(nodes) > 1 else "")
        for facts in nodes
        for check in CHECKS
        for finding in check(facts)
    ]
    return sorted(found, key=lambda finding: ("bad", "warn", "unknown", "fine").index(finding.grade))


def _version(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    name = f"{server.name} {_dotted(server.version)}"
    oldest = (7, 2) if server.name == "Valkey" else (6, 2)
    if server.version < oldest:
        yield _bad("version", f"{name} is too old: Silkline needs Redis 6.2 or Valkey 7.2", "Upgrade the server.")
        return
    known = known_against(server.name, server.version, cluster=server.cluster)
    if not known:
        yield _fine("version", f"{name}; no vulnerability is known to this Silkline, which knows those up to {AS_OF}")
        return
    safe = safe_version(server.name, server.version, cluster=server.cluster)
    fix = (
        f"Upgrade to {server.name} {_dotted(safe)} or later."
        if safe
        else "Upgrade to a newer series: of this one no fixed version is known to this Silkline."
    )
    listed = "; ".join(f"{one.name} ({one.what})" for one in reversed(known))
    yield _bad("version", f"{name} has known vulnerabilities (those up to {AS_OF} are known here): {listed}", fix)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _role(facts: Facts) -> Iterator[Finding]:
    if facts.info.get("role") == "slave":
        yield _bad("role", "this is a replica: nothing can be written here", "Name the primary in the address.")
    if facts.info.get("loading"):
        yield _bad("role", "the server is still loading its data", "Wait until it has.")


def _eviction(facts: Facts) -> Iterator[Finding]:
    policy = facts.config.get("maxmemory-policy") or facts.server.eviction
    fix = "CONFIG SET maxmemory-policy noeviction, and in the configuration file."
    if not policy:
        yield _unknown("eviction", "the server does not tell what it does when memory is short")
    elif policy.startswith("allkeys"):
        yield _bad("eviction", f"maxmemory-policy {policy} throws requests away when memory is short", fix)
    elif policy != "noeviction":
        text = f"maxmemory-policy {policy} may evict the replies that make a repeated call act only once"
        yield _warn("eviction", text, fix)
    else:
        yield _fine("eviction", "noeviction: a server without memory refuses new requests, and loses none")
    evicted = int(facts.info.get("evicted_keys", 0))
    if evicted:
        text = f"{evicted:,} keys were evicted since the server started: requests may be lost"
        yield _bad("eviction", text, "Mend the policy, then: silkline fsck CRAWL --repair.")


def _persistence(facts: Facts) -> Iterator[Finding]:
    info, config = facts.info, facts.config
    for name, what in (("aof_last_write_status", "the append-only file"), ("rdb_last_bgsave_status", "the snapshot")):
        if info.get(name, "ok") != "ok":
            yield _bad(
                "persistence",
                f"writing {what} failed last time ({name})",
                "Look into the server's log: is its disk full?",
            )
    aof = bool(info.get("aof_enabled")) or config.get("appendonly") == "yes"
    if aof and config.get("appendfsync") == "no":
        yield _warn(
            "persistence", "appendfsync no: a power cut loses half a minute", "CONFIG SET appendfsync everysec."
        )
    elif aof:
        yield _fine("persistence", f"append-only file, appendfsync {config.get('appendfsync', 'unknown')}")
    elif config.get("save"):
        text = f"snapshots only (save {config['save']}): a crash loses what came after the last one"
        yield _warn("persistence", text, "CONFIG SET appendonly yes, and in the configuration file.")
    elif "save" in config:
        text = "no persistence: a restart of the server loses all crawls"
        yield _warn("persistence", text, "CONFIG SET appendonly yes, and in the configuration file.")
    else:
        yield _unknown(
            "persistence", "there is no append-only file; the server does not tell whether it takes snapshots"
        )


def _memory(facts: Facts) -> Iterator[Finding]:
    used, limit = int(facts.info.get("used_memory", 0)), int(facts.info.get("maxmemory", 0))
    system = int(facts.info.get("total_system_memory", 0))
    if limit:
        part = used / limit
        text = f"{as_memory(used)} of {as_memory(limit)} used ({part:.0%})"
        fix = "CONFIG SET maxmemory with more, purge dead letters, or see what is needed: silkline plan --from CRAWL."
        yield (
            _bad("memory", text, fix)
            if part > VERY_SHORT
            else _warn("memory", text, fix)
            if part > SHORT
            else _fine("memory", text)
        )
    else:
        text = f"{as_memory(used)} used, and no limit" + (f"; the machine has {as_memory(system)}" if system else "")
        yield _warn(
            "memory",
            f"{text}: the system may kill the server when memory is short",
            "Set maxmemory to about two thirds of the machine's.",
        )
    ratio = float(facts.info.get("mem_fragmentation_ratio", 1) or 1)
    if ratio > 1.8 and used > SMALL:
        yield _warn(
            "memory", f"fragmentation {ratio:.1f}: much more is taken than used", "CONFIG SET activedefrag yes."
        )


def _clock(facts: Facts) -> Iterator[Finding]:
    if facts.offset is None:
        yield _unknown("clock", "the server does not tell its time")
        return
    off = max(0.0, abs(facts.offset) - facts.doubt)
    text = (
        f"the server's clock is {abs(facts.offset):.3f} s {'ahead of' if facts.offset > 0 else 'behind'} this machine's"
    )
    fix = "Let both keep time by NTP. Leases and delays go by the server's clock alone; block_until and not_before do not."
    if off > SKEW:
        yield _bad("clock", text, fix) if off > GREAT_SKEW else _warn("clock", text, fix)
    else:
        yield _fine("clock", text)


def _access(facts: Facts) -> Iterator[Finding]:
    fix = "Give Silkline a user of its own: docs/how-to/secure-redis.md."
    if facts.open_to_all:
        grade = _warn if _is_near(facts) else _bad
        yield grade("access", "anybody who reaches the server may do anything: the default user has no password", fix)
    elif facts.user == "default":
        yield _warn("access", "Silkline logs in as the default user, who may do anything", fix)
    elif facts.user is None:
        yield _fine("access", "Silkline has a user that may not ask who it is, so it has few rights")
    else:
        yield _fine("access", f"Silkline logs in as {facts.user}")


def _is_near(facts: Facts) -> bool:
    """Whether only this machine can reach it."""
    return facts.config.get("protected-mode") == "yes" or facts.where.startswith(("unix:", "embedded:"))


def _cluster(facts: Facts) -> Iterator[Finding]:
    if facts.cluster is None:
        return
    state = facts.cluster.get("cluster_state")
    failing = int(facts.cluster.get("cluster_slots_fail", 0)) + int(facts.cluster.get("cluster_slots_pfail", 0))
    if state is None:
        yield _unknown("cluster", "the node does not tell how its cluster is")
    elif state != "ok" or failing:
        text = f"the cluster is {state}; {failing:,} slots are on nodes that fail"
        yield _bad(
            "cluster", text, "Bring the failing nodes back, or let replicas take over: CLUSTER NODES tells which."
        )
    else:
        yield _fine("cluster", f"{facts.cluster.get('cluster_known_nodes', '?')} nodes, all slots are served")


def _shapes(facts: Facts) -> Iterator[Finding]:
    depth = facts.config.get("list-compress-depth")
    if depth is None:
        yield _unknown("compression", "the server does not tell list-compress-depth; 1 makes long queues smaller")
    elif depth == "0":
        text = "list-compress-depth 0: nothing is compressed; a crawl with long queues takes 1.4 to 2 times the memory"
        yield _warn("compression", text, "CONFIG SET list-compress-depth 1, and in the configuration file.")
    else:
        yield _fine("compression", f"list-compress-depth {depth}")
    intset = facts.config.get("set-max-intset-entries")
    if intset is not None and int(intset) < INTSET:
        text = f"set-max-intset-entries {intset}: the seen filter may take several times its memory"
        yield _warn("compression", text, f"CONFIG SET set-max-intset-entries {INTSET}.")


def _clients(facts: Facts) -> Iterator[Finding]:
    connected, most = int(facts.info.get("connected_clients", 0)), int(facts.config.get("maxclients", 0))
    if most and connected > most * 0.8:
        yield _warn("clients", f"{connected:,} of {most:,} connections are taken", "CONFIG SET maxclients with more.")
    rejected = int(facts.info.get("rejected_connections", 0))
    if rejected:
        yield _warn("clients", f"{rejected:,} connections were rejected since the server started", "Raise maxclients.")
    if int(facts.config.get("timeout", 0)):
        text = f"timeout {facts.config['timeout']}: idle connections are cut, and those who wait connect anew"
        yield _warn("clients", text, "CONFIG SET timeout 0.")


CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    _version, _role, _eviction, _persistence, _memory, _clock, _access, _cluster, _shapes, _clients,
)  # fmt: skip


def _bad(check: str, text: str, fix: str) -> Finding:
    return Finding(grade="bad", check=check, text=text, fix=fix)


def _warn(check: str, text: str, fix: str) -> Finding:
    return Finding(grade="warn", check=check, text=text, fix=fix)


def _fine(check: str, text: str) -> Finding:
    return Finding(grade="fine", check=check, text=text)


def _unknown(check: str, text: str) -> Finding:
    return Finding(
        grade="unknown", check=check, text=text, fix="Ask with a user who may: +config|get +acl +time +cluster|info."
    )
