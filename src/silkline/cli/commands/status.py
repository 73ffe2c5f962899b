"""``silkline status``: the crawls of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from rich.text import Text

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.crawl import describe_filter
from silkline.cli.options.operator import safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.core.units import format_bytes, format_latency
from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.audit import AuditEntry
from silkline.frontier.admin_verbs.explain_text import (
    clock_time,
    describe_priorities,
    describe_revisits,
    describe_waits,
)
from silkline.frontier.admin_verbs.stats import STATES, Activity, CrawlStatus, Stats, StatusWord
from silkline.frontier.crawl_server import connected, status_of_all
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.store.settings import Settings
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.transport.redis_url import without_password
from silkline.frontier.transport.server_info import Memory
from silkline.frontier.verbs.history import HandlerCounts
from silkline.frontier.verbs.hosts import HostState, enough_hosts
from silkline.frontier.verbs.workers import (
    ALL_WORKERS,
    MissingCapability,
    WorkerState,
    have_only_tasks,
    missing_capabilities,
)
from silkline.ops.notices import Notice, crawl_notices, memory_notice, urgency
from silkline.ops.parsing import plural

SHOWN_CRAWLS = 5
"""Crawls in trouble with a notice below the list of all crawls."""
SHOWN_HOSTS = 10
LEAST_ROWS = 6
"""Handlers and hosts that are shown even on a terminal with few lines."""
FOLDED_USER = 16
"""Width of the names of users on a narrow screen."""
STATUS_COLORS: dict[StatusWord, str] = {
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


def status(
    crawl: str | None = None,
    /,
    *,
    hosts: int | None = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Show the crawls of a server, or one crawl in detail.

    Crawls in trouble come first, with the reason and what to do.
    For the settings of a crawl: silkline crawl show CRAWL

    Examples:
      silkline status
      silkline status books --json --redis redis://localhost:6379/0

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of a crawl. Default: all crawls.
    hosts
        Number of hosts to show in detail, longest queues first. Default: 10, on a terminal at most as many as fit.
    json
        Print everything as JSON.
    """
    url = existing(redis)
    if crawl is None:
        with connected(url) as connection:
            found, memory = status_of_all(connection), connection.memory()
        found = dict(sorted(found.items(), key=lambda one: (_urgency(one[1]), one[0])))
        screen.print_json(_all_as_json(url, found, memory)) if json else _show_all(url, found, memory)
    else:
        found_crawl = read_crawl(url, crawl, SHOWN_HOSTS if hosts is None else hosts)
        if json:
            screen.print_json(found_crawl.as_json())
        else:
            show_crawl(found_crawl, fit=hosts is None and screen.out.is_terminal)
    return Exit.OK


class StatusReport(NamedTuple):
    """What is shown of one crawl."""

    standing: CrawlStatus
    settings: Settings
    hosts: list[HostState]
    run: RunOptions
    handlers: Mapping[str, HandlerCounts]
    workers: list[WorkerState]
    memory: Memory

    @property
    def notices(self) -> list[Notice]:
        of_server = memory_notice(self.memory, [self.standing])
        return [*([of_server] if of_server else []), *crawl_notices(self.standing, self.workers, self.handlers)]

    @property
    def has_only_tasks(self) -> bool:
        """Whether its workers have tasks and no pages."""
        return have_only_tasks(self.workers)

    def as_json(self) -> dict[str, Any]:
        fields = _one_as_json(self.standing, self.settings, self.hosts)
        fields["notices"] = [notice.as_json() for notice in self.notices]
        fields["handlers"] = [_handler_as_json(name, one) for name, one in self.handlers.items()]
        lacks = missing_capabilities(self.workers)
        more = {"run": msgspec.to_builtins(self.run), "waits_for": [lack._asdict() for lack in lacks]}
        return fields | more


def read_crawl(url: str, crawl: str, hosts: int) -> StatusReport:
    """Read everything about one crawl that is shown, with at most *hosts* hosts."""
    with SyncFrontier.open(url, crawl=crawl, create=False) as frontier:
        standing = frontier.admin.status()
        return StatusReport(
            standing,
            frontier.layout.settings,
            frontier.admin.hosts(limit=enough_hosts(frontier.layout, hosts))[:hosts],
            frontier.admin.run_options(),
            frontier.admin.handlers(),
            frontier.admin.workers(limit=ALL_WORKERS),
            frontier.internal.memory(),
        )


