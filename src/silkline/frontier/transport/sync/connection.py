# Generated from connection.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""Sends the commands of plain code with EVALSHA, or EVAL after NOSCRIPT, and repeats calls after temporary faults.

`BaseConnection` is what connections of async and sync code share. It neither waits nor sends.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import redis

from silkline.errors import SilklineError, StoreUnavailable
from silkline.frontier.store.settings import Durability
from silkline.frontier.transport.calls import SentCall
from silkline.frontier.transport.clients import connection_name, has_client_name, wrong_url
from silkline.frontier.transport.command import Command, Disk, Each, Flow, Scan, Stream
from silkline.frontier.transport.connection import (
    STREAM_WINDOW,
    BaseConnection,
    RetryPolicy,
    SendCounter,
    raise_first,
)
from silkline.frontier.transport.durability import WriteConfirmation, check_node, check_version, probe, refused
from silkline.frontier.transport.redis_errors import (
    FAULTS,
    MAY_PASS,
    OUTAGES,
    is_not_allowed,
    is_out_of_reach,
    translate,
)
from silkline.frontier.transport.scanning import NodeLayout, ScanPage, ScanPosition, identify, read_scan, scan_words
from silkline.frontier.transport.server_info import (
    QUESTIONS,
    TIME,
    InfoReplies,
    Memory,
    ServerInfo,
    Words,
    read_memory,
    read_server,
)
from silkline.frontier.transport.sync.concurrency import (
    SyncFanOut,
    after_interruption,
    cancellations,
    gather,
    raise_if_cancelled,
    run_blocking,
    sleep,
    suppress_faults,
)
from silkline.frontier.transport.sync.nodes import SyncNode, SyncNodes

R = TypeVar("R")


class SyncSubscription(NamedTuple):
    """A pub/sub connection, and its node."""

    pubsub: Any
    node: SyncNode


