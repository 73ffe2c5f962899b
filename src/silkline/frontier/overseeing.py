"""Overseeing: what operators, dashboards and fleets ask of a crawl. The verbs of those who work on it are in `frontier`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.timing import Timing
from silkline.frontier import (
    acts,
    commands,
    dead_letters,
    demand,
    explaining,
    flows,
    fsck,
    history,
    inspection,
    removal,
    roster,
)
from silkline.frontier.acts import Act
from silkline.frontier.answers import Answers
from silkline.frontier.commands import Command
from silkline.frontier.connection import AsyncConnection
from silkline.frontier.dead_letters import DeadCount, DeadGroup, GroupedBy
from silkline.frontier.demand import Demand
from silkline.frontier.effects import Disk, Flow, Scan, Stream, ask
from silkline.frontier.facts import Facts
from silkline.frontier.fsck import Checkup
from silkline.frontier.history import Counts, Levels, Point, add_answers, add_history
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import Stats
from silkline.frontier.letters import DeadLetter
from silkline.frontier.overflow import Overflow
from silkline.frontier.plan import Plan
from silkline.frontier.roster import DEFAULT_EXPIRY, Order, WorkerState
from silkline.frontier.sentences import Explanation
from silkline.frontier.server import Memory
from silkline.frontier.wishes import (
    DeadWishes,
    HostWishes,
    dead_filter,
    policy_words,
)

R = TypeVar("R")


class Overseeing:
    """The half of a `Frontier` that looks and steers."""

    _connection: AsyncConnection
    _plan: Plan
    _overflow: Overflow | None
    _clock: Callable[[], int] | None

    async def stats(self) -> Stats:
        return await self._run(inspection.stats(self._plan))

    async def dead(
        self, *, limit: int = 100, newest: int | None = None, **which: Unpack[DeadWishes]
    ) -> list[DeadLetter]:
        """Dead letters that match, newest first.

        A rare reason or status is looked for among all of them; with *newest*, among about so many.
        """
        return await self._run(dead_letters.dead(self._plan, dead_filter(which, self._now()), limit, newest))

    async def dead_groups(
        self, by: GroupedBy = "reason", *, limit: int = 20, name: str | None = None
    ) -> list[DeadGroup]:
        """The largest groups of dead letters, by reason or by host. The last one, without a name, counts all others.

        With a *name*, just the group of that name.

        Read off counts that are kept; however many letters there are, they are not looked at.
        """
        return await self._run(dead_letters.dead_groups(self._plan, by, limit, name))

    async def count_dead(self, **which: Unpack[DeadWishes]) -> DeadCount:
        """How many dead letters match, and what they are: to know before they are revived or purged."""
        return await self._run(dead_letters.count_dead(self._plan, dead_filter(which, self._now())))

    async def revive(self, **which: Unpack[DeadWishes]) -> int:
        """Return dead letters to their queues: all that match, or all. Attempts are counted anew, their history is kept."""
        return await self._run(dead_letters.end_dead(self._plan, dead_filter(which, self._now()), purge=False))

    async def purge(self, **which: Unpack[DeadWishes]) -> int:
        """Delete dead letters for good; their URLs stay seen. Answers how many."""
        return await self._run(dead_letters.end_dead(self._plan, dead_filter(which, self._now()), purge=True))

    async def hosts(self, *named: str, limit: int = 100) -> list[HostState]:
        """The hosts named, or up to *limit* of those that have something waiting, under way, or a pace of their own."""
        return await self._run(inspection.hosts(self._plan, limit, named))

    async def join(self, worker: str, *, info: Mapping[str, Any] | None = None, expires: float = DEFAULT_EXPIRY) -> int:
        """Tell that *worker* works on this crawl, for *expires* seconds unless told again. Answers how many others do.

        *info* is what is told of it to people: plain data, small. None leaves what was told before.
        """
        return await self._run(ask(roster.join(self._plan.keys, worker, expires, info)))

    async def leave(self, worker: str, *, shut: bool = False) -> int:
        """Tell that *worker* no longer works on this crawl. Answers how many others do.

        With *shut*, if there are none, nobody can join any more: `remove` the crawl, and it can be created anew.
        """
        return await self._run(ask(roster.leave(self._plan.keys, worker, shut=shut)))

    async def workers(self, *, limit: int = 100) -> list[WorkerState]:
        """Who works on this crawl, and who fell silent within the last hour; those heard of last come first."""
        return await self._run(ask(roster.workers(self._plan.keys, limit)))

    async def order(self, worker: str, order: Order) -> bool:
        """Order a worker to be ``quiet`` (claim nothing more), to ``stop`` (drain and leave), or to ``work`` on.

        It obeys when it looks next, within some seconds. False when there is no worker of this name.
        """
        answer = await self._run(ask(roster.order(self._plan.keys, worker, roster.check_order(order))))
        return answer != "unknown"

    async def ordered(self, worker: str) -> Order:
        """What a worker was ordered to do; ``work`` if nothing."""
        answer: Any = await self._run(ask(roster.order(self._plan.keys, worker, "")))
        return "work" if answer == "unknown" else answer

    async def add_history(self, counts: Counts, levels: Levels | None = None) -> None:
        """Add to the crawl's history what was done since it was told last, and how the crawl stands if one has looked."""
        await self._run(ask(add_history(self._plan.keys, counts, levels)))

    async def add_answers(self, answers: Mapping[str, Answers]) -> None:
        """Add to what hosts answered of late, by host; `hosts` tells it. The older fades, and of 100,000 hosts it is kept."""
        await self._run(add_answers(self._plan, answers))

    async def history(self, *, since: float = 3600.0, step: float | None = None) -> list[Point]:
        """What was done in the last *since* seconds, up to a day, in steps of *step* seconds, the oldest first.

        The last hour is kept in steps of 10 seconds, what is older in steps of 5 minutes; a larger *step* sums them up.
        """
        return await self._run(history.history(self._plan, since, step))

    async def demand(self) -> Demand:
        """How much work could be under way now, and how long the oldest of it has waited. Looks at some hosts, not all."""
        return await self._run(demand.demand(self._plan))

    async def fsck(self, *, repair: bool = False) -> Checkup:
        """Check the crawl for damage, and with *repair* put right what is wrong. Takes time, a little on the server at once."""
        return await self._run(fsck.fsck(self._plan, repair=repair))

    async def facts(self) -> list[Facts]:
        """What the server's nodes tell of themselves, for `silkline.operate.doctor`."""
        return await self._connection.examine()

    async def memory(self) -> Memory:
        """How much memory the server has in use, and how much it may use."""
        return await self._connection.memory()

    @property
    def timings(self) -> dict[str, Timing]:
        """How long calls of this frontier took, by script, from sending to the answer."""
        return self._connection.timings

    async def explain(
        self,
        request: str | Request,
        *,
        agent: str | None = None,
        attempts: int | None = None,
        identities: Sequence[bytes] = (),
    ) -> Explanation:
        """Where a request stands, and why it is not crawled yet.

        *agent* is who would fetch it, for what robots.txt says (the crawl's name unless told); *attempts* is how many there
        are at most; *identities* are others under which it may have been seen (see `Request.identity`).
        """
        return await self._run(explaining.explain(self._plan, request, self._now(), agent, attempts, identities))

    async def note_act(self, by: str, what: str, about: str = "") -> None:
        """Note what an operator did, so that others can be told: *what* is a verb, *about* a host or a filter."""
        await self._run(ask(acts.note_act(self._plan.keys.audit, by, what, about)))

    async def audit(self, *, limit: int = 100) -> list[Act]:
        """What operators did, the newest first. The last 1,000 acts are kept."""
        return await self._run(ask(acts.audit(self._plan.keys.audit, limit)))

    async def pause(self, host: str | None = None) -> None:
        """Hand out nothing more, of the crawl or of one host, until `resume`. Takes effect at once, everywhere."""
        if host is None:
            await self._run(flows.set_state(self._plan, "paused"))
        else:
            await self.set_host(host, paused=True)

    async def resume(self, host: str | None = None) -> None:
        if host is None:
            await self._run(flows.set_state(self._plan, "open"))
        else:
            await self.set_host(host, paused=False)

    async def cancel(self, host: str | None = None) -> int:
        """Drop all that waits, of the crawl (which then ends for good) or of one host. Answers how many requests."""
        if host is None:
            return await self._run(flows.cancel(self._plan))
        return await self._run(flows.discard(self._plan.shard_of(host), host))

    async def remove(self) -> None:
        """Destroy the crawl: all its requests, what it has seen, its settings and its name. There is no way back.

        Whoever still has it open gets `UnknownCrawl`, this frontier too; stop the workers first, or one that starts
        again may create the crawl anew.
        """
        await self._run(removal.remove(self._plan, self._overflow))

    async def set_host(self, host: str, **pace: Unpack[HostWishes]) -> HostState:
        """Give one host a pace of its own; None returns a field to the crawl's default.

        A *delay* is the last word: it holds whatever robots.txt asks for, and ends a slow-down.
        """
        words = policy_words(pace)
        await self._run(ask(commands.set_policy(self._plan.shard_of(host), host, words)))
        return await self._run(inspection.host_state(self._plan, host))

    async def set_politeness(self, politeness: Politeness) -> None:
        """Give the whole crawl another pace, for all who work on it and for good; hosts with a pace of their own keep it.

        A host that is resting does not rest longer for it, and no longer than the new delay.
        """
        self._plan = await self._run(flows.set_politeness(self._plan, politeness))

    def _now(self) -> float:
        return time.time() if self._clock is None else self._clock() / 1000

    async def _run(self, flow: Flow[R]) -> R:
        return await drive(self._connection, flow)


async def drive(connection: AsyncConnection, flow: Flow[R]) -> R:
    """Send what the flow yields and hand it the answers."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = flow.throw(error) if error else flow.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        answer, error = None, None
        try:
            if isinstance(effect, Command):
                answer = await connection.call(effect)
            elif isinstance(effect, Stream):
                answer = await connection.call_stream(effect.commands)
            elif isinstance(effect, Scan):
                answer = await connection.scan(effect.match, effect.position)
            elif isinstance(effect, Disk):
                answer = await asyncio.to_thread(effect.run)
            else:
                answer = await connection.call_all(effect)
        except Exception as raised:  # noqa: BLE001 - the flow decides, and raises it again if it has no answer
            error = raised
