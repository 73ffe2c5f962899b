"""What plain and async code do differently: wait, stop early, share connections, send to several shards.

The async modules `connection` and `nodes` define the same names. A signal handler may raise in any line of plain code, and the
connection must be usable afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

import redis

from silkline.errors import StoreUnavailable
from silkline.frontier.transport.calls import SentCall
from silkline.frontier.transport.clients import drop_idle
from silkline.frontier.transport.cluster import Health, record_fault
from silkline.frontier.transport.connection import BaseConnection
from silkline.frontier.transport.durability import WriteConfirmation
from silkline.frontier.transport.redis_errors import FAULTS

P = ParamSpec("P")
R = TypeVar("R")

LOOK_EVERY = 0.05
"""Seconds after which a waiting thread checks the limit again."""
NOT_SENT = redis.ResponseError("not sent yet")
"""The reply to a call that was not sent together with others."""

sleep = time.sleep
READS_RESUME = False
"""A signal may arrive between the lines that take data from the socket and pass it to the parser."""


def run_blocking(function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    return function(*arguments, **options)


def run_to_end(function: Callable[[], R]) -> R:
    return function()


def run_or_undo(function: Callable[[], R], undo: Callable[[R], object]) -> R:  # noqa: ARG001 - plain code has no cancellation
    return function()


def gather(functions: Iterable[Callable[[], object]]) -> None:
    """Run functions one after the other."""
    for function in functions:
        function()


def cancellations() -> int:
    return 0


def raise_if_cancelled(before: int) -> None:
    """Do nothing: plain code is interrupted by exceptions only."""


def may_have_data(connection: Any) -> bool:  # noqa: ARG001 - reading with a timeout of 0 takes as long as to look
    return True


def read_message(pubsub: Any, seconds: float) -> Any:
    """Return the next message; None if there is none within some seconds."""
    return pubsub.get_message(timeout=seconds)


@contextmanager
def suppress_faults(nodes: Any) -> Iterator[None]:
    """Ignore faults in a block of calls that are sent again if they fail. After other errors, close idle connections."""
    try:
        yield
    except FAULTS:
        pass
    except BaseException:
        after_interruption(nodes)
        raise


def after_interruption(nodes: Any) -> None:
    """Close idle connections: an interrupted call may have left an unread reply in one."""
    for node in nodes.opened:
        drop_idle(node.client)


class SyncLimiter:
    """Limits how many threads run calls at once. An interrupted thread that did not leave is not counted twice.

    A `threading.Semaphore` would count it forever if the signal arrived between two of its lines.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._threads: set[int] = set()
        self._lock = threading.Lock()  # used directly: a signal in `Condition.__enter__` would leave it locked
        self._changed = threading.Condition(self._lock)

    @property
    def empty(self) -> bool:
        return not self._threads

    @property
    def taken_by_others(self) -> bool:
        """Whether another thread is in."""
        return not self._threads <= {threading.get_ident()}

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            while me not in self._threads and len(self._threads) >= self._limit:
                self._changed.wait(LOOK_EVERY)
            self._threads.add(me)

    def enter_now(self) -> bool:
        """Enter if the limit allows it; returns whether it did. Leave at the end of a `with` block."""
        me = threading.get_ident()
        with self._lock:
            if me in self._threads or len(self._threads) < self._limit:
                self._threads.add(me)
                return True
            return False

    def wait(self, seconds: float) -> None:
        """Wait until a thread leaves, or for a moment."""
        with self._lock:
            self._changed.wait(min(seconds, LOOK_EVERY))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads.discard(threading.get_ident())
            self._changed.notify_all()


