"""The process that runs an embedded Valkey for as long as another process uses it.

``server.py`` starts this file as a script, detached from the process that needs the server, so that the death of that process
does not stop the server. It uses the standard library only: a supervisor needs about 10 MiB and starts in 50 ms.

The state is in four locked files in the directory of the server. The kernel unlocks them when a process is killed, so they
are never stale:

=================  ====================================================================================================
``members.lock``   held shared by every client process; the supervisor gets it exclusively after the last one
``start.lock``     held by a process that checks the server and starts a supervisor: one at a time
``keeper.lock``    held by the supervisor; contains its pid
``server.lock``    held by the supervisor and, inherited, by the server: no second server may open the data
=================  ====================================================================================================

If the server dies, the supervisor ends; if the supervisor dies, the kernel ends the server (Linux) or the next supervisor does
(elsewhere). In both cases the next process that joins starts a new pair.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

with suppress(ImportError):  # a Python may be built without it
    import ctypes

MEMBERS, START, SUPERVISOR, SERVER = "members.lock", "start.lock", "keeper.lock", "server.lock"
LOADING = "-LOADING"
SOCKET, SOCKET_RECORD, LOG, DATA = "valkey.sock", "socket.path", "valkey.log", "appendonlydir"

READY = "ready"  # reported by the supervisor: the server replies,
REFUSED = "refused"  # the server ended at once (its log follows),
SILENT = "silent"  # or it did not reply in time

LONGEST_SOCKET_PATH = 100  # bytes; the kernels allow 104 to 108
STOP_SECONDS = 30.0
POLL_SECONDS = 0.01
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
TUNABLES = "GLIBC_TUNABLES"
ALLOCATOR = "glibc.malloc.tcache_count=1024"
"""The bundled server allocates with glibc, which caches 7 freed blocks of a size; scripts free thousands of small strings at a
time. With a larger cache, a claim among a million hosts takes a quarter less time. The cache may hold about 30 MiB."""


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def open_lock(path: Path) -> int:
    """Open a lock file. The descriptor is not inherited by programs that this process starts."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for(condition: Callable[[], bool], seconds: float, *, busy: Callable[[], bool] = lambda: False) -> bool:
    """Poll until *condition* holds; returns False after *seconds* in which it did not, without counting *busy* time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if busy():
            deadline = time.monotonic() + seconds
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_supervised(directory: Path) -> bool:
    """Return whether a supervisor runs. Hold ``start.lock``: the check would disturb a supervisor that takes the lock."""
    descriptor = open_lock(directory / SUPERVISOR)
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


# ── the socket ───────────────────────────────────────────────────────────────────────────────────────────────────────
def socket_of(directory: Path) -> Path:
    """Return the socket of the server of *directory*, also before it listens."""
    return recorded_socket(directory) or directory / SOCKET


def recorded_socket(directory: Path) -> Path | None:
    """Return the socket outside a directory whose path is too long; None if there is none, or if another user owns it.

    Its path contains the inode of the directory, so that a copy of the directory does not use the server of the original.
    """
    try:
        path = Path(os.fsdecode((directory / SOCKET_RECORD).read_bytes()))
        home = path.parent.lstat()
    except OSError:
        return None
    is_own = path.parent.name.startswith(socket_home_prefix(directory)) and home.st_uid == os.getuid()
    return path if is_own and home.st_mode & 0o777 == 0o700 else None


def socket_home_prefix(directory: Path) -> str:
    return f"silkline-{directory.stat().st_ino}-"


def choose_socket(directory: Path) -> Path:
    """Return where to listen, and record it if that is outside *directory*."""
    inside = directory / SOCKET
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_PATH:
        return inside
    recorded = recorded_socket(directory)
    if recorded is not None:
        return recorded
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > LONGEST_SOCKET_PATH // 2:
        base = "/tmp"  # noqa: S108 - mkdtemp makes a private directory in it
    outside = Path(tempfile.mkdtemp(prefix=socket_home_prefix(directory), dir=base)) / SOCKET
    (directory / SOCKET_RECORD).write_bytes(os.fsencode(outside))
    return outside


def forget_socket(directory: Path) -> None:
    recorded = recorded_socket(directory)
    (directory / SOCKET_RECORD).unlink(missing_ok=True)
    if recorded is not None:
        shutil.rmtree(recorded.parent, ignore_errors=True)


def ask(path: Path, command: bytes = b"PING") -> str:
    """Return one line of the reply; empty if the server cannot be reached."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(command + b"\r\n")
            return connection.recv(256).decode(errors="replace")
        except OSError:
            return ""


def replies(path: Path) -> bool:
    """Return whether a server listens there and has loaded its data; an error such as -BUSY is a reply too."""
    reply = ask(path)
    return bool(reply) and not reply.startswith(LOADING)


