"""Sends commands: one connection for async code, one for plain code. EVALSHA, on NOSCRIPT EVAL, patience, errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from silkline.core.errors import StoreUnavailable
from silkline.frontier.address import Target
from silkline.frontier.calling import Caller, Sendings, Sent
from silkline.frontier.clients import (
    all_primaries,
    drop_idle,
    node_options,
    one_node,
    open_async,
    open_sync,
    sentinels_of,
    wrong_url,
)
from silkline.frontier.commands import Command
from silkline.frontier.facts import QUESTIONS, TIME, Answers, Facts, Words
from silkline.frontier.faults import FAULTS, Patience, is_not_allowed, is_out_of_reach, translate
from silkline.frontier.scanning import Position, Scanned, read_scan, scan_words
from silkline.frontier.server import Memory, read_memory, read_server

R = TypeVar("R")

UNANSWERED = 2
"""So many commands of a stream may be on their way."""


class AsyncConnection(Caller):
    """Sends commands for `Frontier`."""

    def __init__(
        self, target: Target, clock: Callable[[], int] | None = None, mend: Callable[[], None] | None = None
    ) -> None:
        super().__init__(target, clock, mend)
        self._client = open_async(target)

    async def start(self) -> None:
        with wrong_url(self.target):
            info = await self._patiently(lambda: self._client.info("everything", **one_node(self.target)))
        self.server = read_server(info)

    async def memory(self) -> Memory:
        try:
            info = await self._patiently(lambda: self._client.info("memory", **all_primaries(self.target)))
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        return read_memory(info)

    async def scan(self, match: str, position: Position) -> Scanned | None:
        """Some keys whose names match, and where to go on; None where that is forbidden."""
        nodes, words = self._primaries(), scan_words(match, position)
        _, node = nodes[position[0]]
        try:
            answer = await self._patiently(lambda: self._client.execute_command(*words, **node))
        except FAULTS as error:
            if is_not_allowed(error):
                return None
            raise translate(error, self.target.public) from None
        return read_scan(answer, position, len(nodes))

    async def examine(self) -> list[Facts]:
        """What every primary tells of itself."""
        return [await self._examine(where, node) for where, node in self._primaries()]

    async def _examine(self, where: str, node: dict[str, Any]) -> Facts:
        """The time by itself, for it is compared with ours; all else together, for the server may be busy with others."""
        answers = Answers(where)
        await self._ask(TIME, node, answers)
        await asyncio.gather(*(self._ask(question, node, answers) for question in QUESTIONS))
        return answers.facts()

    async def _ask(self, question: Words, node: dict[str, Any], answers: Answers) -> None:
        answers.before(question)
        try:
            answer = await self._patiently(lambda: self._client.execute_command(*question, **node))
        except redis.ResponseError:
            answer = None  # it may not be asked, or does not know the command
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        answers.take(question, answer)

    async def call(self, command: Command[R]) -> R:
        answer: R = await self._call(Sent(command, *self._slots.take()))
        return answer

    async def _call(self, sent: Sent, *, again: bool = False) -> Any:
        command, sendings = sent.command, Sendings(again)
        arguments, began = self._arguments(command, sent.name), time.perf_counter()
        try:
            reply = await self._patiently(lambda: self._evaluate(command, sendings.count(arguments)))
        except FAULTS as error:
            return self._answer(command, error)
        self._took(command.script.name, time.perf_counter() - began)
        if sendings.only_one:
            self._slots.give_back(sent.slot)
        return command.decode(reply)

    async def call_stream(self, commands: Iterator[Command[Any]]) -> list[Any]:
        """Send commands one after the other, without waiting for each answer; they run in this order.

        What got no good reply is called again in the ordinary way, under its name: if it ran, it answers as it did.
        """
        sent: list[Sent] = []
        replies: list[Any] = []
        if self.target.kind != "cluster":
            with suppress(*FAULTS):
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
            return await self._call(sent, again=isinstance(reply, StoreUnavailable))
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
            options = node_options(client, node.host, node.port)
            client = redis.asyncio.Redis(retry=AsyncRetry(NoBackoff(), 0), **options)
        try:
            async with client.pubsub(ignore_subscribe_messages=False) as pubsub:
                await self._patiently(lambda: pubsub.subscribe(*channels))
                yield pubsub
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        finally:
            if client is not self._client:
                await client.aclose()

    async def _patiently(self, ask: Callable[[], Awaitable[R]]) -> R:
        patience, cancelled = Patience(), _cancellations()
        while True:
            try:
                answer = await ask()
            except FAULTS as error:
                pause = patience.pause(error)
                if pause is None:
                    raise
                if self._mend and is_out_of_reach(error):
                    await asyncio.to_thread(self._mend)
            else:
                pause = None
            if _cancellations() > cancelled:  # redis-py 8.1 may swallow it, and its caller would go on for ever
                raise asyncio.CancelledError
            if pause is None:
                return answer
            await asyncio.sleep(pause)

    async def close(self) -> None:
        await self._client.aclose()
        for sentinel in sentinels_of(self._client):
            await sentinel.aclose()


def _cancellations() -> int:
    """How often somebody wanted to cancel the task that is running."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


