"""Hops: where redirects of a robots.txt lead. No claim is behind them, so the worker that follows them paces them itself.

robots.txt is fetched with the claim of a page. A redirect of it is a further request, to the same host or to another one,
which the frontier has not spaced. So each hop begins a delay after the answer to the one before it on its host, and a
host's robots.txt counts as fetched only a delay after its last hop: no page of it is fetched meanwhile. On other hosts the
hops of this worker are spaced among themselves, and where many origins lead to one file it is fetched once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from silkline.core.robots_fetch import MAX_HOPS
from silkline.core.url import parse
from silkline.worker.robots import Answer

LONGEST = 60.0
"""Seconds between two hops, at most."""
MOST_HOSTS, MOST_ANSWERS = 1_000, 32
REMEMBERED = 600.0
"""Seconds for which an answer on another host serves whoever else is led to it."""

Get = Callable[[str], Awaitable[Answer]]


def time_for(delay: float) -> float:
    """Seconds that a robots.txt with as many hops as are followed takes because of them."""
    return (MAX_HOPS + 1) * min(delay, LONGEST)


class Turns:
    """One host to which hops lead: they take turns."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.opens = 0.0


class Hops:
    """The hops of one worker. *get* fetches a URL, requests to a host are to be *delay* seconds apart."""

    def __init__(self, get: Get, delay: float) -> None:
        self._get = get
        self._delay = min(delay, LONGEST)
        self._hosts: OrderedDict[str, Turns] = OrderedDict()
        self._answers: OrderedDict[str, tuple[float, Answer]] = OrderedDict()

    def trail(self) -> Get:
        """Fetches one robots.txt: the first URL with the claim of a page, and from there on hop by hop."""
        home = ""

        async def follow(url: str) -> Answer:
            nonlocal home
            host = parse(url).host
            if not home:
                home = host
                return await self._fetch(url, self._turns_of(host))
            return await (self._at_home(url, host) if host == home else self._abroad(url, host))

        return follow

    async def _at_home(self, url: str, host: str) -> Answer:
        turns = self._turns_of(host)
        async with turns.lock:
            await _until(turns.opens)
            answer = await self._fetch(url, turns)
            await _until(turns.opens)
        return answer

    async def _abroad(self, url: str, host: str) -> Answer:
        turns = self._turns_of(host)
        async with turns.lock:
            known = self._remembered(url)
            if known:
                return known
            await _until(turns.opens)
            answer = await self._fetch(url, turns)
        self._answers[url] = (time.monotonic() + REMEMBERED, answer)
        while len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)
        return answer

    async def _fetch(self, url: str, turns: Turns) -> Answer:
        try:
            return await self._get(url)
        finally:
            turns.opens = time.monotonic() + self._delay

    def _remembered(self, url: str) -> Answer | None:
        until, answer = self._answers.get(url, (0.0, None))
        return answer if until > time.monotonic() else None

    def _turns_of(self, host: str) -> Turns:
        turns = self._hosts.setdefault(host, Turns())
        self._hosts.move_to_end(host)
        while len(self._hosts) > MOST_HOSTS:
            self._hosts.popitem(last=False)
        return turns


async def _until(moment: float) -> None:
    wait = moment - time.monotonic()
    if wait > 0:
        await asyncio.sleep(wait)
