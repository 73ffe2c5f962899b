"""Creates redis-py clients for an address of any topology."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hiredis
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from silkline.errors import ConfigError
from silkline.frontier.transport.redis_errors import FAULTS, translate
from silkline.frontier.transport.redis_url import RedisTarget

SOCKET_TIMEOUT = 5.0
"""Seconds to wait for a reply: less than a lease lasts, so that a lost connection does not cost the lease."""

TIMEOUTS = {"socket_timeout": SOCKET_TIMEOUT, "socket_connect_timeout": 5.0, "health_check_interval": 30}
CALL_CONNECTIONS = 2
"""Connections per node for calls, unless the address has ``max_connections``. Further calls wait. With one for notifications
and one for the heartbeat, a worker has at most four per node."""
PROBE_TIMEOUT = 1.0
"""Seconds to wait for a cluster node that was down."""
_CLUSTER_RETRIES = 1  # then it reads the slots again
_CLUSTER_OPTIONS = (  # of the cluster client of redis-py, not of a node
    "require_full_coverage",
    "read_from_replicas",
    "dynamic_startup_nodes",
    "reinitialize_steps",
    "cluster_error_retry_attempts",
)


class Packer:
    """Encodes commands after making numbers text, see `BaseConnection._arguments`. redis-py sends some when it connects."""

    def pack(self, *words: Any) -> list[bytes]:
        if words[0] != "EVALSHA":  # its arguments are text already
            texts = (str(word) if isinstance(word, int | float) else word for word in words[1:])
            words = (*words[0].split(), *texts)
        return [hiredis.pack_command(words)]


def connection_name(crawl: str, role: str) -> str:
    """Return the name of a connection of this process: silkline:CRAWL:HOST:PID:ROLE."""
    host = re.sub(r"[^A-Za-z0-9_.-]+", "-", socket.gethostname())[:36]
    return clean_name(f"silkline:{crawl}:{host}:{os.getpid()}:{role}")


def has_client_name(target: RedisTarget) -> bool:
    """Return whether the address names the connections."""
    with wrong_url(target):
        return "client_name" in _url_options(target)


def clean_name(text: str) -> str:
    """Return a valid client name: without blanks and special characters, and not too long."""
    return re.sub(r"[^!-~]+", "-", text)[:120]


def connection_limit(target: RedisTarget) -> int:
    """Return how many connections calls may use on each node."""
    with wrong_url(target):
        limit: int = _url_options(target).get("max_connections", CALL_CONNECTIONS)
        if limit < 1:
            raise ValueError(limit)
    return limit


def starts_of(target: RedisTarget) -> list[tuple[str, int]]:
    """Return the nodes of a cluster that its address names."""
    with wrong_url(target):
        options = _url_options(target)
        first = str(options.get("host", "localhost")), int(options.get("port", 6379))
    return list(dict.fromkeys((first, *target.nodes)))


def open_async(target: RedisTarget, name: str = "") -> Any:
    """Return a client for the only node. CLIENT LIST shows its connections under *name*."""
    options: dict[str, Any] = {**TIMEOUTS, "retry": AsyncRetry(NoBackoff(), 0)}
    with wrong_url(target):
        if target.kind == "sentinel":
            primary, sentinels = _sentinel_options(target)
            sentinels["retry"] = options["retry"]
            sentinel = AsyncSentinel(list(target.sentinels), sentinel_kwargs=sentinels, **TIMEOUTS)  # type: ignore[no-untyped-call]
            return _checked(
                sentinel.master_for(target.service, **_with_name({**options, **primary}, name, _name_async))
            )
        return _async_client(_with_name({**options, **_async_options(target)}, name, _name_async))


def node_client_async(target: RedisTarget, host: str, port: int, name: str, *, probe: bool = False) -> Any:
    """Return a client for one node of a cluster; with *probe*, one with short timeouts."""
    options: dict[str, Any] = {**TIMEOUTS, "retry": AsyncRetry(NoBackoff(), 0)}
    with wrong_url(target):
        options |= {**_async_options(target), "host": host, "port": port, **_timeouts(probe=probe)}
        return _async_client(_with_name(options, name, _name_async))


def _async_client(options: dict[str, Any]) -> Any:
    return _checked(redis.asyncio.Redis.from_pool(redis.asyncio.ConnectionPool(**options)))


def open_sync(target: RedisTarget, name: str = "") -> Any:
    options: dict[str, Any] = {**TIMEOUTS, "retry": Retry(NoBackoff(), 0), "command_packer": Packer()}
    with wrong_url(target):
        if target.kind == "cluster":
            options["retry"] = Retry(NoBackoff(), _CLUSTER_RETRIES)
            starts = [ClusterNode(*start) for start in starts_of(target)]  # type: ignore[no-untyped-call]
            return redis.RedisCluster.from_url(target.url, startup_nodes=starts, **options)
        if target.kind == "sentinel":
            primary, sentinels = _sentinel_options(target)
            sentinels["retry"] = options["retry"]
            sentinel = Sentinel(list(target.sentinels), sentinel_kwargs=sentinels, **TIMEOUTS)  # type: ignore[no-untyped-call]
            client = sentinel.master_for(target.service, **_with_name({**options, **primary}, name, _name_sync))  # type: ignore[no-untyped-call]
            return _checked(client)
        return _sync_client(_with_name({**options, **_node_options(target)}, name, _name_sync))


def node_client_sync(target: RedisTarget, host: str, port: int, name: str, *, probe: bool = False) -> Any:
    options: dict[str, Any] = {**TIMEOUTS, "retry": Retry(NoBackoff(), 0), "command_packer": Packer()}
    with wrong_url(target):
        options |= {**_node_options(target), "host": host, "port": port, **_timeouts(probe=probe)}
        return _sync_client(_with_name(options, name, _name_sync))


def _sync_client(options: dict[str, Any]) -> Any:
    return _checked(redis.Redis.from_pool(redis.ConnectionPool(**options)))


def _checked(client: Any) -> Any:
    """Return the client; raises TypeError for an option that redis-py does not know, before it connects."""
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    return client


def _timeouts(*, probe: bool) -> dict[str, Any]:
    return {"socket_timeout": PROBE_TIMEOUT, "socket_connect_timeout": PROBE_TIMEOUT} if probe else {}


def _url_options(target: RedisTarget) -> dict[str, Any]:
    options: dict[str, Any] = redis.connection.parse_url(target.url)  # type: ignore[no-untyped-call]
    return options


def _node_options(target: RedisTarget, parse: Callable[[str], Any] = redis.connection.parse_url) -> dict[str, Any]:
    """Return the connection options of the address, except their number: see `connection_limit`."""
    unwanted = ("max_connections", *(_CLUSTER_OPTIONS if target.kind == "cluster" else ()))
    return {name: value for name, value in parse(target.url).items() if name not in unwanted}


def _async_options(target: RedisTarget) -> dict[str, Any]:
    return _node_options(target, redis.asyncio.connection.parse_url)


def _with_name(options: dict[str, Any], name: str, connect: Callable[[str], Any]) -> dict[str, Any]:
    """Return options that name the connections. A name in the address takes precedence."""
    name = clean_name(options.pop("client_name", None) or name)
    return {**options, "redis_connect_func": connect(name)} if name else options


def _name_async(name: str) -> Any:
    async def connect(connection: Any) -> None:
        await connection.on_connect()
        await connection.send_command("CLIENT", "SETNAME", name, check_health=False)
        with suppress(redis.ResponseError):  # not allowed
            await connection.read_response()

    return connect


def _name_sync(name: str) -> Any:
    def connect(connection: Any) -> None:
        connection.on_connect()
        connection.send_command("CLIENT", "SETNAME", name, check_health=False)
        with suppress(redis.ResponseError):
            connection.read_response()

    return connect


def _sentinel_options(target: RedisTarget) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options for the primary and for the sentinels: TLS and timeouts for both, ``sentinel_password`` for the latter."""
    options = redis.connection.parse_url(target.url)  # type: ignore[no-untyped-call]
    for name in ("host", "port", "path", "max_connections"):
        options.pop(name, None)
    if options.pop("connection_class", None) is redis.SSLConnection:
        options["ssl"] = True
    sentinels = {**TIMEOUTS, **{name: value for name, value in options.items() if name.startswith(("ssl", "socket_"))}}
    for name in [name for name in options if name.startswith("sentinel_")]:
        sentinels[name.removeprefix("sentinel_")] = options.pop(name)
    return options, sentinels


def drop_idle(client: Any) -> None:
    """Close idle connections. An interrupted call may have left an unread reply, or a connection half open."""
    client.connection_pool.disconnect(inuse_connections=False)


async def close_async(client: Any) -> None:
    await client.aclose()
    for sentinel in sentinels_of(client):
        await sentinel.aclose()


def close_sync(client: Any) -> None:
    client.close()
    for sentinel in sentinels_of(client):
        sentinel.close()


def sentinels_of(client: Any) -> list[Any]:
    """Return the clients of the sentinels, which redis-py leaves open."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return list(manager.sentinels) if manager else []


@contextmanager
def wrong_url(target: RedisTarget) -> Iterator[None]:
    try:
        yield
    except FAULTS as error:
        raise translate(error, target.public) from None
    except (ValueError, TypeError):  # its message may contain a part of the password
        raise ConfigError(
            f"the server address {target.public} cannot be read; check port, options and quoting"
        ) from None
