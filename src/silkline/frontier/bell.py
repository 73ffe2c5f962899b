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
from silkline.frontier.plan import Plan

HEAR_SECONDS = 3.0
AGAIN_SECONDS = 0.5
log = logging.getLogger("silkline.bell")


def take_note(lookout: Lookout, message: dict[str, Any] | None) -> bool:
    """Pass a message on to the lookout; True if it was one."""
    if not message or message["type"] != "message":
        return False
    channel = message["channel"].decode()
    shard = int(channel.rpartition("}")[0].rpartition(":")[2])
    lookout.heard(shard, int(message["data"]) / 1000, time.monotonic())
    return True


def channels(plan: Plan) -> list[str]:
    return [keys.bell for keys in plan.shards]


class AsyncBell:
    """Listens in a task of its own, for all waiting claims of a `Frontier`."""

    def __init__(self, connection: AsyncConnection, plan: Plan, lookout: Lookout) -> None:
        self._connection = connection
        self._plan = plan
        self._lookout = lookout
        self._rung = asyncio.Event()
        self._heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and self._heard.is_set()

    async def start(self) -> None:
        """Listen, from before this returns."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="silkline-bell")
        await self._heard.wait()
        if self._failure:
            failure, self._failure, self._task = self._failure, None, None
            self._heard.clear()
            raise failure

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except StoreUnavailable as error:
                log.warning("the bell is out of reach, asking instead: %s", error)
                self._lookout.forget()
                self._rung.set()
                await asyncio.sleep(AGAIN_SECONDS)
            except Exception as error:  # noqa: BLE001 - told to whoever waits
                self._failure = error
                self._heard.set()
                return

    async def _listen_once(self) -> None:
        async with self._connection.listen(channels(self._plan)) as pubsub:
            awaited = len(self._plan.shards)
            while True:
                message = await pubsub.get_message(timeout=HEAR_SECONDS)
                if message and message["type"] == "subscribe":
                    awaited -= 1
                    if awaited == 0:
                        self._lookout.forget()  # what was said while nobody listened is lost
                        self._heard.set()
                        self._rung.set()
                elif take_note(self._lookout, message):
                    self._rung.set()

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
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None


class SyncBell:
    """Listens while a claim of a `SyncFrontier` waits."""

    def __init__(self, connection: SyncConnection, plan: Plan, lookout: Lookout) -> None:
        self._connection = connection
        self._plan = plan
        self._lookout = lookout
        self._listening: Any = None
        self._pubsub: Any = None

    @property
    def running(self) -> bool:
        return self._pubsub is not None

    def start(self) -> None:
        """Listen, from before this returns."""
        if self._pubsub is not None:
            return
        self._listening = self._connection.listen(channels(self._plan))
        self._pubsub = self._listening.__enter__()
        awaited = len(self._plan.shards)
        while awaited:
            message = self._get(HEAR_SECONDS)
            if message and message["type"] == "subscribe":
                awaited -= 1
        self._lookout.forget()

    def wait(self, looked: float, deadline: float) -> None:
        """Until it is worth looking again, or the deadline."""
        now = time.monotonic()
        until = min(deadline, now + self._lookout.pause(now))
        while now < until:
            take_note(self._lookout, self._get(until - now))
            now = time.monotonic()
            until = min(until, max(looked + self._lookout.spacing, self._lookout.next_look))

    def _get(self, timeout: float) -> Any:
        try:
            return self._pubsub.get_message(timeout=timeout)
        except Exception as error:  # noqa: BLE001 - translated into one of ours
            self.stop()
            raise self._connection.translate(error) from None

    def stop(self) -> None:
        if self._listening is not None:
            listening, self._listening, self._pubsub = self._listening, None, None
            with suppress(Exception):
                listening.__exit__(None, None, None)
