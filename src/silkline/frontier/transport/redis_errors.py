"""Classifies the errors of redis-py, translates them to errors of Silkline, and logs outages.

`connection.py` repeats calls after the errors that may pass, as long as `RetryPolicy` allows.
"""

from __future__ import annotations

import logging
import os
import threading
import time

import redis

from silkline.errors import (
    ConfigError,
    FrontierError,
    NewerData,
    ShardMigrating,
    SilklineError,
    StoreUnavailable,
    UnknownCrawl,
)

log = logging.getLogger("silkline.redis")

_ERRORS: dict[str, type[SilklineError]] = {
    "NOCRAWL": UnknownCrawl,
    "NEWERDATA": NewerData,
    "CANNOTFORGET": FrontierError,
    "MIGRATING": ShardMigrating,
}
FAULTS = (redis.RedisError, redis.exceptions.RedisClusterException, OSError)
_OUT_OF_REACH = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.RedisClusterException, OSError)


class NotDurable(redis.RedisError):
    """A write was executed, but not confirmed in time to be on disk or on a replica. The call is sent again under its name."""


MAY_PASS = (*_OUT_OF_REACH, redis.exceptions.ClusterError, redis.exceptions.TryAgainError, NotDurable)
_NOT_ALLOWED = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
_NOT_ALLOWED_TEXTS = (  # in errors of scripts and of the cluster client
    "user executing the script",
    "has no permissions to",
    "can't access at least one of the keys",
    "invalid username-password pair",
    "Authentication required",
    "NOPERM",
)


MORE_MEMORY = "raise its maxmemory, purge dead letters or remove crawls; silkline doctor shows more"


class NodeDown(redis.ConnectionError):
    """A cluster node does not reply and is skipped. *since* is a time of `time.monotonic`."""

    def __init__(self, node: str, since: float, why: str) -> None:
        super().__init__(f"node {node} does not reply ({why})" if why else f"node {node} does not reply")
        self.node = node
        self.since = since


class Outages:
    """Logs once per process that a server cannot be reached, and once that it replies again.

    The caller reports a single failed call. The outage is logged when another call fails.
    """

    def __init__(self) -> None:
        self.unreachable: dict[str, float] = {}
        """By address, when the first call failed. An address that replies is not in it."""
        self._logged: set[str] = set()
        self.part_from_parent()

    def part_from_parent(self) -> None:
        """Replace the lock in a forked child: a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def failed(self, where: str, error: Exception) -> None:
        """Record that a call has given up."""
        with self._lock:
            if where not in self.unreachable:
                self.unreachable[where] = time.monotonic()
            elif where not in self._logged:
                self._logged.add(where)
                words = str(error).rstrip(".")
                log.warning("Redis at %s cannot be reached: %s. Workers wait for it; nothing is lost", where, words)

    def replied(self, where: str) -> None:
        """Record that a server replies. Needed only if it is in `unreachable`."""
        with self._lock:
            since = self.unreachable.pop(where, None)
            if since is not None and where in self._logged:
                self._logged.discard(where)
                log.warning("Redis at %s replies again, after %.0f s", where, time.monotonic() - since)

    def replaced(self, where: str) -> None:
        """Record that a node has no slots anymore: other nodes have them."""
        with self._lock:
            self.unreachable.pop(where, None)
            if where in self._logged:
                self._logged.discard(where)
                log.warning("Redis at %s is no longer waited for: other nodes have its slots", where)


OUTAGES = Outages()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OUTAGES.part_from_parent)


def translate(error: Exception, where: str) -> SilklineError:
    """Return one of Silkline's errors for one of redis-py's. *where* is the address without its password."""
    message = str(error).rstrip(".") or type(error).__name__
    for word, kind in _ERRORS.items():
        if word in message:
            return kind(f"{message.partition(word)[2].strip()} (server {where})")
    if is_not_allowed(error):
        return ConfigError(
            f"Redis at {where} does not allow it: {_login(message)} (silkline doctor --help shows which permissions a user needs)"
        )
    if isinstance(error, redis.exceptions.MovedError):
        return ConfigError(f"Redis at {where} is part of a cluster: write redis+cluster:// instead of redis://")
    if "Cluster mode is not enabled" in message:
        return ConfigError(
            f"Redis at {where} is not a cluster: write redis:// instead of redis+cluster://. "
            "If it is one, its user may not run CLUSTER SLOTS"
        )
    if "DB index is out of range" in message:
        return ConfigError(
            f"Redis at {where} has no database with the number at the end of the address: a server has the databases 0 to 15, "
            "unless its configuration says otherwise"
        )
    return StoreUnavailable(f"Redis at {where} {_trouble(error, message, where)}")


def _login(message: str) -> str:
    if "invalid username-password pair" in message:
        return "the user name or password in the address is wrong, or the user is disabled"
    if "Authentication required" in message:
        return "it requires a password: redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST for the default user"
    return message


def _trouble(error: Exception, message: str, where: str) -> str:
    if isinstance(error, NotDurable):
        return message
    if is_out_of_memory(error):
        return f"is out of memory: {MORE_MEMORY}"
    if "Protocol error, got" in message or isinstance(error, redis.exceptions.InvalidResponse):
        return f"does not reply as a Redis server does ({message}): check host and port, and whether it needs rediss://"
    if not isinstance(error, _OUT_OF_REACH):
        return f"refused: {message}"
    plain = where.startswith("rediss") and ("SSL" in message or "Timeout connecting" in message)
    doubt = ". Does the server use TLS? If not, write redis:// instead of rediss://" if plain else ""
    return f"cannot be reached: {message}{doubt}"


def is_migrating(error: Exception) -> bool:
    """Return whether a script changed nothing because a cluster is moving its keys to another node."""
    return str(error).startswith("MIGRATING ")


def is_out_of_reach(error: Exception) -> bool:
    return isinstance(error, _OUT_OF_REACH)


def is_not_allowed(error: Exception) -> bool:
    return isinstance(error, _NOT_ALLOWED) or any(text in str(error) for text in _NOT_ALLOWED_TEXTS)


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, redis.exceptions.OutOfMemoryError) or "-OOM " in str(error)  # Redis 6 embeds it
