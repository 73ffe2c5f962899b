"""From an address to a client of redis-py, whatever the topology."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hiredis
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from silkline.core.errors import ConfigError
from silkline.frontier.address import Target
from silkline.frontier.faults import FAULTS, translate

SOCKET_TIMEOUT = 5.0
"""Seconds to wait for an answer: less than a lease lasts, so that one lost connection does not cost the lease."""

TIMEOUTS = {"socket_timeout": SOCKET_TIMEOUT, "socket_connect_timeout": 5.0, "health_check_interval": 30}
_CLUSTER_RETRIES = 1  # then it learns anew where the slots are
_SSL = (redis.SSLConnection, redis.asyncio.SSLConnection)


class Packer:
    """Writes commands of text only, see `Caller._arguments`; redis-py sends some by itself when it connects."""

    def pack(self, *words: Any) -> list[bytes]:
        if words[0] != "EVALSHA":  # its words are text
            texts = (str(word) if isinstance(word, int | float) else word for word in words[1:])
            words = (*words[0].split(), *texts)
        return [hiredis.pack_command(words)]


def one_node(target: Target) -> dict[str, Any]:
    return {"target_nodes": redis.RedisCluster.RANDOM} if target.kind == "cluster" else {}


def all_primaries(target: Target) -> dict[str, Any]:
    return {"target_nodes": redis.RedisCluster.PRIMARIES} if target.kind == "cluster" else {}


def node_options(cluster: Any, host: str, port: int | str) -> dict[str, Any]:
    options = getattr(cluster, "connection_kwargs", None) or cluster.get_connection_kwargs()
    kept = [name for name in options if name in ("username", "password") or name.startswith(("ssl", "socket_"))]
    ssl = {"ssl": True} if issubclass(options.get("connection_class") or object, _SSL) else {}
    given = {name: options[name] for name in kept if options[name] is not None}
    return {**TIMEOUTS, **ssl, **given, "host": host, "port": int(port)}


def open_async(target: Target) -> Any:
    options: dict[str, Any] = {**TIMEOUTS, "retry": AsyncRetry(NoBackoff(), 0)}
    with wrong_url(target):
        if target.kind == "cluster":
            options["retry"] = AsyncRetry(NoBackoff(), _CLUSTER_RETRIES)
            return redis.asyncio.RedisCluster.from_url(target.url, **options)
        if target.kind == "sentinel":
            ours, theirs = _sentinel_options(target)
            theirs["retry"] = options["retry"]
            sentinel = AsyncSentinel(list(target.sentinels), sentinel_kwargs=theirs, **TIMEOUTS)  # type: ignore[no-untyped-call]
            return sentinel.master_for(target.service, **{**options, **ours})
        return redis.asyncio.Redis.from_url(target.url, **options)


def open_sync(target: Target) -> Any:
    options: dict[str, Any] = {**TIMEOUTS, "retry": Retry(NoBackoff(), 0), "command_packer": Packer()}
    with wrong_url(target):
        if target.kind == "cluster":
            options["retry"] = Retry(NoBackoff(), _CLUSTER_RETRIES)
            return redis.RedisCluster.from_url(target.url, **options)
        if target.kind == "sentinel":
            ours, theirs = _sentinel_options(target)
            theirs["retry"] = options["retry"]
            sentinel = Sentinel(list(target.sentinels), sentinel_kwargs=theirs, **TIMEOUTS)  # type: ignore[no-untyped-call]
            return sentinel.master_for(target.service, **{**options, **ours})  # type: ignore[no-untyped-call]
        return redis.Redis.from_url(target.url, **options)


def _sentinel_options(target: Target) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for the primary, and for the sentinels: TLS and timeouts for both, ``sentinel_password`` for the latter."""
    options = redis.connection.parse_url(target.url)  # type: ignore[no-untyped-call]
    for name in ("host", "port", "path"):
        options.pop(name, None)
    if options.pop("connection_class", None) is redis.SSLConnection:
        options["ssl"] = True
    theirs = {**TIMEOUTS, **{name: value for name, value in options.items() if name.startswith(("ssl", "socket_"))}}
    for name in [name for name in options if name.startswith("sentinel_")]:
        theirs[name.removeprefix("sentinel_")] = options.pop(name)
    return options, theirs


def drop_idle(client: Any) -> None:
    """Close what nobody uses now. A call that was interrupted may have left a reply unread, or not have wholly connected."""
    of_cluster = hasattr(client, "get_nodes")
    for node in [node.redis_connection for node in client.get_nodes()] if of_cluster else [client]:
        if node is not None:
            node.connection_pool.disconnect(inuse_connections=False)


def sentinels_of(client: Any) -> list[Any]:
    """The connections to the sentinels, which redis-py leaves open."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return list(manager.sentinels) if manager else []


@contextmanager
def wrong_url(target: Target) -> Iterator[None]:
    try:
        yield
    except FAULTS as error:
        raise translate(error, target.public) from None
    except (ValueError, TypeError):  # which may quote a part of the password
        raise ConfigError(
            f"the server address {target.public} cannot be read; check port, options and quoting"
        ) from None
