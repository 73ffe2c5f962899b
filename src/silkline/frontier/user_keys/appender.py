"""KeyAppender: append to a list or stream that belongs to the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from silkline.errors import StoreUnavailable
from silkline.frontier.arguments import embedded_in
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.transport.clients import open_sync, sentinels_of, wrong_url
from silkline.frontier.transport.redis_url import RedisTarget, read_url

R = TypeVar("R")


class KeyAppender:
    """Appends to keys, from sync code. A call that fails may still have run, so a retry can append the same values twice."""

    def __init__(self, target: RedisTarget, embedded: EmbeddedServer | None = None) -> None:
        self._target = target
        self._embedded = embedded
        self._client = open_sync(target)

    @classmethod
    def open(cls, url: str) -> Self:
        """Connect to the server of a crawl. An embedded server runs until this is closed."""
        directory = embedded_in(url)
        embedded = EmbeddedServer.join(directory) if directory else None
        try:
            return cls(read_url(embedded.url if embedded else url), embedded)
        except BaseException:
            if embedded:
                embedded.leave()
            raise

    def type_of(self, key: str) -> str:
        """Return the type of a key as Redis names it: ``none``, ``list``, ``stream``, ..."""
        answer = self._ask(lambda: self._client.type(key))
        return answer.decode() if isinstance(answer, bytes) else str(answer)

    def push(self, key: str, values: Sequence[bytes], longest: int | None = None) -> None:
        """Append to the end of a list, atomically; only the newest *longest* entries stay."""

        def send() -> None:
            with self._client.pipeline(transaction=True) as batch:
                batch.rpush(key, *values)
                if longest:
                    batch.ltrim(key, -longest, -1)
                batch.execute()

        self._ask(send)

    def add(self, key: str, entries: Sequence[dict[Any, Any]], longest: int | None = None) -> None:
        """Append to a stream, atomically; only the newest *longest* entries stay."""

        def send() -> None:
            with self._client.pipeline(transaction=True) as batch:
                for entry in entries:
                    batch.xadd(key, entry)
                if longest:
                    batch.xtrim(key, maxlen=longest, approximate=False)
                batch.execute()

        self._ask(send)

    def _ask(self, call: Callable[[], R]) -> R:
        try:
            with wrong_url(self._target):
                return call()
        except StoreUnavailable:
            if self._embedded:
                self._embedded.ensure()
            raise

    def close(self) -> None:
        self._client.close()
        for sentinel in sentinels_of(self._client):
            sentinel.close()
        if self._embedded:
            self._embedded.leave()
            self._embedded = None
