"""The gate: no page is fetched that robots.txt forbids, and robots.txt itself is fetched with a page's claim."""

from __future__ import annotations

import random
from collections.abc import Callable

from silkline.core.errors import FetchError
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.retries import Retries
from silkline.core.robots import MAX_BYTES
from silkline.core.robots_fetch import says_nothing
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.worker.answers import HostAnswers
from silkline.worker.fetch.fetcher import Fetcher
from silkline.worker.hops import Get, Hops
from silkline.worker.robots import Allowed, Answer, Denied, FetchFirst, RobotsKeeper, Unreachable, Wait
from silkline.worker.tally import Tally


class Gate:
    """Says what keeps a page from being fetched now, if anything does."""

    def __init__(self, keeper: RobotsKeeper, hops: Hops, retries: Retries, tally: Tally, answers: HostAnswers) -> None:
        self._keeper = keeper
        self._hops = hops
        self._retries = retries
        self._tally = tally
        self._answers = answers
        self._rng = random.Random()

    async def hindrance(self, lease: Lease, missed: Callable[[], Verdict | None]) -> Verdict | None:
        """The verdict on a page that must not be fetched now; None for one that may.

        *missed* says whether it is too late to begin anything with its claim, and what then becomes of it.
        """
        answer = await self._keeper.verdict(lease.url, lease)
        match answer:
            case Allowed():
                return None
            case FetchFirst():
                return await self._too_late(answer, missed) or await self._fetch(answer, lease)
            case Wait(after):
                return Release(after)
            case Denied(reason):
                return self._denied(lease, reason)
            case Unreachable(after, reason):
                return self._unreachable(lease, after, reason)

    def _denied(self, lease: Lease, reason: str) -> Verdict:
        """A link that is forbidden is an ordinary day; of a start URL somebody should know."""
        self._tally.robots_denied += 1
        return Bury(reason) if lease.request.depth == 0 else Complete()

    def _unreachable(self, lease: Lease, after: float, reason: str) -> Verdict:
        self._tally.errors["robots.txt"] += 1
        verdict = self._retries.backoff.decide(attempt=lease.attempt, reason=reason, rng=self._rng)
        return RetryIn(after, reason) if isinstance(verdict, RetryIn) else verdict

    async def _too_late(self, first: FetchFirst, missed: Callable[[], Verdict | None]) -> Verdict | None:
        """robots.txt begins within the window of its claim like any page, or somebody else fetches it."""
        verdict = missed()
        if verdict:
            await self._keeper.give_back(first)
        return verdict

    async def _fetch(self, first: FetchFirst, lease: Lease) -> Verdict:
        """A host that does not answer at all is asked again as a page of it would be.

        That its robots.txt cannot be had counts among its answers, for nothing else is asked of it then. That there is one,
        or none, is no sign of how its pages do.
        """
        self._tally.robots_fetched += 1

        follow = self._hops.trail()

        async def get(url: str) -> Answer:
            try:
                answer = await follow(url)
            except FetchError:
                self._answers.note(lease.host, None)
                raise
            if says_nothing(answer.status):
                self._answers.note(lease.host, answer.status)
            return answer

        def again(error: FetchError) -> float:
            verdict = self._retries.after_error(error, attempt=lease.attempt, rng=self._rng)
            return verdict.after if isinstance(verdict, RetryIn) else 0.0

        await self._keeper.fetch(first, get, attempt=lease.attempt, again=again)
        return Release()


def getter(fetcher: Fetcher, user_agent: str) -> Get:
    """Fetches what robots.txt needs of a URL; a body that is too long is cut."""

    async def get(url: str) -> Answer:
        response = await fetcher.fetch(Request(url), user_agent=user_agent, cut=MAX_BYTES)
        return Answer(response.status, response.body, response.headers.get("location"))

    return get
