"""Settings: what is decided when a crawl is created. They are stored with it and are the same for all clients."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypeGuard, get_args

import msgspec

from silkline.core.politeness import Budget, Politeness
from silkline.errors import ConfigError, NewerData

SCHEMA = 2
"""The version of the stored data. ledger.lua has the same number; the first claim gives it to crawls of an earlier version (claim.lua)."""
BLOCKS_SCHEMA = 3
"""The version of crawls with a Bloom filter that is stored in blocks (bloom.lua). Earlier versions refuse these crawls."""
DURABLE_SCHEMA = 4
"""The version of crawls whose calls wait until their writes are durable. Earlier versions, which would not wait, refuse these crawls."""
NEWEST_SCHEMA = DURABLE_SCHEMA
DEFAULT_CAPACITY = 5_000_000
BLOOM_MARGIN = 1.03
"""How much more room than its part of the capacity the filter of each shard has, because hosts are never spread evenly."""
MOST_SEEN = 10_000_000_000
DEFAULT_HOST_SHARE = 0.5
DEFAULT_DEAD_LIMIT = 250_000
"""Dead letters of a new crawl: 120 MiB if they are failed responses, 470 MiB if each has a traceback."""
LEAST_HOST_SHARE = 1000
"""Waiting requests that every host may have, as long as the crawl is not full (share.lua has both numbers)."""
MAX_SHARDS = 4096
OPEN_AGAIN = 0.8
"""A full crawl accepts requests again below this part of its capacity (enqueue.lua has the same number)."""
STRIKES = 3
"""Workers that may be lost while they hold a request; then it is buried."""

QueueOrder = Literal["fifo", "lifo"]
Durability = Literal["everysec", "always", "replicated"]
_BLOOM = re.compile(r"bloom(?::(?P<error>[0-9.e-]+)(?:,(?P<capacity>\d+))?)?")


class SeenFilter(msgspec.Struct, frozen=True):
    """The seen filter of a crawl. *error* and *capacity* are options of a bloom filter.

    The *capacity* is the number of URLs of the crawl; 0 stands for the capacity of the queue. With schema 2, it is that of the first layer of
    each shard.
    """

    kind: Literal["exact", "compact", "bloom"] = "exact"
    error: float = 0.0001
    capacity: int = 0

    def __str__(self) -> str:
        if self.kind != "bloom":
            return self.kind
        return f"bloom:{self.error:g},{self.capacity}" if self.capacity else f"bloom:{self.error:g}"

    def allows(self, wanted: object) -> bool:
        """Return whether the filter is as *wanted*, which may leave the capacity out."""
        other = msgspec.structs.replace(wanted, capacity=self.capacity) if _is_open(wanted) else wanted
        return self == other

    @classmethod
    def parse(cls, text: str) -> SeenFilter:
        """Read ``exact``, ``compact``, ``bloom``, ``bloom:0.001`` or ``bloom:0.001,1000000``."""
        if text in ("exact", "compact"):
            return cls(kind="exact" if text == "exact" else "compact")
        match = _BLOOM.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise ConfigError(f"seen must be 'exact', 'compact' or 'bloom:ERROR[,CAPACITY]', got {text!r}")
        try:
            error, capacity = float(match["error"] or cls().error), int(match["capacity"] or 0)
        except ValueError:
            raise ConfigError(f"the error rate in seen={text!r} is not a number") from None
        if not 1e-12 <= error <= 0.5 or not 1 <= capacity + (not match["capacity"]) <= MOST_SEEN:
            raise ConfigError(
                f"seen={text!r} needs an error rate from 1e-12 to 0.5 and a capacity from 1 to {MOST_SEEN}"
            )
        return cls(kind="bloom", error=error, capacity=capacity)


def _is_open(wanted: object) -> TypeGuard[SeenFilter]:
    return isinstance(wanted, SeenFilter) and not wanted.capacity


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one crawl as they are stored."""

    schema: int = SCHEMA
    shards: int = 1
    politeness: Politeness = Politeness()
    politeness_by_default: bool = False
    """Whether no process has named a politeness yet: then the first one that does decides, also if it did not create the crawl."""
    budget: Budget = Budget()
    seen: SeenFilter = SeenFilter()
    order: QueueOrder = "fifo"
    capacity: int = DEFAULT_CAPACITY
    host_share: float = DEFAULT_HOST_SHARE
    """The part of the capacity that a single host may take; less if other hosts have many waiting requests."""
    dead_limit: int = 0
    """How many dead letters the crawl keeps, the newest ones; 0 for all. A crawl of an earlier version has no limit."""
    durability: Durability = "everysec"
    """What a call waits for before it returns: nothing, the disk (always), or a replica."""
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.shards) is not int or not 1 <= self.shards <= MAX_SHARDS:
            raise ConfigError(f"shards must be from 1 to {MAX_SHARDS}, got {self.shards!r}")
        check_capacity(self.capacity)
        check_dead_limit(self.dead_limit)
        if type(self.host_share) not in (int, float) or not 0 < self.host_share <= 1:
            raise ConfigError(f"host_share must be more than 0 and at most 1 (no limit), got {self.host_share!r}")
        if self.order not in get_args(QueueOrder):
            raise ConfigError(f"order must be 'fifo' or 'lifo', got {self.order!r}")
        if self.durability not in get_args(Durability):
            raise ConfigError(f"durability must be 'everysec', 'always' or 'replicated', got {self.durability!r}")

    @classmethod
    def create(cls, **fields: Any) -> Settings:
        """Return the settings of a new crawl."""
        made = cls(**fields)
        if made.seen.kind == "bloom":
            seen = msgspec.structs.replace(made.seen, capacity=made.seen.capacity or made.capacity)
            made = msgspec.structs.replace(made, seen=seen, schema=BLOCKS_SCHEMA)
        return made if made.durability == "everysec" else msgspec.structs.replace(made, schema=DURABLE_SCHEMA)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, stored: bytes) -> Settings:
        schema = msgspec.json.decode(stored, type=_SchemaOnly).schema
        if schema > NEWEST_SCHEMA:
            raise NewerData(
                f"the crawl was stored with schema {schema}, this Silkline knows {NEWEST_SCHEMA}: upgrade it"
            )
        return msgspec.json.decode(stored, type=cls)

    @property
    def share_of_dead(self) -> int:
        """How many dead letters each shard keeps; 0 for all."""
        return -(-self.dead_limit // self.shards)

    def conflicts(self, wanted: dict[str, Any]) -> list[str]:
        """Return the settings of *wanted* that differ from the stored ones, as messages."""
        return [
            f"{name} is {getattr(self, name)}, not {value}"
            for name, value in wanted.items()
            if not (self.seen.allows(value) if name == "seen" else getattr(self, name) == value)
        ]

    @property
    def bloom_capacity(self) -> int:
        """The URLs for which the first layer of the Bloom filter of each shard has room."""
        if self.schema < BLOCKS_SCHEMA:
            return self.seen.capacity or 65_536
        return math.ceil(self.seen.capacity * (BLOOM_MARGIN if self.shards > 1 else 1) / self.shards)

    def shard_fields(self) -> dict[str, int | float | str]:
        """Return the first fields of a shard's ledger. The capacity, the page budget and the dead limit are those of one shard.

        A copy of all settings is among them, to restore settings that were lost. It changes with them.
        """
        fields: dict[str, int | float | str] = {
            "schema": self.schema,
            "state": "open",
            "order": self.order,
            "seen": self.seen.kind,
            "capacity": -(-self.capacity // self.shards),
            "host_share": self.host_share,
            "delay": round(self.politeness.delay * 1000),
            "concurrency": self.politeness.concurrency,
            "burst": self.politeness.burst,
            "strikes": STRIKES,
            "buckets": 4096 if self.seen.kind == "compact" else 16,
            "layers": 1,
            "bloom_error": self.seen.error,
            "bloom_capacity": self.bloom_capacity,
            "settings": self.encode().decode(),
        }
        if self.dead_limit:
            fields["dead_limit"] = self.share_of_dead
        if self.budget.pages is not None:
            fields["allowance"] = self.budget.pages if self.shards == 1 else 0
        if self.budget.pages_per_host is not None:
            fields["host_pages"] = self.budget.pages_per_host
        return fields


def is_share(waiting: int, room: int, share: float, capacity: int) -> bool:
    """Return whether a host with *waiting* requests has reached its share, if the crawl has *room* for more (share.lua)."""
    crowded = room <= capacity * (1 - share)
    return waiting >= LEAST_HOST_SHARE and crowded and waiting * (1 - share) >= share * room


def check_capacity(capacity: int) -> int:
    if type(capacity) is not int or capacity < 1:
        raise ConfigError(f"capacity must be at least 1, got {capacity!r}")
    return capacity


def check_dead_limit(limit: int) -> int:
    if type(limit) is not int or limit < 0:
        raise ConfigError(f"dead_limit must be at least 1, or 0 to keep all dead letters, got {limit!r}")
    return limit


class _SchemaOnly(msgspec.Struct):
    schema: int
