"""Flows that change the politeness, budget, capacity and dead limit of an existing crawl.

To loosen a limit, the shards are changed first, then the settings; to tighten it, the other way round. If a flow is
interrupted, the tighter of both limits applies, and repeating the change completes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from silkline.core.politeness import Budget, Politeness
from silkline.errors import ConfigError, FrontierError, UnknownCrawl
from silkline.frontier.admin_verbs.stats import snapshot
from silkline.frontier.store.keys import CrawlKeys, ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.run_options import RunOptions, encode
from silkline.frontier.store.settings import Settings
from silkline.frontier.transport.command import Command, Flow, as_text, ask, ask_all, load
from silkline.frontier.verbs.claim import grant_pages, set_allowance
from silkline.frontier.verbs.lifecycle import read_settings, refresh

MOST_TRIES = 10
Change = Callable[[Settings], Settings]


def set_politeness(layout: CrawlLayout, politeness: Politeness) -> Flow[CrawlLayout]:
    """Change all shards, then the settings. If this is interrupted, the next client that compares the settings repeats it."""
    for keys in layout.shards:
        position = yield from ask(set_politeness_command(keys, politeness, "0"))
        while position != "0":
            position = yield from ask(set_politeness_command(keys, politeness, position))
    changed = yield from _update(
        layout, lambda stored: msgspec.structs.replace(stored, politeness=politeness, politeness_by_default=False)
    )
    yield from _copy(changed)
    return changed


def set_budget(layout: CrawlLayout, budget: Budget) -> Flow[CrawlLayout]:
    """Change the budget. Pages that are done or leased count against it."""
    layout = yield from refresh(layout)
    yield from _check_counted(layout, budget)
    before, amended = layout.settings.budget.pages, layout
    tighter = budget.pages is not None and (before is None or budget.pages < before)

    def change(stored: Settings) -> Settings:
        return msgspec.structs.replace(stored, budget=budget)

    if tighter:
        amended = yield from _update(layout, change)
    limits = ShardLimits(_allowance(layout, budget), _word(budget.pages_per_host), "")
    yield from _limit(layout.with_settings(change(amended.settings)), limits)
    if not tighter:
        amended = yield from _update(layout, change)
        yield from _copy(amended)
    return amended


def set_capacity(layout: CrawlLayout, capacity: int) -> Flow[CrawlLayout]:
    amended = yield from _update(layout, lambda stored: msgspec.structs.replace(stored, capacity=capacity))
    share = -(-capacity // amended.settings.shards)
    yield from _limit(amended, ShardLimits("", "", str(share)))
    return amended


def set_dead_limit(layout: CrawlLayout, limit: int) -> Flow[CrawlLayout]:
    """Change how many dead letters are kept, and drop the oldest ones beyond a lower limit."""
    amended = yield from _update(layout, lambda stored: msgspec.structs.replace(stored, dead_limit=limit))
    for keys in amended.shards:
        yield from apply_dead_limit(keys, amended.settings)
    return amended


def apply_dead_limit(keys: ShardKeys, settings: Settings) -> Flow[None]:
    """Give a shard its share of the limit, and drop its oldest dead letters beyond it."""
    left = 1
    while left:
        left = yield from ask(set_dead_limit_command(keys, settings))


class ShardLimits(NamedTuple):
    """What set_limits.lua takes: "" leaves a limit as it is, "-" means none."""

    allowance: str
    host_pages: str
    capacity: str


def _allowance(layout: CrawlLayout, budget: Budget) -> str:
    """Return the allowance of a shard. A single shard gets the whole budget; several shards keep what they use and request more."""
    if budget.pages is None:
        return "-"
    if layout.settings.shards == 1:
        return str(budget.pages)
    return "used"


def _word(limit: int | None) -> str:
    return "-" if limit is None else str(limit)


def _check_counted(layout: CrawlLayout, budget: Budget) -> Flow[None]:
    """Pages per host are counted only in a crawl that limits them."""
    if budget.pages_per_host is None:
        return
    for keys in layout.shards:
        shard = yield from ask(snapshot(keys))
        if "host_pages" not in shard and int(shard["done"]) + int(shard["leased"]):
            raise _uncounted(layout)


def _uncounted(layout: CrawlLayout) -> ConfigError:
    return ConfigError(
        f"the crawl {layout.keys.crawl!r} has claimed pages without counting them by host, so its pages per host can no longer be "
        "limited; create a new crawl with this limit"
    )


def _limit(layout: CrawlLayout, limits: ShardLimits) -> Flow[None]:
    settings = layout.settings.encode()
    for keys in layout.shards:
        yield from _limit_shard(layout, keys, limits, settings)
    if limits.allowance == "used":
        yield from _share_out(layout, settings)


def _share_out(layout: CrawlLayout, settings: bytes) -> Flow[None]:
    """Record what each shard keeps of the page budget.

    Leased pages beyond a lower budget may still complete. If they do not, no other page is claimed in their place.
    """
    shards = yield from ask_all(snapshot(keys) for keys in layout.shards)
    excess = sum(int(shard["allowance"]) for shard in shards) - (layout.settings.budget.pages or 0)
    for keys, shard in zip(layout.shards, shards, strict=True):
        kept, done = int(shard["allowance"]), int(shard["done"])
        less = min(max(excess, 0), max(kept - done, 0))
        if less:
            excess -= less
            yield from _limit_shard(layout, keys, ShardLimits(f"={kept - less}", "", ""), settings)
        held = yield from ask(set_allowance(keys, "read"))
        yield from ask(grant_pages(layout.keys, layout.settings.budget.pages or 0, keys.number, held, 0))


def _limit_shard(layout: CrawlLayout, keys: ShardKeys, limits: ShardLimits, settings: bytes) -> Flow[None]:
    position = yield from ask(set_limits(keys, *limits, settings, "0"))
    while position != "0":
        if position == "uncounted":
            raise _uncounted(layout)
        position = yield from ask(set_limits(keys, *limits, settings, position))


def _copy(layout: CrawlLayout) -> Flow[None]:
    """Update the copy of the settings that each shard stores."""
    for keys in layout.shards:
        yield from ask(set_limits(keys, "", "", "", layout.settings.encode(), "0"))


def _update(layout: CrawlLayout, change: Change) -> Flow[CrawlLayout]:
    """Apply a change to the settings that are stored now: another operator may have changed another setting."""
    for _ in range(MOST_TRIES):
        known = yield from ask(read_settings(layout.keys))
        if known is None:
            raise UnknownCrawl(f"the crawl {layout.keys.crawl!r} has been removed")
        changed = change(Settings.decode(known))
        holds = yield from ask(replace_settings(layout.keys, known, changed.encode()))
        if holds == changed.encode():
            return layout.with_settings(changed)
    raise FrontierError(
        f"the settings of the crawl {layout.keys.crawl!r} are being changed by other clients; try again"
    )


def set_politeness_command(keys: ShardKeys, politeness: Politeness, position: str) -> Command[str]:
    """Apply the politeness to a part of a shard's hosts; return the position of the next part, "0" after the last."""
    words = (round(politeness.delay * 1000), politeness.concurrency, politeness.burst, position)
    return Command(load("set_politeness"), (keys.ledger,), words, as_text)


