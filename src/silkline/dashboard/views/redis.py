"""The server: INFO, findings of the doctor, and the balance of the shards."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.responses import Response

from silkline.dashboard import formatting
from silkline.dashboard.pages import PageContext
from silkline.dashboard.views.hosts import busiest_crawl
from silkline.frontier.transport.server_info import ServerInfo
from silkline.ops import doctor

SHOWN_SHARDS = 256


class Shard(NamedTuple):
    """Counts of one shard."""

    number: int
    pending: int
    leased: int
    dead: int
    seen: int


class Shards(NamedTuple):
    """The shards of a crawl, and the ratio of the fullest to the average."""

    each: list[Shard]
    total: int
    skew: float | None
    largest: int


async def show(page: PageContext) -> Response:
    nodes = await page.server.examine()
    crawl = await busiest_crawl(page)
    return await page.show(
        "redis.html",
        "Redis",
        nodes=[(node.where, about(node)) for node in nodes],
        findings=doctor.examine(nodes),
        where=page.server.where,
        crawl=crawl,
        shards=await _shards(page, crawl) if crawl else None,
        memory=await page.server.memory(),
    )


async def _shards(page: PageContext, crawl: str) -> Shards:
    frontier = await page.server.frontier(crawl)
    ledgers = await page.server.shards(frontier)
    each = [
        Shard(
            number,
            int(ledger["queued"]) + int(ledger["delayed"]),
            int(ledger["leased"]),
            int(ledger["dead"]),
            int(ledger["seen_count"]),
        )
        for number, ledger in enumerate(ledgers)
    ]
    sizes = [shard.pending + shard.seen for shard in each]
    mean = sum(sizes) / len(sizes)
    skew = max(sizes) / mean if mean else None
    return Shards(each[:SHOWN_SHARDS], len(each), skew, max(shard.pending for shard in each))


def about(node: ServerInfo) -> list[tuple[str, str]]:
    """Return the rows of the page from INFO."""
    info, server = node.info, node.server
    hits, misses = _count(info, "keyspace_hits"), _count(info, "keyspace_misses")
    rows = [
        ("Server", f"{server.name} {'.'.join(map(str, server.version))}"),
        ("Up for", formatting.lasting(_count(info, "uptime_in_seconds"))),
        (
            "Memory",
            f"{formatting.size(_count(info, 'used_memory'))} now, peak {formatting.size(_count(info, 'used_memory_peak'))}",
        ),
        ("Fragmentation", f"{info.get('mem_fragmentation_ratio', '–')}"),
        ("Commands", f"{formatting.rate(_count(info, 'instantaneous_ops_per_sec'))}"),
        ("Clients", f"{info.get('connected_clients', '–')}, {info.get('blocked_clients', '–')} blocked"),
        ("Hit rate", formatting.percent(hits / (hits + misses)) if hits + misses else "–"),
        ("Evicted", f"{info.get('evicted_keys', '–')}"),
        ("Role", f"{info.get('role', '–')}, {info.get('connected_slaves', 0)} replicas"),
        ("Append-only file", "on" if info.get("aof_enabled") else "off"),
        (
            "Last snapshot",
            f"{info.get('rdb_last_bgsave_status', '–')}, {info.get('rdb_changes_since_last_save', '–')} changes since",
        ),
        ("Eviction policy", server.eviction or "–"),
    ]
    return [(name, str(value)) for name, value in rows]


def _count(info: dict[str, Any], name: str) -> float:
    value = info.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
