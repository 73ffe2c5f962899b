"""The upkeep of a browser: how many pages it has rendered, and how much memory it uses."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress

from playwright.async_api import Browser, Error

from silkline.core.units import format_bytes
from silkline.fetch.browser.options import BrowserOptions
from silkline.fetch.browser.process import BrowserProcess, processes_of

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two checks of the memory, while pages are rendered."""


class Upkeep:
    """Hands out the browser, and has it started again between pages when it is due: then pages wait until the others have ended."""

    def __init__(self, options: BrowserOptions, process: BrowserProcess) -> None:
        self._options = options
        self._process = process
        self._rendered = 0
        self._running = 0
        self._is_due = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._watching: asyncio.Task[None] | None = None

    async def begin(self) -> Browser:
        """Return the browser for one page; `end` must follow."""
        while self._is_due:
            await self._idle.wait()
            if self._is_due and not self._running:
                self._is_due = False
                self._rendered = 0
                await self._process.restart()
        self._running += 1
        self._idle.clear()
        try:
            browser = await self._process.get()
        except BaseException:
            self.end()
            raise
        self._rendered += 1
        if self._rendered >= self._options.pages_per_browser:
            self._is_due = True
        if self._options.memory is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch(self._options.memory))
        return browser

    def end(self) -> None:
        """Note that a page has ended."""
        self._running -= 1
        if not self._running:
            self._idle.set()

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, most: int) -> None:
        """Check the memory while pages are rendered, and once after that."""
        while True:
            is_last = not self._running
            browser = self._process.running
            with suppress(Error, TimeoutError):
                parts = await processes_of(browser) if browser else []
                used = sum(part.memory for part in parts)
                if used > most:
                    self._is_due = True
                    renderers = [part for part in parts if part.kind == "renderer"]
                    if not is_last and renderers:
                        largest = max(renderers, key=lambda part: part.memory)
                        log.warning(
                            "the browser uses %s, more than its limit of %s: its largest page (%s) is ended",
                            format_bytes(used),
                            format_bytes(most),
                            format_bytes(largest.memory),
                        )
                        with suppress(ProcessLookupError):
                            os.kill(largest.pid, signal.SIGKILL)
            if is_last:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), LOOK_EVERY)
