"""Proxies: how a proxy is written, and where a crawl has its proxies from. No text has a password."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote, urlsplit

from silkline.core.proxy_health import MOST_TIERS
from silkline.errors import ConfigError
from silkline.fetch.fetcher import Response

PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
"""The schemes of proxies, and their default ports."""
FILE, URL = "file:", "url:"
"""The beginnings of sources that are lists of proxies."""
_PARTS_OF_LINE = 4

_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]*:[0-9a-f:.]*")
_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?![^/?#])")

log = logging.getLogger(__name__)

Rotation = Literal["request", "host", "session"]
Download: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the text at a URL."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, as it is read from its URL. Its text is the URL without user and password."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL with user and password."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user or self.password else ""
        return f"{self.scheme}://{login}{self.host}:{self.port}"

    @property
    def looks_up_names(self) -> bool:
        """Whether the proxy looks up the names of hosts, so that the guard cannot check their addresses."""
        return self.scheme != "socks5"


def read_proxy(text: object) -> Proxy:
    """Return the proxy that *text* names: ``http://USER:PASSWORD@HOST:PORT``, or ``HOST:PORT``. Errors contain no password."""
    if not isinstance(text, str):
        raise ConfigError(f"a proxy must be a URL such as http://USER:PASSWORD@HOST:PORT, got {type(text).__name__}")
    try:
        parts = urlsplit(text.strip() if "://" in text else f"http://{text.strip()}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if (
        not _HOST.fullmatch(host)
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or ("@" in text and "://" not in text)
    ):
        raise ConfigError(
            f"{_masked(text)} is not the URL of a proxy; write http://USER:PASSWORD@HOST:PORT, with special characters "
            "percent-encoded"
        )
    if parts.scheme not in PORTS:
        raise ConfigError(
            f"{_masked(text)} is not the URL of a proxy: use one of {', '.join(f'{one}://' for one in PORTS)}"
        )
    host = f"[{host}]" if ":" in host else host
    return Proxy(
        parts.scheme, host, port or PORTS[parts.scheme], unquote(parts.username or ""), unquote(parts.password or "")
    )


def proxy_names(proxies: Iterable[Proxy]) -> list[str]:
    """Return names without user and password. Of several with the same address, all but the first have a number."""
    seen: Counter[str] = Counter()
    names = []
    for proxy in proxies:
        address = str(proxy)
        seen[address] += 1
        names.append(address if seen[address] == 1 else f"{address}#{seen[address]}")
    return names


def _masked(text: str) -> str:
    """Return what can be shown of text that is not the URL of a proxy."""
    scheme, mark, rest = text.strip().rpartition("://")
    _, at, place = rest.rpartition("@")
    shown = _PLACE.match(place)
    if not re.fullmatch(r"[\w+.-]*", scheme) or not shown:
        return "what is given"
    more = "…" if len(shown[0]) < len(place) else ""
    return repr(f"{scheme}{mark}{'***@' if at else ''}{shown[0]}{more}"[:200])


