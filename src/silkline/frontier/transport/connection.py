"""Sends the commands of async code with EVALSHA, or EVAL after NOSCRIPT, and repeats calls after temporary faults.

`BaseConnection` is what connections of async and sync code share. It neither waits nor sends.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

import redis

from silkline.core.histogram import Histogram
from silkline.errors import SilklineError, StoreUnavailable
from silkline.frontier.store.settings import Durability
from silkline.frontier.transport.calls import (
    AcknowledgedCalls,
    FailedEnqueues,
    IdempotencySlots,
    SentCall,
    format_names,
)
from silkline.frontier.transport.clients import connection_name, has_client_name, wrong_url
from silkline.frontier.transport.command import Command, Disk, Each, Flow, Scan, Script, Stream
from silkline.frontier.transport.durability import (
    CONFIRMED,
    WriteConfirmation,
    check_node,
    check_version,
    crawl_of,
    probe,
    refused,
)
from silkline.frontier.transport.nodes import AsyncNode, AsyncNodes
from silkline.frontier.transport.redis_errors import (
    FAULTS,
    MAY_PASS,
    OUTAGES,
    NodeDown,
    is_migrating,
    is_not_allowed,
    is_out_of_memory,
    is_out_of_reach,
    translate,
)
from silkline.frontier.transport.redis_url import RedisTarget
from silkline.frontier.transport.scanning import NodeLayout, ScanPage, ScanPosition, identify, read_scan, scan_words
from silkline.frontier.transport.server_info import (
    QUESTIONS,
    TIME,
    InfoReplies,
    Memory,
    Server,
    ServerInfo,
    Words,
    read_memory,
    read_server,
)

P = ParamSpec("P")
R = TypeVar("R")

RETRY_SECONDS = 3.0
"""Seconds for which a call is repeated when the server cannot be reached; at least once."""
REPORT_MIGRATION_EVERY = 30.0
STREAM_WINDOW = 2
"""Commands of a stream that may wait for a reply at the same time."""

log = logging.getLogger("silkline.frontier")


# ── waiting ── (`transport.sync.concurrency` has the same names for plain code, written by hand)

sleep = asyncio.sleep
READS_RESUME = True
"""Whether a connection can be read again after an interruption: what a cancelled read has not returned stays in the buffer."""


async def run_blocking(function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """Run a function that blocks on a disk or a process in a thread."""
    return await asyncio.to_thread(function, *arguments, **options)


async def run_to_end(function: Callable[[], Awaitable[R]]) -> R:
    """Run a function to its end, even if the caller is cancelled."""
    return await asyncio.shield(asyncio.ensure_future(function()))


async def run_or_undo(function: Callable[[], Awaitable[R]], undo: Callable[[R], Awaitable[object]]) -> R:
    """Run a function. If the caller is cancelled meanwhile, pass the result to *undo*."""

    async def undo_result() -> None:
        with suppress(SilklineError):
            await undo(await task)

    task = asyncio.ensure_future(function())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(undo_result()))
        raise


async def gather(functions: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run functions side by side; raises the first error."""
    await asyncio.gather(*(function() for function in functions))