class SyncConnection(Caller):
    """Sends commands for `SyncFrontier`."""

    def __init__(
        self, target: Target, clock: Callable[[], int] | None = None, mend: Callable[[], None] | None = None
    ) -> None:
        super().__init__(target, clock, mend)
        self._client = open_sync(target)

    def start(self) -> None:
        with wrong_url(self.target):
            info = self._patiently(lambda: self._client.info("everything", **one_node(self.target)))
        self.server = read_server(info)

    def used_memory(self) -> int:
        """Bytes that the data takes on the server, without what its clients cost; on a cluster, on all primaries."""
        try:
            info = self._patiently(lambda: self._client.info("memory", **all_primaries(self.target)))
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        nodes = [info] if "used_memory" in info else info.values()
        return sum(node["used_memory"] - node.get("mem_clients_normal", 0) for node in nodes)

    def memory(self) -> Memory:
        try:
            info = self._patiently(lambda: self._client.info("memory", **all_primaries(self.target)))
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        return read_memory(info)

    def scan(self, match: str, position: Position) -> Scanned | None:
        """Some keys whose names match, and where to go on; None where that is forbidden."""
        nodes, words = self._primaries(), scan_words(match, position)
        _, node = nodes[position[0]]
        try:
            answer = self._patiently(lambda: self._client.execute_command(*words, **node))
        except FAULTS as error:
            if is_not_allowed(error):
                return None
            raise translate(error, self.target.public) from None
        return read_scan(answer, position, len(nodes))

    def examine(self) -> list[Facts]:
        """What every primary tells of itself."""
        return [self._examine(where, node) for where, node in self._primaries()]

    def _examine(self, where: str, node: dict[str, Any]) -> Facts:
        answers = Answers(where)
        for question in (TIME, *QUESTIONS):
            answers.before(question)
            try:
                answer = self._patiently(lambda words=question: self._client.execute_command(*words, **node))  # type: ignore[misc]
            except redis.ResponseError:
                answer = None
            except FAULTS as error:
                raise translate(error, self.target.public) from None
            answers.take(question, answer)
        return answers.facts()

    def call(self, command: Command[R]) -> R:
        answer: R = self._call(Sent(command, *self._slots.take()))
        return answer

    def _call(self, sent: Sent, *, again: bool = False) -> Any:
        command, sendings = sent.command, Sendings(again)
        arguments, began = self._arguments(command, sent.name), time.perf_counter()
        try:
            reply = self._patiently(lambda: self._evaluate(command, sendings.count(arguments)))
        except FAULTS as error:
            return self._answer(command, error)
        self._took(command.script.name, time.perf_counter() - began)
        if sendings.only_one:
            self._slots.give_back(sent.slot)
        return command.decode(reply)

    def call_stream(self, commands: Iterator[Command[Any]]) -> list[Any]:
        """Send commands one after the other, without waiting for each answer; they run in this order.

        What got no good reply is called again in the ordinary way, under its name: if it ran, it answers as it did.
        """
        sent: list[Sent] = []
        replies: list[Any] = []
        if self.target.kind != "cluster":
            try:
                self._pipe(commands, sent, replies)
            except FAULTS:
                pass
            except BaseException:
                drop_idle(self._client)
                raise
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
            return self._call(sent, again=isinstance(reply, StoreUnavailable))
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
            client = redis.Redis(retry=Retry(NoBackoff(), 0), **node_options(client, node.host, node.port))
        try:
            with client.pubsub(ignore_subscribe_messages=False) as pubsub:
                self._patiently(lambda: pubsub.subscribe(*channels))
                yield pubsub
        except FAULTS as error:
            raise translate(error, self.target.public) from None
        finally:
            if client is not self._client:
                client.close()

    def _patiently(self, ask: Callable[[], R]) -> R:
        patience = Patience()
        while True:
            try:
                return ask()
            except FAULTS as error:
                pause = patience.pause(error)
                if pause is None:
                    raise
                if self._mend and is_out_of_reach(error):
                    self._mend()
            except BaseException:  # by a signal, most likely
                drop_idle(self._client)
                raise
            time.sleep(pause)

    def close(self) -> None:
        self._client.close()
        for sentinel in sentinels_of(self._client):
            sentinel.close()
