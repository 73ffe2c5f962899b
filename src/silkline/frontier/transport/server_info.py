"""Versions, memory and settings of servers, and the check that a server can hold a frontier."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from silkline.core.units import format_bytes
from silkline.errors import ConfigError
from silkline.frontier.transport.command import load, script_names
from silkline.frontier.transport.redis_errors import MORE_MEMORY

log = logging.getLogger("silkline.frontier")

_warned: set[str] = set()
"""Servers of which this process was warned."""


class Server(NamedTuple):
    """The kind and version of a server, from INFO."""

    name: str
    version: tuple[int, ...]
    eviction: str
    cluster: bool
    legacy: bool = False
    """Whether the server does not know the first line (shebang) of scripts. A field, because each call reads it."""
    unlimited: bool = False
    """Whether maxmemory is 0, so that nothing is evicted."""


class Memory(NamedTuple):
    """Bytes in use, and the limit (None without one). Of a cluster, those of the fullest primary."""

    used: int
    limit: int | None
    evicted: int = 0
    """Keys that the server has evicted since it started; on a cluster, all primaries have."""
    clients: int = 0
    """Connections of clients; on a cluster, to all primaries."""

    @property
    def headroom(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)


def out_of_memory(memory: Memory, where: str) -> str:
    """Return a clause about a server that is out of memory, and what to do. *where* is its address without its password."""
    use = "" if memory.limit is None else f" ({format_bytes(memory.used)} of {format_bytes(memory.limit)})"
    return f"the server {where} is out of memory{use}: {MORE_MEMORY}"


def read_memory(info: dict[str, Any]) -> Memory:
    """Read the reply to INFO of one node, or of several by name."""
    nodes = [info] if "used_memory" in info else list(info.values())
    found = [Memory(int(node["used_memory"]), int(node.get("maxmemory", 0)) or None) for node in nodes]
    fullest = max(found, key=lambda node: node.used / node.limit if node.limit else node.used / 2**60)
    evicted, clients = (sum(int(node.get(name, 0)) for node in nodes) for name in ("evicted_keys", "connected_clients"))
    return fullest._replace(evicted=evicted, clients=clients)


def read_server(info: dict[str, Any]) -> Server:
    """Read the reply to INFO; of a cluster, that of one node."""
    name = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    version = str(info.get("valkey_version" if name == "Valkey" else "redis_version", "0"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    legacy = name == "Redis" and numbers < (7,)
    eviction, unlimited = str(info.get("maxmemory_policy", "")), str(info.get("maxmemory")) == "0"
    return Server(name, numbers, eviction, bool(info.get("cluster_enabled")), legacy, unlimited)


def check_server(server: Server, where: str) -> None:
    """Raise `ConfigError` for a server that is too old, or that evicts requests. Warn once of one that would with a limit."""
    oldest = (7, 2) if server.name == "Valkey" else (6, 2)
    if server.version < oldest:
        version = ".".join(map(str, server.version))
        raise ConfigError(f"{where} is {server.name} {version}; Silkline needs Redis 6.2 or Valkey 7.2 or later")
    if server.eviction.startswith("allkeys") and server.unlimited:
        if where not in _warned:
            _warned.add(where)
            log.warning(
                "%s would evict requests if its memory were limited (maxmemory-policy %s, maxmemory 0): before you set maxmemory,"
                " run CONFIG SET maxmemory-policy noeviction",
                where,
                server.eviction,
            )
    elif server.eviction.startswith("allkeys"):
        raise ConfigError(
            f"{where} evicts keys when memory is short (maxmemory-policy {server.eviction}), which would lose requests: "
            "run CONFIG SET maxmemory-policy noeviction, or use another server"
        )


Words = tuple[str, ...]
SETTINGS = (
    "appendfsync",
    "appendonly",
    "latency-monitor-threshold",
    "list-compress-depth",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "protected-mode",
    "save",
    "set-max-intset-entries",
    "slowlog-log-slower-than",
    "timeout",
)
"""Settings to read one by one, because CONFIG GET of all would return passwords."""

TIME: Words = ("TIME",)
SLOW_LOG: Words = ("SLOWLOG GET", "128")
LATENCY: Words = ("LATENCY LATEST",)
QUESTIONS: tuple[Words, ...] = (
    ("INFO", "everything"),
    ("ACL WHOAMI",),
    ("ACL GETUSER", "default"),
    ("CLUSTER INFO",),
    SLOW_LOG,
    LATENCY,
    *(("CONFIG GET", name) for name in SETTINGS),
)


class SlowEvent(NamedTuple):
    """A command of the slow log, or an event of the latency monitor."""

    name: str
    """The command without its arguments, the script that it ran, or the event."""
    seconds: float
    """How long it took. No client gets a reply meanwhile."""
    ago: float
    """How many seconds ago it was."""


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """INFO, CONFIG and the clock of one node. What the user may not read is None, or missing from *config*."""

    where: str
    server: Server
    info: dict[str, Any]
    config: dict[str, str]
    offset: float | None
    """Seconds by which the clock of the node is ahead of this machine's."""
    doubt: float
    """Maximum error of the offset, in seconds."""
    user: str | None
    open_to_all: bool | None
    """Whether the default user needs no password."""
    cluster: dict[str, str] | None
    slow_commands: list[SlowEvent] | None = None
    """The last commands of the slow log."""
    latency_events: list[SlowEvent] | None = None
    """The last event of each kind that the latency monitor has recorded."""


