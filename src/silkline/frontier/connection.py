"""URL to client. Everything that knows redis-py, its topologies and its errors is here."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from silkline.core.errors import ConfigError, FrontierError, NewerData, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.address import Target
from silkline.frontier.commands import Command
from silkline.frontier.script import Script

R = TypeVar("R")

SOCKET_TIMEOUT = 5.0
"""Seconds to wait for an answer: less than a lease lasts, so that one lost connection does not cost the lease."""

PATIENCE = 3.0
"""Seconds for which a call is tried again when the server is out of reach; at least once in any case."""

_TIMEOUTS = {"socket_timeout": SOCKET_TIMEOUT, "socket_connect_timeout": 5.0, "health_check_interval": 30}
UNANSWERED = 2
"""So many commands of a stream may be on their way."""

_CLUSTER_RETRIES = 1  # then it learns anew where the slots are
_ERRORS: dict[str, type[SilklineError]] = {
    "NOCRAWL": UnknownCrawl,
    "NEWERDATA": NewerData,
    "CANNOTFORGET": FrontierError,
}
_SSL = (redis.SSLConnection, redis.asyncio.SSLConnection)
_FAULTS = (redis.RedisError, redis.exceptions.RedisClusterException, OSError)
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


class Server(NamedTuple):
    """What the server says of itself."""

    name: str
    version: tuple[int, ...]
    eviction: str
    cluster: bool

    @property
    def legacy(self) -> bool:
        """Whether it is from before scripts had a first line."""
        return self.name == "Redis" and self.version < (7,)


class Slots:
    """Names for calls. A slot is used by one call at a time, in any thread; the server keeps the last reply of each."""

    def __init__(self) -> None:
        self._client = secrets.token_hex(6)
        self._free: list[int] = []
        self._numbers = itertools.count()
        self._calls = itertools.count(1)

    def take(self) -> tuple[int, tuple[str, str]]:
        try:
            number = self._free.pop()
        except IndexError:
            number = next(self._numbers)
        return number, (f"{self._client}:{number}", str(next(self._calls)))

    def give_back(self, number: int) -> None:
        """Only after a reply: a call that got none may still run on the server."""
        self._free.append(number)


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
        if spent or _is_not_allowed(error) or not isinstance(error, _MAY_PASS):
            return None
        return random.uniform(0, min(0.5, 0.025 * 2.0**self._failures))


class Sent(NamedTuple):
    """A command on its way, under the name of its call."""

    command: Command[Any]
    slot: int
    name: tuple[str, str]


class _Base:
    """What both connections share: arguments in, errors out."""

    def __init__(self, target: Target, clock: Callable[[], int] | None) -> None:
        self.target = target
        self.server = Server("", (), "", cluster=False)
        self._clock = clock
        self._slots = Slots()

    def _arguments(self, command: Command[Any], call: tuple[str, str]) -> list[Any]:
        script = command.script
        prelude: list[Any] = []
        if script.takes_clock:
            prelude.append("" if self._clock is None else self._clock())
        if script.takes_call:
            prelude += command.call or call
        return [len(command.keys), *command.keys, *prelude, *command.args]

    def _evalsha(self, command: Command[Any], call: tuple[str, str]) -> list[Any]:
        return ["EVALSHA", self._sha(command.script), *self._arguments(command, call)]

    def _sha(self, script: Script) -> str:
        return script.legacy_sha if self.server.legacy else script.sha

    def _source(self, script: Script) -> str:
        return script.legacy_source if self.server.legacy else script.source

    def translate(self, error: Exception) -> SilklineError:
        message, where = str(error) or type(error).__name__, self.target.public
        for word, kind in _ERRORS.items():
            if word in message:
                return kind(f"{message} (server {where})")
        if _is_not_allowed(error):
            return ConfigError(f"Redis at {where} does not allow it: {message} (see docs/how-to/secure-redis.md)")
        if isinstance(error, redis.exceptions.MovedError):
            return ConfigError(f"Redis at {where} is part of a cluster: write redis+cluster:// instead of redis://")
        if "Cluster mode is not enabled" in message:
            return ConfigError(f"Redis at {where} is no cluster, or its user may not ask CLUSTER SLOTS")
        if isinstance(error, _OUT_OF_REACH):
            return StoreUnavailable(f"Redis at {where} cannot be reached: {message}")
        return StoreUnavailable(f"Redis at {where} refused: {message}")

    def _answer(self, command: Command[R], error: Exception) -> R:
        if command.when_out_of_memory is not None and _is_out_of_memory(error):
            return command.decode(command.when_out_of_memory)
        raise self.translate(error) from None


def _is_not_allowed(error: Exception) -> bool:
    return isinstance(error, _NOT_ALLOWED) or any(text in str(error) for text in _NOT_ALLOWED_TEXTS)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, redis.exceptions.OutOfMemoryError) or "-OOM " in str(error)  # Redis 6 tells it in a story


class AsyncConnection(_Base):
    """Sends commands for `Frontier`."""

    def __init__(self, target: Target, clock: Callable[[], int] | None = None) -> None:
        super().__init__(target, clock)
        self._client = _open_async(target)

    async def start(self) -> None:
        with _wrong_url(self.target):
            info = await self._patiently(lambda: self._client.info("everything", **_one_node(self.target)))
        self.server = read_server(info)

    async def call(self, command: Command[R]) -> R:
        answer: R = await self._call(Sent(command, *self._slots.take()))
        return answer

    async def _call(self, sent: Sent) -> Any:
        command = sent.command
        arguments = self._arguments(command, sent.name)
        try:
            reply = await self._patiently(lambda: self._evaluate(command, arguments))
        except _FAULTS as error:
            return self._answer(command, error)
        self._slots.give_back(sent.slot)
        return command.decode(reply)

    async def call_stream(self, commands: Iterator[Command[Any]]) -> list[Any]:
        """Send commands one after the other, without waiting for each answer; they run in this order.

        What got no good reply is called again in the ordinary way, under its name: if it ran, it answers as it did.
        """
        sent: list[Sent] = []
        replies: list[Any] = []
        if self.target.kind != "cluster":
            with suppress(*_FAULTS):
                await self._pipe(commands, sent, replies)
        sent += [Sent(command, *self._slots.take()) for command in commands]
        replies += [StoreUnavailable()] * (len(sent) - len(replies))
        return [await self._conclude(*pair) for pair in zip(sent, replies, strict=True)]

    async def _pipe(self, commands: Iterator[Command[Any]], sent: list[Sent], replies: list[Any]) -> None:
        pool = self._client.connection_pool
        connection = await pool.get_connection()
        try:
            for command in commands:
                sent.append(Sent(command, *self._slots.take()))
                await connection.send_command(*self._evalsha(command, sent[-1].name))
                if len(sent) - len(replies) > UNANSWERED:
                    replies.append(await self._read(connection))
            while len(replies) < len(sent):
                replies.append(await self._read(connection))
        except BaseException:
            await connection.disconnect()
            raise
        finally:
            await pool.release(connection)

    async def _read(self, connection: Any) -> Any:
        try:
            return await connection.read_response()
        except redis.ResponseError as error:
            return error

    async def _conclude(self, sent: Sent, reply: Any) -> Any:
        if isinstance(reply, Exception):
            return await self._call(sent)
        self._slots.give_back(sent.slot)
        return sent.command.decode(reply)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        if len(commands) == 1:
            return [await self.call(commands[0])]
        answers = await asyncio.gather(*map(self.call, commands), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def _evaluate(self, command: Command[Any], arguments: list[Any]) -> Any:
        try:
            return await self._client.execute_command("EVALSHA", self._sha(command.script), *arguments)
        except redis.exceptions.NoScriptError:
            return await self._client.execute_command("EVAL", self._source(command.script), *arguments)

    @asynccontextmanager
    async def listen(self, channels: Sequence[str]) -> AsyncIterator[Any]:
        """A pub/sub connection that hears these channels."""
        client = self._client
        if isinstance(client, redis.asyncio.RedisCluster):
            node = client.get_default_node()
            options = _node_options(client, node.host, node.port)
            client = redis.asyncio.Redis(retry=AsyncRetry(NoBackoff(), 0), **options)
        try:
            async with client.pubsub(ignore_subscribe_messages=False) as pubsub:
                await self._patiently(lambda: pubsub.subscribe(*channels))
                yield pubsub
        except _FAULTS as error:
            raise self.translate(error) from None
        finally:
            if client is not self._client:
                await client.aclose()

    async def _patiently(self, ask: Callable[[], Awaitable[R]]) -> R:
        patience = Patience()
        while True:
            try:
                return await ask()
            except _FAULTS as error:
                pause = patience.pause(error)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def close(self) -> None:
        await self._client.aclose()
        for sentinel in _sentinels_of(self._client):
            await sentinel.aclose()


class SyncConnection(_Base):
    """Sends commands for `SyncFrontier`."""

    def __init__(self, target: Target, clock: Callable[[], int] | None = None) -> None:
        super().__init__(target, clock)
        self._client = _open_sync(target)

    def start(self) -> None:
        with _wrong_url(self.target):
            info = self._patiently(lambda: self._client.info("everything", **_one_node(self.target)))
        self.server = read_server(info)

    def used_memory(self) -> int:
        """Bytes that the data takes on the server, without what its clients cost; on a cluster, on all primaries."""
        try:
            info = self._patiently(lambda: self._client.info("memory", **_all_primaries(self.target)))
        except _FAULTS as error:
            raise self.translate(error) from None
        nodes = [info] if "used_memory" in info else info.values()
        return sum(node["used_memory"] - node.get("mem_clients_normal", 0) for node in nodes)

    def call(self, command: Command[R]) -> R:
        answer: R = self._call(Sent(command, *self._slots.take()))
        return answer

    def _call(self, sent: Sent) -> Any:
        command = sent.command
        arguments = self._arguments(command, sent.name)
        try:
            reply = self._patiently(lambda: self._evaluate(command, arguments))
        except _FAULTS as error:
            return self._answer(command, error)
        self._slots.give_back(sent.slot)
        return command.decode(reply)

    def call_stream(self, commands: Iterator[Command[Any]]) -> list[Any]:
        """Send commands one after the other, without waiting for each answer; they run in this order.

        What got no good reply is called again in the ordinary way, under its name: if it ran, it answers as it did.
        """
        sent: list[Sent] = []
        replies: list[Any] = []
        if self.target.kind != "cluster":
            with suppress(*_FAULTS):
                self._pipe(commands, sent, replies)
        sent += [Sent(command, *self._slots.take()) for command in commands]
        replies += [StoreUnavailable()] * (len(sent) - len(replies))
        return [self._conclude(*pair) for pair in zip(sent, replies, strict=True)]

    def _pipe(self, commands: Iterator[Command[Any]], sent: list[Sent], replies: list[Any]) -> None:
        pool = self._client.connection_pool
        connection = pool.get_connection()
        try:
            for command in commands:
                sent.append(Sent(command, *self._slots.take()))
                connection.send_command(*self._evalsha(command, sent[-1].name))
                if len(sent) - len(replies) > UNANSWERED:
                    replies.append(self._read(connection))
            while len(replies) < len(sent):
                replies.append(self._read(connection))
        except BaseException:
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def _read(self, connection: Any) -> Any:
        try:
            return connection.read_response()
        except redis.ResponseError as error:
            return error

    def _conclude(self, sent: Sent, reply: Any) -> Any:
        if isinstance(reply, Exception):
            return self._call(sent)
        self._slots.give_back(sent.slot)
        return sent.command.decode(reply)

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        return [self.call(command) for command in commands]

    def _evaluate(self, command: Command[Any], arguments: list[Any]) -> Any:
        try:
            return self._client.execute_command("EVALSHA", self._sha(command.script), *arguments)
        except redis.exceptions.NoScriptError:
            return self._client.execute_command("EVAL", self._source(command.script), *arguments)

    @contextmanager
    def listen(self, channels: Sequence[str]) -> Iterator[Any]:
        """A pub/sub connection that hears these channels."""
        client = self._client
        if isinstance(client, redis.RedisCluster):
            node: Any = client.get_default_node()  # type: ignore[no-untyped-call]
            client = redis.Redis(retry=Retry(NoBackoff(), 0), **_node_options(client, node.host, node.port))
        try:
            with client.pubsub(ignore_subscribe_messages=False) as pubsub:
                self._patiently(lambda: pubsub.subscribe(*channels))
                yield pubsub
        except _FAULTS as error:
            raise self.translate(error) from None
        finally:
            if client is not self._client:
                client.close()

    def _patiently(self, ask: Callable[[], R]) -> R:
        patience = Patience()
        while True:
            try:
                return ask()
            except _FAULTS as error:
                pause = patience.pause(error)
                if pause is None:
                    raise
            time.sleep(pause)

    def close(self) -> None:
        self._client.close()
        for sentinel in _sentinels_of(self._client):
            sentinel.close()


def read_server(info: dict[str, Any]) -> Server:
    """Read INFO; of a cluster it is the INFO of one node."""
    name = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    version = str(info.get("valkey_version" if name == "Valkey" else "redis_version", "0"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return Server(name, numbers, str(info.get("maxmemory_policy", "")), bool(info.get("cluster_enabled")))


def check_server(server: Server, where: str) -> None:
    """Refuse servers on which the frontier's promises cannot be kept."""
    oldest = (7, 2) if server.name == "Valkey" else (6, 2)
    if server.version < oldest:
        version = ".".join(map(str, server.version))
        raise ConfigError(f"{where} is {server.name} {version}; Silkline needs Redis 6.2 or Valkey 7.2 or later")
    if server.eviction.startswith("allkeys"):
        raise ConfigError(
            f"{where} evicts keys when memory is short (maxmemory-policy {server.eviction}), which would lose requests: "
            "run CONFIG SET maxmemory-policy noeviction, or use another server"
        )


