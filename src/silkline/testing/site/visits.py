"""The requests that a `LocalSite` received, with their gaps and concurrency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import overload

import msgspec

_HOST = re.compile(rb"\r\n[Hh][Oo][Ss][Tt]: *([^\r]*)")


class Visit(msgspec.Struct, dict=True):
    """One request as the web server received it. It is parsed only when its fields are read.

    - *at*: when it arrived, in seconds of the machine's monotonic clock, which all processes share. On Linux, the time comes from the
      kernel if the site was too busy to read the request at once.
    - *head*, *body*: its bytes.
    - *in_flight*: number of requests to the same host in progress at that time, including this one.
    - *address*: the loopback address that received it.
    """

    at: float
    head: bytes
    body: bytes = b""
    in_flight: int = 1
    address: str = ""

    @cached_property
    def method(self) -> str:
        """The method, such as GET."""
        return self.head[: self.head.index(b" ")].decode("latin-1")

    @cached_property
    def path(self) -> str:
        """Path and query."""
        start = self.head.index(b" ") + 1
        return self.head[start : self.head.index(b" ", start)].decode("latin-1")

    @cached_property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name; repeated values are joined with a comma."""
        headers: dict[str, str] = {}
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                name, value = name.lower(), value.strip()
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    @cached_property
    def host(self) -> str:
        """The host as in the URL, with the port; politeness applies to it."""
        found = _HOST.search(self.head)
        return found.group(1).decode("latin-1") if found else ""


class Visits(Sequence[Visit]):
    """Requests in order of arrival, with methods for tests of politeness."""

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
        """Return only the requests to *host* (as in URLs, with the port) and *path*."""
        return Visits(
            visit
            for visit in self
            if (host is None or visit.host == host) and (path is None or visit.path.partition("?")[0] == path)
        )

    def gaps(self, host: str | None = None) -> list[float]:
        """Return the seconds between successive requests to one host; for all hosts if none is given."""
        found = []
        for name in [host] if host is not None else sorted(self.hosts):
            times = sorted(visit.at for visit in self.to(name))
            found += [later - earlier for earlier, later in pairwise(times)]
        return found

    def smallest_gap(self, host: str | None = None) -> float:
        """Return the shortest of the `gaps`; infinite if no host received two requests."""
        return min(self.gaps(host), default=float("inf"))

    def greatest_concurrency(self, host: str | None = None) -> int:
        """Return the maximum number of requests to one host in progress at the same time."""
        return max((visit.in_flight for visit in (self if host is None else self.to(host))), default=0)