def show_crawl(found: StatusReport, *, settings: bool = False, fit: bool = False) -> None:
    """Print one crawl: its state, counts, handlers, hosts, and last what to do. With *fit*, it fits on the terminal."""
    notices = [_line(notice) for notice in found.notices]
    counts = screen.pairs(
        [
            *_counts(found.standing.stats, found.standing.activity),
            *(_settings(found.settings) if settings else []),
            *_run(found.run),
        ]
    )
    handlers, hosts = list(found.handlers.items()), found.hosts
    if fit:
        width, texts = screen.out.width, (*_head(found), *notices)
        fixed = len(counts.lines(width)) + sum(len(screen.wrapped(Text.from_markup(text), width)) for text in texts)
        # Three blank lines, the line for what is left out, and the prompt of the shell.
        handlers, hosts = _fitting(handlers, hosts, screen.out.height - fixed - 5)
    for text in _head(found):
        screen.show(text)
    screen.show()
    screen.show(counts)
    if handlers:
        screen.show()
        screen.show(_handler_table(dict(handlers), tasks=found.has_only_tasks))
    if hosts:
        screen.show()
        show_hosts(hosts)
    if len(handlers) < len(found.handlers) or len(hosts) < len(found.hosts):
        screen.show(f"[dim]For more: silkline crawl show {found.standing.stats.crawl}[/]")
    if notices:
        screen.show()
    for text in notices:
        screen.show(text)


def _fitting(
    handlers: list[tuple[str, HandlerCounts]], hosts: list[HostState], height: int
) -> tuple[list[tuple[str, HandlerCounts]], list[HostState]]:
    """Return the first handlers and hosts, as many as fit in *height* lines; always a few of them."""
    for rows in range(len(handlers) + len(hosts), LEAST_ROWS, -1):
        some, few = screen.shared([len(handlers), len(hosts)], rows)
        tables = (_handler_table(dict(handlers[:some])), _host_table(hosts[:few]))
        if sum(len(table.lines(screen.out.width)) for table in tables) <= height:
            return handlers[:some], hosts[:few]
    some, few = screen.shared([len(handlers), len(hosts)], LEAST_ROWS)
    return handlers[:some], hosts[:few]


def _urgency(what: CrawlStatus | SilklineError) -> int:
    """Return a sort key: crawls in trouble come first."""
    return urgency(crawl_notices(what)) if isinstance(what, CrawlStatus) else 0


def _line(notice: Notice, crawl: str = "") -> str:
    """Return a notice as a line of text, with the name of its crawl if the crawls of a server are listed."""
    return f"[{'red' if notice.severe else 'yellow'}]{f'{crawl}: ' if crawl else ''}{safe(notice.sentence)}[/]"


def _all_as_json(url: str, found: dict[str, CrawlStatus | SilklineError], memory: Memory) -> dict[str, Any]:
    crawls = [
        {"crawl": name, "error": str(what)}
        if isinstance(what, SilklineError)
        else status_as_json(what) | {"notices": [notice.as_json() for notice in crawl_notices(what)]}
        for name, what in found.items()
    ]
    of_server = memory_notice(memory, _readable(found))
    notices = [of_server.as_json()] if of_server else []
    return {"server": without_password(url), "notices": notices, "crawls": crawls}


def _readable(found: Mapping[str, CrawlStatus | SilklineError]) -> list[CrawlStatus]:
    return [what for what in found.values() if isinstance(what, CrawlStatus)]


def status_as_json(standing: CrawlStatus) -> dict[str, Any]:
    """Return the counts of a crawl with its status, workers, rate and items."""
    activity = standing.activity
    more: dict[str, Any] = {"status": standing.word, "workers": activity.workers, "items": activity.items}
    more |= {"healthy": not activity.firing, "alerts": [msgspec.to_builtins(alert) for alert in activity.alerts]}
    more |= {name: getattr(activity.total, name) for name in ("revisited", "not_modified", "unchanged")}
    return msgspec.structs.asdict(standing.stats) | more | {"pages_per_second": round(activity.pages_per_second, 3)}


