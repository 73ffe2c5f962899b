"""The options that ``run`` and ``worker`` share: what a worker process is to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from silkline.core.errors import ConfigError
from silkline.worker.crawl import Crawl
from silkline.worker.loading import load_crawl
from silkline.worker.pace import Pace

STDOUT = "-"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """How one worker process works."""

    out: Annotated[
        list[str], Parameter(name=("--out", "-o"), negative=(), allow_leading_hyphen=True, show_default=False)
    ] = field(default_factory=list)
    """Where items go: x.jsonl, x.csv, x.parquet, sqlite:///x.db, postgresql://…, s3://…, redis:KEY, or - for stdout. May be repeated."""
    concurrency: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=10_000))] = Pace().concurrency
    """Pages that one worker process has under way."""
    allow_private: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Let pages be fetched from private networks and from this machine."""

    overflow: str | None = None
    """A SQLite file in which links wait while the crawl is full, one for all workers of this machine; "none" for no such file. By default it is with the embedded server's data, else beside FILE."""
    lease: Annotated[float, Parameter(validator=validators.Number(gte=1, lte=3600))] = Pace().lease
    """Seconds after which the pages of a worker that died go to another."""

    def __post_init__(self) -> None:
        for out in self.out:
            if out.startswith("-") and out != STDOUT:
                raise ConfigError(f"-o needs a place for the items, got {out}; see silkline run --help")

    @property
    def prints_items(self) -> bool:
        return STDOUT in self.out

    def load(self, file: str) -> Crawl:
        """The crawl of *file* as these options want it."""
        crawl = load_crawl(file)
        if self.allow_private:
            crawl.fetching = msgspec.structs.replace(crawl.fetching, allow_private=True)
        return crawl

    def pace(self) -> Pace:
        return Pace(concurrency=self.concurrency, lease=self.lease)

    def arguments(self) -> Iterator[str]:
        """The same options for a worker process that we start."""
        for out in self.out:
            yield from ("--out", out)
        yield from ("--concurrency", str(self.concurrency), "--lease", str(self.lease))
        if self.overflow:
            yield from ("--overflow", self.overflow)
        if self.allow_private:
            yield "--allow-private"