class SyncConnection(SyncFanOut, BaseConnection):
    """Sends commands for `SyncFrontier`."""

    def _open(self) -> SyncNodes:
        return SyncNodes(self.target, self._own_name)

    @property
    def _nodes(self) -> SyncNodes:
        nodes: SyncNodes = self._nodes_of_this_process()
        return nodes

    def start(self) -> None:
        def ask() -> Any:
            node = self._nodes.any()
            return node.execute("INFO", "everything")

        with wrong_url(self.target):
            info = self._with_retries(ask)
        self.server = read_server(info)

    def memory(self) -> Memory:
        return read_memory(self._memory())

    def cluster_state(self) -> str | None:
        """Return ok or fail, as a node of the cluster sees it; None if there is no cluster, or the user may not ask."""
        if self.target.kind != "cluster":
            return None

        def ask() -> Any:
            node = self._nodes.any()
            return node.execute("CLUSTER INFO")

        try:
            info: dict[str, str] = self._with_retries(ask)
        except FAULTS as error:
            if is_not_allowed(error):
                return None
            raise translate(error, self.target.public) from None
        return info.get("cluster_state")

    def used_memory(self) -> int:
        """Return the bytes that the data uses, without buffers of clients; on a cluster, the sum of all primaries."""
        info = self._memory()
        return sum(node["used_memory"] - node.get("mem_clients_normal", 0) for node in info.values())

    def _memory(self) -> dict[str, Any]:
        def ask() -> Any:
            return {node.name: node.execute("INFO") for node in self._nodes.all()}

        try:
            info: dict[str, Any] = self._with_retries(ask)
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        return info

    def scan(self, match: str, position: ScanPosition) -> ScanPage | None:
        """Return some keys that match, and where to continue; None if the user may not scan."""
        try:
            return self._with_retries(lambda: self._scan(match, position))
        except FAULTS as error:
            if is_not_allowed(error):
                return None
            raise translate(error, self.target.public) from None

    def _scan(self, match: str, position: ScanPosition) -> ScanPage:
        nodes = {node.name: node for node in self._nodes.all()}
        position = position.among(nodes)
        if not position.left:
            return [], position.again(self._layout())
        return read_scan(nodes[position.left[0]].execute(*scan_words(match, position)), position)

    def _layout(self) -> NodeLayout:
        self._nodes.mark_stale(at_once=True)
        return {
            node.name: identify(
                node.execute("INFO", "server"),
                node.execute("CLUSTER SLOTS") if self.target.kind == "cluster" else [],
            )
            for node in self._nodes.all()
        }

    def server_info(self) -> list[ServerInfo]:
        """Return INFO, CONFIG and the clock of every primary."""
        try:
            nodes = self._with_retries(self._nodes.all)
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        return [self._node_info(node) for node in nodes]

    def _node_info(self, node: SyncNode) -> ServerInfo:
        """Ask for the time alone, to compare clocks, and for everything else together, in case the server is busy."""
        replies = InfoReplies(node.name)
        self._ask(TIME, node, replies)
        gather(partial(self._ask, question, node, replies) for question in QUESTIONS)
        return replies.info()

    def _ask(self, question: Words, node: SyncNode, replies: InfoReplies) -> None:
        replies.before(question)
        try:
            reply = self._with_retries(lambda: node.execute(*question))
        except redis.ResponseError:
            reply = None  # not allowed, or an unknown command
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        replies.take(question, reply)

    def call(self, command: Command[R]) -> R:
        result: R = self._call(self._named(command))
        return result

    def _call(self, sent: SentCall, *, again: bool = False, shared: bool = False) -> Any:
        result = self._send(sent, again=again, shared=shared)
        self._resend_lost(sent.command)
        return result

    def _send(self, sent: SentCall, *, again: bool = False, shared: bool = False) -> Any:
        command, sendings = sent.command, SendCounter(again)
        arguments, began = self._arguments(sent), time.perf_counter()
        try:
            reply = self._with_retries(
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

    def _resend_lost(self, after: Command[Any]) -> None:
        """Send lost requests to a shard again.

        If that fails, it is tried again after the next call. What *after* has returned must reach its caller all the same, above
        all leases, except of an enqueue: a producer may have no more calls to make.
        """
        shard = after.keys[0]
        while (command := self._acknowledged.next_lost(shard)) is not None:
            try:
                stored = self._resend(command)
            except BaseException as error:
                self._acknowledged.add_lost(shard, command)
                if after.resend or not isinstance(error, SilklineError):
                    raise
                return
            self._acknowledged.resent(shard, command, room=stored)

    def _resend(self, command: Command[Any]) -> bool:
        """Send a lost command again; return whether the shard had room for all of it."""
        if command.resend is None:
            return True
        return command.resend.is_stored(self._send(self._named(command.resend.command(command))))

    def call_stream(self, commands: Iterator[Command[Any]]) -> list[Any]:
        """Send commands to one shard without waiting for each reply; they run in this order.

        A command without a good reply is called again under its name: if it ran, the server repeats its reply.
        """
        sent: list[SentCall] = []
        replies: list[Any] = []
        calls = (self._named(command) for command in commands)
        with suppress_faults(self._nodes):
            sent += itertools.islice(calls, 1)
            if sent:
                node = self._nodes.of(sent[0].command.keys[0])
                pipe = self._pipe_confirmed if self._durable and self._confirmation_of(sent) else self._pipe
                pipe(node, itertools.chain((sent.pop(),), calls), sent, replies)
        sent += calls
        replies += [StoreUnavailable()] * (len(sent) - len(replies))
        return [self._finish_call(*pair) for pair in zip(sent, replies, strict=True)]

    def _pipe(self, node: SyncNode, calls: Iterator[SentCall], sent: list[SentCall], replies: list[Any]) -> None:
        with node.connection() as connection:
            for call in calls:
                sent.append(call)
                alone = len(sent) == len(replies) + 1  # else a health check would read the reply to an earlier call
                connection.send_command(*self._evalsha(call), check_health=alone)
                if len(sent) - len(replies) > STREAM_WINDOW:
                    replies.append(self._read(connection, sent[len(replies)]))
            while len(replies) < len(sent):
                replies.append(self._read(connection, sent[len(replies)]))

    def _pipe_confirmed(
        self, node: SyncNode, calls: Iterator[SentCall], sent: list[SentCall], replies: list[Any]
    ) -> None:
        """Do as `_pipe` does. No reply counts before all writes are durable: a call that may be sent again keeps its name."""
        with node.connection() as connection:
            raw: list[Any] = []
            for call in calls:
                sent.append(call)
                connection.send_command(*self._evalsha(call), check_health=len(sent) == len(raw) + 1)
                if len(sent) - len(raw) > STREAM_WINDOW:
                    raw.append(self._read_raw(connection))
            confirmation = self._confirmation_of(sent)
            for command in confirmation.commands if confirmation else ():
                connection.send_command(*command, check_health=False)
            replies += self._read_confirmed(connection, sent, confirmation, raw)

    def _read_confirmed(
        self,
        connection: Any,
        calls: Sequence[SentCall],
        confirmation: WriteConfirmation | None,
        read: Sequence[Any] = (),
    ) -> list[Any]:
        """Return the replies to calls after their writes are durable. The first ones may have been *read*."""
        raw = [*read, *[self._read_raw(connection) for _ in range(len(calls) - len(read))]]
        if confirmation:
            marked = self._read_raw(connection)
            if confirmation.fault(marked, self._read_raw(connection)):
                return [reply if isinstance(reply, Exception) else StoreUnavailable() for reply in raw]
        for call, reply in zip(calls, raw, strict=True):
            if not isinstance(reply, Exception):
                self._record_reply(call, reply, sent_once=True)
        return raw

    def _read(self, connection: Any, sent: SentCall) -> Any:
        try:
            reply = connection.read_response()
        except redis.ResponseError as error:
            return error
        self._record_reply(sent, reply, sent_once=True)
        return reply

    def _read_raw(self, connection: Any) -> Any:
        try:
            return connection.read_response()
        except redis.ResponseError as error:
            return error

    def _finish_call(self, sent: SentCall, reply: Any, *, shared: bool = False) -> Any:
        if isinstance(reply, Exception):
            return self._call(sent, again=isinstance(reply, StoreUnavailable), shared=shared)
        self._resend_lost(sent.command)
        return sent.command.decode(reply)

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Send commands to several shards at once; raises after all have ended if one failed."""
        return raise_first(self.call_each(commands, shared=False))

    def call_each(self, commands: Sequence[Command[Any]], *, shared: bool = True) -> list[Any]:
        """Send commands to several shards at once. For a shard that cannot be reached, the result is the error.

        With *shared*, a node that is down for longer than calls are repeated is not waited for.
        """
        calls = [self._named(command) for command in commands]
        if len(calls) == 1:
            return [self._try_call(calls[0], shared=shared)]
        return self._call_together(calls, shared=shared)

    def _try_call(self, sent: SentCall, *, shared: bool) -> Any:
        try:
            return self._call(sent, shared=shared)
        except StoreUnavailable as error:
            return error

    def _evaluate(self, command: Command[Any], arguments: list[Any]) -> Any:
        key = command.keys[0]
        if self._durable and (confirmation := self._confirmation(command)):
            return self._evaluate_confirmed(command, arguments, confirmation)
        try:
            return self._nodes.send(key, "EVALSHA", self._sha(command.script), *arguments)
        except redis.exceptions.NoScriptError:
            return self._nodes.send(key, "EVAL", self._source(command.script), *arguments)

    def _evaluate_confirmed(self, command: Command[Any], arguments: list[Any], confirmation: WriteConfirmation) -> Any:
        send = partial(self._nodes.send_confirmed, confirmation, command.keys[0])
        try:
            return send("EVALSHA", self._sha(command.script), *arguments)
        except redis.exceptions.NoScriptError:
            return send("EVAL", self._source(command.script), *arguments)

    def check_durability(self, durability: Durability) -> None:
        """Raise `ConfigError` if a server cannot do what calls wait for. Nodes of a cluster that are down are not asked."""
        if durability == "everysec":
            return
        check_version(durability, self.server, self.target.public)
        try:
            for node in self._with_retries(self._nodes.all):
                self._check_durability(node, durability)
        except FAULTS as error:
            raise translate(error, self.target.public) from None

    def _check_durability(self, node: SyncNode, durability: Durability) -> None:
        try:
            self._with_retries(lambda: node.execute(*probe(durability)))
            info = self._with_retries(lambda: node.execute("INFO", "replication"))
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
            config = self._with_retries(lambda: node.execute("CONFIG GET", "appendfsync"))
        check_node(durability, node.name, int(info.get("connected_slaves", 0)), config.get("appendfsync"))

    @contextmanager
    def listen(self, channels: Sequence[str], role: str) -> Iterator[SyncSubscription]:
        """Subscribe to channels, at any node that replies. CLIENT LIST shows the connection under the *role*."""
        try:
            node = self._with_retries(self._nodes.any)
            with node.client.pubsub(ignore_subscribe_messages=False) as pubsub:
                self._with_retries(lambda: self._subscribe(pubsub, channels, role))
                yield SyncSubscription(pubsub, node)
        except FAULTS as error:
            raise translate(error, self.target.public) from None

    def _subscribe(self, pubsub: Any, channels: Sequence[str], role: str) -> None:
        if not has_client_name(self.target):
            pubsub.execute_command("CLIENT", "SETNAME", connection_name(self._crawl, role))
            with suppress(redis.ResponseError):  # not allowed
                pubsub.connection.read_response()
        pubsub.subscribe(*channels)

    def _with_retries(self, ask: Callable[[], R], retries: RetryPolicy | None = None) -> R:
        retries, cancelled = retries or RetryPolicy(), cancellations()
        while True:
            try:
                result = ask()
            except FAULTS as error:
                self._nodes.mark_stale()
                self._report_migration(error)
                pause = retries.pause(error)
                if pause is None:
                    raise
                if self.ensure_server and is_out_of_reach(error):
                    run_blocking(self.ensure_server)
            except BaseException:
                after_interruption(self._nodes)
                raise
            else:
                pause = None
            raise_if_cancelled(cancelled)
            if pause is None:
                return result
            sleep(pause)

    def close(self) -> None:
        if not self.forked:
            self._acknowledged.close()
            self._opened.close()


def drive(connection: SyncConnection, flow: Flow[R]) -> R:
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
                received = connection.call(effect)
            elif isinstance(effect, Stream):
                received = connection.call_stream(effect.commands)
            elif isinstance(effect, Each):
                received = connection.call_each(effect.commands)
            elif isinstance(effect, Scan):
                received = connection.scan(effect.match, effect.position)
            elif isinstance(effect, Disk):
                received = run_blocking(effect.run)
            else:
                received = connection.call_all(effect)
        except Exception as raised:  # noqa: BLE001 - passed to the flow, which may raise it again
            error = raised