def _show_all(url: str, found: dict[str, CrawlStatus | SilklineError], memory: Memory) -> None:
    if not found:
        screen.show(f"No crawls on {safe(without_password(url))}. Start one: silkline enqueue NAME URL…")
        return
    rows = {name: _row(what) for name, what in found.items() if isinstance(what, CrawlStatus)}
    headings = next(iter(rows.values()), {"state": ""})
    left_out = ("capacity", "hosts", "delayed", "items", "leased") if rows else ()
    table = screen.listing("crawl", *headings, left=2, optional=left_out)
    for name in found:
        table.add_row(safe(name), *(rows[name].values() if name in rows else ["[red]unreadable[/]"]))
    screen.show(table)
    readable = _readable(found)
    _show_notices(readable, memory_notice(memory, readable))
    for name, what in found.items():
        if isinstance(what, SilklineError):
            screen.remark(f"{safe(name)}: {safe(str(what))}")


def _row(standing: CrawlStatus) -> dict[str, str]:
    stats, activity = standing.stats, standing.activity
    return {
        "state": _state(standing),
        "workers": f"{activity.workers:,}",
        "done/s": _rate(standing),
        "ready": f"{stats.ready:,}",
        "delayed": f"{stats.delayed:,}",
        "leased": f"{stats.leased:,}",
        "done": f"{stats.done:,}",
        "dead": f"{stats.dead:,}",
        "items": f"{activity.items:,}",
        "hosts": f"{stats.hosts_ready + stats.hosts_waiting:,}",
        "capacity": f"{stats.pending / stats.capacity:.0%}",
    }


def _show_notices(crawls: list[CrawlStatus], of_server: Notice | None) -> None:
    """Print what is wrong with the server and the first crawls: the first notice of each, with what to do."""
    lines = [_line(of_server)] if of_server else []
    troubled = [(one.stats.crawl, notices) for one in crawls if (notices := crawl_notices(one))]
    for crawl, (first, *others) in troubled[:SHOWN_CRAWLS]:
        more = f" [dim]({len(others)} more: silkline status {crawl})[/]" if others else ""
        lines.append(_line(first, crawl) + more)
    if (left := len(troubled) - SHOWN_CRAWLS) > 0:
        lines.append(f"[yellow]{plural(left, 'more crawl')} in trouble: see silkline status CRAWL[/]")
    if lines:
        screen.show()
    for line in lines:
        screen.print_line(line, indent=2)


def _state(standing: CrawlStatus) -> str:
    word, full = standing.word, ", [yellow]full[/]" if standing.stats.full and standing.word != "full" else ""
    return f"[{STATUS_COLORS[word]}]{word}[/]{full}"


def _rate(standing: CrawlStatus) -> str:
    """Return the recent rate; a dash for a crawl that is over: its last rate says nothing."""
    over = standing.word == "finished" and not standing.activity.workers
    return "-" if over else f"{standing.activity.pages_per_second:,.1f}"


def _fill(stats: Stats) -> str:
    """Return how much of the capacity is used."""
    return f"{stats.pending / stats.capacity:.0%} of {stats.capacity:,}"


def _one_as_json(standing: CrawlStatus, settings: Settings, hosts: list[HostState]) -> dict[str, Any]:
    stored = msgspec.to_builtins(settings) | {"seen": describe_filter(settings.seen)}
    del stored["seed"]  # with the seed, an attacker can construct colliding URLs
    return {
        **status_as_json(standing),
        "paused_by": standing.paused_by.by if standing.paused_by else None,
        "settings": stored,
        "busiest_hosts": [host._asdict() for host in hosts],
    }


def _head(found: StatusReport) -> list[str]:
    """Return the lines about the state of a crawl."""
    standing = found.standing
    stats, activity, by = standing.stats, standing.activity, standing.paused_by
    verb = "by" if standing.word == "paused" else "paused by"
    whom = f", {verb} {safe(by.by)} at {clock_time(by.time)}" if by else ""
    rate = f"{_rate(standing)} pages/s, {plural(activity.items, 'item')}"
    if found.has_only_tasks:
        rate = f"{_rate(standing)} tasks/s"
    return [
        f"[bold]{stats.crawl}[/] is {_state(standing)}{whom}",
        f"{plural(activity.workers, 'worker')}, {rate}",
    ]


def _run(shared: RunOptions) -> list[tuple[str, str]]:
    """Rows for the options that a run shares with all workers."""
    if shared.outputs is None:
        return []
    outputs = [*map(str, shared.outputs), *(f"@crawl.sink {name}" for name in shared.sinks)]
    private = [("private", "private addresses are allowed")] if shared.allow_private else []
    return [("outputs", safe(", ".join(outputs)) or "none: items are counted, not stored"), *private]


