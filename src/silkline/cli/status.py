"""``silkline status``: how the crawls of a server stand."""

from __future__ import annotations

from typing import Any

import msgspec

from silkline.cli import screen
from silkline.cli.crawl_options import describe_filter
from silkline.cli.exits import Exit
from silkline.cli.operating import safe
from silkline.cli.server import Json, Redis, existing
from silkline.core.errors import SilklineError
from silkline.frontier.acts import Act, who_paused
from silkline.frontier.address import without_password
from silkline.frontier.crawls import list_crawls
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import STATES, Stats, enough_hosts
from silkline.frontier.sentences import clock_time
from silkline.frontier.settings import Settings
from silkline.frontier.sync import SyncFrontier

_FULL = "full: links wait on the disks of workers that have an overflow; without one their pages are put back"


def status(
    crawl: str | None = None,
    /,
    *,
    hosts: int = 10,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Show how the crawls of a server stand.

    All of them in a table, or one in detail. Changes nothing.

    Examples:
      silkline status
      silkline status books --json --redis redis://localhost:6379/0

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of a crawl. Without one, all.
    hosts
        How many hosts to show in detail, those with the longest queues first.
    json
        Print everything as JSON.
    """
    url = existing(redis)
    if crawl is None:
        found = list_crawls(url)
        screen.tell_json(_all_as_json(url, found)) if json else _show_all(url, found)
    else:
        with SyncFrontier.open(url, crawl=crawl, create=False) as frontier:
            stats, settings = frontier.stats(), frontier.plan.settings
            busiest = frontier.hosts(limit=enough_hosts(frontier.plan, hosts))[:hosts]
            by = _pause(frontier, stats)
        screen.tell_json(_one_as_json(stats, settings, busiest, by)) if json else _show_one(
            stats, settings, busiest, by
        )
    return Exit.OK


def _all_as_json(url: str, found: dict[str, Stats | SilklineError]) -> dict[str, Any]:
    crawls = [
        {"crawl": name, "error": str(what)} if isinstance(what, SilklineError) else msgspec.to_builtins(what)
        for name, what in found.items()
    ]
    return {"server": without_password(url), "crawls": crawls}


def _show_all(url: str, found: dict[str, Stats | SilklineError]) -> None:
    if not found:
        screen.show(f"No crawls on {safe(without_password(url))}. Start one: silkline enqueue NAME URL…")
        return
    table = screen.listing(
        "crawl", "state", "ready", "delayed", "leased", "done", "dead", "seen", "hosts", "capacity", left=2
    )
    for name, what in found.items():
        if isinstance(what, SilklineError):
            table.add_row(safe(name), "[red]unreadable[/]")
            continue
        numbers = (what.ready, what.delayed, what.leased, what.done, what.dead, what.seen)
        hosts = what.hosts_ready + what.hosts_waiting
        table.add_row(name, _state(what), *(f"{number:,}" for number in (*numbers, hosts)), _fill(what))
    screen.show(table)
    for name, what in found.items():
        if isinstance(what, SilklineError):
            screen.remark(f"{safe(name)}: {safe(str(what))}")


def _state(stats: Stats) -> str:
    colour = {"open": "green", "paused": "yellow", "cancelled": "red"}.get(stats.state, "default")
    full = ", [yellow]full[/]" if stats.full else ""
    return f"[{colour}]{stats.state}[/]{full}"


def _fill(stats: Stats) -> str:
    """How much of the capacity is taken."""
    return f"{stats.pending / stats.capacity:.0%} of {stats.capacity:,}"


def _pause(frontier: SyncFrontier, stats: Stats) -> Act | None:
    """The act of an operator that paused the crawl."""
    return who_paused(frontier.audit(limit=200)) if stats.state == "paused" else None


def _one_as_json(stats: Stats, settings: Settings, hosts: list[HostState], by: Act | None) -> dict[str, Any]:
    stored = msgspec.to_builtins(settings) | {"seen": describe_filter(settings.seen)}
    del stored["seed"]  # whoever knows it can prepare URLs that collide
    return {
        **msgspec.structs.asdict(stats),
        "paused_by": by.by if by else None,
        "settings": stored,
        "busiest_hosts": [host._asdict() for host in hosts],
    }


def _show_one(stats: Stats, settings: Settings, hosts: list[HostState], by: Act | None) -> None:
    whom = f", by {safe(by.by)} at {clock_time(by.time)}" if by else ""
    screen.show(f"[bold]{stats.crawl}[/] is {_state(stats)}{whom}")
    screen.show()
    screen.show(screen.pairs([*_counts(stats), *_settings(settings)]))
    if hosts:
        screen.show()
        show_hosts(hosts)


def _counts(stats: Stats) -> list[tuple[str, str]]:
    rows = [(name, f"{getattr(stats, name):,}") for name in STATES]
    rows += [
        ("accepted", f"{stats.accepted:,}" + ("" if stats.conserved else "  (does not add up while requests move)")),
        ("rescued", f"{stats.rescued:,} times from a worker that was lost"),
        ("seen", f"{stats.seen:,}; about {stats.expected_skips:.2g} URLs were wrongly taken for seen"),
        ("overflow", f"{stats.overflow:,} wait on disk"),
        ("capacity", _fill(stats) + (f", {_FULL}" if stats.full else "")),
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
        ("filter", describe_filter(settings.seen)),
        ("order", settings.order),
        ("shards", f"{settings.shards}"),
    ]


def show_acts(acts: list[Act]) -> None:
    """What operators did, in a table."""
    table = screen.listing("when", "by", "what", "about", left=4)
    for act in acts:
        table.add_row(clock_time(act.time), *(safe(text) for text in act[1:]))
    screen.show(table)


def show_hosts(hosts: list[HostState]) -> None:
    """Hosts in a table, as they come."""
    table = screen.listing("host", "place", "queued", "leased", "delay", "cap", "opens in", "answers", left=2)
    for host in hosts:
        opens = f"{host.opens_in:.1f} s" if host.place == "waiting" else ""
        numbers = (f"{host.queued:,}", f"{host.leased:,}", host.pace, f"{host.concurrency}", opens)
        answers = host.answers.mix if host.answers else ""
        table.add_row(safe(host.host), host.place, *numbers, answers)
    screen.show(table)
