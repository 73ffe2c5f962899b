"""Every Redis key, with its type. No other module builds key names; `scripts/lib/keys.lua` builds the same ones in scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from silkline.errors import ConfigError

CRAWLS = "silkline:crawls"  # SET of the names of all crawls on this server
AUDIT = "silkline:audit"  # LIST of audit entries of crawls that were removed, the newest first
SESSIONS = "silkline:sessions"  # ZSET digest of an ended session of the dashboard -> ms at which it is forgotten
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class CrawlKeys:
    """The keys of one crawl."""

    crawl: str

    def __post_init__(self) -> None:
        if not isinstance(self.crawl, str) or not _NAME.fullmatch(self.crawl):
            raise ConfigError(
                f"a crawl's name must be 1 to 64 letters, digits, dots, dashes or underscores, got {self.crawl!r}"
            )

    @property
    def settings(self) -> str:
        """HASH settings -> JSON; founded -> 1 when all shards exist; granted:<shard> -> epoch, pages; overflow:<store> -> version, requests on a disk; refused:<store> -> requests that the store has refused; run -> JSON of the options of a run for all workers; feed:<name> -> fencing token of the reader of a file, and how far it has read it; shut -> 1 when the crawl is about to be removed."""
        return f"silkline:{{{self.crawl}}}:crawl"

    @property
    def workers(self) -> str:
        """ZSET worker -> ms at which it counts as lost unless it reports."""
        return f"{self.settings}:workers"

    @property
    def infos(self) -> str:
        """HASH worker -> ms at which it joined, ms of its last report, and the report."""
        return f"{self.settings}:infos"

    @property
    def audit(self) -> str:
        """LIST audit entries of operators, the newest first: ms, user, action, object."""
        return f"{self.settings}:audit"

    @property
    def orders(self) -> str:
        """HASH worker -> the order of an operator: quiet or stop."""
        return f"{self.settings}:orders"

    @property
    def history(self) -> str:
        """HASH fine:<place> and coarse:<place> -> step, levels of the crawl, counts; total -> counts since the crawl began; handlers -> the same by handler; at most 650 fields."""
        return f"{self.settings}:history"

    @property
    def locks(self) -> str:
        """HASH lock:<name> and semaphore:<name> -> a line per holder: its id, fencing token, ms it asked for, ms at which it expires; limiter:<name> -> used permits, ms; token -> the last fencing token."""
        return f"{self.settings}:locks"

    @property
    def lock_ends(self) -> str:
        """ZSET field of the locks -> ms after which it can be dropped."""
        return f"{self.settings}:lock_ends"

    @property
    def proxies(self) -> str:
        """HASH proxy without user and password -> its state, recent counts, and why it failed; at most 2,000 fields."""
        return f"{self.settings}:proxies"

    @property
    def proxy_changes(self) -> str:
        """ZSET proxy -> number of the last change of its state, which grows with the time in ms."""
        return f"{self.settings}:proxy_changes"

    @property
    def proxy_tiers(self) -> str:
        """ZSET host and its tier of proxies, if that is not the first -> number of the change, about the time in ms; at most 10,000."""
        return f"{self.settings}:proxy_tiers"

    @property
    def sessions(self) -> str:
        """HASH session -> version of its state, fencing token of its login, and its state: cookies, and whether it is logged in; at most 1,000 fields."""
        return f"{self.settings}:sessions"

    @property
    def session_ends(self) -> str:
        """ZSET session -> ms at which it is dropped."""
        return f"{self.settings}:session_ends"

    def results_channel(self, process: str) -> str:
        """CHANNEL on which scripts publish results that a process waits for: id of the request, then when it was completed and its result as JSON; or + if that is too long, or nothing if the request has become a dead letter."""
        return f"{self.settings}:results:{process}"

    def shard(self, number: int) -> ShardKeys:
        return ShardKeys(self.crawl, number)


@dataclass(frozen=True)
class ShardKeys:
    """The keys of one shard, each made once. The braces keep them in one cluster slot; all start with `root`."""

    crawl: str
    number: int

    @cached_property
    def root(self) -> str:
        return f"silkline:{{{self.crawl}:{self.number}}}"

    @cached_property
    def ledger(self) -> str:
        """HASH settings and counters. Scripts of a shard take this key, because it exists as long as the shard does."""
        return f"{self.root}:ledger"

    @cached_property
    def leases(self) -> str:
        """ZSET token -> ms at which the lease expires; never empty."""
        return f"{self.root}:leases"

    @cached_property
    def channel(self) -> str:
        """CHANNEL on which scripts publish in how many milliseconds to poll the shard."""
        return f"{self.root}:bell"


SHARD_KEYS = {
    "ledger": "HASH    settings and counters of the shard",
    "ready": "ZSET    host -> turn, lower for higher priorities; hosts that may be claimed now",
    "waiting": "ZSET    host -> ms at which it may be claimed",
    "idle": "ZSET    host without requests -> ms at which its delay is over",
    "hosts": "HASH    host -> its leases, ms until which its pace allows no request",
    "lanes": "HASH    host -> its priorities with requests, unless that is only 0",
    "policies": "HASH    host -> its own delay, concurrency, burst, blocked until, paused, delay of robots.txt, slowed delay, since when",
    "robots": "HASH    origin -> ms until which its robots.txt is fresh, ms until which one worker is fetching it, its text",
    "pages": "HASH    host -> completed pages, if the crawl has a budget per host",
    "answers": "HASH    host -> recent counts of 2xx, 3xx, 4xx, 5xx and no response, last status, ms of the last report, CPU time of workers; at most 100,000 hosts of a crawl",
    "leases": "ZSET    token (number.nonce) -> ms at which the lease expires; and one long member that never expires",
    "leased": "HASH    token -> entry of the request",
    "delayed": "ZSET    id and entry of a request -> ms at which it is due",
    "dead": "HASH    id -> dead letter",
    "buried": "ZSET    id -> ms at which it was buried",
    "dead_reasons": "ZSET    group of reasons -> number of its dead letters",
    "dead_hosts": "ZSET    host -> number of its dead letters",
    "results": "HASH    id of a completed request -> ms at which it was completed, ms at which the result expires, the result as JSON; p: and such an id -> the same for the progress of a call",
    "result_times": "ZSET    id of a completed request -> ms at which its result expires",
    "dead_by_host": "ZSET    host, ms at which it was buried and id of each dead letter -> 0, sorted by these",
    "ticks": "HASH    host, the name of a recurring task -> ms of the newest tick and the schedule; a line for each schedule",
    "groups": "ZSET    host and path of a call that waits for a group of calls -> ms at which it becomes a dead letter",
    "watches": "HASH    host and path of a call for which groups wait -> these groups; the same for the beginning of the ids of a batch",
    "watch_times": "ZSET    name of a watch -> ms at which it is deleted",
    "ended": "SET     notes for groups that one of their calls has ended, until they are reported",
    "turns": "ZSET    ms at which a turn was given -> that turn; one about every second while hosts become ready",
    "bell": "CHANNEL in how many ms to poll the shard; minus a priority above 0 that may be claimed at once",
    "queue:<priority>:<host>": "LIST    requests of a host at one priority, the next one at the left",
    "seen:<bucket>": "SET     fingerprints as integers, an intset (exact, compact)",
    "bloom:<layer>:<block>": "STRING  bitmap (bloom)",
    "bloom:<layer>": "STRING  bitmap of a layer (bloom, of a crawl of an earlier version)",
    "group:<call>": "HASH    the group of a call that waits: the call, counts, and a letter for each of its calls",
    "awaited:<id>": "STRING  channels of the processes that wait for the result of a request, while they wait",
    "once:<client>:<slot>": "STRING  the last reply to a client, for five minutes",
    "ledger:mark": "STRING  nothing, for a second: a write before WAIT or WAITAOF, if the crawl has the durability always or replicated",
}
"""What a shard may hold, by the end of the key's name."""


@dataclass(frozen=True, slots=True)
class InboxKeys:
    """A key of the user that Silkline reads, and the keys that Silkline keeps beside it, in the same cluster slot."""

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key:
            raise ConfigError(f"the key of an inbox must be a string that is not empty, got {self.key!r}")

    @property
    def root(self) -> str:
        return f"silkline:inbox:{self.key}" if self._tagged else f"silkline:inbox:{{{self.key}}}"

    @property
    def taken(self) -> str:
        """ZSET id of a message, or ticket*count for all messages of one call -> ms at which they may be taken again."""
        return f"{self.root}:taken"

    @property
    def messages(self) -> str:
        """HASH id -> message; the messages that are taken."""
        return f"{self.root}:messages"

    @property
    def refused(self) -> str:
        """LIST messages whose requests were refused."""
        return f"{self.root}:refused"

    @property
    def fits_a_cluster(self) -> bool:
        """Whether other keys can be in its cluster slot; not if its name has a stray brace."""
        return self._tagged or "}" not in self.key

    @property
    def _tagged(self) -> bool:
        """Whether the name has a hash tag, as the server reads it: text between the first brace and the next closing one."""
        return bool(re.match(r"[^{]*\{[^}]+\}", self.key))
