"""Host to shard. All of a host, and every URL on it, lives on one shard."""

from __future__ import annotations

import xxhash


def shard_of(host: str, shards: int) -> int:
    if shards == 1:
        return 0
    number: int = xxhash.xxh3_64_intdigest(host.encode()) % shards
    return number