def cancellations() -> int:
    """Return how often the running task was asked to cancel."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def raise_if_cancelled(before: int) -> None:
    """Raise `CancelledError` if the task was cancelled since *before*: redis-py 8.1 may swallow a cancellation."""
    if cancellations() > before:
        raise asyncio.CancelledError


async def read_message(pubsub: Any, seconds: float) -> Any:
    """Return the next message; None if there is none within some seconds. `get_message` of redis-py takes several times as long."""
    connection = pubsub.connection
    if connection is None:
        raise redis.ConnectionError("the subscription is closed")
    await pubsub.check_health()
    reply = await connection.read_response(timeout=seconds, disconnect_on_error=False, push_request=True)
    return await pubsub.handle_message(reply) if reply else None


def suppress_faults(nodes: Any) -> AbstractContextManager[Any]:  # noqa: ARG001 - plain code needs them
    """Ignore faults in a block of calls that are sent again if they fail."""
    return suppress(*FAULTS)


def after_interruption(nodes: Any) -> None:
    """Do nothing: a cancelled call closes the connection that it uses."""


# ── sending ──


class RetryPolicy:
    """Decides whether one call is repeated after an error.

    The retries of redis-py are turned off: it would connect several times within each attempt, and each may last until its
    timeout.
    """

    def __init__(self, *, shared: bool = False, migrations: bool = True) -> None:
        """With *shared*, the time counts for which a node has been down, not only that of this call.

        Without *migrations*, a call does not wait until a cluster has moved a shard.
        """
        self._migrations = migrations
        self._began = time.monotonic()
        self._shared = shared
        self._failures = 0

    def pause(self, error: Exception) -> float | None:
        """Return the seconds to wait before the next attempt; None to give up."""
        self._failures += 1
        known = self._shared and isinstance(error, NodeDown)
        began = min(self._began, error.since) if known else self._began  # type: ignore[attr-defined]
        spent = (self._failures > 1 or known) and time.monotonic() - began > RETRY_SECONDS
        may_pass = self._migrations if is_migrating(error) else isinstance(error, MAY_PASS)
        if spent or not may_pass or is_not_allowed(error):
            return None
        return random.uniform(0, min(0.5, 0.025 * 2.0**self._failures))


class SendCounter:
    """Counts how often a call is sent; *again* if it was sent before."""

    def __init__(self, again: bool) -> None:  # noqa: FBT001
        self._number = int(again)

    def count(self, arguments: list[Any]) -> list[Any]:
        self._number += 1
        return arguments

    @property
    def sent_once(self) -> bool:
        return self._number == 1


class BaseConnection:
    """The part of a connection that neither waits nor sends.

    *ensure_server* starts a server that cannot be reached again, if that is possible. CLIENT LIST shows the connections under
    the names of the *crawl*, this machine, the process id and the *role*.
    """

    def __init__(
        self,
        target: RedisTarget,
        clock: Callable[[], int] | None = None,
        ensure_server: Callable[[], None] | None = None,
        crawl: str = "-",
        role: str = "client",
    ) -> None:
        self.target = target
        self._where = target.public  # cached: it takes a regular expression
        self.ensure_server = ensure_server
        self.server = Server("", (), "", cluster=False)
        self._clock = clock
        self._slots = IdempotencySlots()
        self._report_again = 0.0
        self._acknowledged = AcknowledgedCalls(self._slots.give_back)
        self.repeats = FailedEnqueues(self._slots, self._acknowledged.give_back)
        self._crawl, self._role = crawl, role
        self._pid = os.getpid()
        self._opened = self._open()
        self._inherited: list[Any] = []
        self._timings: dict[str, Histogram] | None = None
        self._durable: dict[str, Durability] = {}  # by crawl, without those whose calls wait for nothing
        self.memory_refusals = 0
        """How often the server has refused requests because it is out of memory."""

    def _open(self) -> Any:
        """Return clients for the nodes."""
        raise NotImplementedError

    @property
    def target_now(self) -> RedisTarget:
        """The address, with all nodes of the cluster that are known now."""
        return (
            self.target._replace(nodes=tuple(self._opened.primaries)) if self.target.kind == "cluster" else self.target
        )

    @property
    def _own_name(self) -> str:
        return connection_name(self._crawl, self._role)

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that connected."""
        return self._pid != os.getpid()

    def _nodes_of_this_process(self) -> Any:
        """Return the nodes. A forked child opens its own connections, and neither uses nor closes those of its parent."""
        if self.forked:
            self.target = self.target_now
            self._inherited.append(self._opened)
            self._opened = self._open()
            self._pid = os.getpid()
        return self._opened

    def _named(self, command: Command[Any]) -> SentCall:
        """Give a command the name of a new call, just before it is sent."""
        carried = self._acknowledged.last(command.keys[0]) if command.loss_check else ()
        return SentCall(command, *self._slots.take(), carried)

    @property
    def losses(self) -> int:
        """How often a shard has lost, or may have lost, writes that it had acknowledged to this client."""
        return self._acknowledged.losses

    def resend_now(self) -> bool:
        """Return whether lost requests remain. The next call to their shard sends them again."""
        return self._acknowledged.resend_now()

    def _record_reply(self, sent: SentCall, reply: Any, *, sent_once: bool) -> None:
        """Record a reply. If the call was sent more than once, an earlier send may still arrive."""
        command, loss_check, shard = sent.command, sent.command.loss_check, sent.command.keys[0]
        slot, lent = sent.slot if sent_once else None, False
        if command.call:  # its caller chose the name
            self._slots.give_back(sent.slot)
            slot, lent = None, self._slots.owns(command.call)
            if not sent_once:
                self._slots.sent_again(command.call)
        if loss_check and loss_check.lost(reply):
            self._acknowledged.lose(shard, sent.carried)
        if loss_check and loss_check.kept(reply):
            self._acknowledged.confirm(shard, sent.carried, command.call or sent.name, slot, lent=lent)
        else:  # the shard does not store its name
            self._acknowledged.release(sent.carried, late=not sent_once)
            if slot is not None:
                self._slots.give_back(slot)
        if command.resend:
            self._acknowledged.keep(shard, command)

    def _report_migration(self, error: Exception) -> None:
        """Log that a cluster moves a shard, at most every half minute."""
        if is_migrating(error) and time.monotonic() >= self._report_again:
            self._report_again = time.monotonic() + REPORT_MIGRATION_EVERY
            log.warning("%s; its requests wait until the move is complete", str(error).partition(" ")[2])

    @property
    def timings(self) -> dict[str, Histogram]:
        """The duration of calls by script, recorded once this has been read.

        Calls of a stream are not counted: they are sent before earlier ones get a reply.
        """
        if self._timings is None:
            self._timings = {}
        return self._timings

    @staticmethod
    def _record_time(timings: dict[str, Histogram], script: str, seconds: float) -> None:
        timing = timings.get(script)
        if timing is None:
            timing = timings[script] = Histogram()
        timing.note(seconds)

    def _arguments(self, sent: SentCall) -> list[str | bytes]:
        """Return the arguments of EVALSHA as text: hiredis crashes if a signal interrupts it while it converts numbers."""
        command, script = sent.command, sent.command.script
        prelude: list[Any] = []
        if script.takes_clock:
            prelude.append("" if self._clock is None else self._clock())
        if script.takes_call:
            prelude += command.call or sent.name
        if script.takes_acknowledged:
            prelude.append(format_names(sent.carried))
        words = [len(command.keys), *command.keys, *prelude, *command.args]
        return [word if type(word) is str or type(word) is bytes else str(word) for word in words]

    def set_durability(self, crawl: str, durability: Durability) -> None:
        """Set what the calls of a crawl wait for."""
        if durability == "everysec":
            self._durable.pop(crawl, None)
        else:
            self._durable[crawl] = durability

    def _confirmation(self, command: Command[Any]) -> WriteConfirmation | None:
        """Return what must be confirmed before the reply to a command counts; None if nothing."""
        if command.script.name not in CONFIRMED:
            return None
        key = command.keys[0]
        mode = self._durable.get(crawl_of(key))
        return WriteConfirmation.of(mode, key, legacy=self.server.legacy) if mode else None

    def _confirmation_of(self, calls: Iterable[SentCall]) -> WriteConfirmation | None:
        """Return what must be confirmed for the calls of one crawl that are sent together."""
        return next(filter(None, (self._confirmation(call.command) for call in calls)), None)

    def _evalsha(self, sent: SentCall) -> list[Any]:
        return ["EVALSHA", self._sha(sent.command.script), *self._arguments(sent)]

    def _sha(self, script: Script) -> str:
        return script.legacy_sha if self.server.legacy else script.sha

    def _source(self, script: Script) -> str:
        return script.legacy_source if self.server.legacy else script.source

    def _reply_or_raise(self, command: Command[R], error: Exception) -> R:
        """Return what the command returns when the server is out of memory, or raise one of Silkline's errors."""
        if command.when_out_of_memory is not None and is_out_of_memory(error):
            self.memory_refusals += 1
            return command.decode(command.when_out_of_memory)
        if is_out_of_reach(error):
            OUTAGES.failed(error.node if isinstance(error, NodeDown) else self.target.public, error)
        raise self._translated(error) from None

    def _translated(self, error: Exception) -> SilklineError:
        """Return one of Silkline's errors for one of redis-py's."""
        translated = translate(error, self.target.public)
        if isinstance(translated, StoreUnavailable):
            translated.one_node = self.target.kind == "cluster"
        return translated