def set_limits(
    keys: ShardKeys, allowance: str, host_pages: str, capacity: str, settings: bytes, position: str
) -> Command[str]:
    """Change the limits of a shard; return the position of the next part of its hosts, "0" after the last, or "uncounted"."""
    return Command(load("set_limits"), (keys.ledger,), (allowance, host_pages, capacity, settings, position), as_text)


def set_dead_limit_command(keys: ShardKeys, settings: Settings) -> Command[int]:
    """Change the share of a shard, and drop a part of the dead letters beyond it; return how many are left to drop."""
    share = str(settings.share_of_dead) if settings.dead_limit else "-"
    return Command(load("set_dead_limit"), (keys.ledger,), (share, settings.encode()), int)


def replace_settings(keys: CrawlKeys, known: bytes, settings: bytes) -> Command[bytes | None]:
    """Replace the *known* settings; return the settings that are stored now."""
    return Command(load("replace_settings"), (keys.settings,), (known, settings), lambda reply: reply or None)


def run_options(keys: CrawlKeys, options: RunOptions | None = None) -> Command[RunOptions]:
    """Store *options*, or without them read what is stored."""

    def decode(reply: bytes) -> RunOptions:
        return msgspec.json.decode(reply, type=RunOptions) if reply else RunOptions()

    return Command(load("run_options"), (keys.settings,), (encode(options) if options else b"",), decode)


def feed_position(keys: CrawlKeys, feed: str, token: int, position: bytes) -> Command[bytes]:
    """Store how far a feed was read, unless a reader with a later *token* has stored it; without a *position*, only read."""
    return Command(load("feed_position"), (keys.settings,), (feed, token, position), bytes)
