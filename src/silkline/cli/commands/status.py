"""``silkline status``: the crawls of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.crawl import describe_filter
from silkline.cli.options.operator import safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.core.units import format_latency
from silkline.errors import SilklineError
from silkline.frontier.crawl_server import list_crawls
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.store.settings import Settings
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.transport.redis_url import without_password
from silkline.frontier.verbs.audit import AuditEntry, who_paused
from silkline.frontier.verbs.explain_text import clock_time, lost_writes
from silkline.frontier.verbs.history import HandlerCounts
from silkline.frontier.verbs.hosts import HostState, enough_hosts
from silkline.frontier.verbs.stats import STATES, CrawlStatus, Stats, StatusWord
from silkline.frontier.verbs.workers import MissingCapability, missing_capabilities
from silkline.ops.parsing import plural

MOST_WORKERS = 1000
SHOWN_ADVICE = 5
NARROW = 110
"""Width of a terminal below which the table of crawls has fewer columns."""
STATUS_COLOURS: dict[StatusWord, str] = {
    "running": "green",
    "full": "yellow",
    "draining": "yellow",
    "idle": "yellow",
    "finished": "cyan",
    "empty": "default",
    "paused": "yellow",
    "cancelled": "red",
}
"""The color of each status of a crawl."""
_OVER_SHARE = "{:,} requests did not fit because their host had reached its share of the capacity (host_share)"
_DROPPED = "; {0.overflow_refused:,} were dropped because the file holds too many links of their host"
_DEAD_DROPPED = "{:,} of the discarded requests were dead letters beyond the limit"
_FULL = "full: links wait in the overflow files of workers; without one, their pages are retried later"


def status(
    crawl: str | None = None,
    /,
    *,
    hosts: int = 10,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Show the crawls of a server, or one crawl in detail.

    Examples:
      silkline status
      silkline status books --json --redis redis://localhost:6379/0

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of a crawl. Default: all crawls.
    hosts
        Number of hosts to show in detail, longest queues first.
    json
        Print everything as JSON.
    """
    url = existing(redis)
    if crawl is None:
        found = list_crawls(url)
        screen.tell_json(_all_as_json(url, found)) if json else _show_all(url, found)
    else:
        with SyncFrontier.open(url, crawl=crawl, create=False) as frontier:
            standing, settings = frontier.admin.status(), frontier.layout.settings
            busiest = frontier.admin.hosts(limit=enough_hosts(frontier.layout, hosts))[:hosts]
            by = _pause(frontier, standing.stats)
            shared = frontier.admin.run_options()
            by_handler = frontier.admin.handlers()
            waits_for = missing_capabilities(frontier.admin.workers(limit=MOST_WORKERS))
        if json:
            told = _one_as_json(standing, settings, busiest, by)
            told["handlers"] = [_handler_as_json(name, one) for name, one in by_handler.items()]
            more = {"run": msgspec.to_builtins(shared), "waits_for": [lack._asdict() for lack in waits_for]}
            screen.tell_json(told | more)
        else:
            _show_head(standing, by, waits_for)
            screen.show(screen.pairs([*_counts(standing.stats), *_settings(settings), *_run(shared)]))
            if by_handler:
                screen.show()
                show_handlers(by_handler)
            if busiest:
                screen.show()
                show_hosts(busiest)
    return Exit.OK


def _all_as_json(url: str, found: dict[str, CrawlStatus | SilklineError]) -> dict[str, Any]:
    crawls = [
        {"crawl": name, "error": str(what)} if isinstance(what, SilklineError) else status_as_json(what)
        for name, what in found.items()
    ]
    return {"server": without_password(url), "crawls": crawls}


def status_as_json(standing: CrawlStatus) -> dict[str, Any]:
    """Return the counts of a crawl with its status, workers, rate and items."""
    activity = standing.activity
    more = {"status": standing.word, "workers": activity.workers, "items": activity.items}
    return msgspec.structs.asdict(standing.stats) | more | {"pages_per_second": round(activity.pages_per_second, 3)}


