"""Tabs of the browser. A tab is used again for pages of the same site, after all that they have stored was deleted.

To open a tab starts a process of the browser, which costs more than most pages. Between two pages, the tab shows an empty page of the same
origin, so that no script of the last one runs while its cookies and its storage are deleted.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from playwright.async_api import Browser, BrowserContext, CDPSession, Error, Page

from silkline.errors import FetchError
from silkline.fetch.browser.guard_proxy import GuardProxy

PARK_TIMEOUT = 2.0
"""Seconds in which a page must leave its tab, or the tab is closed."""
PAGES_PER_TAB = 100
WORLD = "silkline"
FORGET = "try { sessionStorage.clear() } catch {} window.name = ''"
EMPTY = {
    "responseCode": 200,
    "responseHeaders": [
        {"name": "Content-Type", "value": "text/html; charset=utf-8"},
        {"name": "Content-Security-Policy", "value": "default-src 'none'"},
        {"name": "Cache-Control", "value": "no-store"},
    ],
    "body": b64encode(b"<!doctype html><title></title>").decode(),
}


class TabKey(NamedTuple):
    """What pages must have in common to use the same tab: they share its HTTP cache, so they must be those of one visitor.

    *session* is that of the request, and *cookies* are its own ones.
    """

    origin: str
    agent: str
    language: str | None
    session: str | bool | None
    cookies: frozenset[tuple[str, str]] = frozenset()


class TabUser(Protocol):
    """What is rendered in a tab now."""

    def paused(self, event: dict[str, Any]) -> None:
        """Decide about a request that waits."""

    def crashed(self) -> None:
        """End, because the tab has crashed."""

    def fail(self, error: FetchError | Error) -> None:
        """End."""


class Tab:
    """A tab in a context of the browser, with the proxy of that context."""

    def __init__(
        self, key: TabKey, browser: Browser, context: BrowserContext, page: Page, devtools: CDPSession, frame: str
    ) -> None:
        self.key = key
        self.browser = browser
        self.context = context
        self.page = page
        self.devtools = devtools
        self.frame = frame
        """The id of the main frame."""
        self.user: TabUser | None = None
        self.pages = 0
        self.is_reusable = True
        """False if its page may have left something that cannot be deleted."""
        self._replies: set[asyncio.Future[None]] = set()
        context.on("page", self._opened)
        page.on("crash", self._crashed)
        page.on("close", self._closed)
        devtools.on("Fetch.requestPaused", self._paused)

    async def park(self) -> bool:
        """Leave the page, and delete what it has stored. Return whether the tab can be used again."""
        if not self.is_reusable or self.pages >= PAGES_PER_TAB or self.page.is_closed():
            return False
        origin = self.key.origin
        try:
            async with asyncio.timeout(PARK_TIMEOUT):
                await self.page.goto(f"{origin}/", wait_until="commit", timeout=0)
                await self.evaluate(FORGET)
                await self.devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
                await self.context.clear_cookies()
                await self.devtools.send("Page.resetNavigationHistory")
        except (Error, TimeoutError):
            return False
        return True

    async def evaluate(self, script: str) -> dict[str, Any]:
        """Return the result of a script, in a world of scripts that the page cannot change."""
        world = await self.devtools.send("Page.createIsolatedWorld", {"frameId": self.frame, "worldName": WORLD})
        arguments = {"expression": script, "contextId": world["executionContextId"], "returnByValue": True}
        result: dict[str, Any] = (await self.devtools.send("Runtime.evaluate", arguments))["result"]
        return result

    def send(self, method: str, arguments: dict[str, Any]) -> None:
        """Send a command, and do not wait for the reply."""
        self.reply(self.devtools.send(method, arguments))

    def reply(self, reply: Awaitable[Any]) -> None:
        """Let a reply to a page arrive, which may be closed meanwhile."""
        task = asyncio.ensure_future(_quietly(reply))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    def _opened(self, page: Page) -> None:
        """Close a window that the page has opened."""
        if page is not self.page:
            self.is_reusable = False
            self.reply(page.close())

    def _crashed(self, _: Page) -> None:
        self.is_reusable = False
        if self.user is not None:
            self.user.crashed()

    def _closed(self, _: Page) -> None:
        self.is_reusable = False
        if self.user is not None:
            self.user.fail(Error("its tab was closed"))

    def _paused(self, event: dict[str, Any]) -> None:
        if self.user is not None:
            self.user.paused(event)
        elif event["resourceType"] == "Document" and event["frameId"] == self.frame:
            self.send("Fetch.fulfillRequest", {"requestId": event["requestId"], **EMPTY})
        else:
            self.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})


class GuardedTab(NamedTuple):
    """A tab, and the proxy through which all its connections go."""

    tab: Tab
    proxy: GuardProxy


class IdleTabs:
    """Tabs that no page uses now: at most *most*, and the least recently used ones are closed first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: OrderedDict[GuardedTab, None] = OrderedDict()

    def take(self, key: TabKey, browser: Browser) -> GuardedTab | None:
        """Return a tab for a page; None if a new one is needed."""
        for found in reversed(self._idle):
            if found.tab.browser is browser and found.tab.key == key and not found.tab.page.is_closed():
                del self._idle[found]
                return found
        return None

    def add(self, tab: GuardedTab) -> list[GuardedTab]:
        """Keep a tab, and return those that must be closed."""
        stale = [one for one in self._idle if one.tab.browser is not tab.tab.browser or one.tab.page.is_closed()]
        for one in stale:
            del self._idle[one]
        self._idle[tab] = None
        while len(self._idle) > self._most:
            stale.append(self._idle.popitem(last=False)[0])
        return stale

    def clear(self) -> list[GuardedTab]:
        """Return all tabs, and forget them."""
        found = list(self._idle)
        self._idle.clear()
        return found


async def _quietly(reply: Awaitable[Any]) -> None:
    with suppress(Error):
        await reply
