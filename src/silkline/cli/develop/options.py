"""The options that `fetch`, `try` and `shell` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from cyclopts import Parameter

from silkline.cli.develop.one_page import OnePage
from silkline.cli.options.cache import CacheOptions
from silkline.cli.options.work import VARIABLE
from silkline.core.request import Request, check
from silkline.core.scope import Scope
from silkline.core.url import parse
from silkline.errors import ConfigError, RequestError
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.loading import load_crawl

NAME = "silkline"
"""The name of a crawl without a file. It is in the user agent, and the one that robots.txt is read for."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """How the page is fetched."""

    allow_private: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Allow pages in private networks and on this machine."""
    ignore_robots: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Fetch the page even if robots.txt forbids it."""
    proxy: Annotated[list[str], Parameter(negative=(), env_var=VARIABLE, show_default=False)] = field(
        default_factory=list, repr=False
    )
    """Fetch through this proxy: http://USER:PASSWORD@HOST:PORT, also https://, socks5:// or socks5h://. See docs/how-to/proxies.md."""
    user_agent: Annotated[str | None, Parameter(show_default=False)] = None
    """The User-Agent header instead of that of the file, and the name for which robots.txt is read."""
    cache: CacheOptions = field(default_factory=CacheOptions)

    def crawl(self, file: str | None) -> Crawl:
        """Return the crawl of a file, or one without handlers that follows redirects anywhere, with these options."""
        crawl = load_crawl(file) if file else Crawl(NAME, scope=Scope(stay="anywhere"))
        changes = {"allow_private": True} if self.allow_private else {}
        agent = {"user_agent": self.user_agent} if self.user_agent else {}
        proxy = {"proxy": self.proxy} if self.proxy else {}
        crawl.fetching = msgspec.structs.replace(crawl.fetching, **changes, **agent, **proxy)
        self.cache.apply(crawl)
        return crawl

    def fetcher(self, crawl: Crawl) -> OnePage:
        return OnePage(crawl, obeys_robots=not self.ignore_robots)


def request_of(url: str) -> Request:
    """Return the request for a URL that a user typed; raise `ConfigError` if it is not one."""
    text = url if "://" in url else f"https://{url}"
    if text != url and "@" in url.partition("/")[0]:
        raise ConfigError(
            f"{url!r} cannot be fetched: it is not the URL of a page; write a URL with a user as https://USER:PASSWORD@HOST"
        )
    try:
        parse(text)
        request = Request(text)
        check(request)
    except RequestError as error:
        raise ConfigError(f"{url!r} cannot be fetched: {error}") from None
    return request