def _show_all(url: str, found: dict[str, CrawlStatus | SilklineError]) -> None:
    if not found:
        screen.show(f"No crawls on {safe(without_password(url))}. Start one: silkline enqueue NAME URL…")
        return
    narrow = screen.out.width < NARROW
    left_out = ("delayed", "hosts", "capacity") if narrow else ()
    rows = {
        name: {title: cell for title, cell in _row(what).items() if title not in left_out}
        for name, what in found.items()
        if isinstance(what, CrawlStatus)
    }
    headings = next(iter(rows.values()), {"state": ""})
    table = screen.listing("crawl", *headings, left=2)
    for name in found:
        table.add_row(safe(name), *(rows[name].values() if name in rows else ["[red]unreadable[/]"]))
    screen.show(table)
    _show_advice([what for what in found.values() if isinstance(what, CrawlStatus)])
    for name, what in found.items():
        if isinstance(what, SilklineError):
            screen.remark(f"{safe(name)}: {safe(str(what))}")


def _row(standing: CrawlStatus) -> dict[str, str]:
    stats, activity = standing
    return {
        "state": _state(standing),
        "workers": f"{activity.workers:,}",
        "pages/s": f"{activity.pages_per_second:,.1f}",
        "ready": f"{stats.ready:,}",
        "delayed": f"{stats.delayed:,}",
        "leased": f"{stats.leased:,}",
        "done": f"{stats.done:,}",
        "dead": f"{stats.dead:,}",
        "items": f"{activity.items:,}",
        "hosts": f"{stats.hosts_ready + stats.hosts_waiting:,}",
        "capacity": f"{stats.pending / stats.capacity:.0%}",
    }


def _show_advice(crawls: list[CrawlStatus]) -> None:
    """Print what to do about idle crawls."""
    idle = [one for one in crawls if one.advice]
    for one in idle[:SHOWN_ADVICE]:
        screen.show(f"[yellow]{one.stats.crawl}: {one.advice}[/]")
    if len(idle) > SHOWN_ADVICE:
        screen.show(f"[yellow]{plural(len(idle) - SHOWN_ADVICE, 'more crawl')} without workers[/]")


def _state(standing: CrawlStatus) -> str:
    word, full = standing.word, ", [yellow]full[/]" if standing.stats.full and standing.word != "full" else ""
    return f"[{STATUS_COLOURS[word]}]{word}[/]{full}"


def _fill(stats: Stats) -> str:
    """Return how much of the capacity is used."""
    return f"{stats.pending / stats.capacity:.0%} of {stats.capacity:,}"


def _pause(frontier: SyncFrontier, stats: Stats) -> AuditEntry | None:
    """Return the audit entry of the operator who paused the crawl."""
    return who_paused(frontier.admin.audit(limit=200)) if stats.state == "paused" else None


def _one_as_json(
    standing: CrawlStatus, settings: Settings, hosts: list[HostState], by: AuditEntry | None
) -> dict[str, Any]:
    stored = msgspec.to_builtins(settings) | {"seen": describe_filter(settings.seen)}
    del stored["seed"]  # with the seed, an attacker can construct colliding URLs
    return {
        **status_as_json(standing),
        "paused_by": by.by if by else None,
        "settings": stored,
        "busiest_hosts": [host._asdict() for host in hosts],
    }


def _show_head(standing: CrawlStatus, by: AuditEntry | None, waits_for: list[MissingCapability]) -> None:
    stats, activity = standing
    verb = "by" if standing.word == "paused" else "paused by"
    whom = f", {verb} {safe(by.by)} at {clock_time(by.time)}" if by else ""
    screen.show(f"[bold]{stats.crawl}[/] is {_state(standing)}{whom}")
    rate = f"{activity.pages_per_second:,.1f} pages/s"
    screen.show(f"{plural(activity.workers, 'worker')}, {rate}, {plural(activity.items, 'item')}")
    if standing.advice:
        screen.show(f"[yellow]{standing.advice}[/]")
    show_missing_capabilities(waits_for)
    if stats.lost_at:
        screen.show(f"[yellow]{lost_writes(stats.losses, stats.lost_at)}[/]")
    screen.show()


def _run(shared: RunOptions) -> list[tuple[str, str]]:
    """Rows for the options that a run shares with all workers."""
    if shared.outputs is None:
        return []
    outputs = [*map(str, shared.outputs), *(f"@crawl.sink {name}" for name in shared.sinks)]
    private = [("private", "private addresses are allowed")] if shared.allow_private else []
    return [("outputs", safe(", ".join(outputs)) or "none: items are counted, not stored"), *private]


