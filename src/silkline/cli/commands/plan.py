"""``silkline plan``: estimate the memory, nodes and workers that a crawl needs."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.crawl import describe_filter
from silkline.cli.options.server import Json, Redis, existing
from silkline.core.units import format_bytes, parse_bytes
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.explain_text import span
from silkline.frontier.crawl_server import CrawlWeight, measure_crawl
from silkline.frontier.store.settings import SeenFilter
from silkline.ops import capacity
from silkline.ops.capacity import CapacityPlan, FilterCost, Workload
from silkline.ops.parsing import plural, seconds

_COUNTS = {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000}


def plan(  # noqa: PLR0913 - each is an option of the command
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    urls: str | None = None,
    hosts: str | None = None,
    pending: str | None = None,
    seen: str | None = None,
    payload: float | None = None,
    delay: str | None = None,
    concurrency: int | None = None,
    time: str | None = None,
    latency: float = 0.5,
    links: float = 20.0,
    node_memory: str = "16GiB",
    compressed: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Estimate the memory, nodes, CPU, connections, workers and time that a crawl needs.

    The estimate uses measured constants and assumes that the URLs are spread
    evenly over the hosts. --from takes the numbers of a live crawl and compares
    its estimated memory with the memory of its server.

    Examples:
      silkline plan --urls 5M --hosts 100k --delay 1 --time 12h
      silkline plan --urls 5e9 --hosts 50M --pending 50M --seen bloom:1e-6
      silkline plan --from books

    Exit code: 0, 1 the time cannot be met, 2 wrong usage or no such crawl,
    3 server unavailable.

    Parameters
    ----------
    from_
        A crawl to take the numbers from; given options override them.
    urls
        Number of URLs that the crawl will see: 5000000, 5M, 5e9.
    hosts
        Number of hosts.
    pending
        Most requests that wait at the same time. [default: all URLs]
    seen
        The seen filter: exact, compact, or bloom:ERROR[,CAPACITY].
        [default: exact]
    payload
        Bytes per stored request; for a plain GET, its path and query. [default: 60]
    delay
        Seconds between two requests to one host. [default: 1]
    concurrency
        Requests in progress on one host. [default: 1]
    time
        Target time: 90m, 12h, 3d. [default: as fast as politeness allows]
    latency
        Seconds until a page is downloaded.
    links
        Links per page.
    node_memory
        Memory of one server node.
    compressed
        The server has list-compress-depth 1, as the embedded server does.
    json
        Print everything as JSON.
    """
    weight = measure_crawl(existing(redis), from_) if from_ else None
    fields: dict[str, Any] = _live(weight) if weight else {}
    given = {
        "urls": _number("--urls", urls),
        "hosts": _number("--hosts", hosts),
        "pending": _number("--pending", pending),
        "seen": seen and str(SeenFilter.parse(seen)),
        "payload": payload,
        "delay": seconds("--delay", delay),
        "concurrency": concurrency,
        "target": seconds("--time", time),
        "compressed": compressed or None,
    }
    fields |= {name: value for name, value in given.items() if value is not None}
    missing = [name for name in ("urls", "hosts") if name not in fields]
    if missing:
        raise ConfigError(f"--{' and --'.join(missing)} missing; or take the numbers of a crawl: --from CRAWL")
    workload = Workload(**fields, latency=latency, links=links, node_memory=_size("--node-memory", node_memory))
    need = capacity.plan(workload)
    screen.print_json(_as_json(workload, need, weight)) if json else _show(workload, need, weight)
    return Exit.OK if need.reachable else Exit.FAILED


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([\d_,]+(?:\.\d+)?(?:e\d+)?)\s*([a-z]?)", text.strip().lower())
    if not found or found[2] not in _COUNTS:
        raise ConfigError(f"{name} must be a number such as 250000, 250k or 5M, got {text!r}")
    return round(float(found[1].replace(",", "").replace("_", "")) * _COUNTS[found[2]])


def _size(name: str, text: str) -> int:
    size = parse_bytes(text)
    if size is None:
        raise ConfigError(f"{name} must be a size such as 512MiB or 16GiB, got {text!r}")
    return size