def _one_node(target: Target) -> dict[str, Any]:
    return {"target_nodes": redis.RedisCluster.RANDOM} if target.kind == "cluster" else {}


def _all_primaries(target: Target) -> dict[str, Any]:
    return {"target_nodes": redis.RedisCluster.PRIMARIES} if target.kind == "cluster" else {}


def _node_options(cluster: Any, host: str, port: int | str) -> dict[str, Any]:
    options = getattr(cluster, "connection_kwargs", None) or cluster.get_connection_kwargs()
    kept = [name for name in options if name in ("username", "password") or name.startswith(("ssl", "socket_"))]
    ssl = {"ssl": True} if issubclass(options.get("connection_class") or object, _SSL) else {}
    given = {name: options[name] for name in kept if options[name] is not None}
    return {**_TIMEOUTS, **ssl, **given, "host": host, "port": int(port)}


def _open_async(target: Target) -> Any:
    options: dict[str, Any] = {**_TIMEOUTS, "retry": AsyncRetry(NoBackoff(), 0)}
    with _wrong_url(target):
        if target.kind == "cluster":
            options["retry"] = AsyncRetry(NoBackoff(), _CLUSTER_RETRIES)
            return redis.asyncio.RedisCluster.from_url(target.url, **options)
        if target.kind == "sentinel":
            ours, theirs = _sentinel_options(target)
            theirs["retry"] = options["retry"]
            sentinel = AsyncSentinel(list(target.sentinels), sentinel_kwargs=theirs, **_TIMEOUTS)  # type: ignore[no-untyped-call]
            return sentinel.master_for(target.service, **{**options, **ours})
        return redis.asyncio.Redis.from_url(target.url, **options)


