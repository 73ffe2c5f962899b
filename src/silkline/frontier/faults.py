"""Faults: what redis-py raises, what it means, and whether to try again."""

from __future__ import annotations

import random
import time

import redis

from silkline.core.errors import ConfigError, FrontierError, NewerData, SilklineError, StoreUnavailable, UnknownCrawl

PATIENCE = 3.0
"""Seconds for which a call is tried again when the server is out of reach; at least once in any case."""

_ERRORS: dict[str, type[SilklineError]] = {
    "NOCRAWL": UnknownCrawl,
    "NEWERDATA": NewerData,
    "CANNOTFORGET": FrontierError,
}
FAULTS = (redis.RedisError, redis.exceptions.RedisClusterException, OSError)
_OUT_OF_REACH = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.RedisClusterException, OSError)
_MAY_PASS = (*_OUT_OF_REACH, redis.exceptions.ClusterError, redis.exceptions.TryAgainError)
_NOT_ALLOWED = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
_NOT_ALLOWED_TEXTS = (  # where a script or the cluster client tells it in words of its own
    "user executing the script",
    "has no permissions to",
    "can't access at least one of the keys",
    "invalid username-password pair",
    "Authentication required",
    "NOPERM",
)


class Patience:
    """Decides whether a call that failed is tried again.

    redis-py is told not to: it would try to connect as often within each try, forty times in all, and each may last until
    its timeout.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._failures = 0

    def pause(self, error: Exception) -> float | None:
        """Seconds to wait before the next try; None to give up."""
        self._failures += 1
        spent = self._failures > 1 and time.monotonic() - self._began > PATIENCE
        if spent or is_not_allowed(error) or not isinstance(error, _MAY_PASS):
            return None
        return random.uniform(0, min(0.5, 0.025 * 2.0**self._failures))


def translate(error: Exception, where: str) -> SilklineError:
    """One of our errors for one of redis-py's. *where* is the server, without its password."""
    message = str(error) or type(error).__name__
    for word, kind in _ERRORS.items():
        if word in message:
            return kind(f"{message.partition(word)[2].strip()} (server {where})")
    if is_not_allowed(error):
        return ConfigError(f"Redis at {where} does not allow it: {message} (see docs/how-to/secure-redis.md)")
    if isinstance(error, redis.exceptions.MovedError):
        return ConfigError(f"Redis at {where} is part of a cluster: write redis+cluster:// instead of redis://")
    if "Cluster mode is not enabled" in message:
        return ConfigError(f"Redis at {where} is no cluster, or its user may not ask CLUSTER SLOTS")
    if isinstance(error, _OUT_OF_REACH):
        return StoreUnavailable(f"Redis at {where} cannot be reached: {message}")
    return StoreUnavailable(f"Redis at {where} refused: {message}")


def is_out_of_reach(error: Exception) -> bool:
    return isinstance(error, _OUT_OF_REACH)


def is_not_allowed(error: Exception) -> bool:
    return isinstance(error, _NOT_ALLOWED) or any(text in str(error) for text in _NOT_ALLOWED_TEXTS)


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, redis.exceptions.OutOfMemoryError) or "-OOM " in str(error)  # Redis 6 tells it in a story