class Proxies:
    """The proxies of a crawl, and how they take turns.

    *source* is the URL of a proxy, a list of them, ``"file:proxies.txt"`` or ``"url:https://…"`` for a list with one proxy on each line, or a
    function (also an async one) that returns URLs of proxies. Lists that are not written in the program are read again after *refresh*
    seconds.

    With *tiers*, a list of such sources or `Proxies`, all hosts are fetched through the first, and only those that block it through the next.
    *blocked* says which responses are blocks: statuses, or a function that takes the `Response`.

    *rotate* is ``request`` (each request takes the next proxy), ``host`` (a host stays with one proxy as long as that works), or ``session``
    (requests with the same ``meta["session"]`` stay with one). *concurrency* is how many fetches one worker may have in progress through
    one proxy; None for any number.
    """

    def __init__(
        self,
        source: str | Sequence[str] | Callable[[], Any] = (),
        *,
        tiers: Sequence[str | Sequence[str] | Callable[[], Any] | Proxies] = (),
        blocked: Collection[int] | Callable[[Response], object] = (403,),
        rotate: Rotation = "request",
        concurrency: int | None = None,
        refresh: float = 300.0,
    ) -> None:
        if rotate not in get_args(Rotation):
            raise ConfigError(f"rotate must be one of {', '.join(get_args(Rotation))}, got {rotate!r}")
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise ConfigError(f"the concurrency of a proxy must be at least 1, or None, got {concurrency!r}")
        if not refresh > 0:
            raise ConfigError(f"refresh must be a number of seconds above 0, got {refresh!r}")
        if isinstance(source, list | tuple) and len(source) == 1:
            source = source[0]
        self.rotate = rotate
        self.concurrency = concurrency
        self.refresh = refresh
        self._source = source
        self.tiers = self._check_tiers(source, tiers)
        """The tiers, the first one first; empty for proxies that are all alike."""
        self._blocked = blocked if callable(blocked) else check_statuses(blocked)
        self.listed: list[Proxy] = []
        """The proxies that are known before the crawl runs."""
        self._place = ""
        if self.tiers:
            self.listed = [proxy for tier in self.tiers for proxy in tier.listed]
        elif isinstance(source, str) and source.startswith(URL):
            self._place = _check_list_url(source)
        elif isinstance(source, str) and source.startswith(FILE):
            self._place = source
            self.listed = _read_list(_read_file(source), source)
        elif callable(source):
            self._place = f"the function {getattr(source, '__name__', 'of the crawl')}"
        else:
            self.listed = [read_proxy(url) for url in (source if isinstance(source, list | tuple) else [source])]
            if not self.listed:
                raise ConfigError("the list of proxies is empty; leave proxy out to fetch without one")

    def _check_tiers(self, source: object, tiers: Sequence[Any]) -> list[Proxies]:
        if not tiers:
            return []
        if source != ():
            raise ConfigError("proxies have either a source or tiers, not both")
        if isinstance(tiers, str) or not 2 <= len(tiers) <= MOST_TIERS:
            raise ConfigError(f"tiers must be a list of 2 to {MOST_TIERS} sources of proxies, the first one first")
        more: dict[str, Any] = {"rotate": self.rotate, "concurrency": self.concurrency, "refresh": self.refresh}
        found = [tier if isinstance(tier, Proxies) else Proxies(tier, **more) for tier in tiers]
        if any(tier.tiers for tier in found):
            raise ConfigError("a tier of proxies cannot have tiers")
        return found

    def is_block(self, response: Response) -> bool:
        """Return whether a host refuses the address of a proxy with this response."""
        if not callable(self._blocked):
            return response.status in self._blocked
        try:
            return bool(self._blocked(response))
        except Exception as error:  # noqa: BLE001 - the user's function
            log.warning("the function that recognizes blocked responses raised %r for %s", error, response.url)
            return False

    @classmethod
    def of(cls, given: str | Sequence[str] | Callable[[], Any] | Proxies) -> Proxies:
        """Return *given* as `Proxies`."""
        return given if isinstance(given, Proxies) else cls(given)

    @property
    def changes(self) -> bool:
        """Whether the list must be read again and again."""
        return bool(self._place)

    async def load(self, download: Download) -> list[Proxy]:
        """Return the proxies as they are listed now. Raises `ConfigError` for a list that cannot be used, without passwords."""
        source: Any = self._source
        if callable(source):
            found = await asyncio.to_thread(source) if not inspect.iscoroutinefunction(source) else await source()
            lines: Iterable[Any] = await found if inspect.isawaitable(found) else found
            if isinstance(lines, str):
                lines = lines.splitlines()
            return _check_list([read_proxy(line) for line in lines], self._place)
        if source.startswith(URL):
            return _read_list(await download(source.removeprefix(URL)), self._place)
        return _read_list(await asyncio.to_thread(_read_file, source), self._place)

    def __repr__(self) -> str:
        if self.tiers:
            return f"Proxies(tiers={self.tiers!r})"
        some = self._place or ", ".join(map(str, self.listed[:3])) + (", …" if len(self.listed) > 3 else "")
        return f"Proxies({some})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxies) and vars(self) == vars(other)

    __hash__ = object.__hash__


def check_statuses(statuses: Collection[int]) -> frozenset[int]:
    """Return the statuses of blocked responses. Raises `ConfigError` for a value that is not the status of an error."""
    if any(type(status) is not int or not 400 <= status <= 599 for status in statuses):
        raise ConfigError(f"blocked must be statuses from 400 to 599, or a function of the response, got {statuses!r}")
    return frozenset(statuses)


def _check_list_url(source: str) -> str:
    """Return how the URL of a list is shown: without user, password and query, which may be a key."""
    try:
        parts = urlsplit(source.removeprefix(URL))
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise ConfigError("what follows url: is not a URL; write url:https://HOST/PATH") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("what follows url: is not the URL of a list of proxies; write url:https://HOST/PATH")
    return f"{URL}{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _read_file(source: str) -> str:
    try:
        return Path(source.removeprefix(FILE)).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"the list of proxies {source} cannot be read: {reason}") from None


def _read_list(text: str, place: str) -> list[Proxy]:
    """Return the proxies in a list: one on each line, as a URL or as HOST:PORT:USER:PASSWORD. Lines that begin with # are comments."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if (line := line.strip()) and not line.startswith("#"):
            try:
                found.append(_read_line(line))
            except ConfigError as error:
                raise ConfigError(f"line {number} of {place}: {error}") from None
    return _check_list(found, place)


def _check_list(found: list[Proxy], place: str) -> list[Proxy]:
    if not found:
        raise ConfigError(f"{place} lists no proxies")
    return list(dict.fromkeys(found))


def _read_line(line: str) -> Proxy:
    parts = line.split(":", _PARTS_OF_LINE - 1)
    if "://" not in line and len(parts) == _PARTS_OF_LINE:
        proxy = read_proxy(":".join(parts[:2]))
        return Proxy(proxy.scheme, proxy.host, proxy.port, parts[2], parts[3])
    return read_proxy(line)
