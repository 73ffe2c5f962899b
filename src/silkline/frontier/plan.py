"""Plan: a crawl as its clients know it: its name, its settings, the keys of its shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2s

from silkline.core.url import check_host
from silkline.frontier.keys import CrawlKeys, ShardKeys
from silkline.frontier.settings import Settings
from silkline.frontier.shards import shard_of


@dataclass(frozen=True)
class Plan:
    """Everything needed to address the crawl."""

    keys: CrawlKeys
    settings: Settings
    buckets: dict[int, int] = field(default_factory=dict, compare=False)
    """How many buckets the seen filter of each shard had when it last told; only `exact` filters do."""

    @cached_property
    def shards(self) -> tuple[ShardKeys, ...]:
        return tuple(self.keys.shard(number) for number in range(self.settings.shards))

    @cached_property
    def shelf(self) -> str:
        """What this crawl's links are filed under in an overflow: another server may have a crawl of the same name.

        A seed tells crawls from each other, but is told to nobody.
        """
        return f"{self.keys.crawl}@{blake2s(str(self.settings.seed).encode(), digest_size=8).hexdigest()}"

    def shard_of(self, host: str) -> ShardKeys:
        check_host(host)
        return self.shards[shard_of(host, self.settings.shards)]
