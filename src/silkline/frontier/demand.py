"""How much work a crawl has to give: what autoscaling and the metrics ask for."""

from __future__ import annotations

from typing import Any, NamedTuple

from silkline.frontier import commands
from silkline.frontier.commands import Command
from silkline.frontier.effects import Flow, ask_all
from silkline.frontier.keys import ShardKeys
from silkline.frontier.plan import Plan
from silkline.frontier.script import load

LOOKED_AT = 200
"""Hosts of a shard that are looked at; of more, these speak for all."""


class Demand(NamedTuple):
    """How much work could be under way."""

    oldest: float
    """For how many seconds the host that waits longest could have been claimed: to a second, or a hundredth of it."""
    open_hosts: int
    """Hosts of which something may be claimed now."""
    may_start: int
    """Requests that could be claimed now, as the caps and the pace of their hosts allow; of very many hosts an estimate."""
    leased: int

    @property
    def useful(self) -> int:
        """Pages that could be under way now: more workers than these keep busy are of no use."""
        return self.may_start + self.leased


class ShardDemand(NamedTuple):
    """Of one shard: of its open hosts, so many were looked at, and those may start so many requests."""

    oldest: float
    open_hosts: int
    looked_at: int
    may_start: int

    @property
    def estimate(self) -> float:
        return self.may_start * self.open_hosts / self.looked_at if self.looked_at else 0.0


def shard_demand(keys: ShardKeys) -> Command[ShardDemand]:
    def decode(reply: list[Any]) -> ShardDemand:
        return ShardDemand(int(reply[0]) / 1000, *map(int, reply[1:]))

    return Command(load("demand"), (keys.root,), (LOOKED_AT,), decode)


def demand(plan: Plan) -> Flow[Demand]:
    shards = yield from ask_all(shard_demand(keys) for keys in plan.shards)
    snapshots = yield from ask_all(commands.snapshot(keys) for keys in plan.shards)
    return Demand(
        oldest=max(shard.oldest for shard in shards),
        open_hosts=sum(shard.open_hosts for shard in shards),
        may_start=round(sum(shard.estimate for shard in shards)),
        leased=sum(int(snapshot["leased"]) for snapshot in snapshots),
    )
