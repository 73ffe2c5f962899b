"""Every Redis key, with its type. The only place in Python that builds one; `scripts/lib/keys.lua` is its twin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from silkline.core.errors import ConfigError

CRAWLS = "silkline:crawls"  # SET of the names of all crawls on this server
AUDIT = "silkline:audit"  # LIST of what operators did to crawls that are gone, the newest act first
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class CrawlKeys:
    """The keys of one crawl."""

    crawl: str

    def __post_init__(self) -> None:
        if not isinstance(self.crawl, str) or not _NAME.fullmatch(self.crawl):
            raise ConfigError(
                f"a crawl's name is 1 to 64 letters, digits, dots, dashes or underscores, got {self.crawl!r}"
            )

    @property
    def settings(self) -> str:
        """HASH settings -> JSON, granted:<shard> -> epoch, pages; overflow:<store> -> version, requests on a disk; shut -> 1 when it is about to be removed."""
        return f"silkline:{{{self.crawl}}}:crawl"

    @property
    def workers(self) -> str:
        """ZSET worker -> ms until which it is taken for alive."""
        return f"{self.settings}:workers"

    @property
    def infos(self) -> str:
        """HASH worker -> ms of joining, ms of its last word, what it told of itself."""
        return f"{self.settings}:infos"

    @property
    def audit(self) -> str:
        """LIST of what operators did, the newest act first: ms, by whom, what, about what."""
        return f"{self.settings}:audit"

    @property
    def orders(self) -> str:
        """HASH worker -> what an operator ordered it to do: quiet or stop."""
        return f"{self.settings}:orders"

    @property
    def history(self) -> str:
        """HASH fine:<place> and coarse:<place> -> step, how the crawl stood, what was counted; 648 fields at most."""
        return f"{self.settings}:history"

    def shard(self, number: int) -> ShardKeys:
        return ShardKeys(self.crawl, number)


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of one shard. The braces keep them in one cluster slot; every one starts with `root`."""

    crawl: str
    number: int

    @property
    def root(self) -> str:
        return f"silkline:{{{self.crawl}:{self.number}}}"

    @property
    def bell(self) -> str:
        """CHANNEL on which the scripts tell in how many milliseconds to look."""
        return f"{self.root}:bell"


SHARD_KEYS = {
    "ledger": "HASH    settings and counters of the shard",
    "ready": "ZSET    host -> turn, lower for higher priorities: hosts that may be claimed now",
    "waiting": "ZSET    host -> ms at which it opens",
    "idle": "ZSET    host without requests -> ms at which its delay is over",
    "hosts": "HASH    host -> leases it has, ms until which its pace is spent",
    "lanes": "HASH    host -> its priorities with requests, where they are not just 0",
    "policies": "HASH    host -> delay, concurrency, burst, blocked until, paused, robots.txt's delay, slowed delay, since when; its own",
    "robots": "HASH    origin -> ms until which its robots.txt is fresh, ms until which somebody fetches it; its text",
    "pages": "HASH    host -> completed pages, where the crawl has a budget per host",
    "answers": "HASH    host -> how often it answered 2xx, 3xx, 4xx, 5xx and nothing of late, its last status, when that was told; 100,000 hosts of a crawl at most",
    "leases": "ZSET    token -> ms at which the lease expires; and one long member that never does",
    "leased": "HASH    token -> entry of the request",
    "delayed": "ZSET    id and entry of a request -> ms at which it is due",
    "dead": "HASH    id -> dead letter",
    "buried": "ZSET    id -> ms at which it was buried",
    "dead_reasons": "ZSET    group of a reason -> dead letters of it",
    "dead_hosts": "ZSET    host -> its dead letters",
    "dead_by_host": "ZSET    host, ms at which it was buried and id of each dead letter -> 0, so in this order",
    "turns": "ZSET    ms at which a turn was given -> that turn, noted about once a second while hosts get into line",
    "bell": "CHANNEL in how many ms to look",
    "queue:<priority>:<host>": "LIST    requests of a host at one priority, the next one at the left",
    "seen:<bucket>": "SET     fingerprints as integers, an intset (exact, compact)",
    "bloom:<layer>": "STRING  bitmap (bloom)",
    "once:<client>:<slot>": "STRING  the last reply to a caller, for five minutes",
}
"""What a shard may hold, by the end of the key's name."""


@dataclass(frozen=True, slots=True)
class InboxKeys:
    """A key of the user's own that is read, and what we keep beside it, in the same cluster slot."""

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key:
            raise ConfigError(f"the key of an inbox is a text that is not empty, got {self.key!r}")

    @property
    def root(self) -> str:
        return f"silkline:inbox:{self.key}" if self._tagged else f"silkline:inbox:{{{self.key}}}"

    @property
    def taken(self) -> str:
        """ZSET id of a message -> ms at which it may be taken again."""
        return f"{self.root}:taken"

    @property
    def messages(self) -> str:
        """HASH id -> message, of those that are taken."""
        return f"{self.root}:messages"

    @property
    def refused(self) -> str:
        """LIST messages that were put aside, because their requests were refused."""
        return f"{self.root}:refused"

    @property
    def fits_a_cluster(self) -> bool:
        """Whether keys can be made that are in its slot; not with a stray brace in its name."""
        return self._tagged or "}" not in self.key

    @property
    def _tagged(self) -> bool:
        """As the server reads a key: what is between the first brace and the next closing one, if anything."""
        return bool(re.match(r"[^{]*\{[^}]+\}", self.key))
