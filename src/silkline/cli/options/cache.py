"""The options of the HTTP cache, which `run`, `worker`, `try`, `shell` and `fetch` share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Group, Parameter

from silkline.errors import ConfigError
from silkline.fetch.cache import HttpCache
from silkline.ops.parsing import seconds
from silkline.worker.crawl.crawl import Crawl

CACHE = Group("HTTP cache, for development", sort_key=10)


@Parameter(name="*", group=CACHE)
@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Options of the HTTP cache."""

    cache: Annotated[Path | None, Parameter(show_default=False)] = None
    """Directory in which fetched pages are stored, to be used the next time."""
    cache_expires: Annotated[str | None, Parameter(show_default=False)] = None
    """Fetch a page again if it was stored longer ago than this, such as 12h or 7d. Default: never."""
    offline: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Fetch nothing: use the pages in --cache. All other pages fail."""

    def apply(self, crawl: Crawl) -> None:
        """Let the crawl use the cache. Raises `ConfigError` if it cannot be used."""
        expires = seconds("--cache-expires", self.cache_expires)
        if self.cache is None:
            if self.offline or expires is not None:
                option = "--offline" if self.offline else "--cache-expires"
                raise ConfigError(f"{option} needs the directory of the cache: --cache DIR")
            return
        cache = HttpCache(self.cache, expires, self.offline)
        cache.prepare()
        crawl.fetching = msgspec.structs.replace(crawl.fetching, cache=cache)

    def arguments(self) -> Iterator[str]:
        """Yield these options as command-line arguments."""
        if self.cache is not None:
            yield from ("--cache", str(self.cache))
        if self.cache_expires is not None:
            yield from ("--cache-expires", self.cache_expires)
        if self.offline:
            yield "--offline"