class SyncSignal:
    """Wakes one thread. It has no lock that an interrupted thread could leave locked."""

    def __init__(self) -> None:
        self._set: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._set.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until it is set, or for a moment."""
        with suppress(Empty):
            self._set.get(timeout=min(seconds, LOOK_EVERY))


class SyncSender:
    """Sends the commands of a node; threads may share it."""

    client: Any
    health: Health | None

    def __init__(self, limit: int) -> None:
        self._limiter = SyncLimiter(limit)

    @property
    def idle(self) -> bool:
        return self._limiter.empty

    def run(self, *words: Any) -> Any:
        """Send a command and return the raw reply, without the parts of redis-py that are not needed."""
        with self._admitted():
            began = time.monotonic()
            try:
                with self._borrowed() as connection:
                    connection.send_command(*words)
                    reply = connection.read_response()
            except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
                raise record_fault(self.health, error, began) from None
        if self.health:
            self.health.replied()
        return reply

    def run_confirmed(self, confirmation: WriteConfirmation, *words: Any) -> Any:
        """Send a command, and return the raw reply after its writes are durable."""
        with self._admitted():
            began = time.monotonic()
            try:
                with self._borrowed() as connection:
                    connection.send_packed_command(connection.pack_commands([words, *confirmation.commands]))
                    reply, marked, confirmed = [self._read_reply(connection) for _ in range(3)]
            except Exception as error:  # noqa: BLE001 - redis-py raises more than its own errors
                raise record_fault(self.health, error, began) from None
        if self.health:
            self.health.replied()
        fault = reply if isinstance(reply, Exception) else confirmation.fault(marked, confirmed)
        if fault:
            raise fault
        return reply

    @staticmethod
    def _read_reply(connection: Any) -> Any:
        """Return a reply; the error if the server refused the command."""
        try:
            return connection.read_response()
        except redis.ResponseError as error:
            return error

    def _stop_sending(self) -> None:
        """Do nothing: no command waits to be sent."""

    def _admitted(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    @contextmanager
    def _borrowed(self) -> Iterator[Any]:
        pool = self.client.connection_pool
        connection = pool.get_connection()
        try:
            yield connection
        except redis.ResponseError:
            raise
        except BaseException:
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def _return_one(self) -> None:
        """Do nothing: no connection is kept, because an interrupted call could leave an unread reply in it."""


class _NodeBatch:
    """A connection to one node, first to send a batch and later to read the replies. An error affects this node only."""

    def __init__(self, node: Any) -> None:
        self._context = node.connection()
        self._connection: Any = None

    def attempt(self, use: Callable[[Any], None]) -> bool:
        """Send or read with the connection; returns whether that succeeded."""
        try:
            self._connection = self._connection or self._context.__enter__()
            use(self._connection)
        except FAULTS as error:
            self._end(error)
            return False
        return True

    def end(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        connection, self._connection = self._connection, None
        if connection:
            with suppress(*FAULTS):
                self._context.__exit__(type(error) if error else None, error, None)


class SyncFanOut(BaseConnection):
    """Sends calls to several shards: to each node all at once, and reads the replies when all are sent."""

    def _call_together(self, calls: Sequence[SentCall], *, shared: bool) -> list[Any]:
        nodes = self._nodes_of_this_process()
        groups: dict[Any, list[int]] = {}
        for position, call in enumerate(calls):
            node = self._reachable_node(nodes, call)
            if node is not None:
                groups.setdefault(node, []).append(position)
        replies: list[Any] = [NOT_SENT] * len(calls)
        with suppress_faults(nodes):
            self._scatter(groups, calls, replies)
        if self._durable:
            return self._finish_durable(calls, replies, shared=shared)
        return [self._try_finish(*pair, shared=shared) for pair in zip(calls, replies, strict=True)]

    def _reachable_node(self, nodes: Any, call: SentCall) -> Any:
        """Return the node for a call; None if it is unknown, or down."""
        try:
            node = nodes.of(call.command.keys[0])
        except FAULTS:
            return None
        return None if node.down else node

    def _scatter(self, groups: dict[Any, list[int]], calls: Sequence[SentCall], replies: list[Any]) -> None:
        """Send to all nodes, then read from all, so that the nodes work at the same time."""

        def send(connection: Any, places: Sequence[int]) -> None:
            for i in places:
                replies[i] = StoreUnavailable()
            words = [self._evalsha(calls[i]) for i in places]
            if self._durable:
                words += self._confirming([calls[i] for i in places])
            connection.send_packed_command(connection.pack_commands(words))

        def read(connection: Any, places: Sequence[int]) -> None:
            if self._durable:
                self._read_durable(connection, calls, replies, places)
                return
            for i in places:
                replies[i] = self._read(connection, calls[i])

        with ExitStack() as ending:
            batches = []
            in_order = sorted(groups.items(), key=lambda pair: pair[0].name)  # so that threads cannot deadlock
            for node, places in in_order:
                batch = _NodeBatch(node)
                ending.callback(batch.end)
                if batch.attempt(partial(send, places=places)):
                    batches.append((batch, places))
            for batch, places in batches:
                batch.attempt(partial(read, places=places))

    def _finish_durable(self, calls: Sequence[SentCall], replies: Sequence[Any], *, shared: bool) -> list[Any]:
        """Finish calls. When one has failed for good, others without a good reply are not repeated: each would wait as long."""
        results: list[Any] = []
        failed: StoreUnavailable | None = None
        for call, reply in zip(calls, replies, strict=True):
            if failed and isinstance(reply, Exception):
                self._acknowledged.release(call.carried, late=True)
                results.append(failed)
                continue
            results.append(self._try_finish(call, reply, shared=shared))
            if isinstance(results[-1], StoreUnavailable):
                failed = results[-1]
        return results

    def _confirming(self, calls: Sequence[SentCall]) -> list[list[Any]]:
        """Return the commands that wait until the writes of these calls are durable."""
        confirmation = self._confirmation_of(calls)
        return [list(command) for command in confirmation.commands] if confirmation else []

    def _read_durable(
        self, connection: Any, calls: Sequence[SentCall], replies: list[Any], places: Sequence[int]
    ) -> None:
        """Read the replies to the calls at these *places*, and what confirms them."""
        some = [calls[i] for i in places]
        read = self._read_confirmed(connection, some, self._confirmation_of(some))
        for i, reply in zip(places, read, strict=True):
            replies[i] = reply

    def _try_finish(self, sent: SentCall, reply: Any, *, shared: bool) -> Any:
        try:
            return self._finish_call(sent, reply, shared=shared)
        except StoreUnavailable as error:
            return error

    def _finish_call(self, sent: SentCall, reply: Any, *, shared: bool = False) -> Any:
        raise NotImplementedError

    def _read(self, connection: Any, sent: SentCall) -> Any:
        raise NotImplementedError

    def _read_confirmed(
        self, connection: Any, calls: Sequence[SentCall], confirmation: WriteConfirmation | None
    ) -> list[Any]:
        raise NotImplementedError
