"""The async face of a writer that blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from silkline.core.errors import SinkUnavailable
from silkline.sinks.item import Record


class Writer(Protocol):
    """A sink in plain code. It is called from one thread at a time; a method ``finish`` may be there too."""

    def write(self, records: Sequence[Record]) -> None:
        """Return when all records are durable; `SinkUnavailable` if they cannot be written now."""

    def close(self) -> None: ...


class ThreadedSink:
    """A sink whose writer works in a thread of its own, one call after the other; the event loop is never blocked.

    The calls stay in order when a caller is cancelled: what has begun goes on, and the next one waits for it.
    """

    def __init__(self, writer: Writer, name: str = "sink") -> None:
        self._writer = writer
        self._name = name
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix="silkline-sink")

    async def write(self, records: Sequence[Record]) -> None:
        if records:
            await self._run(self._writer.write, records)

    async def finish(self) -> None:
        """The crawl has ended: what the sink still has to put in order is put in order now."""
        finish = getattr(self._writer, "finish", None)
        if finish:
            await self._run(finish)

    async def close(self) -> None:
        if self._thread is None:
            return
        try:
            await self._run(self._writer.close)
        finally:
            thread, self._thread = self._thread, None
            thread.shutdown(wait=False)

    async def _run(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._thread is None:
            raise SinkUnavailable(f"{self._name} is closed")
        await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def __repr__(self) -> str:
        return f"<{self._name}>"
