"""What a server says of itself, and whether the frontier's promises can be kept on it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from silkline.core.errors import ConfigError


class Server(NamedTuple):
    """What the server says of itself."""

    name: str
    version: tuple[int, ...]
    eviction: str
    cluster: bool

    @property
    def legacy(self) -> bool:
        """Whether it is from before scripts had a first line."""
        return self.name == "Redis" and self.version < (7,)


class Memory(NamedTuple):
    """Bytes on the server: in use, and allowed (None without a limit). Of a cluster, the fullest of its primaries."""

    used: int
    limit: int | None

    @property
    def headroom(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)


def read_memory(info: dict[str, Any]) -> Memory:
    """Read INFO memory, of one node or of several by name."""
    nodes = [info] if "used_memory" in info else list(info.values())
    found = [Memory(int(node["used_memory"]), int(node.get("maxmemory", 0)) or None) for node in nodes]
    return max(found, key=lambda node: node.used / node.limit if node.limit else node.used / 2**60)


def read_server(info: dict[str, Any]) -> Server:
    """Read INFO; of a cluster it is the INFO of one node."""
    name = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    version = str(info.get("valkey_version" if name == "Valkey" else "redis_version", "0"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return Server(name, numbers, str(info.get("maxmemory_policy", "")), bool(info.get("cluster_enabled")))


def check_server(server: Server, where: str) -> None:
    """Refuse servers on which the frontier's promises cannot be kept."""
    oldest = (7, 2) if server.name == "Valkey" else (6, 2)
    if server.version < oldest:
        version = ".".join(map(str, server.version))
        raise ConfigError(f"{where} is {server.name} {version}; Silkline needs Redis 6.2 or Valkey 7.2 or later")
    if server.eviction.startswith("allkeys"):
        raise ConfigError(
            f"{where} evicts keys when memory is short (maxmemory-policy {server.eviction}), which would lose requests: "
            "run CONFIG SET maxmemory-policy noeviction, or use another server"
        )
