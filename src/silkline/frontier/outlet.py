"""Outlet: a list or stream of the user's own on the server. The only keys we write that are not a crawl's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from silkline.core.errors import StoreUnavailable
from silkline.frontier.address import Target, read_url
from silkline.frontier.clients import open_sync, sentinels_of, wrong_url
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.wishes import embedded_in

R = TypeVar("R")


class Outlet:
    """Appends to keys, for plain code. A call that failed may have been done: what is appended may be there twice."""

    def __init__(self, target: Target, embedded: EmbeddedServer | None = None) -> None:
        self._target = target
        self._embedded = embedded
        self._client = open_sync(target)

    @classmethod
    def open(cls, url: str) -> Self:
        """At the address of a crawl's server; an embedded one runs until this is closed."""
        directory = embedded_in(url)
        embedded = EmbeddedServer.join(directory) if directory else None
        try:
            return cls(read_url(embedded.url if embedded else url), embedded)
        except BaseException:
            if embedded:
                embedded.leave()
            raise

    def type_of(self, key: str) -> str:
        """``none``, ``list``, ``stream`` ..."""
        answer = self._ask(lambda: self._client.type(key))
        return answer.decode() if isinstance(answer, bytes) else str(answer)

    def push(self, key: str, values: Sequence[bytes]) -> None:
        """To the end of a list, all at once."""
        self._ask(lambda: self._client.rpush(key, *values))

    def add(self, key: str, entries: Sequence[dict[Any, Any]]) -> None:
        """To a stream, all at once."""

        def send() -> None:
            with self._client.pipeline(transaction=True) as batch:
                for entry in entries:
                    batch.xadd(key, entry)
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
