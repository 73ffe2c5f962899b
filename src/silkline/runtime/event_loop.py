"""The event loop of a process that works on a crawl: uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

try:
    import uvloop

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
except ImportError:  # there is none for this platform
    new_event_loop = None


def run_async(main: Any) -> Any:
    """Run a coroutine like `asyncio.run`, on uvloop where it is installed, and return its result."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
