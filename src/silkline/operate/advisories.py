"""Known vulnerabilities of Redis and Valkey that matter to a server that runs scripts for several clients.

Kept by hand from the release notes of both projects; `AS_OF` says up to when. Of each: which versions are affected, and
per series the first one that is not. Of a series that is not listed no fix is known to us. Left out is what only concerns
modules, vector sets, RDMA and programs beside the server.
"""

from __future__ import annotations

from typing import NamedTuple

Version = tuple[int, ...]

AS_OF = "2026-10-27"
"""The newest release notes that were read; later ones are not known here."""


class Advisory(NamedTuple):
    """A vulnerability: from which version on, and where it is fixed."""

    name: str
    """The number of its CVE or advisory; where it has none, the releases that fixed it."""
    what: str
    server: str
    since: Version
    fixed: tuple[Version, ...]
    """The first safe version of every series, the newest series last: it and all later ones are safe."""
    in_clusters: bool = False
    """Whether only nodes of a cluster have it."""

    def affects(self, server: str, version: Version) -> bool:
        if server != self.server or version < self.since or version >= self.fixed[-1]:
            return False
        return not any(version[:2] == safe[:2] and version >= safe for safe in self.fixed)


def _both(
    name: str, what: str, redis: tuple[Version, ...], valkey: tuple[Version, ...], since: Version = (0,)
) -> tuple[Advisory, Advisory]:
    return Advisory(name, what, "Redis", since, redis), Advisory(name, what, "Valkey", (0,), valkey)


_LUA_2025 = (
    ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
    ((7, 2, 11), (8, 0, 6), (8, 1, 4), (9, 0, 0)),
)
_MAY_2026 = (
    ((6, 2, 22), (7, 2, 14), (7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3)),
    ((7, 2, 13), (8, 0, 9), (8, 1, 7), (9, 0, 4), (9, 1, 0)),
)
_AUGUST_2026 = ((7, 2, 16), (7, 4, 11), (8, 2, 9), (8, 4, 6), (8, 6, 6), (8, 8, 2))
_JULY_2026 = ((7, 2, 14), (8, 0, 10), (8, 1, 9), (9, 0, 5), (9, 1, 1))

