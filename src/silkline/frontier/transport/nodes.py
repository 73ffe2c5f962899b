"""The servers behind an address, and which of them holds a key.

A standalone server, an embedded one and the primary that Sentinel names are one node. A cluster has several, which CLUSTER
SLOTS lists. Each node has its own client and a limited number of connections; further calls wait. A cluster node that does
not reply is skipped for some time, so that its timeouts do not delay calls to other nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import hiredis
import redis
from redis.exceptions import ClusterError

from silkline.frontier.transport.clients import close_async, connection_limit, node_client_async, open_async, starts_of
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

SENT_TOGETHER = 16
"""Commands that are sent in one batch after waiting for a connection."""
Waiting = tuple[tuple[Any, ...], asyncio.Future[Any]]
"""A command, and the future for its reply."""
Unconfirmed = tuple[tuple[Any, ...], asyncio.Future[Any], WriteConfirmation]
"""The same, and what must be confirmed before the reply counts."""


async def may_have_data(connection: Any) -> bool:
    """Return whether reading from a connection may return something at once. That takes less time than to read with a timeout of 0.

    True if it is unknown: there is no connection, it is closed, or redis-py is older than 8.
    """
    is_open = connection is not None and connection.is_connected
    return not is_open or not hasattr(connection, "can_read") or bool(await connection.can_read())


class AsyncLimiter:
    """Limits how many calls run at once."""

    def __init__(self, limit: int) -> None:
        self._semaphore = asyncio.Semaphore(limit)
        self._calls = 0
        self._changed: asyncio.Event | None = None  # if a task waits for it

    @property
    def empty(self) -> bool:
        """Whether no call runs or waits."""
        return not self._calls

    @property
    def taken_by_others(self) -> bool:
        """Whether the limit is reached."""
        return self._semaphore.locked()

    async def __aenter__(self) -> None:
        self._calls += 1
        try:
            await self._semaphore.acquire()
        except BaseException:
            self._calls -= 1
            raise

    def enter_now(self) -> bool:
        """Return whether an ``async with`` block that follows enters without waiting."""
        return not self._semaphore.locked()

    async def wait(self, seconds: float) -> None:
        """Wait until a call leaves, or for this long."""
        self._changed = self._changed or asyncio.Event()
        with suppress(TimeoutError):  # wait_for of Python 3.11 may swallow a cancellation
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release()
        self._calls -= 1
        if self._changed:
            self._changed.set()
            self._changed = None


class AsyncSignal:
    """Wakes one task."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is set, or for this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class AsyncSender:
    """Sends the commands of a node. Those that wait for a connection are sent together."""

    client: Any
    health: Health | None

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limiter = AsyncLimiter(limit)
        self._kept: list[Any] = []
        self._waiting: deque[Waiting] = deque()
        self._unconfirmed: deque[Unconfirmed] = deque()
        self._confirming = False
        self._senders: set[asyncio.Task[None]] = set()
        self._sending = 0

    @property
    def idle(self) -> bool:
        return self._limiter.empty and not (self._waiting or self._sending or self._unconfirmed or self._confirming)

    async def run(self, *words: Any) -> Any:
        """Send a command and return the raw reply."""
        await self._check()
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((words, reply))
        if self._sending < self._limit:
            self._sending += 1
            sender = asyncio.create_task(self._send_waiting(), name="silkline-redis")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await reply

    async def run_confirmed(self, confirmation: WriteConfirmation, *words: Any) -> Any:
        """Send a command, and return the raw reply after its writes are durable.

        One connection does this, so that the other calls of the node do not wait. Commands that come meanwhile are confirmed together.
        """
        await self._check()
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._unconfirmed.append((words, reply, confirmation))
        if not self._confirming:
            self._confirming = True
            sender = asyncio.create_task(self._confirm_waiting(), name="silkline-redis-confirm")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await reply

    async def _confirm_waiting(self) -> None:
        try:
            while self._unconfirmed:
                async with self._limiter:
                    mode = self._unconfirmed[0][2].mode
                    batch: list[Unconfirmed] = []
                    while self._unconfirmed and len(batch) < SENT_TOGETHER and self._unconfirmed[0][2].mode == mode:
                        batch.append(self._unconfirmed.popleft())
                    await self._send_confirmed([waiting for waiting in batch if not waiting[1].done()])
        finally:
            self._confirming = False

    async def _send_confirmed(self, batch: list[Unconfirmed]) -> None:
        """Send commands and wait until their writes are durable; then set their replies, or the error."""
        if not batch:
            return
        began, confirmation = time.monotonic(), batch[-1][2]
        commands: tuple[Any, ...] = confirmation.commands
        try:
            await self._check()
            async with self._borrowed() as connection:
                packed, futures = self._pack([(words, reply) for words, reply, _ in batch])
                await self._write(connection, packed + [hiredis.pack_command(one) for one in commands])
                replies = [await self._read_reply(connection) for _ in futures]
                fault = confirmation.fault(await self._read_reply(connection), await self._read_reply(connection))
            for future, reply in zip(futures, replies, strict=True):
                self._resolve(future, reply if isinstance(reply, Exception) else fault or reply)
        except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
            failure = record_fault(self.health, error, began)
            for _, future, _ in batch:
                self._resolve(future, failure)
        else:
            if self.health:
                self.health.replied()
        finally:
            for _, future, _ in batch:
                future.cancel()

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                async with self._limiter:
                    batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), SENT_TOGETHER))]
                    await self._send([waiting for waiting in batch if not waiting[1].done()])
        finally:
            self._sending -= 1  # at once: the next command must start a sender

    async def _send(self, batch: list[Waiting]) -> None:
        """Send commands, and set their replies or the error; also if this task is cancelled."""
        if not batch:
            return
        began = time.monotonic()
        try:
            await self._check()  # it may have gone down while they waited
            async with self._borrowed() as connection:
                packed, replies = self._pack(batch)
                await self._write(connection, packed)
                for reply in replies:
                    self._resolve(reply, await self._read_reply(connection))
        except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
            fault = record_fault(self.health, error, began)
            for _, reply in batch:
                self._resolve(reply, fault)
        else:
            if self.health:
                self.health.replied()
        finally:
            for _, reply in batch:
                reply.cancel()

    @staticmethod
    async def _write(connection: Any, packed: list[bytes]) -> None:
        """Write commands within the timeout of the connection. In Python 3.11, redis-py would start a task for that."""
        limit, connection.socket_timeout = connection.socket_timeout, None
        try:
            async with asyncio.timeout(limit):
                await connection.send_packed_command(packed)
        except TimeoutError:
            raise redis.TimeoutError("Timeout writing to socket") from None
        finally:
            connection.socket_timeout = limit

    @staticmethod
    async def _read_reply(connection: Any) -> Any:
        """Return a reply; the error if the server refused the command."""
        try:
            return await connection.read_response()
        except redis.ResponseError as error:
            return error

    def _pack(self, batch: list[Waiting]) -> tuple[list[bytes], list[asyncio.Future[Any]]]:
        """Return commands as bytes, and the futures for their replies. A command that cannot be encoded fails alone."""
        packed: list[bytes] = []
        replies: list[asyncio.Future[Any]] = []
        for words, reply in batch:
            try:
                packed.append(hiredis.pack_command(words))  # redis-py takes ten times as long
            except (UnicodeError, TypeError) as error:
                self._resolve(reply, error)
            else:
                replies.append(reply)
        return packed, replies

    @staticmethod
    def _resolve(future: asyncio.Future[Any], reply: Any) -> None:
        if future.done():  # its caller was cancelled
            return
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    async def _stop_sending(self) -> None:
        for sender in list(self._senders):
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        for reply in [*(one[1] for one in self._waiting), *(one[1] for one in self._unconfirmed)]:
            reply.cancel()

    async def _check(self) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Any]:
        """Yield a connection, which is kept for the next call: the pool of redis-py takes longer than a small command."""
        pool = self.client.connection_pool
        connection = self._kept.pop() if self._kept else await pool.get_connection()
        try:
            if self._leads_to_former_primary(connection):
                await connection.disconnect()
            if await may_have_data(connection):
                await pool.ensure_connection(connection)
            yield connection
        except redis.ResponseError:
            raise
        except BaseException:
            await connection.disconnect()
            raise
        finally:
            self._kept.append(connection)

    async def _return_one(self) -> None:
        """Return a connection to the pool, so that it need not open a further one for redis-py."""
        if self._kept:
            connection = self._kept.pop()
            if self._leads_to_former_primary(connection):
                await connection.disconnect()
            await self.client.connection_pool.release(connection)

    def _leads_to_former_primary(self, connection: Any) -> bool:
        """Return whether Sentinel has named another primary since. The former one may still reply, but its writes get lost.

        redis-py closes only connections that are in its pool.
        """
        primary = getattr(self.client.connection_pool, "master_address", None)
        return primary is not None and primary != (connection.host, connection.port)


