"""What fetching is, whichever client does it: the protocol, what a page may cost, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from silkline.core.errors import ConfigError
from silkline.core.request import Request


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one page may cost. Everything that is sent to us is counted while it arrives, not when it is there."""

    timeout: float = 30.0
    """Seconds from the look-up of the address to the last byte. A request's own ``timeout`` goes before it."""
    connect_timeout: float = 10.0
    """Seconds for a connection, TLS included."""
    max_body: int = 16 * 2**20
    """Bytes of the body, as it is sent and as it is decompressed."""
    max_headers: int = 64 * 2**10
    """Bytes of the status line and the headers. A client that reads in large pieces may let one more piece pass."""
    min_rate: int = 100
    """Bytes a second of the body, judged over each window of *min_rate_window* seconds; 0 for any."""
    min_rate_window: float = 10.0

    def __post_init__(self) -> None:
        for name in ("timeout", "connect_timeout", "max_body", "max_headers", "min_rate_window"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.min_rate < 0:
            raise ConfigError(f"min_rate must be at least 0, got {self.min_rate}")


class Headers(Mapping[str, str]):
    """Headers of a response: names without regard to case, in the order they came, with repeats.

    ``headers["set-cookie"]`` is the first value, ``headers.get_all("set-cookie")`` are all of them, ``headers.pairs``
    everything as it came. Values are Latin-1 text, as HTTP has it. They are never more than text.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs: tuple[tuple[str, str], ...] | None = tuple(pairs)
        self._first: dict[str, str] | None = None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every name and value as they came."""
        if self._pairs is None:
            self._pairs = self._read()
        return self._pairs

    def _read(self) -> tuple[tuple[str, str], ...]:
        """For a client that reads its headers only when somebody asks."""
        return ()

    def _firsts(self) -> dict[str, str]:
        if self._first is None:
            self._first = {name.lower(): value for name, value in reversed(self.pairs)}
        return self._first

    def __getitem__(self, name: str) -> str:
        return self._firsts()[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._firsts()

    def __iter__(self) -> Iterator[str]:
        """Each name once, in lower case, in the order of first appearance."""
        return iter(dict.fromkeys(name.lower() for name, _ in self.pairs))

    def __len__(self) -> int:
        return len(self._firsts())

    def __repr__(self) -> str:
        return f"Headers({list(self.pairs)!r})"

    def get_all(self, name: str) -> list[str]:
        """Every value of *name*, in the order they came."""
        wanted = name.lower()
        return [value for found, value in self.pairs if found.lower() == wanted]


class Response(msgspec.Struct, frozen=True):
    """What a web server answered. A redirect is an answer like any other."""

    url: str
    status: int
    headers: Headers
    body: bytes
    """Decompressed; the headers still say how it was packed, and its length as it was sent."""
    elapsed: float
    """Seconds from the call to the last byte."""
    http_version: str = "HTTP/1.1"


class Fetcher(Protocol):
    """Fetches pages. One per worker process, used by many attempts at a time."""

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:
        """The answer to *request*, whatever its status, or a `FetchError` that says why there is none.

        With *cut* only so many bytes of the body are read, and a longer one is no error.

        It makes one HTTP request and follows no redirect: the target is a request of its own, with a host of its own.
        Cancelling it drops the connection.
        """

    async def close(self) -> None:
        """Close the connections."""
