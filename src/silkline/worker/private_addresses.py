"""Whether a worker may fetch private addresses: as its file says, until an operator allows or refuses them for the crawl."""

from __future__ import annotations

import logging
from contextlib import suppress

import msgspec

from silkline.errors import StoreUnavailable
from silkline.fetch.fetcher import Fetcher
from silkline.frontier.frontier import Frontier
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.failures import UnmetNeeds

log = logging.getLogger(__name__)


class PrivateAddresses:
    """Applies the setting of the crawl to the fetcher of this worker, and to the pages that it gives back."""

    def __init__(self, crawl: Crawl, frontier: Frontier, needs: UnmetNeeds) -> None:
        self._crawl = crawl
        self._frontier = frontier
        self._needs = needs
        self._crawl_allows: bool | None = None  # at the last check; None if neither a run nor an operator has decided

    async def read(self) -> None:
        """Read the setting before the worker starts. If the server is unavailable, the first `update` reads it."""
        with suppress(StoreUnavailable):
            self._crawl_allows = (await self._frontier.admin.run_options()).allow_private
            self._note()

    async def update(self, fetcher: Fetcher) -> None:
        """Apply the setting after an operator has changed it."""
        before, self._crawl_allows = self._crawl_allows, (await self._frontier.admin.run_options()).allow_private
        self._note()
        allowed = self._crawl_allows is True
        if allowed in (before is True, self._crawl.fetching.allow_private):
            return
        permit = getattr(fetcher, "allow_private", None)
        if permit is None:
            log.warning(
                "private addresses are %s for the crawl now, but the fetcher of this worker cannot change that; restart this worker",
                "allowed" if allowed else "refused",
            )
            return
        permit(allowed)
        self._crawl.fetching = msgspec.structs.replace(self._crawl.fetching, allow_private=allowed)
        self._note()
        log.warning("private addresses are %s from now on, as an operator has set", "allowed" if allowed else "refused")

    def _note(self) -> None:
        """Note for pages with a private address who may fetch them."""
        self._needs.others_may_fetch_private = self._crawl_allows is True and not self._crawl.fetching.allow_private
        self._needs.permission_is_open = self._crawl_allows is None
