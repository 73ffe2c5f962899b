"""The process that keeps an embedded Valkey alive for as long as somebody uses it.

``embedded.py`` starts this file as a script of its own, detached from whoever came first, so that no participant's
death can take the server down. It uses the standard library only: a keeper costs some 10 MB and starts in 50 ms.

The kernel does the book-keeping, with four locked files in the server's directory. It also unlocks them for a process
that was killed, so nothing here can go stale:

=================  ====================================================================================================
``members.lock``   held shared by every participant; the keeper gets it exclusively when the last one is gone
``start.lock``     held by a participant that looks whether all is well and else starts a keeper: one at a time
``keeper.lock``    held by the one keeper; contains its pid
``server.lock``    held by the keeper and, inherited, by the server: while it is taken, no second server may touch the data
=================  ====================================================================================================

If the server dies, the keeper ends; if the keeper dies, the kernel ends the server (Linux) or the next keeper does
(elsewhere). Either way the next participant starts a new pair.
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

MEMBERS, START, KEEPER, SERVER = "members.lock", "start.lock", "keeper.lock", "server.lock"
LOADING = "-LOADING"
SOCKET, SOCKET_RECORD, LOG, DATA = "valkey.sock", "socket.path", "valkey.log", "appendonlydir"

READY = "ready"  # what a keeper reports: the server answers,
REFUSED = "refused"  # the server ended at once; its log follows,
SILENT = "silent"  # or it did not answer in time.

LONGEST_SOCKET_PATH = 100  # bytes; the kernels allow 104 to 108
STOP_SECONDS = 30.0
POLL_SECONDS = 0.01
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
TUNABLES = "GLIBC_TUNABLES"
ALLOCATOR = "glibc.malloc.tcache_count=1024"
"""The bundled server allocates with glibc, which keeps 7 freed blocks of a size at hand; scripts free some thousand small
strings at a time. With room for them a claim among a million hosts takes a quarter less time. It may hold some 30 MB."""


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def open_lock(path: Path) -> int:
    """Open a lock file. The descriptor is not inherited by programs that this process starts."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for(condition: Callable[[], bool], seconds: float, *, busy: Callable[[], bool] = lambda: False) -> bool:
    """Look again and again until *condition* holds; False when nothing was *busy* for *seconds* and it still does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        if busy():
            deadline = time.monotonic() + seconds
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_kept(directory: Path) -> bool:
    """Whether a keeper is in office. Only for the holder of ``start.lock``: the look itself would disturb an election."""
    descriptor = open_lock(directory / KEEPER)
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


# ── the socket ───────────────────────────────────────────────────────────────────────────────────────────────────────
def socket_of(directory: Path) -> Path:
    """Where the server of *directory* listens, or will."""
    return recorded_socket(directory) or directory / SOCKET


def recorded_socket(directory: Path) -> Path | None:
    """The socket outside a directory whose path is too long; None if there is none, or if it is not ours.

    The record names the directory's inode, so that a copy of the directory does not talk to the original's server.
    """
    try:
        path = Path(os.fsdecode((directory / SOCKET_RECORD).read_bytes()))
        home = path.parent.lstat()
    except OSError:
        return None
    ours = path.parent.name.startswith(socket_home_prefix(directory)) and home.st_uid == os.getuid()
    return path if ours and home.st_mode & 0o777 == 0o700 else None


def socket_home_prefix(directory: Path) -> str:
    return f"silkline-{directory.stat().st_ino}-"


def choose_socket(directory: Path) -> Path:
    """Decide where to listen, and record it if that is outside *directory*."""
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
    """One line of the server's answer, or nothing if it cannot be reached."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(command + b"\r\n")
            return connection.recv(256).decode(errors="replace")
        except OSError:
            return ""


def answers(path: Path) -> bool:
    """Whether a server listens there and has loaded its data; an error such as -BUSY is an answer too."""
    reply = ask(path)
    return bool(reply) and not reply.startswith(LOADING)


def is_loading(path: Path) -> bool:
    return ask(path).startswith(LOADING)


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────
def options(socket_path: Path) -> list[str]:
    """Return the server's settings: durable to a second, refusing rather than forgetting, reachable by its owner only."""
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
    """What the server is told of its allocator, unless the user has told it something else; other systems do not look."""
    return {TUNABLES: ALLOCATOR, **os.environ}