ADVISORIES: tuple[Advisory, ...] = (
    Advisory("CVE-2022-24834", "heap overflow in the Lua libraries cjson and cmsgpack", "Redis", (0,),
             ((6, 0, 20), (6, 2, 13), (7, 0, 12))),
    Advisory("CVE-2023-41056", "heap overflow when buffers are resized", "Redis", (7, 0, 9), ((7, 0, 15), (7, 2, 4))),
    *_both("CVE-2024-31449", "stack overflow in the Lua library bit",
           ((6, 2, 16), (7, 2, 6), (7, 4, 1)), ((7, 2, 7), (8, 0, 1))),
    *_both("CVE-2024-46981", "use after free in Lua's garbage collection, code execution",
           ((6, 2, 17), (7, 2, 7), (7, 4, 2)), ((7, 2, 8), (8, 0, 2))),
    *_both("CVE-2025-21605", "output buffers of clients that are not logged in grow without limit",
           ((6, 2, 18), (7, 2, 8), (7, 4, 3)), ((7, 2, 9), (8, 0, 3), (8, 1, 1))),
    *_both("CVE-2025-32023", "writing out of bounds with HyperLogLog",
           ((6, 2, 19), (7, 2, 10), (7, 4, 5), (8, 0, 3)), ((7, 2, 10), (8, 0, 4), (8, 1, 3))),
    *_both("CVE-2025-49844", "use after free in the Lua parser, code execution", *_LUA_2025),
    *_both("CVE-2025-46817", "integer overflow in Lua, code execution", *_LUA_2025),
    *_both("CVE-2025-46818", "a script may act as another user", *_LUA_2025),
    *_both("CVE-2025-46819", "reading out of bounds in Lua", *_LUA_2025),
    Advisory("CVE-2025-62507", "stack overflow in XACKDEL, code execution", "Redis", (8, 2), ((8, 2, 3),)),
    Advisory("Redis 2026-02", "replies of others can be forged through the errors of scripts", "Redis", (7, 2),
             ((7, 2, 13), (7, 4, 8), (8, 0, 6), (8, 2, 5), (8, 4, 2), (8, 6, 1))),
    Advisory("CVE-2025-67733", "replies of others can be forged through Lua's error_reply", "Valkey", (0,),
             ((7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 2))),
    Advisory("CVE-2026-21863", "a packet on the cluster bus ends the server", "Valkey", (0,),
             ((7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 2))),
    Advisory("CVE-2026-27623", "an empty request from anybody ends the server", "Valkey", (9, 0, 0), ((9, 0, 3),)),
    *_both("CVE-2026-23479", "use after free when a blocked client is evicted, code execution", *_MAY_2026, since=(7, 2)),
    *_both("CVE-2026-25243", "invalid memory access with RESTORE", *_MAY_2026),
    *_both("CVE-2026-23631", "use after free when a replica syncs while a script runs", *_MAY_2026),
    Advisory("CVE-2026-56684", "use after free in TLS connections, code execution", "Valkey", (0,), _JULY_2026),
    Advisory("CVE-2026-63639", "a corrupt stream in an RDB file, code execution", "Valkey", (0,), _JULY_2026),
    Advisory("Redis 2026-07", "a corrupt stream given to RESTORE, code execution", "Redis", (0,),
             ((6, 2, 23), (7, 2, 15), (7, 4, 10), (8, 2, 8), (8, 4, 5), (8, 6, 5), (8, 8, 0))),
    Advisory("CVE-2026-81934", "use after free in TLS connections, code execution without logging in", "Redis", (0,),
             ((6, 2, 24), *_AUGUST_2026, (8, 10, 1))),
    Advisory("Redis 2026-08 #15594", "use after free among blocked clients", "Redis", (7, 2), (*_AUGUST_2026, (8, 10, 1))),
    Advisory("Redis 2026-08 #15478", "SORT, GEORADIUS and XREAD reach keys that the access list forbids", "Redis", (7, 2),
             (*_AUGUST_2026, (8, 10, 0))),
    Advisory("Redis 2026-08 #14847", "EVAL with wrong arguments reads out of bounds", "Redis", (7, 2),
             (*_AUGUST_2026[:4], (8, 6, 0))),
    Advisory("GHSA-fq2f-crmw-q97r", "use after free of the Lua interpreter, without logging in", "Valkey", (9, 1, 0),
             ((9, 1, 2),)),
    Advisory("Redis 2026-09 #15673", "a transaction reaches keys whose permission was revoked", "Redis", (8, 2),
             ((8, 2, 10), (8, 6, 7), (8, 8, 3), (8, 10, 2))),
    Advisory("GHSA-f4q9-j22m-xqq9", "heap overflow when a long message is published in a cluster, code execution",
             "Valkey", (0,), ((7, 2, 15), (8, 0, 12), (8, 1, 11), (9, 0, 7), (9, 1, 3)), in_clusters=True),
)  # fmt: skip


def known_against(server: str, version: Version, *, cluster: bool = True) -> list[Advisory]:
    """What is known against a version, in a cluster or outside."""
    return [one for one in ADVISORIES if one.affects(server, version) and (cluster or not one.in_clusters)]


def safe_version(server: str, version: Version, *, cluster: bool = True) -> Version | None:
    """The first version of the same series against which nothing is known; None if of this series none is known to us."""
    fixes = [
        [safe for safe in one.fixed if safe[:2] == version[:2]] or [one.fixed[-1]]
        for one in known_against(server, version, cluster=cluster)
    ]
    if not fixes or any(best[0][:2] != version[:2] for best in fixes):
        return None
    return max(best[0] for best in fixes)
