"""Participants, supervisors and servers: the real processes of these tests."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import redis

from silkline.frontier.embedded import supervisor

PROGRAM = Path(__file__).with_name("participant.py")


class Participant:
    """A real process which joins the server; see participant.py."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        assert self.answer() == "here"

    def tell(self, command: str) -> None:
        self.process.stdin.write(command + "\n")

    def answer(self) -> str:
        return self.process.stdout.readline().strip()

    def do(self, command: str) -> str:
        self.tell(command)
        return self.answer()

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def wait_until_stopped(directory: Path) -> None:
    """Return when neither a supervisor nor a server is left."""
    wait_until_free(directory / "keeper.lock")
    wait_until_free(directory / "server.lock")


def remove_when_stopped(folder: Path) -> None:
    """Remove a folder after every server whose directory is somewhere below it has ended."""
    for lock in folder.rglob("keeper.lock"):
        wait_until_stopped(lock.parent)
    shutil.rmtree(folder)


def wait_until_free(lock: Path) -> None:
    if lock.exists():
        with lock.open() as file:  # not a blocking flock: a failed test must not hang in its fixtures
            assert supervisor.wait_for(lambda: supervisor.try_lock(file.fileno(), fcntl.LOCK_EX), 30), (
                f"{lock} is still held"
            )


def kill_supervisor(directory: Path) -> None:
    """Kill it, and return when it is dead. Its server may still be on its way out."""
    supervisor_of(directory).kill()
    wait_until_free(directory / "keeper.lock")


def supervisor_of(directory: Path) -> psutil.Process:
    return psutil.Process(int((directory / "keeper.lock").read_text()))


def is_running(pid: int | str) -> bool:
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def client_of(server) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True, protocol=2)