def start_server(binary: str, socket_path: Path, lock: int, log: int) -> subprocess.Popen[bytes]:
    """Start Valkey in the working directory. It inherits *lock* and holds it to its last breath."""
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
    """What a child must do to be terminated when this process dies, where the kernel offers that."""
    if sys.platform != "linux" or "ctypes" not in sys.modules:
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we had arranged it
            os._exit(1)

    return arrange


# ── the keeper ───────────────────────────────────────────────────────────────────────────────────────────────────────
class Keeper:
    """Runs the server of one directory until nobody is left who uses it."""

    def __init__(self, directory: Path, binary: str, patience: float) -> None:
        self._directory = directory
        self._binary = binary
        self._patience = patience
        self._log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._log_start = os.fstat(self._log).st_size
        self._members = open_lock(Path(MEMBERS))
        self._keeper = open_lock(Path(KEEPER))
        self._server = open_lock(Path(SERVER))
        self._alone = threading.Event()

    def run(self) -> None:
        os.dup2(self._log, 2)  # a traceback is found where people look
        if not self._take_office():
            return
        server = self._start()
        if server is None or not self._came_up(server):
            return
        report(READY)
        self._keep(server)
        self._resign()

    def _socket(self) -> Path:
        # Relative where possible: should somebody delete the directory and make it anew, then this server, on its way out,
        # must not remove the socket of the next one.
        chosen = choose_socket(self._directory)
        return Path(SOCKET) if chosen.parent == self._directory else chosen

    def _take_office(self) -> bool:
        """Become the only keeper; False, with a report, if another one has the server running, or nothing moves."""
        path = socket_of(self._directory)
        if not wait_for(self._elected_or_needless, self._patience, busy=lambda: is_loading(path)):
            pid = Path(KEEPER).read_text().strip()
            report(SILENT, f"the server of keeper {pid} does not answer; to end it: kill {pid}")
            return False
        if not try_lock(self._keeper, fcntl.LOCK_EX):
            report(READY)
            return False
        os.ftruncate(self._keeper, 0)
        os.write(self._keeper, f"{os.getpid()}\n".encode())
        if wait_for(self._predecessor_gone, self._patience):
            return True
        report(SILENT, "a server whose keeper was killed is still running and does not stop")
        return False

    def _elected_or_needless(self) -> bool:
        return try_lock(self._keeper, fcntl.LOCK_EX) or answers(socket_of(self._directory))

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
        """Wait until the server answers. While it says that it is loading its data, it may take its time."""
        path = socket_of(self._directory)
        settled = wait_for(
            lambda: server.poll() is not None or answers(path), self._patience, busy=lambda: is_loading(path)
        )
        if server.poll() is not None:
            report(REFUSED, Path(LOG).read_bytes()[self._log_start :].decode(errors="replace"))
            return False
        if not settled:
            server.kill()
            report(SILENT, f"the server did not answer within {self._patience:.0f} s")
        return settled

    def _keep(self, server: subprocess.Popen[bytes]) -> None:
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        threading.Thread(target=self._stop_when_alone, args=(server,), daemon=True).start()
        server.wait()

    def _stop_when_alone(self, server: subprocess.Popen[bytes]) -> None:
        fcntl.flock(self._members, fcntl.LOCK_EX)
        self._alone.set()
        server.terminate()  # Valkey writes and syncs its append-only file, then ends
        time.sleep(STOP_SECONDS)
        server.kill()

    def _resign(self) -> None:
        # Members last: whoever waits to join must find everything else free.
        if self._alone.is_set():
            forget_socket(self._directory)
        os.close(self._keeper)
        os.close(self._server)
        os.close(self._members)


def report(state: str, detail: str = "") -> None:
    """Tell the participant that started us, once; it waits for the end of our output."""
    with suppress(BrokenPipeError):  # it was killed meanwhile; others may need us
        os.write(1, f"{state}\n{detail}".encode())
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)


def main(directory: str, binary: str, patience: str) -> None:
    os.chdir(directory)
    os.umask(0o077)
    if os.fork():  # nobody's child: no participant has to wait for us
        os._exit(0)
    Keeper(Path(directory), binary, float(patience)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