class AsyncNode(AsyncSender):
    """One server for async code; calls may share it."""

    def __init__(self, name: str, client: Any, limit: int, probe: Any = None) -> None:
        super().__init__(limit)
        self.name = name
        self.client = client
        self._probe = probe
        self.health = Health(name) if probe else None

    @property
    def down(self) -> bool:
        return self.health is not None and self.health.down_since is not None

    async def execute(self, *words: Any, **options: Any) -> Any:
        """Send a command and return the reply."""
        async with self._admitted():
            began = time.monotonic()
            try:
                await self._return_one()
                reply = await self.client.execute_command(*words, **options)
            except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
                raise record_fault(self.health, error, began) from None
        if self.health:
            self.health.replied()
        return reply

    async def ask(self, *words: Any) -> Any:
        """Send a command for a slot that is being moved to this node."""
        async with self.connection() as connection:
            await connection.send_command("ASKING")
            await connection.read_response()
            await connection.send_command(*words)
            return await connection.read_response()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Yield a connection for several commands. It is closed if one of them gets no reply."""
        async with self._admitted():
            began = time.monotonic()
            try:
                async with self._borrowed() as connection:
                    yield connection
            except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
                raise record_fault(self.health, error, began) from None
        if self.health:
            self.health.replied()

    @asynccontextmanager
    async def _admitted(self) -> AsyncIterator[None]:
        """Wait until the limit allows another call. Raises `NodeDown` if the node is down, before or after waiting."""
        await self._check()
        async with self._limiter:
            await self._check()
            yield

    async def _check(self) -> None:
        """Raise `NodeDown` if the node is down. It is probed once a second."""
        if self.health and self.health.must_probe():
            await self._probe_now(self.health)

    async def _probe_now(self, health: Health) -> None:
        try:
            await self._probe.ping()
        except Exception:  # noqa: BLE001 - after any error, the node is still down
            raise health.error() from None
        finally:
            await self._probe.connection_pool.disconnect()
        health.replied()

    async def close(self) -> None:
        await self._stop_sending()
        for client in (self.client, self._probe):
            if client is not None:
                await close_async(client)


class AsyncNodes(SlotTable):
    """All servers behind an address, for async code."""

    def __init__(self, target: RedisTarget, name: str) -> None:
        super().__init__()
        self._target = target
        self._name = name
        self._nodes: dict[Address, AsyncNode] = {}
        self._refreshing = AsyncLimiter(1)
        self._only: AsyncNode | None = None
        if target.kind == "cluster":
            self._starts = [Address(*start) for start in starts_of(target)]
        else:
            self._only = AsyncNode(target.public, open_async(target, name), connection_limit(target))

    async def of(self, key: str) -> AsyncNode:
        """Return the node that holds a key."""
        if self._only:
            return self._only
        await self._refresh_slots()
        return self._node(self.owner(key))

    async def all(self) -> list[AsyncNode]:
        """Return every node that holds slots."""
        if self._only:
            return [self._only]
        await self._refresh_slots()
        return [self._node(address) for address in self.primaries]

    async def any(self) -> AsyncNode:
        """Return a node that is not down, if there is one."""
        nodes = await self.all()
        return next((node for node in nodes if not node.down), nodes[0])

    async def send(self, key: str, *words: Any) -> Any:
        """Send a command to the node that holds a key, following redirections."""
        node, asking = await self.of(key), False
        for _ in range(MAX_REDIRECTS):
            try:
                return await (node.ask(*words) if asking else node.run(*words))
            except redis.exceptions.AskError as error:
                if self._only:
                    raise
                node, asking = self._redirect(error), not isinstance(error, redis.exceptions.MovedError)
        raise ClusterError(f"too many redirections for the slot of {key}")

    async def send_confirmed(self, confirmation: WriteConfirmation, key: str, *words: Any) -> Any:
        """Send a command as `send` does, and return the reply after its writes are durable."""
        node = await self.of(key)
        for _ in range(MAX_REDIRECTS):
            try:
                return await node.run_confirmed(confirmation, *words)
            except redis.exceptions.MovedError as error:
                if self._only:
                    raise
                node = self._redirect(error)
            except redis.exceptions.AskError as error:
                raise redis.exceptions.TryAgainError(str(error)) from None  # when the slot has moved
        raise ClusterError(f"too many redirections for the slot of {key}")

    def _redirect(self, error: redis.exceptions.AskError) -> AsyncNode:
        address = Address(error.host or self._starts[0].host, error.port)
        if isinstance(error, redis.exceptions.MovedError):
            self.move(error.slot_id, address)
        return self._node(address)

    async def _refresh_slots(self) -> None:
        """Send CLUSTER SLOTS if it is due.

        While one call does so, which may last until a timeout, other calls use the slots that are known.
        """
        if not self.must_refresh() or (self._owners and self._refreshing.taken_by_others):
            return
        async with self._refreshing:
            if not self.must_refresh():
                return
            faults: list[Exception] = []
            for address in self._candidates():
                try:
                    self.read(await self._node(address).execute("CLUSTER SLOTS"), address)
                except FAULTS as error:
                    faults.append(as_cluster_error(error))
                else:
                    await self._close_removed(self.idle_without_slots(self._nodes))
                    break
            self.refreshed(faults)

    async def _close_removed(self, removed: list[Address]) -> None:
        """Close the clients of nodes that no longer have slots."""
        for address in removed:
            node = self._nodes.pop(address)
            OUTAGES.replaced(node.name)
            await node.close()

    def _candidates(self) -> list[Address]:
        """Return the nodes to ask for slots, those that are down last."""
        known = dict.fromkeys((*self.primaries, *self._nodes, *self._starts))
        return sorted(known, key=lambda address: address in self._nodes and self._nodes[address].down)

    def _node(self, address: Address) -> AsyncNode:
        if address not in self._nodes:
            client = node_client_async(self._target, *address, self._name)
            probe = node_client_async(self._target, *address, self._name, probe=True)
            self._nodes[address] = AsyncNode(str(address), client, connection_limit(self._target), probe)
        return self._nodes[address]

    @property
    def opened(self) -> list[AsyncNode]:
        """Every node that has a client."""
        return [self._only] if self._only else list(self._nodes.values())

    async def close(self) -> None:
        for node in self.opened:
            await node.close()
