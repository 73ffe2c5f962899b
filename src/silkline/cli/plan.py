"""``silkline plan``: what a crawl needs of Redis and of workers."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.crawl_options import describe_filter
from silkline.cli.exits import Exit
from silkline.cli.server import Json, Redis, existing
from silkline.core.errors import ConfigError
from silkline.frontier.crawls import Weight, weigh_crawl
from silkline.frontier.sentences import span
from silkline.operate import capacity
from silkline.operate.capacity import Need, Wish
from silkline.operate.durations import seconds
from silkline.operate.numbers import as_memory, plural

_SIZES = {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def plan(  # noqa: PLR0913 - each is an option of the command
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    urls: str | None = None,
    hosts: str | None = None,
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
    """Estimate what a crawl needs: memory by seen filter, nodes, shards, workers, time.

    From constants that were measured, for URLs that are spread evenly over the
    hosts. With --from the numbers are those of a live crawl, and the estimate of
    its memory is held against what its server says.

    Examples:
      silkline plan --urls 5M --hosts 100k --delay 1 --time 12h
      silkline plan --from books

    Exit code: 0, 1 the time cannot be met, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    from_
        A crawl to take the numbers from; options that are given stand in for its own.
    urls
        URLs in all: 5000000, 5M.
    hosts
        Over how many hosts.
    payload
        Bytes of a stored request: of a plain GET its path and query. [60]
    delay
        Seconds between two starts on one host. [1]
    concurrency
        Requests under way on one host. [1]
    time
        In which it is to be done: 90m, 12h, 3d. [as fast as politeness allows]
    latency
        Seconds that a page takes to come.
    links
        Links on a page.
    node_memory
        Memory of one server node.
    compressed
        The server has list-compress-depth 1, as the embedded one does.
    json
        Print everything as JSON.
    """
    weight = weigh_crawl(existing(redis), from_) if from_ else None
    fields: dict[str, Any] = _live(weight) if weight else {}
    given = {
        "urls": _number("--urls", urls),
        "hosts": _number("--hosts", hosts),
        "payload": payload,
        "delay": seconds("--delay", delay),
        "concurrency": concurrency,
        "target": seconds("--time", time),
        "compressed": compressed or None,
    }
    fields |= {name: value for name, value in given.items() if value is not None}
    missing = [name for name in ("urls", "hosts") if name not in fields]
    if missing:
        raise ConfigError(f"say how much it is: --{' and --'.join(missing)}; or take it from a crawl: --from CRAWL")
    wish = Wish(**fields, latency=latency, links=links, node_memory=_number("--node-memory", node_memory) or 0)
    need = capacity.plan(wish)
    screen.tell_json(_as_json(wish, need, weight)) if json else _show(wish, need, weight)
    return Exit.OK if need.reachable else Exit.FAILED


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([\d_,]+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in _SIZES:
        raise ConfigError(f"{name} is a number such as 250000, 250k, 5M or 16GiB, got {text!r}")
    return round(float(found[1].replace(",", "").replace("_", "")) * _SIZES[found[2]])


def _live(weight: Weight) -> dict[str, Any]:
    stats, pace = weight.stats, weight.settings.politeness
    if not stats.accepted:
        raise ConfigError(f"the crawl {stats.crawl!r} is empty, so there is nothing to go by")
    return {
        "urls": max(stats.seen, stats.accepted),
        "hosts": max(1, weight.hosts),
        "payload": weight.payload or 60.0,
        "pending": stats.pending,
        "dead": stats.dead,
        "delay": pace.delay,
        "concurrency": pace.concurrency,
        "compressed": weight.compressed,
    }


def _as_json(wish: Wish, need: Need, weight: Weight | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"wish": msgspec.to_builtins(wish), "need": msgspec.to_builtins(need)}
    if weight:
        answer["live"] = {
            "predicted": _predicted(wish, weight),
            "measured": weight.used,
            "crawls": weight.crawls,
            "filter": describe_filter(weight.settings.seen),
        }
    return answer


def _predicted(wish: Wish, weight: Weight) -> int:
    own = capacity.weigh(wish, weight.settings.seen, leased=weight.stats.leased, answered=weight.answered)
    return own + capacity.SERVER_BYTES


def _show(wish: Wish, need: Need, weight: Weight | None) -> None:
    rows = [("crawl", f"{wish.urls:,} URLs on {plural(wish.hosts, 'host')}, {wish.payload:.0f} bytes each")]
    rows += [(f"memory, {name}", as_memory(size)) for name, size in need.memory.items()]
    rows += [
        ("maxmemory", f"{as_memory(need.maxmemory)} with an exact filter"),
        ("nodes", f"{need.nodes}, {plural(need.shards, 'shard')}"),
        ("workers", f"{need.workers} ({wish.worker_concurrency} pages at a time, {wish.latency:g} s a page)"),
        ("pages a second", f"{need.pages_per_second:,.1f}"),
        ("takes", f"{_long(need.drain)}; {need.bound_by} decides"),
        ("at least", f"{_long(need.politest)}, at {wish.delay:g} s a host and {wish.concurrency} at a time"),
    ]
    screen.show(screen.pairs(rows))
    if weight:
        _show_live(wish, weight)
    if not need.reachable:
        least = _long(need.politest)
        screen.remark(
            f"[yellow]{_long(wish.target or 0)} is too short:[/] politeness alone takes {least}. Fewer URLs a host, or less delay."
        )


def _show_live(wish: Wish, weight: Weight) -> None:
    predicted = _predicted(wish, weight)
    alone = "this crawl alone" if weight.crawls == 1 else f"{weight.crawls} crawls"
    screen.show()
    screen.show(
        f"now: {as_memory(predicted)} are expected for this crawl with its filter, {describe_filter(weight.settings.seen)};"
    )
    screen.show(f"     {as_memory(weight.used)} are used on the server, by {alone}")


def _long(duration: float) -> str:
    return f"{duration / 86_400:.1f} d" if duration >= 172_800 else span(duration)
