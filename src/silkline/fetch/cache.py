"""An HTTP cache on disk, for development: pages that were fetched once are replayed, also offline.

Each response is one file, whose name is a hash of the request. Only successful GET and HEAD requests are cached, without their
credentials: passwords, tokens and the values of cookies are neither stored nor part of a name. A file is written under another name
and then renamed, so that readers never see a part of it, and its checksum shows whether it is damaged.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from silkline.core.request import Request, is_time
from silkline.core.retries import TRANSIENT
from silkline.core.url import mask_passwords, parse
from silkline.errors import ConfigError, FetchError, RequestError
from silkline.fetch.fetcher import Fetcher, Headers, Response

log = logging.getLogger(__name__)

NOT_CACHED = "not_cached"
"""The kind of the error of a page that is not in the cache of an offline crawl."""
METHODS = frozenset({"GET", "HEAD"})
NEVER = frozenset({206, 304}) | TRANSIENT
"""Statuses that are not cached: they are no whole page, or another attempt may have another one."""
REDIRECTS = range(300, 400)
PUBLIC = frozenset({"accept", "accept-language"})
"""Headers whose values distinguish two requests. Of other headers, which may be secret, only the names do."""

MAGIC = b"silkline http cache 1\n"
DIGEST_BYTES = hashlib.sha256().digest_size
LARGEST = 512 * 2**20
"""Bytes of a response, decompressed. A file that claims to have more is damaged."""
TAG = "CACHEDIR.TAG"
TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# This directory is the HTTP cache of silkline --cache.\n"
UNFINISHED = "tmp"
STALE = 3600.0
"""Seconds after which a file of a process that was killed while it wrote is deleted."""

_COOKIE = re.compile(r"^([^=;]*)=[^;]*")


class HttpCache(msgspec.Struct, frozen=True):
    """A directory of cached responses; see docs/how-to/development.md.

    - *directory*: where they are stored. It is created if necessary, for this user only.
    - *expires*: seconds after which a page is fetched again; None for never.
    - *offline*: whether nothing is fetched: a page that is not in the cache fails, and robots.txt is not needed.
    """

    directory: str | os.PathLike[str]
    expires: float | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        if self.expires is not None and not (is_time(self.expires) and self.expires > 0):
            raise ConfigError(
                f"the expiry of a cache must be a number of seconds above 0, or None, got {self.expires!r}"
            )
        if self.offline and self.expires is not None:
            raise ConfigError(
                "an offline cache has no expiry, because its pages cannot be fetched again; leave one out"
            )

    @property
    def path(self) -> Path:
        """The directory."""
        return Path(self.directory).expanduser()

    def prepare(self) -> None:
        """Create the directory. Raises `ConfigError` if it cannot be used, or if an offline cache does not exist."""
        if self.offline:
            if not self.path.is_dir():
                raise ConfigError(
                    f"there is no cache {self.path} to be offline with; fill it first: run without --offline"
                )
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.path / UNFINISHED).mkdir(mode=0o700, exist_ok=True)
            with suppress(FileExistsError), (self.path / TAG).open("x") as tag:
                tag.write(TAG_TEXT)
            _delete_stale(self.path / UNFINISHED)
        except OSError as error:
            raise ConfigError(f"the cache {self.path} cannot be used: {error.strerror}") from None


class CachedResponse(Response, frozen=True):
    """A response from the cache, which was fetched at the Unix time *fetched_at*."""

    fetched_at: float = 0.0


class DamagedEntry(ValueError):
    """A file of the cache that cannot be read."""


class _Entry(msgspec.Struct, frozen=True):
    """What a file contains."""

    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    http_version: str
    fetched_at: float
    lacks_secrets: bool = False
    """Whether it is a redirect whose cookies or password are not stored: it is replayed only offline."""


class CachingFetcher:
    """Returns cached responses, and fetches the others with another fetcher and stores them."""

    def __init__(self, fetcher: Fetcher, cache: HttpCache) -> None:
        cache.prepare()
        self._fetcher = fetcher
        self._cache = cache
        self._logged_damage = False
        self._logged_failure = False

    download = None
    """Files go through the cache too, so they are in memory as a whole."""

    def __getattr__(self, name: str) -> Any:
        """Return further members of the other fetcher, such as `allow_private`."""
        return getattr(self._fetcher, name)

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:
        """See `Fetcher.fetch`."""
        began = time.monotonic()
        file = self._file_of(request, cut)
        damage = ""
        if file is not None:
            try:
                entry = await asyncio.to_thread(read_entry, file, _public_url(request))
            except DamagedEntry as error:
                damage = str(error)
                self._note_damage(file, damage)
            else:
                if entry is not None and self._applies(entry):
                    return _replayed(entry, request, time.monotonic() - began)
        if self._cache.offline:
            raise FetchError(self._missing(request, file, damage), NOT_CACHED)
        response = await self._fetcher.fetch(request, user_agent=user_agent, cut=cut)
        if file is not None and response.status not in NEVER:
            await self._store(file, request, response)
        return response

    async def close(self) -> None:
        """See `Fetcher.close`."""
        await self._fetcher.close()

    def _file_of(self, request: Request, cut: int | None) -> Path | None:
        """Return the file for a response; None if it is not cached."""
        if request.method not in METHODS or request.body:
            return None
        rendering_of = getattr(self._fetcher, "rendering_of", None)
        rendering = rendering_of(request) if cut is None and rendering_of is not None else None
        if rendering is not None and rendering.keeps_more:
            return None  # a file has no screenshot and no captured responses
        try:
            name = name_of(request, cut, is_rendered=rendering is not None)
        except RequestError:
            return None  # the fetcher raises the error
        return self._cache.path / name[:2] / name[2:]

    def _applies(self, entry: _Entry) -> bool:
        if self._cache.offline:
            return True
        if entry.lacks_secrets:
            return False
        return self._cache.expires is None or time.time() - entry.fetched_at < self._cache.expires

    def _missing(self, request: Request, file: Path | None, damage: str) -> str:
        url, where = _public_url(request), self._cache.path
        if file is None:
            return f"{request.method} {url} cannot be replayed: only GET and HEAD without a body are cached"
        why = f", because its file is damaged ({damage})" if damage else ""
        return f"{url} is not in the cache {where}{why}; fetch it without --offline"

    async def _store(self, file: Path, request: Request, response: Response) -> None:
        pairs = response.headers.pairs
        stored = [(name, _without_secret(name, value)) for name, value in pairs]
        entry = _Entry(
            url=_public_url(request),
            status=response.status,
            headers=stored,
            body=response.body,
            http_version=response.http_version,
            fetched_at=time.time(),
            lacks_secrets=response.status in REDIRECTS and stored != list(pairs),
        )
        try:
            await asyncio.to_thread(write_entry, file, entry, self._cache.path / UNFINISHED)
        except OSError as error:
            if not self._logged_failure:
                self._logged_failure = True
                log.warning("pages cannot be written to the cache %s: %s", self._cache.path, error.strerror)

    def _note_damage(self, file: Path, damage: str) -> None:
        if not self._logged_damage:
            self._logged_damage = True
            what = "its page cannot be replayed" if self._cache.offline else "its page is fetched again"
            log.warning(
                "the cache file %s is damaged (%s): %s. Further damaged files are not logged", file, damage, what
            )


def name_of(request: Request, cut: int | None, *, is_rendered: bool = False) -> str:
    """Return the name of the file for a request: a hash that has no secret of the request in it."""
    names = {name.lower(): value for name, value in request.headers.items()}
    names.pop("cookie", None)  # a worker has other cookies when the page is replayed
    headers = sorted((name, value if name in PUBLIC else "") for name, value in names.items())
    login = request.auth is not None or bool(parse(request.url).userinfo)
    identity = [request.method, _public_url(request), cut, headers, sorted(request.cookies), login]
    identity += ["rendered"] if is_rendered else []
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()


def read_entry(file: Path, url: str) -> _Entry | None:
    """Return what a file has for *url*; None if there is no file. Raises `DamagedEntry` if it cannot be read."""
    try:
        if file.stat().st_size > LARGEST:
            raise DamagedEntry("it is too large")
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedEntry(error.strerror or "it cannot be read") from None
    start = len(MAGIC) + DIGEST_BYTES
    if not data.startswith(MAGIC):
        raise DamagedEntry("it is empty" if not data else "it is not a file of this cache")
    packed = memoryview(data)[start:]
    if hashlib.sha256(packed).digest() != data[len(MAGIC) : start]:
        raise DamagedEntry("its checksum is wrong")
    try:
        if not 0 < zstandard.frame_content_size(packed) <= LARGEST:
            raise DamagedEntry("it is too large")
        entry = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed), type=_Entry)
    except (zstandard.ZstdError, msgspec.DecodeError):
        raise DamagedEntry("its content cannot be read") from None
    if entry.url != url:
        raise DamagedEntry("it is of another page")
    return entry


def write_entry(file: Path, entry: _Entry, unfinished: Path) -> None:
    """Write a file as a whole: readers see the old one or the new one."""
    packed = zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(entry))
    file.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=unfinished)
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(MAGIC + hashlib.sha256(packed).digest() + packed)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _replayed(entry: _Entry, request: Request, elapsed: float) -> CachedResponse:
    return CachedResponse(
        request.url,
        entry.status,
        Headers(entry.headers),
        entry.body,
        elapsed,
        entry.http_version,
        fetched_at=entry.fetched_at,
    )


def _public_url(request: Request) -> str:
    """Return the URL without user and password."""
    address = parse(request.url)
    return f"{address.scheme}://{address.host}{address.path}"


def _without_secret(name: str, value: str) -> str:
    """Return the value of a header: of a cookie, its name and attributes; of a redirect, the URL without its password."""
    match name.lower():
        case "set-cookie":
            return _COOKIE.sub(r"\1=-", value)
        case "location" | "refresh" | "content-location" | "link":
            return mask_passwords(value)
    return value


def _delete_stale(folder: Path) -> None:
    before = time.time() - STALE
    for file in folder.iterdir():
        with suppress(OSError):
            if file.stat().st_mtime < before:
                file.unlink()
