"""Where files are stored: a local folder. A file is named after the SHA-256 of its content, so equal contents are one file.

While a file arrives, it is in the folder ``.unfinished``, locked by its process. It gets its name when it is complete and on disk. A
process deletes unfinished files whose process has ended.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import unquote, urlsplit
from weakref import finalize

import msgspec

from silkline.errors import ConfigError, LocalFailure, ResponseTooLarge
from silkline.frontier.transport.redis_url import without_password
from silkline.sinks.destination import Destination, kind_of, read_out
from silkline.sinks.downloads.extension import HEAD, extension_of
from silkline.sinks.files import inode_of, make_directory, sync, sync_directory

T = TypeVar("T")

UNFINISHED = ".unfinished"
THREADS = 4
"""Files that one process writes at a time."""
IN_MEMORY = 256 * 1024
"""Bytes of an unfinished file that may be in memory."""
FLUSH_AT_ONCE = 4 * 2**20
"""Bytes after which they are written without waiting for `flush`: a compressed piece may have many."""
LONGEST_NAME = 200
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


class Files(msgspec.Struct, frozen=True):
    """Where the files of `Page.download` are stored, and how large they may be.

    - *to*: a folder, or an object store such as ``s3://bucket/prefix``, ``gs://…`` or ``az://…``, with options as for items.
    - *max_bytes*: the most bytes of one file. A larger one fails.
    - *timeout*: seconds that a download may take, unless its request has a timeout.
    """

    to: str = "files"
    max_bytes: int = 100 * 2**20
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if not isinstance(self.to, str) or not self.to:
            raise ConfigError(f"files must be stored in a folder or an object store, got {self.to!r}")
        check_size(self.max_bytes)
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float) or not self.timeout > 0:
            raise ConfigError(f"the timeout of files must be a number of seconds above 0, got {self.timeout!r}")
        _ = self.store

    @classmethod
    def of(cls, given: Files | str | os.PathLike[str] | None) -> Files:
        """Return the files of a crawl, which may be given as a folder or an object store alone."""
        if given is None or isinstance(given, Files):
            return given or cls()
        if not isinstance(given, str | os.PathLike):
            raise ConfigError(f"files must be a folder, an object store or Files(…), got {given!r}")
        return cls(os.fspath(given))

    @property
    def store(self) -> Path | Destination:
        """The folder, or the object store."""
        if "://" not in self.to:
            return Path(self.to).expanduser()
        place = self.to.partition("?")[0]
        if kind_of(place) not in ("folder", "objects"):
            raise ConfigError(
                f"files cannot be stored in {without_password(place)}; name a folder, or s3://, gs:// or az://"
            )
        destination = read_out(self.to)
        return Path(unquote(urlsplit(destination.url).path)) if destination.kind == "folder" else destination

    def __repr__(self) -> str:
        store = self.store
        where = store.public if isinstance(store, Destination) else self.to
        return f"Files({where!r}, max_bytes={self.max_bytes}, timeout={self.timeout:g})"


def check_size(most: object) -> None:
    """Raise `ConfigError` if *most* is no size of a file."""
    if type(most) is not int or most < 1:
        raise ConfigError(f"max_bytes must be a number of bytes above 0, got {most!r}")


def check_folder(name: object) -> str:
    """Return the name of a folder for files. Raises `ConfigError` if it could lead elsewhere."""
    if name == "":
        return ""
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _FOLDER.fullmatch(name):
        raise ConfigError(
            "to must be the name of a folder within the crawl's files, such as 'images' or 'shop/images', "
            f"got {str(name)[:LONGEST_NAME]!r}"
        )
    return name


class StoredFile(msgspec.Struct, frozen=True):
    """A downloaded file, which can be stored as an item.

    - *url*: where it was downloaded; after redirects, the last URL.
    - *path*: where it is, below the folder or the prefix of the crawl's files.
    - *sha256*, *size*: of its content. *content_type*: what the server declares, which may be wrong.
    """

    url: str
    path: str
    sha256: str
    content_type: str
    size: int


# ── a file that arrives ──


class Spool:
    """The content of a file while it arrives: in memory while it is small, then on disk. See `BodyWriter`."""

    def __init__(self, most: int, store: FileStore) -> None:
        self.most = most
        self.size = 0
        self._store = store
        self._digest = hashlib.sha256()
        self._head = b""
        self._pieces: list[bytes | memoryview] = []
        self._held = 0
        self._file: BinaryIO | None = None
        self._discard: finalize[[], Spool] | None = None

    @property
    def is_full(self) -> bool:
        return self._held >= IN_MEMORY

    def add(self, piece: bytes | memoryview) -> None:
        self.size += len(piece)
        if self.size > self.most:
            raise ResponseTooLarge(f"the file has more than {self.most:,} bytes, which is its limit")
        if len(self._head) < HEAD:
            self._head += bytes(piece[: HEAD - len(self._head)])
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held >= FLUSH_AT_ONCE:
            self.write()

    async def flush(self) -> None:
        await self._store.in_thread(self.write)

    def write(self) -> None:
        """Write what is in memory. Raises `LocalFailure` if that is impossible."""
        with self._store.failures():
            if self._file is None:
                self._file, discard = self._store.new_file()
                self._discard = finalize(self, discard)
            for piece in self._pieces:
                self._digest.update(piece)
                self._file.write(piece)
        self._pieces.clear()
        self._held = 0

    def finish(self) -> BinaryIO:
        """Write the rest, and return the file, which is complete."""
        self.write()
        assert self._file is not None
        with self._store.failures():
            self._file.flush()
        return self._file

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def extension(self) -> str:
        return extension_of(self._head)

    def discard(self) -> None:
        self._pieces.clear()
        self._held = 0
        if self._discard is not None:
            self._discard()


# ── stores ──


class FileStore(ABC):
    """Stores complete files under the hash of their content. Its methods block, except `in_thread`."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "silkline-files")

    async def in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        """Call a function in a thread of the store."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def keep(self, spool: Spool, folder: str) -> str:
        """Store a file, and return its path when it is durable. Raises `LocalFailure` if it cannot be stored now."""
        file = spool.finish()
        digest = spool.sha256
        path = f"{folder}/{digest[:2]}/{digest}.{spool.extension}".lstrip("/")
        with self.failures():
            self.put(file, path, spool.size)
        return path

    @abstractmethod
    def failures(self) -> AbstractContextManager[None]:
        """Return a context that raises `LocalFailure` for errors of the store."""

    @abstractmethod
    def new_file(self) -> tuple[BinaryIO, Callable[[], None]]:
        """Return a new unfinished file, and a function that deletes it unless it was stored."""

    @abstractmethod
    def put(self, file: BinaryIO, path: str, size: int) -> None:
        """Give a complete file its path, unless there is one of this size: its content is the same."""

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def open_store(files: Files) -> FileStore:
    """Open the store of a crawl's files. Raises `ConfigError` if its package is missing or its settings are wrong."""
    store = files.store
    if isinstance(store, Path):
        return FolderStore(store)
    try:
        module = import_module("silkline.sinks.downloads.object_files")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("silkline"):
            raise
        raise ConfigError(f"{store.public} needs the package {error.name}: pip install 'silkline[s3]'") from None
    opened: FileStore = module.open_store(store)
    return opened


