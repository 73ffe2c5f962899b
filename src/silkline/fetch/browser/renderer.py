"""Rendering: a place in the browser for each page, its proxy, and another try if the browser dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

import msgspec
from playwright.async_api import Browser, BrowserContext, Error

from silkline.core.request import Request
from silkline.errors import FetchError, FetchTimeout, ResponseTooLarge
from silkline.fetch.browser.guard_proxy import Dial, GuardDial, GuardProxy
from silkline.fetch.browser.options import BrowserOptions, Rendering
from silkline.fetch.browser.process import BrowserProcess
from silkline.fetch.browser.rendered import RenderedResponse, can_be_rendered
from silkline.fetch.browser.rendering import FetchDocument, PageInBrowser
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
        page: PageInBrowser | None = None
        most = self._options.max_bytes

        def too_much() -> None:
            if page is not None:
                page.fail(ResponseTooLarge(f"{request.url} loads more than {most} bytes in the browser"))

        proxy = GuardProxy(self._dial_for(request), most, too_much)
        opening = asyncio.create_task(self._open(browser, proxy, request, agent))
        try:
            async with asyncio.timeout(rendering.timeout):
                context = await asyncio.shield(opening)
                page = PageInBrowser(context, request, response, rendering, fetch=fetch, most=self._limits.max_body)
                rendered = await page.run()
        except TimeoutError:
            what = f"{request.url} was not complete in the browser within {rendering.timeout:g} s (wait_for={rendering.wait_for!r})"
            raise FetchTimeout(what) from None
        finally:
            await self._finish(self._end(browser, opening, proxy))
        if proxy.refused:
            log.debug(
                "%s asked for addresses that are not permitted: %s", request.url, "; ".join(proxy.refused.values())
            )
        if isinstance(rendered, RenderedResponse):
            return msgspec.structs.replace(rendered, loaded=proxy.received)
        return rendered

    def _dial_for(self, request: Request) -> Dial:
        """Return how the connections of a page are opened."""
        if self._proxies is None:
            return GuardDial(self._guard)
        session = request.meta.get("session")
        session = session if isinstance(session, str) else None
        return ProxyDial(self._guard, self._proxies, session, verify_tls=self._verify_tls)

    async def _open(self, browser: Browser, proxy: GuardProxy, request: Request, agent: str) -> BrowserContext:
        language = next((value for name, value in request.headers.items() if name.lower() == "accept-language"), None)
        context = await browser.new_context(
            user_agent=agent,
            proxy={"server": await proxy.start()},
            accept_downloads=False,
            service_workers="block",
            ignore_https_errors=not self._verify_tls,
            extra_http_headers={"Accept-Language": language} if language else None,
        )
        if cookies := cookies_of(request):
            await context.add_cookies(
                [{"name": name, "value": value, "url": request.url} for name, value in cookies.items()]
            )
        return context

    async def _end(self, browser: Browser, opening: asyncio.Task[BrowserContext], proxy: GuardProxy) -> None:
        """Close a page. A page that cannot be closed ends with its browser."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await (await opening).close()
        except TimeoutError:
            log.warning("a page in the browser cannot be closed; the browser is started again")
            await self.process.end(browser)
        except Error:
            pass  # the browser has died, and the page with it
        await proxy.close()

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
