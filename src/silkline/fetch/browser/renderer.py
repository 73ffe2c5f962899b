"""Rendering: a place in the browser for each page, its proxy, and another try if the browser dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urljoin

import msgspec
from playwright.async_api import Browser, BrowserContext, Error

from silkline.core.request import Request
from silkline.core.url import parse
from silkline.errors import FetchError, FetchTimeout, ResponseTooLarge
from silkline.fetch.browser.guard_proxy import Dial, GuardDial, GuardProxy
from silkline.fetch.browser.options import BrowserOptions, Rendering
from silkline.fetch.browser.process import BrowserProcess
from silkline.fetch.browser.rendered import RenderedResponse, can_be_rendered
from silkline.fetch.browser.rendering import FetchDocument, PageInBrowser
from silkline.fetch.browser.tabs import GuardedTab, IdleTabs, Tab, TabKey
from silkline.fetch.browser.upkeep import Upkeep
from silkline.fetch.browser.upstream import ProxyDial
from silkline.fetch.cookies.requests import cookies_of
from silkline.fetch.fetcher import Response
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.proxy.tiers import ProxyPools

log = logging.getLogger(__name__)

TRIES = 2
"""How often a page is rendered if the browser dies meanwhile."""
CLOSE_TIMEOUT = 5.0
"""Seconds for which a page may end, before the browser is ended with it."""
DIED = "browser"


class Renderer:
    """Renders the documents that a fetcher has got. One per worker process."""

    def __init__(
        self,
        options: BrowserOptions,
        limits: Limits,
        guard: Guard,
        *,
        verify_tls: bool = True,
        proxies: ProxyPools | None = None,
    ) -> None:
        self._options = options
        self._limits = limits
        self._guard = guard
        self._proxies = proxies
        self._verify_tls = verify_tls
        self.process = BrowserProcess(options)
        self.pages = 0
        """Pages that were given to the browser."""
        self._upkeep = Upkeep(options, self.process)
        self._turns = asyncio.Semaphore(options.pages)
        self._closing: set[asyncio.Task[None]] = set()
        self._tabs = IdleTabs(options.pages)

    async def render(
        self, request: Request, response: Response, rendering: Rendering, *, user_agent: str, fetch: FetchDocument
    ) -> Response:
        """Return the response with the HTML after the scripts of its document have run."""
        if not can_be_rendered(response):
            return response
        async with self._turns:
            began = time.monotonic()
            for left in reversed(range(TRIES)):
                browser = await self._upkeep.begin()
                self.pages += 1
                try:
                    rendered = await self._render(browser, request, response, rendering, user_agent, fetch)
                    return msgspec.structs.replace(rendered, elapsed=response.elapsed + time.monotonic() - began)
                except Error as error:
                    if not await self.process.has_died(browser):
                        raise _explained(error, request) from None
                    if not left:
                        what = f"the browser ended {TRIES} times while it rendered {request.url}"
                        raise FetchError(what, DIED) from None
                    log.warning("the browser has ended; it is started again, and renders %s again", request.url)
                finally:
                    self._upkeep.end()
            raise AssertionError

    async def close(self) -> None:
        """End the browser."""
        if self._closing:
            await asyncio.wait(self._closing)
        self._upkeep.close()
        await self.process.close()
        for guarded in self._tabs.clear():
            await guarded.proxy.close()
        await self._guard.close()

    async def _render(
        self,
        browser: Browser,
        request: Request,
        response: Response,
        rendering: Rendering,
        agent: str,
        fetch: FetchDocument,
    ) -> Response:
        key = key_of(request, agent)
        idle = self._tabs.take(key, browser)
        opening = asyncio.create_task(_given(idle) if idle else self._open(key, browser, request))
        rendered = None
        try:
            async with asyncio.timeout(rendering.timeout):
                tab, proxy = await asyncio.shield(opening)
                page = PageInBrowser(tab, request, response, rendering, fetch=fetch, most=self._limits.max_body)
                proxy.begin(self._options.max_bytes, partial(self._loads_too_much, page, request))
                if idle:
                    await tab.context.clear_cookies()  # a late reply to the page before may have set some
                await _add_cookies(tab.context, request)
                rendered = await page.run()
        except TimeoutError:
            what = f"{request.url} was not complete in the browser within {rendering.timeout:g} s (wait_for={rendering.wait_for!r})"
            raise FetchTimeout(what) from None
        finally:
            await self._finish(self._leave(browser, opening, is_reusable=rendered is not None))
        if isinstance(rendered, RenderedResponse):
            return msgspec.structs.replace(rendered, loaded=proxy.received)
        return rendered

    def _loads_too_much(self, page: PageInBrowser, request: Request) -> None:
        most = self._options.max_bytes
        page.fail(ResponseTooLarge(f"{request.url} loads more than {most} bytes in the browser"))

    def _dial_for(self, request: Request) -> Dial:
        """Return how the connections of a page are opened."""
        if self._proxies is None:
            return GuardDial(self._guard)
        session = session_of(request)
        session = session if isinstance(session, str) else None
        return ProxyDial(self._guard, self._proxies, session, verify_tls=self._verify_tls)

    async def _open(self, key: TabKey, browser: Browser, request: Request) -> GuardedTab:
        """Open a tab in a new context."""
        proxy = GuardProxy(self._dial_for(request))
        try:
            context = await browser.new_context(
                user_agent=key.agent,
                proxy={"server": await proxy.start()},
                accept_downloads=False,
                service_workers="block",
                ignore_https_errors=not self._verify_tls,
                extra_http_headers={"Accept-Language": key.language} if key.language else None,
            )
            page = await context.new_page()
            devtools = await context.new_cdp_session(page)
            frame = (await devtools.send("Target.getTargetInfo"))["targetInfo"]["targetId"]
        except BaseException:
            await proxy.close()
            raise
        return GuardedTab(Tab(key, browser, context, page, devtools, frame), proxy)

    async def _leave(self, browser: Browser, opening: asyncio.Task[GuardedTab], *, is_reusable: bool) -> None:
        """Keep the tab of a page for the next one, or close it."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                guarded = await opening
        except (TimeoutError, Error, OSError):
            return  # the browser has died, or does not reply
        for one in guarded.proxy.refused.values():
            log.debug("a page asked for an address that is not permitted: %s", one)
        if is_reusable and await guarded.tab.park():
            for stale in self._tabs.add(guarded):
                await self._close_tab(browser, stale)
        else:
            await self._close_tab(browser, guarded)

    async def _close_tab(self, browser: Browser, guarded: GuardedTab) -> None:
        """Close a tab. One that cannot be closed ends with its browser."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await guarded.tab.context.close()
        except TimeoutError:
            log.warning("a page in the browser cannot be closed; the browser is started again")
            await self.process.end(browser)
        except Error:
            pass  # the browser has died, and the tab with it
        await guarded.proxy.close()

    async def _finish(self, closing: Coroutine[Any, Any, None]) -> None:
        """Run to the end, even if this fetch is cancelled."""
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.shield(task)


def _explained(error: Error, request: Request) -> FetchError:
    """Return the error of a page that the browser cannot render, although it runs."""
    reason = error.message.strip().partition("\n")[0][:300]
    return FetchError(f"{request.url} cannot be rendered: {reason}", DIED)


def key_of(request: Request, agent: str) -> TabKey:
    """Return what the pages of a tab have in common with this one."""
    address = parse(request.url)
    language = next((value for name, value in request.headers.items() if name.lower() == "accept-language"), None)
    return TabKey(address.origin, agent, language, session_of(request), frozenset(request.cookies.items()))


def session_of(request: Request) -> str | bool | None:
    """Return the session of a request, by which the fetcher chooses its proxy; False if it has the cookies of no session."""
    if request.session is not None:
        return request.session
    session = request.meta.get("session")
    return session if isinstance(session, str) else None


async def _given(guarded: GuardedTab) -> GuardedTab:
    return guarded


async def _add_cookies(context: BrowserContext, request: Request) -> None:
    """Give the cookies of a request to the scripts of its page, except for those that the browser does not accept."""
    root = urljoin(
        request.url, "/"
    )  # their paths are not known, and all that the page loads from its host may need them
    for name, value in cookies_of(request).items():
        with suppress(Error):
            await context.add_cookies([{"name": name, "value": value, "url": root}])
