"""The state of a cluster: which node holds which slots, and which nodes are down."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import redis
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, ClusterError, RedisClusterException

from silkline.frontier.transport.redis_errors import FAULTS, OUTAGES, NodeDown, is_not_allowed, is_out_of_reach

PROBE_EVERY = 1.0
"""Seconds between two checks of a cluster node that is down."""
REFRESH_EVERY = 0.2
"""Seconds between two CLUSTER SLOTS while calls fail."""
MAX_REDIRECTS = 8


class HasIdle(Protocol):
    """A node that may be closed while it has no calls in progress."""

    @property
    def idle(self) -> bool: ...


class Address(NamedTuple):
    """The address of a cluster node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Health:
    """Whether a cluster node replies. Times are `time.monotonic`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next_probe = 0.0
        self.down_since: float | None = None
        self._why = ""

    def failed(self, since: float, error: Exception) -> None:
        """Record that a call that began at *since* did not reach the node."""
        if self.down_since is None:
            self.down_since = since
            self._why = str(error).rstrip(".")
            self._next_probe = time.monotonic()

    def replied(self) -> None:
        if self.down_since is not None:
            OUTAGES.replied(self._name)
            self.down_since = None

    def must_probe(self) -> bool:
        """Return whether the caller must check if the node replies again; raises `NodeDown` while the node is skipped."""
        if self.down_since is None:
            return False
        now = time.monotonic()
        if now < self._next_probe:
            raise self.error()
        self._next_probe = now + PROBE_EVERY
        return True

    def error(self) -> NodeDown:
        return NodeDown(self._name, self.down_since or time.monotonic(), self._why)


class SlotTable:
    """Which node of a cluster has which slots, according to the last reply to CLUSTER SLOTS."""

    def __init__(self) -> None:
        self._owners: dict[int, Address] = {}
        self._refresh_at = 0.0
        self._stale = True
        self._fault: Exception | None = None

    def owner(self, key: str) -> Address:
        try:
            return self._owners[key_slot(key.encode())]
        except KeyError:
            raise ClusterDownError(f"no node has the slot of {key}") from None

    def must_refresh(self) -> bool:
        """Return whether CLUSTER SLOTS is due. Raises the last error while no slots are known."""
        due = self._stale and time.monotonic() >= self._refresh_at
        if not due and not self._owners and self._fault:
            raise self._fault
        return due

    def mark_stale(self, *, at_once: bool = False) -> None:
        """Record that slots may have moved. With *at_once*, the next call sends CLUSTER SLOTS even if it was sent recently."""
        self._stale = True
        if at_once:
            self._refresh_at = 0.0

    def read(self, slots: list[list[Any]], asked: Address) -> None:
        """Store the reply to CLUSTER SLOTS; a node that does not know its own host is the one that was *asked*.

        Raises `ClusterDownError` if there are no slots, as on a node that was removed from its cluster.
        """
        if not slots:
            raise ClusterDownError(f"node {asked} is in no cluster: it knows no slots")
        owners = dict(self._owners)  # slots of a node that is down are missing: they keep their owner
        for first, last, (host, port, *_), *_replicas in slots:
            address = Address(host.decode() if host else asked.host, int(port))
            owners.update(dict.fromkeys(range(first, last + 1), address))
        self._owners = owners
        self._stale = False

    def refreshed(self, faults: list[Exception]) -> None:
        """Record that CLUSTER SLOTS was sent, with the errors of the nodes that did not reply."""
        self._refresh_at = time.monotonic() + REFRESH_EVERY
        self._fault = faults[0] if faults else None
        if not self._owners and self._fault:
            raise self._fault

    def move(self, slot: int, owner: Address) -> None:
        self._owners[slot] = owner
        self._stale = True

    def idle_without_slots(self, nodes: Mapping[Address, HasIdle]) -> list[Address]:
        """Return those of these nodes that have neither slots nor calls in progress.

        If there are some without slots that have calls in progress, the slots stay stale, so that a later refresh finds them idle.
        """
        without = nodes.keys() - set(self._owners.values())
        idle = [address for address in without if nodes[address].idle]
        self._stale = self._stale or len(idle) < len(without)
        return idle

    @property
    def primaries(self) -> list[Address]:
        return sorted(set(self._owners.values()))


def as_redis_error(error: Exception) -> Exception:
    """Return a connection error for whatever redis-py raises when a connection is closed during a call.

    An error about text that cannot be encoded is returned unchanged: the caller passed it.
    """
    if isinstance(error, (UnicodeError, *FAULTS)):
        return error
    return redis.ConnectionError(f"the connection broke ({type(error).__name__}: {error})")


def record_fault(health: Health | None, error: Exception, began: float) -> Exception:
    """Record the error of a call in the health of the node, and return the error to raise."""
    fault = as_redis_error(error)
    if health and is_out_of_reach(fault):
        health.failed(began, fault)
    return fault


def as_cluster_error(error: Exception) -> Exception:
    """Return the error that says why the slots could not be read."""
    known = isinstance(error, ClusterError) or is_not_allowed(error) or is_out_of_reach(error)
    if isinstance(error, redis.ResponseError) and not known:
        return RedisClusterException("Cluster mode is not enabled on this node")
    return error