def _counts(stats: Stats) -> list[tuple[str, str]]:
    rows = [(name, f"{getattr(stats, name):,}") for name in STATES]
    rows += [
        (
            "accepted",
            f"{stats.accepted:,}" + ("" if stats.conserved else "  (counts do not add up while requests move)"),
        ),
        ("rescued", f"{stats.rescued:,} times from lost workers"),
        ("seen", f"{stats.seen:,}; about {stats.expected_skips:.2g} new URLs wrongly skipped"),
        (
            "overflow",
            f"{plural(stats.overflow, 'link')} on disk" + (_DROPPED if stats.overflow_refused else "").format(stats),
        ),
        ("capacity", _fill(stats) + (f", {_FULL}" if stats.full else "")),
        *([("dropped", _DEAD_DROPPED.format(stats.dead_dropped))] if stats.dead_dropped else []),
        *([("over share", _OVER_SHARE.format(stats.over_share))] if stats.over_share else []),
        ("hosts", f"{stats.hosts_ready:,} ready, {stats.hosts_waiting:,} waiting"),
    ]
    return rows


def _settings(settings: Settings) -> list[tuple[str, str]]:
    pace, limits = settings.politeness, settings.budget
    budget = [
        f"{limit:,} {what}"
        for limit, what in ((limits.pages, "pages"), (limits.pages_per_host, "pages per host"), (limits.depth, "deep"))
        if limit is not None
    ]
    return [
        ("politeness", f"{pace.delay:g} s delay, {pace.concurrency} at a time, burst {pace.burst}, per host"),
        ("budget", ", ".join(budget) or "no limit"),
        ("dead limit", f"{settings.dead_limit:,} dead letters" if settings.dead_limit else "none"),
        ("filter", describe_filter(settings.seen)),
        ("order", settings.order),
        ("shards", f"{settings.shards}"),
    ]


def show_missing_capabilities(waits_for: list[MissingCapability]) -> None:
    """Print what pages need to be crawled; in red what no worker has."""
    for lack in waits_for:
        colour = "yellow" if lack.met else "red"
        screen.show(f"[{colour}]{safe(str(lack))}[/]")


def show_acts(acts: list[AuditEntry]) -> None:
    """Print a table of audit entries."""
    table = screen.listing("time", "user", "action", "target", left=4)
    for act in acts:
        table.add_row(clock_time(act.time), *(safe(text) for text in act[1:]))
    screen.show(table)


def _handler_as_json(name: str, counts: HandlerCounts) -> dict[str, Any]:
    numbers = {key: getattr(counts, key) for key in ("pages", "items", "failures", "exceptions", "dead")}
    return {"handler": name} | numbers | {"p50": counts.p50, "p95": counts.p95}


def show_handlers(handlers: Mapping[str, HandlerCounts]) -> None:
    """Print a table of handlers: what was done since the crawl began, and how long they run."""
    table = screen.listing("handler", "pages", "items", "failures", "exceptions", "dead", "p50", "p95")
    for name, one in handlers.items():
        counts = (one.pages, one.items, one.failures, one.exceptions, one.dead)
        table.add_row(safe(name), *(f"{count:,}" for count in counts), format_latency(one.p50), format_latency(one.p95))
    screen.show(table)


def show_hosts(hosts: list[HostState]) -> None:
    """Print a table of hosts in the given order."""
    headings = ("host", "state", "queued", "leased", "delay", "limit", "opens in", "CPU", "responses")
    table = screen.listing(*headings, left=2, whole=screen.longest((host.host for host in hosts), screen.WIDEST_HOST))
    for host in hosts:
        opens = f"{host.opens_in:.1f} s" if host.place == "waiting" else ""
        numbers = (f"{host.queued:,}", f"{host.leased:,}", host.short_pace, f"{host.concurrency}", opens)
        answers, cost = (host.answers.mix, host.answers.cost) if host.answers else ("", "")
        table.add_row(safe(host.host), host.place, *numbers, cost, answers)
    screen.show(table)