class FolderStore(FileStore):
    """Stores files in a local folder, which several processes may use."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder.absolute()
        self._durable: set[Path] = set()
        self._is_clean = False

    @contextmanager
    def failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ConfigError) as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            raise LocalFailure(f"files cannot be stored in {self._folder}: {reason}", "files") from None

    def new_file(self) -> tuple[BinaryIO, Callable[[], None]]:
        folder = self._folder / UNFINISHED
        make_directory(folder, quietly=True)
        if not self._is_clean:
            self._is_clean = True
            _delete_abandoned(folder)
        while True:
            path = folder / secrets.token_hex(16)
            file = path.open("xb")
            if _lock(file) and inode_of(path) == os.fstat(file.fileno()).st_ino:
                return file, partial(_discard, file, path)
            file.close()  # another process took it for an abandoned one

    def put(self, file: BinaryIO, path: str, size: int) -> None:
        target = self._folder / path
        if not target.is_file() or target.stat().st_size != size:
            sync(file.fileno())
            self._make_durable(target.parent)
            Path(file.name).replace(target)
        sync_directory(target.parent)

    def _make_durable(self, folder: Path) -> None:
        """Create a folder that survives a power failure."""
        if folder in self._durable:
            return
        if folder != self._folder:
            self._make_durable(folder.parent)
        folder.mkdir(parents=True, exist_ok=True)
        sync_directory(folder.parent)
        self._durable.add(folder)


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _discard(file: BinaryIO, path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        file.close()


def _delete_abandoned(folder: Path) -> None:
    """Delete files that no process has locked: theirs has ended."""
    for path in folder.iterdir():
        with suppress(OSError), path.open("rb") as file:
            if _lock(file):
                path.unlink(missing_ok=True)