def is_loading(path: Path) -> bool:
    return ask(path).startswith(LOADING)


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────
def options(socket_path: Path) -> list[str]:
    """Return the settings of the server: synced every second, never evicting, reachable only by its owner."""
    settings = {
        "port": "0",
        "unixsocket": os.fspath(socket_path),
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "daemonize": "no",
        "dir": ".",
        "logfile": LOG,
        "loglevel": "notice",
        "pidfile": "valkey.pid",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "appenddirname": DATA,
        "maxmemory-policy": "noeviction",
        "list-compress-depth": "1",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def environment() -> dict[str, str]:
    """Return the environment of the server, with the allocator setting unless the user has set one."""
    return {TUNABLES: ALLOCATOR, **os.environ}


def start_server(binary: str, socket_path: Path, lock: int, log: int) -> subprocess.Popen[bytes]:
    """Start Valkey in the working directory. It inherits *lock* and holds it until it ends."""
    return subprocess.Popen(  # noqa: S603 - the binary of our own dependency
        [binary, *options(socket_path)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(lock,),
        env=environment(),
        preexec_fn=ends_with_its_parent(),  # noqa: PLW1509 - no other thread runs yet
    )


def ends_with_its_parent() -> Callable[[], None] | None:
    """Return what a child must run to be terminated when this process dies; None if the kernel cannot do that."""
    if sys.platform != "linux" or "ctypes" not in sys.modules:
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before prctl ran
            os._exit(1)

    return arrange


# ── the supervisor ───────────────────────────────────────────────────────────────────────────────────────────────────
class Supervisor:
    """Runs the server of one directory until no process uses it."""

    def __init__(self, directory: Path, binary: str, patience: float) -> None:
        self._directory = directory
        self._binary = binary
        self._patience = patience
        self._log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._log_start = os.fstat(self._log).st_size
        self._members = open_lock(Path(MEMBERS))
        self._lock = open_lock(Path(SUPERVISOR))
        self._server = open_lock(Path(SERVER))
        self._alone = threading.Event()

    def run(self) -> None:
        os.dup2(self._log, 2)  # tracebacks go to the log
        if not self._become_supervisor():
            return
        server = self._start()
        if server is None or not self._came_up(server):
            return
        report(READY)
        self._supervise(server)
        self._release_locks()

    def _socket(self) -> Path:
        # Relative where possible: if the directory is deleted and created again, this server must not remove the socket of
        # the next one when it ends.
        chosen = choose_socket(self._directory)
        return Path(SOCKET) if chosen.parent == self._directory else chosen

    def _become_supervisor(self) -> bool:
        """Take the lock; returns False after a report if another supervisor runs the server, or if the lock stays taken."""
        path = socket_of(self._directory)
        if not wait_for(self._elected_or_not_needed, self._patience, busy=lambda: is_loading(path)):
            pid = Path(SUPERVISOR).read_text().strip()
            report(SILENT, f"the server of supervisor {pid} does not reply; to end it: kill {pid}")
            return False
        if not try_lock(self._lock, fcntl.LOCK_EX):
            report(READY)
            return False
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())
        if wait_for(self._predecessor_gone, self._patience):
            return True
        report(SILENT, "a server whose supervisor was killed is still running and does not stop")
        return False

    def _elected_or_not_needed(self) -> bool:
        return try_lock(self._lock, fcntl.LOCK_EX) or replies(socket_of(self._directory))

    def _predecessor_gone(self) -> bool:
        if try_lock(self._server, fcntl.LOCK_EX):
            return True
        ask(socket_of(self._directory), b"SHUTDOWN")
        return False

    def _start(self) -> subprocess.Popen[bytes] | None:
        try:
            return start_server(self._binary, self._socket(), self._server, self._log)
        except OSError as error:
            report(REFUSED, str(error))
            return None

    def _came_up(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the server replies. Time in which it loads its data does not count."""
        path = socket_of(self._directory)
        settled = wait_for(
            lambda: server.poll() is not None or replies(path), self._patience, busy=lambda: is_loading(path)
        )
        if server.poll() is not None:
            report(REFUSED, Path(LOG).read_bytes()[self._log_start :].decode(errors="replace"))
            return False
        if not settled:
            server.kill()
            report(SILENT, f"the server did not reply within {self._patience:.0f} s")
        return settled

    def _supervise(self, server: subprocess.Popen[bytes]) -> None:
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        threading.Thread(target=self._stop_when_alone, args=(server,), daemon=True).start()
        server.wait()

    def _stop_when_alone(self, server: subprocess.Popen[bytes]) -> None:
        fcntl.flock(self._members, fcntl.LOCK_EX)
        self._alone.set()
        server.terminate()  # Valkey writes and syncs its append-only file, then ends
        time.sleep(STOP_SECONDS)
        server.kill()

    def _release_locks(self) -> None:
        # Members last: a process that waits to join must find the other locks free.
        if self._alone.is_set():
            forget_socket(self._directory)
        os.close(self._lock)
        os.close(self._server)
        os.close(self._members)


def report(state: str, detail: str = "") -> None:
    """Report once to the process that started this one; it reads until the end of the output."""
    with suppress(BrokenPipeError):  # it was killed; other processes may need the server
        os.write(1, f"{state}\n{detail}".encode())
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)


def main(directory: str, binary: str, patience: str) -> None:
    os.chdir(directory)
    os.umask(0o077)
    if os.fork():  # so that no process must wait for this one
        os._exit(0)
    Supervisor(Path(directory), binary, float(patience)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
