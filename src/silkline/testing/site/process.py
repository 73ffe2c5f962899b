"""SiteProcess: a site in a process of its own, so that it and the crawl do not share a core or a loop."""

from __future__ import annotations

import subprocess
import sys
from typing import Self

import msgspec

from silkline.core.errors import ConfigError
from silkline.testing.site.shop import Shop
from silkline.testing.site.visits import Visit, Visits


class Plan(msgspec.Struct, kw_only=True):
    """What the process is to serve."""

    shop: Shop | None = None
    hostile: bool = False
    hosts: int = 1
    port: int = 0
    latency: float = 0.0


class Place(msgspec.Struct):
    """Where the process serves it."""

    url: str
    hosts: list[str]


class SiteProcess:
    """`LocalSite` in another process; it ends when this one does, however that ends.

    ::

        with SiteProcess(Shop(pages=5000, page_bytes=11_000, trouble=False)) as site:
            ...                                    # crawl site.url
            print(len(site.visits))

    Without a *shop* it serves the hostile pages of `silkline.testing.site.hostile`.
    """

    def __init__(self, shop: Shop | None = None, *, hosts: int = 1, port: int = 0, latency: float = 0.0) -> None:
        self._plan = Plan(shop=shop, hostile=shop is None, hosts=hosts, port=port, latency=latency)
        self._process: subprocess.Popen[bytes] | None = None
        self._place: Place | None = None

    @property
    def url(self) -> str:
        """The URL of its front page."""
        return self._started().url

    @property
    def hosts(self) -> list[str]:
        """Its hosts as they are written in URLs, with the port."""
        return self._started().hosts

    def at(self, path: str, host: int | str = 0) -> str:
        """The URL of *path* on the host of that number (from 0), or of that name, such as ``a.localhost``."""
        port = self.hosts[0].rpartition(":")[2]
        return f"http://{self.hosts[host] if isinstance(host, int) else f'{host}:{port}'}{path}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def visits(self) -> Visits:
        """Every request so far, in the order of arrival; asked of the process each time."""
        return Visits(msgspec.json.decode(self._ask("visits"), type=list[Visit]))

    def forget(self) -> None:
        """Begin a new list of visits."""
        self._ask("forget")

    def start(self) -> None:
        """Start the process and wait until it serves."""
        command = [sys.executable, "-m", "silkline.testing.site", "--piped"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours
        answer = self._ask(msgspec.json.encode(self._plan).decode())
        self._place = msgspec.json.decode(answer, type=Place)

    def stop(self) -> None:
        """End the process."""
        process, self._process, self._place = self._process, None, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()

    def _ask(self, line: str) -> bytes:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ConfigError("the site's process has ended") from None
        if not (answer := self._process.stdout.readline()):
            raise ConfigError("the site's process has ended; what it said is above")
        return answer

    def _started(self) -> Place:
        if self._place is None:
            raise ConfigError("the site is not started: use it in a with statement")
        return self._place

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
