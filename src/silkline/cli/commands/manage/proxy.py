"""``silkline proxy``: the proxies of a crawl, as its workers know them, and a test of proxies without a crawl."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.commands.manage.printing import print_rows
from silkline.cli.develop.options import NAME, request_of
from silkline.cli.exits import Exit
from silkline.cli.logs import log_to_screen
from silkline.cli.options.operator import CrawlName, Limit, open_crawl, safe
from silkline.cli.options.server import Json, Redis
from silkline.cli.options.work import VARIABLE
from silkline.core.proxy_health import ProxyHealth, ProxyState
from silkline.core.units import format_latency
from silkline.errors import ConfigError
from silkline.fetch.guard import Guard
from silkline.fetch.proxies import Proxies
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.frontier.admin_verbs.explain_text import span
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.verbs.proxies import MOST_PROXIES, worst_first
from silkline.ops.parsing import seconds
from silkline.ops.proxy_tests import ProxyTest, run_proxy_tests
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.loading import load_crawl

MOST_READS = 100
"""Calls for the list of hosts; each reads several hundred, and workers may move others meanwhile."""

app = App(
    name="proxy",
    help="List the proxies of a crawl with their health, and test proxies: ls, test.",
    help_format="plaintext",
)


@app.command(name="ls", usage="Usage: silkline proxy ls [CRAWL] [OPTIONS]")
def ls(
    crawl: CrawlName,
    /,
    *,
    state: ProxyHealth | None = None,
    hosts: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    limit: Limit = 100,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """List the proxies of a crawl, as its workers know them. Those in trouble come first.

    Fetches are counted with a weight: recent ones count more. Of a list of proxies,
    the workers share the health of the first 2,000.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    state
        Only proxies in this state: ready, resting (after a failure) or unknown (not checked yet, or not since its last rest).
    hosts
        List the hosts that block the first tier of the proxies, instead of proxies.
    json
        Print everything as JSON.
    """
    if not 1 <= limit <= MOST_PROXIES:
        raise ConfigError(f"--limit must be between 1 and {MOST_PROXIES}, got {limit}")
    with open_crawl(redis, crawl) as frontier:
        if hosts:
            return _list_hosts(frontier, crawl, limit, json=json)
        known = frontier.admin.proxies(limit=MOST_PROXIES)
    found = [proxy for proxy in worst_first(known) if state in (None, proxy.state)]
    if json:
        screen.print_json([{**proxy._asdict(), "success": proxy.success} for proxy in found[:limit]])
    elif found:
        _show(found[:limit])
        if len(found) > limit:
            screen.remark(f"{len(found) - limit:,} more; --limit shows them")
    elif known:
        screen.show("No proxy matches.")
    else:
        screen.show(f"{safe(crawl)} has fetched nothing through proxies. To use one: silkline run FILE --proxy URL")
    return Exit.OK


class BlockingHost(NamedTuple):
    """A host that is fetched through a later tier of proxies."""

    host: str
    tier: int
    """The first one is 1."""
    lasts_for: float
    """Seconds until it is fetched through the first tier again."""


def _list_hosts(frontier: SyncFrontier, crawl: str, limit: int, *, json: bool) -> Exit:
    since, found = 0, dict[str, BlockingHost]()
    for _ in range(MOST_READS):
        reply = frontier.internal.share_proxies("ls", since, (1.0, 1.0))
        if not reply.news:
            break
        since = reply.change
        found |= {
            one.proxy: BlockingHost(one.proxy, one.failures + 1, one.seconds)
            for one in reply.news
            if one.word == "tier"
        }

    def show(rows: Sequence[BlockingHost]) -> None:
        table = screen.listing("host", "tier", "for")
        for row in rows:
            table.add_row(safe(row.host), f"{row.tier}", span(row.lasts_for))
        screen.show(table)

    rows = sorted(found.values(), key=lambda row: (-row.tier, row.host))[:limit]
    return print_rows(rows, show, f"No host of {safe(crawl)} blocks a tier of proxies.", json=json)


def _show(proxies: Sequence[ProxyState]) -> None:
    table = screen.listing(
        *("proxy", "state", "success", "latency", "fetched", "failed", "blocked", "last failure"),
        left=2,
        fold={"proxy": screen.FOLDED_URL, "last failure": screen.FOLDED_NAME},
        optional=("blocked", "fetched", "latency"),
    )
    for proxy in proxies:
        table.add_row(
            safe(proxy.proxy),
            f"[red]resting {span(proxy.rests_for)}[/]" if proxy.state == "resting" else proxy.state,
            "" if proxy.success is None else f"{proxy.success:.0%}",
            format_latency(proxy.latency),
            *(f"{count:,}" for count in (proxy.fetched, proxy.failed, proxy.blocked)),
            safe(proxy.why),
        )
    screen.show(table)


@app.command(name="test", usage="Usage: silkline proxy test [PROXY]... [OPTIONS]")
def check(
    *proxies: Annotated[str, Parameter(name="PROXY", show_default=False)],
    file: str | None = None,
    url: str | None = None,
    allow_private: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    timeout: str = "10s",
    json: Json = False,
) -> int:
    """Test proxies, each with one request. Needs no server, and changes nothing.

    A proxy is asked for a host that cannot exist: one that works replies with an
    error. With --url, the page is fetched through each proxy.

    Examples:
      silkline proxy test http://user:password@proxy.example:8080
      silkline proxy test file:proxies.txt --url https://books.toscrape.com/
      silkline proxy test --file shop.py --json

    Exit code: 0 all work, 1 some do not, 2 wrong usage.

    Parameters
    ----------
    proxies
        Proxies, as for --proxy: URLs, file:PATH or url:URL. Default: those of SILKLINE_PROXY. Other users of the machine can see arguments.
    file
        Test the proxies of this crawl file.
    url
        Fetch this page through each proxy.
    allow_private
        Allow a page in private networks and on this machine.
    timeout
        How long a request may take: 5s, 1m.
    json
        Print everything as JSON.
    """
    log_to_screen("warning", as_json=False)
    crawl = load_crawl(file) if file else Crawl(NAME)
    sources = [Proxies.of(source) for source in proxies or ([] if file else os.environ.get(VARIABLE, "").split())]
    if not sources and crawl.fetching.proxy is not None:
        sources = [Proxies.of(crawl.fetching.proxy)]
    if not sources:
        where = f"{file} has none" if file else f"{VARIABLE} is not set"
        raise ConfigError(
            f"there are no proxies to test: name some, as in silkline proxy test file:proxies.txt ({where})"
        )
    limit = seconds("--timeout", timeout)
    if not limit:
        raise ConfigError(f"--timeout must be more than 0, such as 5s, got {timeout!r}")
    fetching = crawl.fetching
    limits = msgspec.structs.replace(
        fetching.limits, timeout=limit, connect_timeout=min(limit, fetching.limits.connect_timeout)
    )
    request = request_of(url) if url else None

    async def run() -> list[ProxyTest]:
        guard = Guard(allow_private=allow_private or fetching.allow_private)
        fetcher = WreqFetcher(
            limits, guard=guard, verify=fetching.verify_tls, http2=fetching.http2, impersonate=fetching.impersonate
        )
        try:
            return await run_proxy_tests(fetcher, sources, request, fetching.agent(crawl.name))
        finally:
            await fetcher.close()

    found = run_async(run())
    screen.print_json([one._asdict() for one in found]) if json else _show_tests(found, of_page=request is not None)
    return Exit.OK if all(one.works for one in found) else Exit.FAILED


def _show_tests(found: Sequence[ProxyTest], *, of_page: bool) -> None:
    table = screen.listing(
        *("proxy", "works", *(["status"] if of_page else []), "time", "why not"),
        left=2,
        fold={"proxy": screen.FOLDED_URL, "why not": screen.FOLDED_NAME},
    )
    for one in sorted(found, key=lambda one: one.works):
        status = [] if not of_page else ["" if one.status is None else f"{one.status}"]
        table.add_row(safe(one.proxy), _works(one), *status, format_latency(one.seconds), safe(one.why))
    screen.show(table)
    working = sum(one.works for one in found)
    screen.remark(f"{working:,} of {len(found):,} {'proxy works' if len(found) == 1 else 'proxies work'}")


def _works(one: ProxyTest) -> str:
    if not one.works:
        return "[red]no[/]"
    if one.http is False:
        return "[yellow]https only[/]"
    return "[yellow]http only[/]" if one.https is False else "yes"
