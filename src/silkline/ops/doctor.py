"""The doctor: find problems of a server and suggest fixes. Pure: takes server info, returns findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from silkline.core.units import format_bytes
from silkline.frontier.transport.server_info import ServerInfo

Grade = Literal["bad", "warn", "fine", "unknown"]

SKEW, GREAT_SKEW = 0.5, 5.0
"""Seconds by which clocks may differ: clients set block_until and not_before with their own clock."""
SHORT, VERY_SHORT = 0.75, 0.9
"""Fractions of the memory limit."""
LONG_FORK = 0.5
"""Seconds for a fork, in which the server is silent."""
SLOW_COMMAND = 0.05
"""Seconds. Silkline's own scripts take at most a few milliseconds."""
RECENT = 3600.0
SLOW_TRIP = 20.0
"""Milliseconds for a round trip."""
SMALL = 64 * 2**20
INTSET = 512
"""Size up to which buckets of the seen filter must stay intsets; splitting keeps them smaller."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    grade: Grade
    check: str
    text: str
    fix: str = ""
    where: str = ""


def examine(nodes: Sequence[ServerInfo]) -> list[Finding]:
    """Check the nodes of a server; return the findings, worst first."""
    found = [
        msgspec.structs.replace(finding, where=node.where if len(nodes) > 1 else "")
        for node in nodes
        for check in CHECKS
        for finding in check(node)
    ]
    return sorted(found, key=lambda finding: ("bad", "warn", "unknown", "fine").index(finding.grade))


def _version(node: ServerInfo) -> Iterator[Finding]:
    server = node.server
    name = f"{server.name} {_dotted(server.version)}"
    oldest = (7, 2) if server.name == "Valkey" else (6, 2)
    if server.version < oldest:
        yield _bad("version", f"{name} is too old: Silkline needs Redis 6.2 or Valkey 7.2", "Upgrade the server.")
    else:
        yield _fine("version", name)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _role(node: ServerInfo) -> Iterator[Finding]:
    if node.info.get("role") == "slave":
        yield _bad("role", "this is a replica, which does not accept writes", "Use the address of the primary.")
    if node.info.get("loading"):
        yield _bad("role", "the server is still loading its data", "Wait until it has finished.")


def _eviction(node: ServerInfo) -> Iterator[Finding]:
    policy = node.config.get("maxmemory-policy") or node.server.eviction
    fix = "Run CONFIG SET maxmemory-policy noeviction, and set it in the configuration file too."
    if not policy:
        yield _unknown("eviction", "the eviction policy cannot be read")
    elif policy.startswith("allkeys") and node.server.unlimited:
        yield _warn(
            "eviction", f"maxmemory-policy {policy} evicts requests as soon as maxmemory is set; now it is 0", fix
        )
    elif policy.startswith("allkeys"):
        yield _bad("eviction", f"maxmemory-policy {policy} evicts requests when memory is short", fix)
    elif policy != "noeviction":
        text = (
            f"maxmemory-policy {policy} may evict stored replies; without them, a repeated call can take effect twice"
        )
        yield _warn("eviction", text, fix)
    else:
        yield _fine("eviction", "noeviction: when memory is short, the server refuses new requests and loses none")
    evicted = int(node.info.get("evicted_keys", 0))
    if evicted:
        text = f"{evicted:,} keys were evicted since the server started: requests may be lost"
        yield _bad("eviction", text, "Change the policy, then run: silkline fsck CRAWL --repair.")


def _persistence(node: ServerInfo) -> Iterator[Finding]:
    info, config = node.info, node.config
    for name, what in (("aof_last_write_status", "the append-only file"), ("rdb_last_bgsave_status", "the snapshot")):
        if info.get(name, "ok") != "ok":
            yield _bad(
                "persistence",
                f"the last write of {what} failed ({name})",
                "Check the log of the server: is its disk full?",
            )
    if delayed := int(info.get("aof_delayed_fsync", 0)):
        text = f"the disk delayed {delayed:,} writes of the append-only file since the server started: all clients wait meanwhile"
        yield _warn("persistence", text, "Use a faster disk, or one that no other program writes to.")
    if (fork := int(info.get("latest_fork_usec", 0)) / 1e6) > LONG_FORK:
        text = f"the last fork for a snapshot or rewrite took {fork:.1f} s, in which the server replied to no client"
        yield _warn("persistence", text, "Disable transparent huge pages, or spread the crawls over several servers.")
    aof = bool(info.get("aof_enabled")) or config.get("appendonly") == "yes"
    if aof and config.get("appendfsync") == "no":
        yield _warn(
            "persistence", "appendfsync no: a power cut loses about 30 seconds", "Run CONFIG SET appendfsync everysec."
        )
    elif aof:
        yield _fine("persistence", f"append-only file, appendfsync {config.get('appendfsync', 'unknown')}")
    elif config.get("save"):
        text = f"snapshots only (save {config['save']}): a crash loses all writes since the last snapshot"
        yield _warn("persistence", text, "Run CONFIG SET appendonly yes, and set it in the configuration file too.")
    elif "save" in config:
        text = "no persistence: all crawls are lost when the server restarts"
        yield _warn("persistence", text, "Run CONFIG SET appendonly yes, and set it in the configuration file too.")
    else:
        yield _unknown("persistence", "no append-only file; the snapshot settings cannot be read")


def _memory(node: ServerInfo) -> Iterator[Finding]:
    used, limit = int(node.info.get("used_memory", 0)), int(node.info.get("maxmemory", 0))
    system = int(node.info.get("total_system_memory", 0))
    if limit:
        part = used / limit
        text = f"{format_bytes(used)} of {format_bytes(limit)} used ({part:.0%})"
        fix = "Raise maxmemory, purge dead letters, or estimate the need: silkline plan --from CRAWL."
        yield (
            _bad("memory", text, fix)
            if part > VERY_SHORT
            else _warn("memory", text, fix)
            if part > SHORT
            else _fine("memory", text)
        )
    else:
        text = f"{format_bytes(used)} used, no limit" + (f"; the machine has {format_bytes(system)}" if system else "")
        yield _warn(
            "memory",
            f"{text}: the operating system may kill the server when memory is short",
            "Set maxmemory to about two thirds of the memory of the machine.",
        )
    ratio = float(node.info.get("mem_fragmentation_ratio", 1) or 1)
    if ratio > 1.8 and used > SMALL:
        yield _warn(
            "memory",
            f"fragmentation ratio {ratio:.1f}: the server uses much more memory than its data needs",
            "Run CONFIG SET activedefrag yes.",
        )


def _clock(node: ServerInfo) -> Iterator[Finding]:
    if node.offset is None:
        yield _unknown("clock", "the clock of the server cannot be read")
        return
    off = max(0.0, abs(node.offset) - node.doubt)
    text = f"the clock of the server is {abs(node.offset):.3f} s {'ahead of' if node.offset > 0 else 'behind'} the clock of this machine"
    fix = "Synchronize both clocks with NTP. Leases and delays use the clock of the server; block_until and not_before use that of the client."
    if off > SKEW:
        yield _bad("clock", text, fix) if off > GREAT_SKEW else _warn("clock", text, fix)
    else:
        yield _fine("clock", text)


def _latency(node: ServerInfo) -> Iterator[Finding]:
    if node.offset is None:
        return
    milliseconds = 2000 * node.doubt  # TIME was sent and received within this time
    text = f"a round trip took {milliseconds:.1f} ms"
    if milliseconds > SLOW_TRIP:
        yield _warn("latency", f"{text}: each claim takes at least as long", "Run workers near the server.")
    else:
        yield _fine("latency", text)


def _slow_log(node: ServerInfo) -> Iterator[Finding]:
    if node.slow_commands is None:
        yield _unknown("slow log", "the slow log cannot be read")
        return
    threshold = int(node.config.get("slowlog-log-slower-than", 0))
    if not 0 <= threshold <= SLOW_COMMAND * 1e6:
        text = f"slowlog-log-slower-than {threshold}: slow commands are not recorded"
        yield _warn("slow log", text, "Run CONFIG SET slowlog-log-slower-than 10000.")
    slow = [one for one in node.slow_commands if one.seconds >= SLOW_COMMAND and one.ago <= RECENT]
    if slow:
        worst = max(slow, key=lambda one: one.seconds)
        many = f"{len(slow)} commands" if len(slow) > 1 else "a command"
        text = f"in the last hour, {many} took longer than 50 ms, in which no client got a reply; {worst.name} took {worst.seconds:.2g} s"
        fix = "SLOWLOG GET lists them. Use another server for programs that send slow commands. If they are scripts of Silkline, check the disk and the processor."
        yield _warn("slow log", text, fix)
    elif 0 <= threshold <= SLOW_COMMAND * 1e6:
        yield _fine("slow log", "no command took longer than 50 ms in the last hour")


EVENTS = {
    "fork": "Disable transparent huge pages, or spread the crawls over several servers.",
    "aof": "Use a faster disk, or one that no other program writes to.",
    "rdb": "Use a faster disk, or one that no other program writes to.",
    "command": "SLOWLOG GET lists the commands.",
    "fast-command": "Check that the processor and the memory of the server are free for it: no swapping, no busy neighbors.",
    "expire": "Check which keys of other programs expire at the same time.",
    "eviction": "Raise maxmemory.",
}
"""What to do about an event of the latency monitor, by the first part of its name."""


def _latency_events(node: ServerInfo) -> Iterator[Finding]:
    recent = [one for one in node.latency_events or () if one.ago <= RECENT]
    for event in sorted(recent, key=lambda one: -one.seconds)[:3]:
        text = f"the latency monitor recorded {event.name}: {1000 * event.seconds:,.0f} ms, in the last hour"
        kind = next((kind for kind in EVENTS if event.name.startswith(kind)), "fast-command")
        yield _warn("latency", text, EVENTS[kind])
    if node.latency_events is not None and node.config.get("latency-monitor-threshold") == "0":
        text = "latency events are not recorded (latency-monitor-threshold 0)"
        yield Finding(
            grade="fine",
            check="latency",
            text=text,
            fix="To record them, run CONFIG SET latency-monitor-threshold 100.",
        )


def _access(node: ServerInfo) -> Iterator[Finding]:
    fix = "Create a Redis user for Silkline: silkline doctor --help shows the command."
    if node.open_to_all:
        grade = _warn if _is_near(node) else _bad
        yield grade("access", "anyone who can reach the server has full access: the default user has no password", fix)
    elif node.user == "default":
        yield _warn("access", "Silkline logs in as the default user, which has full access", fix)
    elif node.user is None:
        yield _fine("access", "Silkline logs in as a user with few permissions")
    else:
        yield _fine("access", f"Silkline logs in as {node.user}")


def _is_near(node: ServerInfo) -> bool:
    """Whether the server accepts connections only from this machine."""
    return node.config.get("protected-mode") == "yes" or node.where.startswith(("unix:", "embedded:"))


def _cluster(node: ServerInfo) -> Iterator[Finding]:
    if node.cluster is None:
        return
    state = node.cluster.get("cluster_state")
    failing = int(node.cluster.get("cluster_slots_fail", 0)) + int(node.cluster.get("cluster_slots_pfail", 0))
    if state is None:
        yield _unknown("cluster", "the state of the cluster cannot be read")
    elif state != "ok" or failing:
        text = f"the cluster is {state}; {failing:,} slots are on failing nodes"
        yield _bad("cluster", text, "Restore the failing nodes or promote their replicas; CLUSTER NODES lists them.")
    else:
        yield _fine("cluster", f"{node.cluster.get('cluster_known_nodes', '?')} nodes, all slots are served")


def _shapes(node: ServerInfo) -> Iterator[Finding]:
    depth = node.config.get("list-compress-depth")
    if depth is None:
        yield _unknown("compression", "list-compress-depth cannot be read; 1 reduces the memory of long queues")
    elif depth == "0":
        text = (
            "list-compress-depth 0: queues are not compressed; a crawl with long queues needs 1.4 to 2 times the memory"
        )
        yield _warn(
            "compression", text, "Run CONFIG SET list-compress-depth 1, and set it in the configuration file too."
        )
    else:
        yield _fine("compression", f"list-compress-depth {depth}")
    intset = node.config.get("set-max-intset-entries")
    if intset is not None and int(intset) < INTSET:
        text = f"set-max-intset-entries {intset}: the seen filter may need several times the memory"
        yield _warn("compression", text, f"Run CONFIG SET set-max-intset-entries {INTSET}.")


def _clients(node: ServerInfo) -> Iterator[Finding]:
    connected, most = int(node.info.get("connected_clients", 0)), int(node.config.get("maxclients", 0))
    if most and connected > most * 0.8:
        yield _warn("clients", f"{connected:,} of {most:,} connections are in use", "Raise maxclients.")
    rejected = int(node.info.get("rejected_connections", 0))
    if rejected:
        yield _warn("clients", f"{rejected:,} connections were rejected since the server started", "Raise maxclients.")
    if int(node.config.get("timeout", 0)):
        text = f"timeout {node.config['timeout']}: idle connections are closed, and waiting clients must reconnect"
        yield _warn("clients", text, "Run CONFIG SET timeout 0.")


CHECKS: tuple[Callable[[ServerInfo], Iterable[Finding]], ...] = (
    _version, _role, _eviction, _persistence, _memory, _clock, _latency, _slow_log, _latency_events, _access, _cluster, _shapes, _clients,
)  # fmt: skip


def _bad(check: str, text: str, fix: str) -> Finding:
    return Finding(grade="bad", check=check, text=text, fix=fix)


def _warn(check: str, text: str, fix: str) -> Finding:
    return Finding(grade="warn", check=check, text=text, fix=fix)


def _fine(check: str, text: str) -> Finding:
    return Finding(grade="fine", check=check, text=text)


def _unknown(check: str, text: str) -> Finding:
    return Finding(
        grade="unknown",
        check=check,
        text=text,
        fix="Grant the user these permissions: +config|get +acl +time +slowlog|get +latency|latest +cluster|info.",
    )
