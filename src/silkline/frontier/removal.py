"""The flow that destroys a crawl."""

from __future__ import annotations

from functools import partial

from silkline.frontier import commands
from silkline.frontier.commands import MAX_BATCH
from silkline.frontier.effects import Flow, ask, ask_all, on_disk
from silkline.frontier.overflow import Overflow
from silkline.frontier.plan import Plan


def remove(plan: Plan, overflow: Overflow | None) -> Flow[None]:
    """Remove the shards, then the settings, then the name. Whatever interrupts it, running it again finishes it.

    The shards are looked at twice: a process that opened the crawl meanwhile has founded some of them anew.
    """
    yield from _remove_shards(plan)
    yield from ask(commands.erase(plan.keys))
    yield from _remove_shards(plan)
    if overflow:
        yield from _empty(plan, overflow)
    yield from ask(commands.unregister(plan.keys.crawl))


def _remove_shards(plan: Plan) -> Flow[None]:
    """A bounded step on every shard, side by side, until all are gone; so the first step cancels all of them."""
    left = plan.shards
    while left:
        answers = yield from ask_all(commands.remove(keys) for keys in left)
        left = tuple(keys for keys, more in zip(left, answers, strict=True) if more)


def _empty(plan: Plan, overflow: Overflow) -> Flow[None]:
    """Drop what waits on this process's disk; what another process has just taken returns to find no crawl."""
    while rows := (yield from on_disk(partial(overflow.take, plan.shelf, MAX_BATCH))):
        yield from on_disk(partial(overflow.settle, [row for row, _ in rows], []))