def raise_first(results: Sequence[Any]) -> list[Any]:
    """Return the results of several calls, or raise the first error among them."""
    for result in results:
        if isinstance(result, StoreUnavailable):
            raise result
    return list(results)


class Subscription(NamedTuple):
    """A pub/sub connection, and its node."""

    pubsub: Any
    node: AsyncNode


class AsyncFanOut:
    """Sends calls to several shards side by side."""

    async def _call_together(self, calls: Sequence[SentCall], *, shared: bool) -> list[Any]:
        return await asyncio.gather(*(self._try_call(call, shared=shared) for call in calls))

    async def _try_call(self, sent: SentCall, *, shared: bool) -> Any:
        raise NotImplementedError


class AsyncConnection(AsyncFanOut, BaseConnection):
    """Sends commands for `Frontier`."""

    def _open(self) -> AsyncNodes:
        return AsyncNodes(self.target, self._own_name)

    @property
    def _nodes(self) -> AsyncNodes:
        nodes: AsyncNodes = self._nodes_of_this_process()
        return nodes

    async def start(self) -> None:
        async def ask() -> Any:
            node = await self._nodes.any()
            return await node.execute("INFO", "everything")

        with wrong_url(self.target):
            info = await self._with_retries(ask)
        self.server = read_server(info)

    async def memory(self) -> Memory:
        return read_memory(await self._memory())

    async def cluster_state(self) -> str | None:
        """Return ok or fail, as a node of the cluster sees it; None if there is no cluster, or the user may not ask."""
        if self.target.kind != "cluster":
            return None

        async def ask() -> Any:
            node = await self._nodes.any()
            return await node.execute("CLUSTER INFO")

        try:
            info: dict[str, str] = await self._with_retries(ask)
        except FAULTS as error:
            if is_not_allowed(error):
                return None
            raise translate(error, self.target.public) from None
        return info.get("cluster_state")

    async def used_memory(self) -> int:
        """Return the bytes that the data uses, without buffers of clients; on a cluster, the sum of all primaries."""
        info = await self._memory()
        return sum(node["used_memory"] - node.get("mem_clients_normal", 0) for node in info.values())

    async def _memory(self) -> dict[str, Any]:
        async def ask() -> Any:
            return {node.name: await node.execute("INFO") for node in await self._nodes.all()}

        try:
            info: dict[str, Any] = await self._with_retries(ask)
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        return info

    async def scan(self, match: str, position: ScanPosition) -> ScanPage | None:
        """Return some keys that match, and where to continue; None if the user may not scan."""
        try:
            return await self._with_retries(lambda: self._scan(match, position))
        except FAULTS as error:
            if is_not_allowed(error):
                return None
            raise translate(error, self.target.public) from None

    async def _scan(self, match: str, position: ScanPosition) -> ScanPage:
        nodes = {node.name: node for node in await self._nodes.all()}
        position = position.among(nodes)
        if not position.left:
            return [], position.again(await self._layout())
        return read_scan(await nodes[position.left[0]].execute(*scan_words(match, position)), position)

    async def _layout(self) -> NodeLayout:
        self._nodes.mark_stale(at_once=True)
        return {
            node.name: identify(
                await node.execute("INFO", "server"),
                await node.execute("CLUSTER SLOTS") if self.target.kind == "cluster" else [],
            )
            for node in await self._nodes.all()
        }

    async def server_info(self) -> list[ServerInfo]:
        """Return INFO, CONFIG and the clock of every primary."""
        try:
            nodes = await self._with_retries(self._nodes.all)
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        return [await self._node_info(node) for node in nodes]

    async def _node_info(self, node: AsyncNode) -> ServerInfo:
        """Ask for the time alone, to compare clocks, and for everything else together, in case the server is busy."""
        replies = InfoReplies(node.name)
        await self._ask(TIME, node, replies)
        await gather(partial(self._ask, question, node, replies) for question in QUESTIONS)
        return replies.info()

    async def _ask(self, question: Words, node: AsyncNode, replies: InfoReplies) -> None:
        replies.before(question)
        try:
            reply = await self._with_retries(lambda: node.execute(*question))
        except redis.ResponseError:
            reply = None  # not allowed, or an unknown command
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        replies.take(question, reply)

    async def call(self, command: Command[R]) -> R:
        result: R = await self._call(self._named(command))
        return result

    async def _call(self, sent: SentCall, *, again: bool = False, shared: bool = False) -> Any:
        result = await self._send(sent, again=again, shared=shared)
        await self._resend_lost(sent.command)
        return result

    async def _send(self, sent: SentCall, *, again: bool = False, shared: bool = False) -> Any:
        command, sendings = sent.command, SendCounter(again)
        arguments, began = self._arguments(sent), time.perf_counter()
        try:
            reply = await self._with_retries(
                lambda: self._evaluate(command, sendings.count(arguments)),
                RetryPolicy(shared=shared, migrations=command.waits),
            )
        except FAULTS as error:
            self._acknowledged.release(sent.carried, late=True)
            return self._reply_or_raise(command, error)
        if self._timings is not None:
            self._record_time(self._timings, command.script.name, time.perf_counter() - began)
        if self._where in OUTAGES.unreachable:
            OUTAGES.replied(self._where)
        self._record_reply(sent, reply, sent_once=sendings.sent_once)
        return command.decode(reply)

    async def _resend_lost(self, after: Command[Any]) -> None:
        """Send lost requests to a shard again.

        If that fails, it is tried again after the next call. What *after* has returned must reach its caller all the same, above
        all leases, except of an enqueue: a producer may have no more calls to make.
        """
        shard = after.keys[0]
        while (command := self._acknowledged.next_lost(shard)) is not None:
            try:
                stored = await self._resend(command)
            except BaseException as error:
                self._acknowledged.add_lost(shard, command)
                if after.resend or not isinstance(error, SilklineError):
                    raise
                return
            self._acknowledged.resent(shard, command, room=stored)

    async def _resend(self, command: Command[Any]) -> bool:
        """Send a lost command again; return whether the shard had room for all of it."""
        if command.resend is None:
            return True
        return command.resend.is_stored(await self._send(self._named(command.resend.command(command))))

    async def call_stream(self, commands: Iterator[Command[Any]]) -> list[Any]:
        """Send commands to one shard without waiting for each reply; they run in this order.

        A command without a good reply is called again under its name: if it ran, the server repeats its reply.
        """
        sent: list[SentCall] = []
        replies: list[Any] = []
        calls = (self._named(command) for command in commands)
        with suppress_faults(self._nodes):
            sent += itertools.islice(calls, 1)
            if sent:
                node = await self._nodes.of(sent[0].command.keys[0])
                pipe = self._pipe_confirmed if self._durable and self._confirmation_of(sent) else self._pipe
                await pipe(node, itertools.chain((sent.pop(),), calls), sent, replies)
        sent += calls
        replies += [StoreUnavailable()] * (len(sent) - len(replies))
        return [await self._finish_call(*pair) for pair in zip(sent, replies, strict=True)]

    async def _pipe(self, node: AsyncNode, calls: Iterator[SentCall], sent: list[SentCall], replies: list[Any]) -> None:
        async with node.connection() as connection:
            for call in calls:
                sent.append(call)
                alone = len(sent) == len(replies) + 1  # else a health check would read the reply to an earlier call
                await connection.send_command(*self._evalsha(call), check_health=alone)
                if len(sent) - len(replies) > STREAM_WINDOW:
                    replies.append(await self._read(connection, sent[len(replies)]))
            while len(replies) < len(sent):
                replies.append(await self._read(connection, sent[len(replies)]))

    async def _pipe_confirmed(
        self, node: AsyncNode, calls: Iterator[SentCall], sent: list[SentCall], replies: list[Any]
    ) -> None:
        """Do as `_pipe` does. No reply counts before all writes are durable: a call that may be sent again keeps its name."""
        async with node.connection() as connection:
            raw: list[Any] = []
            for call in calls:
                sent.append(call)
                await connection.send_command(*self._evalsha(call), check_health=len(sent) == len(raw) + 1)
                if len(sent) - len(raw) > STREAM_WINDOW:
                    raw.append(await self._read_raw(connection))
            confirmation = self._confirmation_of(sent)
            for command in confirmation.commands if confirmation else ():
                await connection.send_command(*command, check_health=False)
            replies += await self._read_confirmed(connection, sent, confirmation, raw)

    async def _read_confirmed(
        self,
        connection: Any,
        calls: Sequence[SentCall],
        confirmation: WriteConfirmation | None,
        read: Sequence[Any] = (),
    ) -> list[Any]:
        """Return the replies to calls after their writes are durable. The first ones may have been *read*."""
        raw = [*read, *[await self._read_raw(connection) for _ in range(len(calls) - len(read))]]
        if confirmation:
            marked = await self._read_raw(connection)
            if confirmation.fault(marked, await self._read_raw(connection)):
                return [reply if isinstance(reply, Exception) else StoreUnavailable() for reply in raw]
        for call, reply in zip(calls, raw, strict=True):
            if not isinstance(reply, Exception):
                self._record_reply(call, reply, sent_once=True)
        return raw

    async def _read(self, connection: Any, sent: SentCall) -> Any:
        try:
            reply = await connection.read_response()
        except redis.ResponseError as error:
            return error
        self._record_reply(sent, reply, sent_once=True)
        return reply

    async def _read_raw(self, connection: Any) -> Any:
        try:
            return await connection.read_response()
        except redis.ResponseError as error:
            return error

    async def _finish_call(self, sent: SentCall, reply: Any, *, shared: bool = False) -> Any:
        if isinstance(reply, Exception):
            return await self._call(sent, again=isinstance(reply, StoreUnavailable), shared=shared)
        await self._resend_lost(sent.command)
        return sent.command.decode(reply)

    async def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Send commands to several shards at once; raises after all have ended if one failed."""
        return raise_first(await self.call_each(commands, shared=False))

    async def call_each(self, commands: Sequence[Command[Any]], *, shared: bool = True) -> list[Any]:
        """Send commands to several shards at once. For a shard that cannot be reached, the result is the error.

        With *shared*, a node that is down for longer than calls are repeated is not waited for.
        """
        calls = [self._named(command) for command in commands]
        if len(calls) == 1:
            return [await self._try_call(calls[0], shared=shared)]
        return await self._call_together(calls, shared=shared)

    async def _try_call(self, sent: SentCall, *, shared: bool) -> Any:
        try:
            return await self._call(sent, shared=shared)
        except StoreUnavailable as error:
            return error

    async def _evaluate(self, command: Command[Any], arguments: list[Any]) -> Any:
        key = command.keys[0]
        if self._durable and (confirmation := self._confirmation(command)):
            return await self._evaluate_confirmed(command, arguments, confirmation)
        try:
            return await self._nodes.send(key, "EVALSHA", self._sha(command.script), *arguments)
        except redis.exceptions.NoScriptError:
            return await self._nodes.send(key, "EVAL", self._source(command.script), *arguments)

    async def _evaluate_confirmed(
        self, command: Command[Any], arguments: list[Any], confirmation: WriteConfirmation
    ) -> Any:
        send = partial(self._nodes.send_confirmed, confirmation, command.keys[0])
        try:
            return await send("EVALSHA", self._sha(command.script), *arguments)
        except redis.exceptions.NoScriptError:
            return await send("EVAL", self._source(command.script), *arguments)

    async def check_durability(self, durability: Durability) -> None:
        """Raise `ConfigError` if a server cannot do what calls wait for. Nodes of a cluster that are down are not asked."""
        if durability == "everysec":
            return
        check_version(durability, self.server, self.target.public)
        try:
            for node in await self._with_retries(self._nodes.all):
                await self._check_durability(node, durability)
        except FAULTS as error:
            raise translate(error, self.target.public) from None

    async def _check_durability(self, node: AsyncNode, durability: Durability) -> None:
        try:
            await self._with_retries(lambda: node.execute(*probe(durability)))
            info = await self._with_retries(lambda: node.execute("INFO", "replication"))
        except redis.ResponseError as error:
            if isinstance(error, MAY_PASS):
                raise
            raise refused(durability, node.name, error) from None
        except FAULTS:
            if self.target.kind != "cluster":
                raise
            return
        config: dict[str, str] = {}
        with suppress(redis.ResponseError):  # not allowed
            config = await self._with_retries(lambda: node.execute("CONFIG GET", "appendfsync"))
        check_node(durability, node.name, int(info.get("connected_slaves", 0)), config.get("appendfsync"))

    @asynccontextmanager
    async def listen(self, channels: Sequence[str], role: str) -> AsyncIterator[Subscription]:
        """Subscribe to channels, at any node that replies. CLIENT LIST shows the connection under the *role*."""
        try:
            node = await self._with_retries(self._nodes.any)
            async with node.client.pubsub(ignore_subscribe_messages=False) as pubsub:
                await self._with_retries(lambda: self._subscribe(pubsub, channels, role))
                yield Subscription(pubsub, node)
        except FAULTS as error:
            raise translate(error, self.target.public) from None

    async def _subscribe(self, pubsub: Any, channels: Sequence[str], role: str) -> None:
        if not has_client_name(self.target):
            await pubsub.execute_command("CLIENT", "SETNAME", connection_name(self._crawl, role))
            with suppress(redis.ResponseError):  # not allowed
                await pubsub.connection.read_response()
        await pubsub.subscribe(*channels)

    async def _with_retries(self, ask: Callable[[], Awaitable[R]], retries: RetryPolicy | None = None) -> R:
        retries, cancelled = retries or RetryPolicy(), cancellations()
        while True:
            try:
                result = await ask()
            except FAULTS as error:
                self._nodes.mark_stale()
                self._report_migration(error)
                pause = retries.pause(error)
                if pause is None:
                    raise
                if self.ensure_server and is_out_of_reach(error):
                    await run_blocking(self.ensure_server)
            except BaseException:
                after_interruption(self._nodes)
                raise
            else:
                pause = None
            raise_if_cancelled(cancelled)
            if pause is None:
                return result
            await sleep(pause)

    async def close(self) -> None:
        if not self.forked:
            self._acknowledged.close()
            await self._opened.close()


async def drive(connection: AsyncConnection, flow: Flow[R]) -> R:
    """Run a flow: send the commands that it yields, and pass it the results."""
    received: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = flow.throw(error) if error else flow.send(received)
        except StopIteration as stop:
            result: R = stop.value
            return result
        received, error = None, None
        try:
            if isinstance(effect, Command):
                received = await connection.call(effect)
            elif isinstance(effect, Stream):
                received = await connection.call_stream(effect.commands)
            elif isinstance(effect, Each):
                received = await connection.call_each(effect.commands)
            elif isinstance(effect, Scan):
                received = await connection.scan(effect.match, effect.position)
            elif isinstance(effect, Disk):
                received = await run_blocking(effect.run)
            else:
                received = await connection.call_all(effect)
        except Exception as raised:  # noqa: BLE001 - passed to the flow, which may raise it again
            error = raised
