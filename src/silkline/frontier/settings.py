"""Settings: what is fixed when a crawl is created, stored with it, and the same for every client ever after."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import msgspec

from silkline.core.budget import Budget
from silkline.core.errors import ConfigError, NewerData
from silkline.core.politeness import Politeness

SCHEMA = 1
DEFAULT_CAPACITY = 5_000_000
MAX_SHARDS = 4096
OPEN_AGAIN = 0.8
"""A full crawl takes requests again at this part of its capacity (enqueue.lua knows it too)."""
STRIKES = 3
"""So many workers may a request take down with it before it is buried."""

Order = Literal["fifo", "lifo"]
_BLOOM = re.compile(r"bloom(?::(?P<error>[0-9.e-]+)(?:,(?P<capacity>\d+))?)?")


class SeenFilter(msgspec.Struct, frozen=True):
    """Which seen filter a crawl has; *error* and *capacity* (of the first layer) are a bloom filter's."""

    kind: Literal["exact", "compact", "bloom"] = "exact"
    error: float = 0.0001
    capacity: int = 65_536

    def __str__(self) -> str:
        return f"bloom:{self.error:g},{self.capacity}" if self.kind == "bloom" else self.kind

    @classmethod
    def parse(cls, text: str) -> SeenFilter:
        """From ``exact``, ``compact``, ``bloom``, ``bloom:0.001`` or ``bloom:0.001,1000000``."""
        if text in ("exact", "compact"):
            return cls(kind="exact" if text == "exact" else "compact")
        match = _BLOOM.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise ConfigError(f"seen must be 'exact', 'compact' or 'bloom:ERROR[,CAPACITY]', got {text!r}")
        try:
            error, capacity = float(match["error"] or cls().error), int(match["capacity"] or cls().capacity)
        except ValueError:
            raise ConfigError(f"the error rate in seen={text!r} is not a number") from None
        if not 1e-12 <= error <= 0.5 or not 1 <= capacity <= 100_000_000:
            raise ConfigError(f"seen={text!r} needs an error rate from 1e-12 to 0.5 and a capacity from 1 to 100000000")
        return cls(kind="bloom", error=error, capacity=capacity)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one crawl as they are stored."""

    schema: int = SCHEMA
    shards: int = 1
    politeness: Politeness = Politeness()
    budget: Budget = Budget()
    seen: SeenFilter = SeenFilter()
    order: Order = "fifo"
    capacity: int = DEFAULT_CAPACITY
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.shards) is not int or not 1 <= self.shards <= MAX_SHARDS:
            raise ConfigError(f"shards must be from 1 to {MAX_SHARDS}, got {self.shards!r}")
        if type(self.capacity) is not int or self.capacity < 1:
            raise ConfigError(f"capacity must be at least 1, got {self.capacity!r}")
        if self.order not in get_args(Order):
            raise ConfigError(f"order must be 'fifo' or 'lifo', got {self.order!r}")

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, stored: bytes) -> Settings:
        schema = msgspec.json.decode(stored, type=_SchemaOnly).schema
        if schema > SCHEMA:
            raise NewerData(f"the crawl was stored with schema {schema}, this Silkline knows {SCHEMA}: upgrade it")
        return msgspec.json.decode(stored, type=cls)

    def conflicts(self, wishes: dict[str, Any]) -> list[str]:
        """What of the *wishes* differs from what is stored, in words."""
        return [
            f"{name} is {getattr(self, name)}, not {wish}"
            for name, wish in wishes.items()
            if getattr(self, name) != wish
        ]

    def shard_fields(self) -> dict[str, int | float | str]:
        """What a shard's ledger starts with. The capacity and the page budget are those of one shard."""
        fields: dict[str, int | float | str] = {
            "schema": self.schema,
            "state": "open",
            "order": self.order,
            "seen": self.seen.kind,
            "capacity": -(-self.capacity // self.shards),
            "delay": round(self.politeness.delay * 1000),
            "concurrency": self.politeness.concurrency,
            "burst": self.politeness.burst,
            "strikes": STRIKES,
            "buckets": 4096 if self.seen.kind == "compact" else 16,
            "layers": 1,
            "bloom_error": self.seen.error,
            "bloom_capacity": self.seen.capacity,
        }
        if self.budget.pages is not None:
            fields["allowance"] = self.budget.pages if self.shards == 1 else 0
        if self.budget.pages_per_host is not None:
            fields["host_pages"] = self.budget.pages_per_host
        return fields


class _SchemaOnly(msgspec.Struct):
    schema: int
