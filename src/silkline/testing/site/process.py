"""SiteProcess: a site in a separate process, so that it does not share an event loop or a core with the crawl."""

from __future__ import annotations

import subprocess
import sys
from typing import Self

import msgspec

from silkline.errors import ConfigError
from silkline.testing.site.shop import Shop
from silkline.testing.site.visits import Visit, Visits


class SitePlan(msgspec.Struct, kw_only=True):
    """The site that the process serves."""

    site: Shop | str
    path: list[str] = []
    """Additional import paths of the process."""
    hosts: int = 1
    port: int = 0
    latency: float = 0.0


class SiteAddress(msgspec.Struct):
    """The address of the site."""

    url: str
    hosts: list[str]


class SiteProcess:
    """`LocalSite` in another process, which exits when this process ends for any reason.

    ::

        with SiteProcess(Shop(pages=5000, page_bytes=11_000, trouble=False)) as site:
            ...                                    # crawl site.url
            print(len(site.visits))

    *site* is a `Shop`, or the name of a function that returns routes for `LocalSite`: ``"tests.site:routes"`` is
    ``routes`` in the module ``tests.site``. The process imports it.
    """

    def __init__(
        self,
        site: Shop | str,
        *,
        hosts: int = 1,
        port: int = 0,
        latency: float = 0.0,
    ) -> None:
        self._plan = SitePlan(site=site, path=sys.path, hosts=hosts, port=port, latency=latency)
        self._process: subprocess.Popen[bytes] | None = None
        self._address: SiteAddress | None = None

    @property
    def url(self) -> str:
        """The URL of the front page."""
        return self._started().url

    @property
    def hosts(self) -> list[str]:
        """The hosts as in URLs, with the port."""
        return self._started().hosts

    def at(self, path: str, host: int | str = 0) -> str:
        """Return the URL of *path* on a host, given by number (from 0) or by name, such as ``a.localhost``."""
        port = self.hosts[0].rpartition(":")[2]
        return f"http://{self.hosts[host] if isinstance(host, int) else f'{host}:{port}'}{path}"

    @property
    def pid(self) -> int:
        """The process id of the site."""
        assert self._process is not None
        return self._process.pid

    @property
    def visits(self) -> Visits:
        """All requests so far, in order of arrival. Each access queries the process."""
        return Visits(msgspec.json.decode(self._ask("visits"), type=list[Visit]))

    def forget(self) -> None:
        """Clear the list of visits."""
        self._ask("forget")

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        command = [sys.executable, "-m", "silkline.testing.site", "--piped"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - our own
        answer = self._ask(msgspec.json.encode(self._plan).decode())
        self._address = msgspec.json.decode(answer, type=SiteAddress)

    def stop(self) -> None:
        """Stop the process."""
        process, self._process, self._address = self._process, None, None
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
            raise ConfigError("the site's process has ended; see its output above")
        return answer

    def _started(self) -> SiteAddress:
        if self._address is None:
            raise ConfigError("the site is not started: use it in a with statement")
        return self._address

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
