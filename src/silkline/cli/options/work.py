"""The options that ``run`` and ``worker`` share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from silkline.cli.options.cache import CacheOptions
from silkline.errors import ConfigError, PrivateStart
from silkline.fetch.proxies import URL, Proxies
from silkline.frontier.transport.redis_url import without_password
from silkline.ops.parsing import seconds
from silkline.runtime.memory import memory_of_a_worker, read_size
from silkline.worker.crawl.alerts import Webhook, read_alert
from silkline.worker.crawl.archived import replay
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.feeds.feed_name import check_feed
from silkline.worker.options import WorkerOptions

STDOUT = "-"
VARIABLE = "SILKLINE_PROXY"
"""The environment variable with proxies, which a run also passes to its workers: the arguments of a process are public."""


@contextmanager
def naming_the_flag() -> Iterator[None]:
    """Add the command with --allow-private to the error of a crawl that starts in a private network."""
    try:
        yield
    except PrivateStart as error:
        command = shlex.join(["silkline", *map(without_secret, sys.argv[1:]), "--allow-private"])
        raise ConfigError(f"{error}, or: {command}") from None


def without_secret(word: str) -> str:
    """Return a word of a command line without a password, and without the key that the URL of a list of proxies may contain."""
    shown = without_password(word)
    return shown.partition("?")[0] + "?…" if "?" in shown and shown.removeprefix("--proxy=").startswith(URL) else shown


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """Options of one worker process."""

    out: Annotated[
        list[str], Parameter(name=("--out", "-o"), negative=(), allow_leading_hyphen=True, show_default=False)
    ] = field(default_factory=list)
    """Where items are stored: x.jsonl, x.json, x.csv, x.parquet, sqlite:///x.db, postgresql://…, s3://…, redis:KEY, or - for stdout; x.warc.gz or x.wacz archives the pages. May be repeated."""
    feed: Annotated[list[str], Parameter(negative=(), show_default=False)] = field(default_factory=list)
    """Read more URLs from redis:KEY, a file, sitemap:URL or postgresql://…?query=…. May be repeated. See docs/how-to/feeds.md."""
    until_idle: Annotated[str | None, Parameter(show_default=False)] = None
    """End when the queue and the feeds were empty for this long, such as 30s or 5m."""
    concurrency: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=10_000))] = WorkerOptions().concurrency
    """Pages that one worker process fetches in parallel."""
    allow_private: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Allow pages in private networks and on this machine."""
    proxy: Annotated[list[str], Parameter(negative=(), env_var=VARIABLE, show_default=False)] = field(
        default_factory=list, repr=False
    )
    """Fetch through this proxy: http://USER:PASSWORD@HOST:PORT, also https://, socks5:// or socks5h://; or through all in the list file:PATH or url:URL. May be repeated. See docs/how-to/proxies.md."""

    alert: Annotated[list[str], Parameter(negative=(), show_default=False)] = field(default_factory=list)
    """Report the crawl as unhealthy on error-rate=20%, no-items=30m, missing:price=10% or blocked=50%. May be repeated. See docs/how-to/alerts.md."""
    cache: CacheOptions | None = None

    overflow: str | None = None
    """SQLite file for links that do not fit while the crawl is full, shared by all workers of this machine; "none" for no file. Default: in the directory of the embedded server, else next to FILE."""
    lease: Annotated[float, Parameter(validator=validators.Number(gte=1, lte=3600))] = WorkerOptions().lease
    """Seconds after which other workers take over the pages of a lost worker."""
    blocked_limit: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=3600))] = (
        WorkerOptions().blocked_limit
    )
    """Seconds that a page may block the event loop before its worker process is killed; 0 for no limit."""
    from_index: Annotated[str | None, Parameter(show=False)] = None
    """Read pages from the archives of this index; `silkline run --from-warc` starts its workers with it."""
    memory_limit: Annotated[str | None, Parameter(show_default=False)] = None
    """Memory limit of one worker process, such as 512M or 2G; "none" for no limit. Default: 80 % of the memory of the machine or container, divided by the number of workers."""

    def __post_init__(self) -> None:
        for out in self.out:
            if out.startswith("-") and out != STDOUT:
                raise ConfigError(f"-o needs a destination for items, got {out}; see silkline run --help")
        for feed in self.feed:
            check_feed(feed)
        if self.proxy:
            Proxies.of(self.proxy)
        for rule in self.alert:
            read_alert(rule)
        if self.alert:
            Webhook.from_environment()
        seconds("--until-idle", self.until_idle)

    @property
    def prints_items(self) -> bool:
        return STDOUT in self.out

    def load(self, file: str, *, or_tasks: bool = False) -> Crawl:
        """Load the crawl of *file*, or its tasks, and apply these options."""
        crawl = load_crawl(file, or_tasks=or_tasks)
        if self.allow_private:
            crawl.fetching = msgspec.structs.replace(crawl.fetching, allow_private=True)
        if self.proxy:
            crawl.fetching = msgspec.structs.replace(crawl.fetching, proxy=self.proxy)
        (self.cache or CacheOptions()).apply(crawl)
        crawl.until_idle = seconds("--until-idle", self.until_idle) if self.until_idle else crawl.until_idle
        known = {alert.rule for alert in crawl.alerts}
        crawl.alerts += [read_alert(rule) for rule in dict.fromkeys(self.alert) if rule.strip() not in known]
        feeds = [check_feed(feed) for feed in self.feed]
        crawl.feeds += [feed for feed in feeds if feed not in crawl.feeds]
        if self.from_index:
            replay(crawl, Path(self.from_index))
        return crawl

    def worker_options(self, *, workers: int) -> WorkerOptions:
        """Return the options of one of several workers on this machine."""
        limit = memory_of_a_worker(workers) if self.memory_limit is None else read_size(self.memory_limit)
        return WorkerOptions(
            concurrency=self.concurrency, lease=self.lease, blocked_limit=self.blocked_limit, memory_limit=limit
        )

    @property
    def environment(self) -> dict[str, str]:
        """The options that may contain a password, as environment variables of worker processes."""
        return {VARIABLE: " ".join(self.proxy)} if self.proxy else {}

    def arguments(self, *, workers: int) -> Iterator[str]:
        """Yield the other options as command-line arguments of one of several worker processes."""
        limit = self.worker_options(workers=workers).memory_limit
        yield from (
            "--blocked-limit",
            str(self.blocked_limit),
            "--memory-limit",
            "none" if limit is None else str(limit),
        )
        for out in self.out:
            yield from ("--out", out)
        yield from ("--concurrency", str(self.concurrency), "--lease", str(self.lease))
        for feed in self.feed:
            yield from ("--feed", feed)
        for rule in self.alert:
            yield from ("--alert", rule)
        if self.until_idle is not None:
            yield from ("--until-idle", self.until_idle)
        if self.overflow:
            yield from ("--overflow", self.overflow)
        if self.allow_private:
            yield "--allow-private"
        if self.cache:
            yield from self.cache.arguments()
        if self.from_index:
            yield from ("--from-index", self.from_index)
