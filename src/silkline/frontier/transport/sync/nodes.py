# Generated from nodes.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""The servers behind an address, and which of them holds a key.

A standalone server, an embedded one and the primary that Sentinel names are one node. A cluster has several, which CLUSTER
SLOTS lists. Each node has its own client and a limited number of connections; further calls wait. A cluster node that does
not reply is skipped for some time, so that its timeouts do not delay calls to other nodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.exceptions import ClusterError

from silkline.frontier.transport.clients import close_sync, connection_limit, node_client_sync, open_sync, starts_of
from silkline.frontier.transport.cluster import (
    MAX_REDIRECTS,
    Address,
    Health,
    SlotTable,
    as_cluster_error,
    record_fault,
)
from silkline.frontier.transport.durability import WriteConfirmation
from silkline.frontier.transport.redis_errors import FAULTS, OUTAGES
from silkline.frontier.transport.redis_url import RedisTarget
from silkline.frontier.transport.sync.concurrency import SyncLimiter, SyncSender


class SyncNode(SyncSender):
    """One server for plain code; calls may share it."""

    def __init__(self, name: str, client: Any, limit: int, probe: Any = None) -> None:
        super().__init__(limit)
        self.name = name
        self.client = client
        self._probe = probe
        self.health = Health(name) if probe else None

    @property
    def down(self) -> bool:
        return self.health is not None and self.health.down_since is not None

    def execute(self, *words: Any, **options: Any) -> Any:
        """Send a command and return the reply."""
        with self._admitted():
            began = time.monotonic()
            try:
                self._return_one()
                reply = self.client.execute_command(*words, **options)
            except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
                raise record_fault(self.health, error, began) from None
        if self.health:
            self.health.replied()
        return reply

    def ask(self, *words: Any) -> Any:
        """Send a command for a slot that is being moved to this node."""
        with self.connection() as connection:
            connection.send_command("ASKING")
            connection.read_response()
            connection.send_command(*words)
            return connection.read_response()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Yield a connection for several commands. It is closed if one of them gets no reply."""
        with self._admitted():
            began = time.monotonic()
            try:
                with self._borrowed() as connection:
                    yield connection
            except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
                raise record_fault(self.health, error, began) from None
        if self.health:
            self.health.replied()

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        """Wait until the limit allows another call. Raises `NodeDown` if the node is down, before or after waiting."""
        self._check()
        with self._limiter:
            self._check()
            yield

    def _check(self) -> None:
        """Raise `NodeDown` if the node is down. It is probed once a second."""
        if self.health and self.health.must_probe():
            self._probe_now(self.health)

    def _probe_now(self, health: Health) -> None:
        try:
            self._probe.ping()
        except Exception:  # noqa: BLE001 - after any error, the node is still down
            raise health.error() from None
        finally:
            self._probe.connection_pool.disconnect()
        health.replied()

    def close(self) -> None:
        self._stop_sending()
        for client in (self.client, self._probe):
            if client is not None:
                close_sync(client)


class SyncNodes(SlotTable):
    """All servers behind an address, for plain code."""

    def __init__(self, target: RedisTarget, name: str) -> None:
        super().__init__()
        self._target = target
        self._name = name
        self._nodes: dict[Address, SyncNode] = {}
        self._refreshing = SyncLimiter(1)
        self._only: SyncNode | None = None
        if target.kind == "cluster":
            self._starts = [Address(*start) for start in starts_of(target)]
        else:
            self._only = SyncNode(target.public, open_sync(target, name), connection_limit(target))

    def of(self, key: str) -> SyncNode:
        """Return the node that holds a key."""
        if self._only:
            return self._only
        self._refresh_slots()
        return self._node(self.owner(key))

    def all(self) -> list[SyncNode]:
        """Return every node that holds slots."""
        if self._only:
            return [self._only]
        self._refresh_slots()
        return [self._node(address) for address in self.primaries]

    def any(self) -> SyncNode:
        """Return a node that is not down, if there is one."""
        nodes = self.all()
        return next((node for node in nodes if not node.down), nodes[0])

    def send(self, key: str, *words: Any) -> Any:
        """Send a command to the node that holds a key, following redirections."""
        node, asking = self.of(key), False
        for _ in range(MAX_REDIRECTS):
            try:
                return node.ask(*words) if asking else node.run(*words)
            except redis.exceptions.AskError as error:
                if self._only:
                    raise
                node, asking = self._redirect(error), not isinstance(error, redis.exceptions.MovedError)
        raise ClusterError(f"too many redirections for the slot of {key}")

    def send_confirmed(self, confirmation: WriteConfirmation, key: str, *words: Any) -> Any:
        """Send a command as `send` does, and return the reply after its writes are durable."""
        node = self.of(key)
        for _ in range(MAX_REDIRECTS):
            try:
                return node.run_confirmed(confirmation, *words)
            except redis.exceptions.MovedError as error:
                if self._only:
                    raise
                node = self._redirect(error)
            except redis.exceptions.AskError as error:
                raise redis.exceptions.TryAgainError(str(error)) from None  # when the slot has moved
        raise ClusterError(f"too many redirections for the slot of {key}")

    def _redirect(self, error: redis.exceptions.AskError) -> SyncNode:
        address = Address(error.host or self._starts[0].host, error.port)
        if isinstance(error, redis.exceptions.MovedError):
            self.move(error.slot_id, address)
        return self._node(address)

    def _refresh_slots(self) -> None:
        """Send CLUSTER SLOTS if it is due.

        While one call does so, which may last until a timeout, other calls use the slots that are known.
        """
        if not self.must_refresh() or (self._owners and self._refreshing.taken_by_others):
            return
        with self._refreshing:
            if not self.must_refresh():
                return
            faults: list[Exception] = []
            for address in self._candidates():
                try:
                    self.read(self._node(address).execute("CLUSTER SLOTS"), address)
                except FAULTS as error:
                    faults.append(as_cluster_error(error))
                else:
                    self._close_removed(self.idle_without_slots(self._nodes))
                    break
            self.refreshed(faults)

    def _close_removed(self, removed: list[Address]) -> None:
        """Close the clients of nodes that no longer have slots."""
        for address in removed:
            node = self._nodes.pop(address)
            OUTAGES.replaced(node.name)
            node.close()

    def _candidates(self) -> list[Address]:
        """Return the nodes to ask for slots, those that are down last."""
        known = dict.fromkeys((*self.primaries, *self._nodes, *self._starts))
        return sorted(known, key=lambda address: address in self._nodes and self._nodes[address].down)

    def _node(self, address: Address) -> SyncNode:
        if address not in self._nodes:
            client = node_client_sync(self._target, *address, self._name)
            probe = node_client_sync(self._target, *address, self._name, probe=True)
            self._nodes[address] = SyncNode(str(address), client, connection_limit(self._target), probe)
        return self._nodes[address]

    @property
    def opened(self) -> list[SyncNode]:
        """Every node that has a client."""
        return [self._only] if self._only else list(self._nodes.values())

    def close(self) -> None:
        for node in self.opened:
            node.close()