def _open_sync(target: Target) -> Any:
    options: dict[str, Any] = {**_TIMEOUTS, "retry": Retry(NoBackoff(), 0)}
    with _wrong_url(target):
        if target.kind == "cluster":
            options["retry"] = Retry(NoBackoff(), _CLUSTER_RETRIES)
            return redis.RedisCluster.from_url(target.url, **options)
        if target.kind == "sentinel":
            ours, theirs = _sentinel_options(target)
            theirs["retry"] = options["retry"]
            sentinel = Sentinel(list(target.sentinels), sentinel_kwargs=theirs, **_TIMEOUTS)  # type: ignore[no-untyped-call]
            return sentinel.master_for(target.service, **{**options, **ours})  # type: ignore[no-untyped-call]
        return redis.Redis.from_url(target.url, **options)


def _sentinel_options(target: Target) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for the primary, and for the sentinels: TLS and timeouts for both, ``sentinel_password`` for the latter."""
    options = redis.connection.parse_url(target.url)  # type: ignore[no-untyped-call]
    for name in ("host", "port", "path"):
        options.pop(name, None)
    if options.pop("connection_class", None) is redis.SSLConnection:
        options["ssl"] = True
    theirs = {**_TIMEOUTS, **{name: value for name, value in options.items() if name.startswith(("ssl", "socket_"))}}
    for name in [name for name in options if name.startswith("sentinel_")]:
        theirs[name.removeprefix("sentinel_")] = options.pop(name)
    return options, theirs


def _sentinels_of(client: Any) -> list[Any]:
    """The connections to the sentinels, which redis-py leaves open."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return list(manager.sentinels) if manager else []


@contextmanager
def _wrong_url(target: Target) -> Iterator[None]:
    try:
        yield
    except _FAULTS as error:
        raise _Base(target, None).translate(error) from None
    except (ValueError, TypeError):  # which may quote a part of the password
        raise ConfigError(
            f"the server address {target.public} cannot be read; check port, options and quoting"
        ) from None
