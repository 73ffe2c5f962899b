"""The process of a browser: it is started on first use, started again when it has died, and ends with its worker."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import Browser, Error, Playwright, async_playwright

from silkline.errors import ConfigError, LocalFailure
from silkline.fetch.browser.options import BrowserOptions

log = logging.getLogger(__name__)

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_TIMEOUT, CLOSE_TIMEOUT, REPLY_TIMEOUT = 60.0, 5.0, 5.0
"""Seconds for which Chromium may start, end, and take to reply to a question."""
NOWHERE = "http://127.0.0.1:9"
"""The proxy of all that belongs to no page: there is none."""
ARGUMENTS = (
    # The proxy is the only way out: no look-ups, no UDP, no exception for this machine.
    f"--proxy-server={NOWHERE}",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--no-pings",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # Nothing in the background, and nothing that a page without a user needs.
    "--disable-breakpad",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-notifications",
    "--disable-speech-api",
    "--mute-audio",
    "--no-first-run",
)

INSTALL = "install it (apt install chromium, or: playwright install chromium), or name it: BrowserOptions(executable=…)"


def find_program(options: BrowserOptions) -> str | None:
    """Return the path of the browser; None if Playwright finds it itself. Raises `ConfigError` if there is none."""
    if options.channel is not None:
        return None
    if options.executable is not None:
        found = shutil.which(str(Path(options.executable).expanduser()))
        if found is None:
            raise ConfigError(f"there is no program {options.executable}, which BrowserOptions(executable=…) names")
        return found
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    own = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or "~/.cache/ms-playwright"
    if not any(Path(own).expanduser().glob("chromium*")):
        raise ConfigError(f"rendering pages needs Chromium, which was not found; {INSTALL}")
    return None


class BrowserPart(NamedTuple):
    """A process of a browser."""

    pid: int
    kind: str
    """``browser`` for the first one, ``renderer`` for one that runs pages, and others."""
    memory: int
    """Bytes that it does not share."""


class BrowserProcess:
    """The browser of one worker process, and the driver of Playwright that controls it."""

    def __init__(self, options: BrowserOptions) -> None:
        self._options = options
        self._program = find_program(options)
        self._starting: asyncio.Task[Browser] | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._closed = False
        self.pid: int | None = None
        """The process of the browser, while it runs."""
        self.starts = 0
        """How often it was started."""

    async def get(self) -> Browser:
        """Return the browser. If it does not run, it is started, once for all that wait for it."""
        if self._starting is None or (self._starting.done() and self.running is None):
            if self._closed:
                raise LocalFailure("the browser is closed", "browser")
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    @property
    def running(self) -> Browser | None:
        """The browser, if it runs."""
        return self._browser if self._browser is not None and self._browser.is_connected() else None

    async def restart(self) -> None:
        """End the browser. The next `get` starts another one."""
        if self._browser is not None:
            await self.end(self._browser)

    async def has_died(self, browser: Browser) -> bool:
        """Return whether a browser has ended, or does not reply. Then the next `get` starts another one."""
        if browser is not self._browser:
            return True
        if browser.is_connected():
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(REPLY_TIMEOUT):
                    session = await browser.new_browser_cdp_session()
                    await session.detach()
                return False
        await self.end(browser)
        return True

    async def end(self, browser: Browser) -> None:
        """End a browser, also if it does not reply."""
        if browser is self._browser:
            playwright, pid = self._playwright, self.pid
            self._browser = self._playwright = self.pid = None
            await _end(browser, playwright, pid)

    async def close(self) -> None:
        """End the browser. It is not started again."""
        self._closed = True
        if self._starting is not None:
            with suppress(LocalFailure, asyncio.CancelledError):
                await self.end(await self._starting)

    async def _start(self) -> Browser:
        if self._browser is not None:  # it has ended by itself: its driver has not
            await self.end(self._browser)
        playwright = await async_playwright().start()
        try:
            browser = await playwright.chromium.launch(**self._arguments())
            parts = await processes_of(browser)
            self.pid = next((part.pid for part in parts if part.kind == "browser"), None)
        except BaseException as error:
            await _end(None, playwright, None)
            if isinstance(error, Error):
                raise LocalFailure(f"the browser cannot be started: {self._why(error)}", "browser") from None
            raise
        self._playwright, self._browser = playwright, browser
        self.starts += 1
        return browser

    def _why(self, error: Error) -> str:
        """Return why the browser does not start, and what to do about it."""
        if "sandboxing failed" in error.message or "No usable sandbox" in error.message:
            return (
                "Chromium's sandbox does not work here. Run the worker as a user who may create user namespaces, or "
                "switch the sandbox off: BrowserOptions(sandbox=False)"
            )
        if self._program is None:
            return f"{_first_line(error)}; {INSTALL}"
        return f"{self._program} has ended at once ({_first_line(error)}); check that it is Chromium or Chrome, and that it runs by itself"

    def _arguments(self) -> dict[str, Any]:
        sandbox = self._options.sandbox if self._options.sandbox is not None else os.geteuid() != 0
        return {
            "executable_path": self._program,
            "channel": self._options.channel,
            "args": list(ARGUMENTS),
            "chromium_sandbox": sandbox,
            "timeout": START_TIMEOUT * 1000,
            # A signal is for the worker, which lets its pages end first.
            "handle_sigint": False,
            "handle_sigterm": False,
            "handle_sighup": False,
        }


async def processes_of(browser: Browser) -> list[BrowserPart]:
    """Return the processes of a browser. Raises `TimeoutError` if it does not reply."""
    async with asyncio.timeout(REPLY_TIMEOUT):
        session = await browser.new_browser_cdp_session()
        found = await session.send("SystemInfo.getProcessInfo")
        await session.detach()
    return [BrowserPart(one["id"], one["type"], _memory_of(one["id"])) for one in found["processInfo"]]


def _memory_of(pid: int) -> int:
    """Return the memory that a process does not share with others, in bytes; 0 where the system does not say it."""
    try:
        sizes = Path(f"/proc/{pid}/statm").read_bytes().split()
        return (int(sizes[1]) - int(sizes[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


async def _end(browser: Browser | None, playwright: Playwright | None, pid: int | None) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            if browser is not None and browser.is_connected():
                await browser.close()
    except (Error, TimeoutError):
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    with suppress(Exception):  # the driver may have died too
        async with asyncio.timeout(CLOSE_TIMEOUT):
            if playwright is not None:
                await playwright.stop()


def _first_line(error: Error) -> str:
    return error.message.strip().partition("\n")[0].removeprefix("BrowserType.launch: ")[:300]