def _live(weight: CrawlWeight) -> dict[str, Any]:
    stats, pace = weight.stats, weight.settings.politeness
    if not stats.accepted:
        raise ConfigError(f"the crawl {stats.crawl!r} is empty, so nothing can be estimated from it")
    return {
        "urls": max(stats.seen, stats.accepted),
        "hosts": max(1, weight.hosts),
        "payload": weight.payload or 60.0,
        "pending": stats.pending,
        "dead": stats.dead,
        "delay": pace.delay,
        "concurrency": pace.concurrency,
        "compressed": weight.compressed,
        "seen": describe_filter(weight.settings.seen),
    }


def _as_json(workload: Workload, need: CapacityPlan, weight: CrawlWeight | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"wish": msgspec.to_builtins(workload), "need": msgspec.to_builtins(need)}
    if weight:
        answer["live"] = {
            "predicted": _predicted(workload, weight),
            "measured": weight.used,
            "crawls": weight.crawls,
            "filter": describe_filter(weight.settings.seen),
        }
    return answer


def _predicted(workload: Workload, weight: CrawlWeight) -> int:
    own = capacity.weigh(workload, weight.settings.seen, leased=weight.stats.leased, answered=weight.answered)
    return own + capacity.SERVER_BYTES


def _show(workload: Workload, need: CapacityPlan, weight: CrawlWeight | None) -> None:
    rows = [("crawl", f"{workload.urls:,} URLs on {plural(workload.hosts, 'host')}, {workload.payload:.0f} bytes each")]
    pending = workload.urls if workload.pending is None else workload.pending
    rows += [("pending", f"at most {plural(pending, 'request')} at the same time")]
    rows += [(f"memory, {name}", _filter_cost(workload, cost)) for name, cost in need.filters.items()]
    each = (
        f"{format_bytes(need.maxmemory / need.nodes)} on each node" if need.nodes > 1 else format_bytes(need.maxmemory)
    )
    rows += [
        ("maxmemory", f"{each}, with the filter {workload.seen}"),
        ("nodes", f"{need.nodes}, {plural(need.shards, 'shard')}"),
        ("CPU", f"{need.server_cores:.2g} cores of the nodes, {need.worker_cores:.2g} of the workers"),
        ("connections", f"{need.connections:,} to each node, {capacity.WORKER_CONNECTIONS} of each worker"),
        ("workers", f"{need.workers} ({workload.worker_concurrency} pages at a time, {workload.latency:g} s per page)"),
        ("pages/s", f"{need.pages_per_second:,.1f}"),
        ("duration", f"{_long(need.drain)}, limited by {need.bound_by}"),
        (
            "at least",
            f"{_long(need.politest)}, with a delay of {workload.delay:g} s and {workload.concurrency} at a time per host",
        ),
    ]
    screen.show(screen.pairs(rows))
    if weight:
        _show_live(workload, weight)
    if not need.reachable:
        least = _long(need.politest)
        screen.remark(
            f"[yellow]{_long(workload.target or 0)} is too short:[/] politeness alone takes {least}. Use fewer URLs per host, or a shorter delay."
        )


def _filter_cost(workload: Workload, cost: FilterCost) -> str:
    each = cost.seen_bytes / workload.urls
    skipped = f"{cost.skipped:,.0f}" if cost.skipped >= 1 else f"{cost.skipped:.1g}"
    return (
        f"{format_bytes(cost.memory)}, {each:.1f} bytes per URL for the filter; {plural(cost.nodes, 'node')}; "
        f"{skipped} URLs wrongly skipped"
    )


def _show_live(workload: Workload, weight: CrawlWeight) -> None:
    predicted = _predicted(workload, weight)
    alone = "this crawl alone" if weight.crawls == 1 else f"{weight.crawls} crawls"
    screen.show()
    screen.show(
        f"now: {format_bytes(predicted)} estimated for this crawl with its {describe_filter(weight.settings.seen)} filter;"
    )
    screen.show(f"     {format_bytes(weight.used)} used on the server, by {alone}")


def _long(duration: float) -> str:
    return f"{duration / 86_400:.1f} d" if duration >= 172_800 else span(duration)
