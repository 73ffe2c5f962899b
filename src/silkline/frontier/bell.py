"""Bells: how a client that waits for work hears of it without asking."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any

from silkline.core.errors import StoreUnavailable
from silkline.core.lookout import Lookout
from silkline.frontier.connection import AsyncConnection, SyncConnection
from silkline.frontier.faults import translate
from silkline.frontier.plan import Plan

HEAR_SECONDS = 3.0
CONFIRM_SECONDS = 10.0
AGAIN_SECONDS = 0.5
log = logging.getLogger("silkline.bell")


def take_note(lookout: Lookout, message: dict[str, Any] | None) -> bool:
    """Pass a message on to the lookout; True if it was one."""
    if message and message["type"] == "subscribe":
        lookout.forget()  # we hear from now on, perhaps again after a broken connection: what was said before is lost
        return True
    if not message or message["type"] != "message":
        return False
    channel = message["channel"].decode()
    shard = int(channel.rpartition("}")[0].rpartition(":")[2])
    lookout.heard(shard, int(message["data"]) / 1000, time.monotonic())
    return True


def channels(plan: Plan) -> list[str]:
    return [keys.bell for keys in plan.shards]


class Confirmation:
    """Waits for the server's word that it took in every subscription, but not for ever."""

    def __init__(self, channels: int) -> None:
        self._awaited = channels
        self._patience = time.monotonic() + CONFIRM_SECONDS

    def complete(self, message: dict[str, Any] | None) -> bool:
        self._awaited -= message is not None and message["type"] == "subscribe"
        if self._awaited > 0 and time.monotonic() > self._patience:
            raise StoreUnavailable("the bell cannot be heard: the server does not answer")
        return self._awaited <= 0


class AsyncBell:
    """Listens in a task of its own, for all waiting claims of a `Frontier`."""

    def __init__(self, connection: AsyncConnection, plan: Plan, lookout: Lookout) -> None:
        self._connection = connection
        self._plan = plan
        self._lookout = lookout
        self._rung = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done() and self._started is not None and self._started.done()

    async def start(self) -> None:
        """Listen, from before this returns."""
        if self._task is None or self._task.done():
            self._started = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._listen(self._started), name="silkline-bell")
        if self._started:
            await asyncio.shield(self._started)

    async def _listen(self, started: asyncio.Future[None]) -> None:
        """Until stopped. Whoever waits for the start is told of an error; later on, we listen again."""
        while True:
            try:
                await self._listen_once(started)
            except Exception as error:  # noqa: BLE001 - told to whoever waits
                self._lookout.forget()
                self._rung.set()
                if not started.done():
                    started.set_exception(error)
                    started.exception()  # all who waited may have left
                    return
                log.warning("the bell is out of reach, asking instead: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _listen_once(self, started: asyncio.Future[None]) -> None:
        async with self._connection.listen(channels(self._plan)) as pubsub:
            confirmation = Confirmation(len(self._plan.shards))
            while True:
                message = await pubsub.get_message(timeout=HEAR_SECONDS)
                if take_note(self._lookout, message):
                    self._rung.set()
                if confirmation.complete(message) and not started.done():
                    started.set_result(None)

    async def wait(self, looked: float, deadline: float) -> None:
        """Until it is worth looking again, or the deadline."""
        now = time.monotonic()
        until = min(deadline, now + self._lookout.pause(now))
        self._rung.clear()
        while now < until:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), until - now)
            self._rung.clear()
            now = time.monotonic()
            until = min(until, max(looked + self._lookout.spacing, self._lookout.next_look))

    async def stop(self) -> None:
        task, self._task = self._task, None
        while task and not task.done():  # redis-py swallows a cancellation that meets it while it connects
            task.cancel()
            await asyncio.wait([task], timeout=0.5)


class SyncBell:
    """Listens while a claim of a `SyncFrontier` waits."""

    def __init__(self, connection: SyncConnection, plan: Plan, lookout: Lookout) -> None:
        self._connection = connection
        self._plan = plan
        self._lookout = lookout
        self._listening: Any = None
        self._pubsub: Any = None

    def listen(self) -> None:
        """Take note of what was said since; or start to listen, if need be again."""
        if self._pubsub is None:
            self._start()
        while self._pubsub is not None and self._hear(0):
            pass

    def _start(self) -> None:
        self._listening = self._connection.listen(channels(self._plan))
        self._pubsub = self._listening.__enter__()
        confirmation = Confirmation(len(self._plan.shards))
        try:
            while not confirmation.complete(self._get(HEAR_SECONDS)):
                pass
        except StoreUnavailable:
            self.stop()
            raise
        self._lookout.forget()

    def wait(self, looked: float, deadline: float) -> None:
        """Until it is worth looking again, or the deadline."""
        now = time.monotonic()
        until = min(deadline, now + self._lookout.pause(now))
        while now < until and self._pubsub is not None:
            self._hear(until - now)
            now = time.monotonic()
            until = min(until, max(looked + self._lookout.spacing, self._lookout.next_look))

    def _hear(self, timeout: float) -> bool:
        try:
            return take_note(self._lookout, self._get(timeout))
        except StoreUnavailable as error:
            log.warning("the bell is out of reach, asking instead: %s", error)
            self._lookout.forget()
            return False

    def _get(self, timeout: float) -> Any:
        try:
            return self._pubsub.get_message(timeout=timeout)
        except Exception as error:  # noqa: BLE001 - translated into one of ours
            self.stop()
            raise translate(error, self._connection.target.public) from None

    def stop(self) -> None:
        if self._listening is not None:
            listening, self._listening, self._pubsub = self._listening, None, None
            with suppress(Exception):
                listening.__exit__(None, None, None)