class InfoReplies:
    """Collects the replies of one node. The local clock is read before and after TIME."""

    def __init__(self, where: str, clock: Callable[[], float] = time.time) -> None:
        self._where = where
        self._clock = clock
        self._sent = 0.0
        self._replies: dict[Words, Any] = {}
        self._times = (0.0, 0.0)

    def before(self, question: Words) -> None:
        if question == TIME:
            self._sent = self._clock()

    def take(self, question: Words, reply: Any) -> None:
        """Store a reply; None if the server refused."""
        if question == TIME:
            self._times = (self._sent, self._clock())
        self._replies[question] = reply

    def info(self) -> ServerInfo:
        info: dict[str, Any] = self._replies.get(("INFO", "everything")) or {}
        config: dict[str, str] = {}
        for name in SETTINGS:
            config |= self._replies.get(("CONFIG GET", name)) or {}
        sent, received = self._times
        clock = self._replies.get(TIME)
        default = self._replies.get(("ACL GETUSER", "default"))
        server = read_server(info)
        return ServerInfo(
            where=self._where,
            server=server,
            info=info,
            config=config,
            offset=None if clock is None else clock[0] + clock[1] / 1e6 - (sent + received) / 2,
            doubt=(received - sent) / 2,
            user=_text(self._replies.get(("ACL WHOAMI",))),
            open_to_all=None if default is None else "nopass" in default.get("flags", ()) and "on" in default["flags"],
            slow_commands=_slow_commands(self._replies.get(SLOW_LOG), now := clock[0] if clock else received),
            latency_events=_latency_events(self._replies.get(LATENCY), now),
            cluster=(self._replies.get(("CLUSTER INFO",)) or {}) if server.cluster else None,
        )


def _slow_commands(reply: list[dict[str, Any]] | None, now: float) -> list[SlowEvent] | None:
    """Read the reply to SLOWLOG GET. Arguments are left out: they may be confidential."""
    if reply is None:
        return None
    scripts = {sha: name for name in script_names() for sha in (load(name).sha, load(name).legacy_sha)}
    found = []
    for entry in reply:
        command, _, rest = entry["command"].decode(errors="replace").partition(" ")
        name = scripts.get(rest[:40], command) if command.upper() == "EVALSHA" else command
        found.append(SlowEvent(name, entry["duration"] / 1e6, now - entry["start_time"]))
    return found


def _latency_events(reply: list[list[Any]] | None, now: float) -> list[SlowEvent] | None:
    """Read the reply to LATENCY LATEST."""
    return (
        None
        if reply is None
        else [SlowEvent(_text(name) or "", ms / 1e3, now - time_) for name, time_, ms, *_ in reply]
    )


def _text(reply: Any) -> str | None:
    return reply.decode() if isinstance(reply, bytes) else reply
