"""CrawlLayout: the name of a crawl, its settings, and the keys of its shards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2s

import xxhash

from silkline.core.url import check_host
from silkline.frontier.store.keys import CrawlKeys, ShardKeys
from silkline.frontier.store.settings import Settings


@dataclass(frozen=True)
class CrawlLayout:
    """Everything needed to address the crawl."""

    keys: CrawlKeys
    settings: Settings
    buckets: dict[int, int] = field(default_factory=dict, compare=False)
    """By shard, the number of buckets of its seen filter in the last reply; only of `exact` filters."""
    priorities: dict[int, int] = field(default_factory=dict, compare=False)
    """By shard, the highest priority that may be claimed there, as far as this client knows; without those of 0."""

    def set_priority(self, shard: int, priority: int) -> None:
        """Record the highest priority that may be claimed on a shard."""
        if priority:
            self.priorities[shard] = priority
        else:
            self.priorities.pop(shard, None)

    def with_settings(self, settings: Settings) -> CrawlLayout:
        """Return the layout with other settings, and what is known of the shards."""
        return replace(self, settings=settings)

    @cached_property
    def shards(self) -> tuple[ShardKeys, ...]:
        return tuple(self.keys.shard(number) for number in range(self.settings.shards))

    @cached_property
    def overflow_name(self) -> str:
        """The name of this crawl in an overflow file. It differs from that of a crawl with the same name on another server.

        It contains a hash of the seed, which is secret and differs between crawls.
        """
        return f"{self.keys.crawl}@{blake2s(str(self.settings.seed).encode(), digest_size=8).hexdigest()}"

    def shard_of(self, host: str) -> ShardKeys:
        """Return the keys of the shard that holds a host."""
        check_host(host)
        return self.shards[shard_of(host, self.settings.shards)]


def shard_of(host: str, shards: int) -> int:
    """Return the number of the shard that holds a host."""
    if shards == 1:
        return 0
    number: int = xxhash.xxh3_64_intdigest(host.encode()) % shards
    return number
