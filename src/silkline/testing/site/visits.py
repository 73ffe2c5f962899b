"""What a `LocalSite` saw: every request, and how politely they came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import overload

import msgspec

_HOST = re.compile(rb"\r\n[Hh][Oo][Ss][Tt]: *([^\r]*)")


class Visit(msgspec.Struct, dict=True):
    """One request as the web server saw it. Kept as it came; read when somebody asks."""

    at: float
    """When its head had arrived: seconds on the machine's monotonic clock, the same in all its processes."""
    head: bytes
    body: bytes = b""
    in_flight: int = 1
    """How many requests to the same host the site was answering then, this one included."""
    address: str = ""
    """The loopback address it came to, whatever host it named."""

    @cached_property
    def method(self) -> str:
        return self.head[: self.head.index(b" ")].decode("latin-1")

    @cached_property
    def path(self) -> str:
        """Path and query, as asked for."""
        start = self.head.index(b" ") + 1
        return self.head[start : self.head.index(b" ", start)].decode("latin-1")

    @cached_property
    def headers(self) -> dict[str, str]:
        """By lower-case name; the values of a repeated one joined with a comma."""
        headers: dict[str, str] = {}
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                name, value = name.lower(), value.strip()
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    @cached_property
    def host(self) -> str:
        """As in the URL, with the port: the key of politeness."""
        found = _HOST.search(self.head)
        return found.group(1).decode("latin-1") if found else ""


class Visits(Sequence[Visit]):
    """Requests in the order of their arrival, with the questions that a test of politeness asks."""

    def __init__(self, visits: Iterable[Visit] = ()) -> None:
        self._visits = list(visits)
        self.add = self._visits.append

    @overload
    def __getitem__(self, index: int) -> Visit: ...
    @overload
    def __getitem__(self, index: slice) -> Visits: ...
    def __getitem__(self, index: int | slice) -> Visit | Visits:
        return Visits(self._visits[index]) if isinstance(index, slice) else self._visits[index]

    def __len__(self) -> int:
        return len(self._visits)

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._visits)

    @property
    def hosts(self) -> set[str]:
        return {visit.host for visit in self}

    @property
    def paths(self) -> list[str]:
        return [visit.path for visit in self]

    def to(self, host: str | None = None, path: str | None = None) -> Visits:
        """Only those to *host* (as in its URLs, with the port) and to *path*."""
        return Visits(
            visit
            for visit in self
            if (host is None or visit.host == host) and (path is None or visit.path.partition("?")[0] == path)
        )

    def gaps(self, host: str | None = None) -> list[float]:
        """Seconds between the starts of neighbouring requests to one host; over all hosts unless one is named."""
        found = []
        for name in [host] if host is not None else sorted(self.hosts):
            times = [visit.at for visit in self.to(name)]
            found += [later - earlier for earlier, later in pairwise(times)]
        return found

    def smallest_gap(self, host: str | None = None) -> float:
        """The shortest of the `gaps`; infinite when no host was asked twice."""
        return min(self.gaps(host), default=float("inf"))

    def greatest_concurrency(self, host: str | None = None) -> int:
        """The most requests to one host that were being answered at the same time."""
        return max((visit.in_flight for visit in (self if host is None else self.to(host))), default=0)