def _counts(stats: Stats, activity: Activity) -> list[tuple[str, str]]:
    return [
        ("requests", ", ".join(f"{getattr(stats, name):,} {name}" for name in STATES)),
        (
            "accepted",
            f"{stats.accepted:,}" + ("" if stats.conserved else "  (counts do not add up while requests move)"),
        ),
        *([("priorities", priorities)] if (priorities := describe_priorities(stats)) else []),
        *([("results", f"{stats.results:,} kept, {format_bytes(stats.result_bytes)}")] if stats.results else []),
        *([("waited", waited)] if (waited := describe_waits(activity.hour)) else []),
        *([("revisits", revisits)] if (revisits := describe_revisits(activity.total)) else []),
        *([("rescued", f"{stats.rescued:,} times from lost workers")] if stats.rescued else []),
        ("seen", f"{stats.seen:,}; about {stats.expected_skips:.2g} new URLs wrongly skipped"),
        *([("overflow", _overflow(stats))] if stats.overflow or stats.overflow_refused else []),
        ("capacity", _fill(stats)),
        *([("dropped", _DEAD_DROPPED.format(stats.dead_dropped))] if stats.dead_dropped else []),
        *([("over share", _OVER_SHARE.format(stats.over_share))] if stats.over_share else []),
        ("hosts", f"{stats.hosts_ready:,} ready, {stats.hosts_waiting:,} waiting"),
        *(
            [("lost writes", f"{plural(stats.losses, 'time')}, last at {clock_time(stats.lost_at)}")]
            if stats.lost_at
            else []
        ),
    ]


def _overflow(stats: Stats) -> str:
    dropped = _DROPPED.format(stats) if stats.overflow_refused else ""
    return f"{plural(stats.overflow, 'link')} on disk{dropped}"


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
        *([("durability", settings.durability)] if settings.durability != "everysec" else []),
        ("shards", f"{settings.shards}"),
    ]


def show_missing_capabilities(waits_for: list[MissingCapability]) -> None:
    """Print what pages need to be crawled; in red what no worker has."""
    for lack in waits_for:
        screen.show(f"[{'yellow' if lack.met else 'red'}]{safe(str(lack))}[/]")


def show_audit(entries: list[AuditEntry]) -> None:
    """Print a table of audit entries."""
    fold = {"user": FOLDED_USER, "target": screen.FOLDED_NAME}
    table = screen.listing("time", "user", "action", "target", left=4, fold=fold)
    for entry in entries:
        table.add_row(clock_time(entry.time), *(safe(text) for text in entry[1:]))
    screen.show(table)


def _handler_as_json(name: str, counts: HandlerCounts) -> dict[str, Any]:
    numbers = {key: getattr(counts, key) for key in ("pages", "items", "failures", "exceptions", "dead")}
    return {"handler": name} | numbers | {"p50": counts.p50, "p95": counts.p95}


def show_handlers(handlers: Mapping[str, HandlerCounts]) -> None:
    """Print a table of handlers: what was done since the crawl began, and how long they run."""
    screen.show(_handler_table(handlers))


def _handler_table(handlers: Mapping[str, HandlerCounts], *, tasks: bool = False) -> screen.Listing:
    first = ("task", "done") if tasks else ("handler", "pages", "items")
    table = screen.listing(*first, "failures", "exceptions", "dead", "p50", "p95", optional=("p50",))
    for name, one in handlers.items():
        counts = (one.pages, *(() if tasks else (one.items,)), one.failures, one.exceptions, one.dead)
        table.add_row(safe(name), *(f"{count:,}" for count in counts), format_latency(one.p50), format_latency(one.p95))
    return table


def show_hosts(hosts: list[HostState]) -> None:
    """Print a table of hosts in the given order."""
    screen.show(_host_table(hosts))


def _host_table(hosts: list[HostState]) -> screen.Listing:
    table = screen.listing(
        *("host", "state", "queued", "leased", "delay", "limit", "opens in", "CPU", screen.RESPONSES),
        left=2,
        fold={"host": screen.FOLDED_NAME, screen.RESPONSES: screen.CUT_RESPONSES},
        optional=("CPU", "limit", "opens in", "delay"),
    )
    for host in hosts:
        opens = f"{host.opens_in:.1f} s" if host.place == "waiting" else ""
        numbers = (f"{host.queued:,}", f"{host.leased:,}", host.short_pace, f"{host.concurrency}", opens)
        answers, cost = (host.answers.errors_first, host.answers.cost) if host.answers else ("", "")
        table.add_row(safe(host.host), host.place, *numbers, cost, answers)
    return table
