"""Servers that are more than one process: a cluster of three, and a primary with a replica under a sentinel."""

from __future__ import annotations

import time

import redis

from tests.servers import Server

SLOTS = 16384


def wait_until(ready, what, seconds=40.0):
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"waited {seconds} s until {what}"
        time.sleep(0.02)


class Node(Server):
    """A cluster node that has not got all slots."""

    def __init__(self, **config):
        super().__init__("cluster", cluster_node_timeout=1000, **config)

    def _become_cluster(self):
        """Others decide."""


class Cluster:
    """Three primaries, a third of the slots each."""

    def __init__(self, **config):
        self.nodes = [Node(**config) for _ in range(3)]

    def __enter__(self):
        for node in self.nodes:
            node.start()
        for number, node in enumerate(self.nodes):
            with node.client() as client:
                client.config_set("cluster-require-full-coverage", "no")
                first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                for other in self.nodes[:number]:
                    client.execute_command("CLUSTER MEET", "127.0.0.1", other.port, other.bus_port)
        wait_until(self._all_agree, "the nodes know each other")
        return self

    def _all_agree(self):
        return all(self._info(node) == ("ok", str(SLOTS), "3") for node in self.nodes)

    def _info(self, node):
        with node.client() as client:
            info = client.execute_command("CLUSTER INFO")
        return info["cluster_state"], info["cluster_slots_ok"], info["cluster_known_nodes"]

    def __exit__(self, *_):
        for node in self.nodes:
            node.remove()

    @property
    def url(self):
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"


class SentinelProcess(Server):
    """Watches a primary. Runs from a file that it rewrites."""

    def __init__(self, primary_port):
        super().__init__("valkey", tcp=True)
        self.config = {}
        self.primary_port = primary_port

    def _arguments(self):
        file = self.folder / "sentinel.conf"
        file.write_text(
            f"sentinel monitor main 127.0.0.1 {self.primary_port} 1\n"
            "sentinel down-after-milliseconds main 500\n"
            "sentinel failover-timeout main 4000\n"
        )
        return [str(file), "--sentinel", *super()._arguments()]


class Watched:
    """A primary, its replica, and a sentinel."""

    def __enter__(self):
        config = {"repl_diskless_sync_delay": 0, "tcp": True}
        self.primary = Server("valkey", **config).start()
        self.replica = Server("valkey", replicaof=f"127.0.0.1 {self.primary.port}", **config).start()
        self.sentinel = SentinelProcess(self.primary.port).start()
        wait_until(lambda: self._replicas() == 1, "the sentinel knows the replica")
        wait_until(self._in_step, "the replica is in step")
        return self

    def __exit__(self, *_):
        for server in (self.sentinel, self.replica, self.primary):
            server.remove()

    @property
    def url(self):
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/main/0"

    def wait_for_replica(self):
        with self.primary.client() as client:
            assert client.wait(1, 20_000) == 1

    def cut_replica_off(self):
        """From now on it gets nothing, until it thaws."""
        self.replica.freeze()
        with self.primary.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")

    def wait_for_failover(self):
        wait_until(lambda: self._primary_port() == self.replica.port, "the replica is the primary")
        wait_until(lambda: self._role(self.replica) == "master", "the replica knows it")

    def _replicas(self):
        return len(self._ask("SENTINEL REPLICAS main"))

    def _in_step(self):
        with self.replica.client() as client:
            return client.info("replication")["master_link_status"] == "up"

    def _role(self, server):
        with server.client() as client:
            return client.info("replication")["role"]

    def _primary_port(self):
        return int(self._ask("SENTINEL GET-MASTER-ADDR-BY-NAME main")[1])

    def _ask(self, words):
        with redis.Redis(port=self.sentinel.port) as client:
            return client.execute_command(*words.split())
