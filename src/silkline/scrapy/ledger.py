"""The ledger: what Scrapy did with what it was handed, in the numbers of a crawl's history."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from silkline.core.errors import RequestError
from silkline.core.timing import Timing
from silkline.core.url import parse
from silkline.frontier.history import Counts, coarse_counts
from silkline.worker.answers import HostAnswers


class Ledger:
    """Counts on the reactor, and nothing else: no page waits for it. `counts` may be asked for on any thread."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._latency = Timing()
        self._busy_seconds = 0.0
        self.answers = HostAnswers()
        """What hosts answered since it was told last."""

    @property
    def counts(self) -> Counts:
        """All so far."""
        latency = msgspec.structs.replace(self._latency, counts=self._latency.counts.copy())
        return msgspec.structs.replace(
            self._counts,
            fetched=latency.count,
            fetch_ms=round(latency.seconds * 1000),
            busy_ms=round(self._busy_seconds * 1000),
            **coarse_counts(latency),
        )

    # ── on the reactor ──

    def listen(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._note_answer, signals.response_downloaded)
        crawler.signals.connect(self._note_item, signals.item_scraped)

    def _note_answer(self, response: Response, request: Request) -> None:
        """Whatever a web server said, before Scrapy's middlewares make a redirect or another attempt of it."""
        name = f"status_{response.status // 100}xx"
        if name in _STATUSES:
            setattr(self._counts, name, getattr(self._counts, name) + 1)
        latency: Any = request.meta.get("download_latency")
        if isinstance(latency, float | int):
            self._latency.note(latency)
        with suppress(RequestError):  # data:, file: and the like
            self.answers.note(parse(request.url).host, response.status)

    def _note_item(self) -> None:
        self._counts.items += 1

    def note_end(self, response: Response | None, seconds: float, *, failed: bool) -> None:
        """Scrapy is through with a request that it had for so many seconds, and has a response to show or none."""
        self._busy_seconds += seconds
        if response is not None:
            self._counts.bytes += len(response.body)
        if failed:
            self._counts.errors += 1
        elif response is not None:
            self._counts.pages += 1

    def note_retry(self) -> None:
        """Scrapy tries again what it could not fetch."""
        self._counts.retried += 1
        self._counts.errors += 1


_STATUSES = frozenset(name for name in Counts.__struct_fields__ if name.startswith("status_"))
