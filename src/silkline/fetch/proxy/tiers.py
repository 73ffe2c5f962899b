"""ProxyTiers: pools of proxies of which the later ones are used only for hosts that block the earlier ones.

All hosts begin at the first tier. A page that is blocked is released, and claimed again like any page, so politeness does not depend on
tiers. After several blocks of a host in a row, without another response in between, the host moves to the next tier, for an hour. The
workers of a crawl share this. A page that is blocked while others of its host are not is forbidden rather than blocked: after two more tries,
its response counts. So does each response of the last tier.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from silkline.core.proxy_health import TIER_LASTS, ProxyNews
from silkline.errors import ProxyFailure
from silkline.fetch.fetcher import Response
from silkline.fetch.proxies import Download, Proxies
from silkline.fetch.proxy.fleet import ShareProxies
from silkline.fetch.proxy.pool import IN_A_ROW, MOST_HOSTS, MOST_PAGES, Check, ProxyPool, ProxyUse

log = logging.getLogger(__name__)

V = TypeVar("V")


class HostTier:
    """The tier of a host that has blocked proxies."""

    __slots__ = ("blocks", "tier", "until")

    def __init__(self) -> None:
        self.tier = 0
        self.until = float("inf")
        """When it begins at the first tier again."""
        self.blocks = 0
        """Blocks in a row at this tier."""


class ProxyTiers:
    """Several pools, with the face of one. Sharing starts when `share_health` runs."""

    def __init__(
        self, proxies: Proxies, check: Check, download: Download, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pools = [
            ProxyPool(tier, check, download, clock, tier=number, learn_tier=self._learn)
            for number, tier in enumerate(proxies.tiers)
        ]
        self._blocks = proxies.is_block
        self._clock = clock
        self._hosts: OrderedDict[str, HostTier] = OrderedDict()
        self._pages: OrderedDict[str, int] = OrderedDict()
        """How often pages were blocked, by URL."""
        self._used = {0}

    def pool_of(self, host: str) -> ProxyPool:
        """Return the pool through which a host is fetched now."""
        known = self._hosts.get(host)
        return self.pools[self._tier(known) if known else 0]

    def _tier(self, known: HostTier) -> int:
        if self._clock() >= known.until:
            known.tier, known.blocks, known.until = 0, 0, float("inf")
        return known.tier

    def judge_block(self, pool: ProxyPool, use: ProxyUse, response: Response) -> ProxyFailure | None:
        """Return the reason to fetch a page again, because its host blocks the proxies of this tier; None if its response counts."""
        known = self._hosts.get(use.host)
        if not self._blocks(response):
            if known:
                known.blocks = 0
            self._pages.pop(response.url, None)
            return None
        tier = pool.tier
        if tier + 1 == len(self.pools):
            return None
        failure = ProxyFailure(f"{use.host} blocks the proxy {use.proxy} (status {response.status})", 0.0)
        known = known or _keep(self._hosts, use.host, HostTier(), MOST_HOSTS)
        if self._tier(known) > tier:
            return failure
        known.blocks += 1
        if known.blocks >= IN_A_ROW:
            self._move(use.host, known, tier + 1, TIER_LASTS)
            self.pools[0].report_tier(use.host, tier + 1)
            return failure
        tries = self._pages.pop(response.url, 0) + 1
        if tries >= IN_A_ROW:
            return None
        _keep(self._pages, response.url, tries, MOST_PAGES)
        return failure

    def _move(self, host: str, known: HostTier, tier: int, seconds: float) -> None:
        known.tier, known.blocks, known.until = tier, 0, self._clock() + seconds
        self._used.add(tier)
        log.info("%s blocks the proxies of tier %d: for an hour, it is fetched through tier %d", host, tier, tier + 1)

    def _learn(self, news: ProxyNews) -> None:
        """Take over the tier of a host that another worker has moved."""
        known = self._hosts.get(news.proxy) or _keep(self._hosts, news.proxy, HostTier(), MOST_HOSTS)
        tier = min(news.failures, len(self.pools) - 1)
        if tier > self._tier(known):
            self._move(news.proxy, known, tier, news.seconds)

    # ── the face of a pool ──

    @property
    def room(self) -> int | None:
        """The number of fetches that may be in progress; None for any number."""
        rooms = [self.pools[tier].room for tier in self._used]
        return None if None in rooms else sum(room or 0 for room in rooms)

    @property
    def trouble(self) -> str:
        """Why pages cannot be fetched through a tier that is used, in words; empty if all of them work."""
        return next((trouble for tier in sorted(self._used) if (trouble := self.pools[tier].trouble)), "")

    async def share_health(self, share: ShareProxies) -> None:
        """Share what is known with the other workers of the crawl, until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            for pool in self.pools:
                group.create_task(pool.share_health(share))

    async def report_rest(self) -> None:
        """Report the last counts."""
        for pool in self.pools:
            await pool.report_rest()

    def close(self) -> None:
        """End what is in progress besides fetches."""
        for pool in self.pools:
            pool.close()


ProxyPools: TypeAlias = ProxyPool | ProxyTiers


def open_pools(proxies: Proxies, check: Check, download: Download) -> ProxyPools:
    """Return the pool of these proxies, or their pools if they have tiers."""
    return (ProxyTiers if proxies.tiers else ProxyPool)(proxies, check, download)


def _keep(kept: OrderedDict[str, V], key: str, value: V, most: int) -> V:
    """Keep a value, and drop the oldest one if there are too many."""
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
    return value
