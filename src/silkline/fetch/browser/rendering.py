"""One page in the browser: its document is given to the browser, its scripts run, and its HTML is read."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from playwright.async_api import Cookie, Error, Page
from playwright.async_api import Request as BrowserRequest

from silkline.core.request import Request
from silkline.core.url import parse
from silkline.errors import FetchError, LocalFailure, RequestError, ResponseTooLarge
from silkline.fetch.browser.options import MOMENTS, Rendering
from silkline.fetch.browser.rendered import Captured, RenderedResponse, can_be_rendered, matches
from silkline.fetch.browser.tabs import Tab
from silkline.fetch.cookies.jar import host_of
from silkline.fetch.cookies.requests import cookies_of, with_only
from silkline.fetch.fetcher import Headers, Response

MOST_RELOADS = 3
"""How often a page may load itself again, as pages do that set a cookie first."""
MOVED = 302
BODILESS = frozenset({"content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive"})
"""Headers that are not those of the decompressed body."""
READ = """
(() => {
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
  const html = type + (document.documentElement ? document.documentElement.outerHTML : "");
  return html.length > %d ? [document.URL, html.length, ""] : [document.URL, html.length, html];
})()
"""
RESOURCES = {
    "image": "Image",
    "media": "Media",
    "font": "Font",
    "stylesheet": "Stylesheet",
    "script": "Script",
    "xhr": "XHR",
    "fetch": "Fetch",
    "manifest": "Manifest",
    "ping": "Ping",
    "other": "Other",
}
"""The kinds of resources, and how the DevTools protocol calls them."""
MOST_CAPTURED, MOST_CAPTURED_BYTES = 100, 4 * 2**20
"""JSON responses of one page that are kept, and their bytes in total."""
MOST_COOKIES = 50
"""Cookies that a page has set."""
MOST_IMAGE = 16 * 2**20
"""Bytes of a screenshot."""
ICON = {"urlPattern": "*/favicon.ico"}
"""The icon that a window would show."""

FetchDocument = Callable[[Request], Awaitable[Response]]
"""Fetches a document without the browser."""


class PageInBrowser:
    """Renders one page in a context of the browser.

    The document is fetched without the browser, as any page is, and then given to it. If the page loads another document, that is a
    redirect: a response that says so ends the rendering.
    """

    def __init__(
        self,
        tab: Tab,
        request: Request,
        response: Response,
        rendering: Rendering,
        *,
        fetch: FetchDocument,
        most: int,
    ) -> None:
        self._tab = tab
        self._request = request
        self._response = response
        self._rendering = rendering
        self._fetch = fetch
        self._most = most
        self._ended: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers: set[asyncio.Task[None]] = set()
        self._address = ""
        """The URL as the browser writes it."""
        self._reloads = 0
        self._in_actions = False
        """Whether the user's actions have begun, which may load other documents."""
        self._captures: list[asyncio.Task[Captured | None]] = []

    async def run(self) -> Response:
        """Return the rendered response, or the response of a redirect. Raises a `FetchError`, or an `Error` of Playwright."""
        page = self._tab.page
        self._tab.pages += 1
        self._tab.user = self
        kinds = ["Document", *(RESOURCES[kind] for kind in self._rendering.block)]
        patterns = [ICON, *({"resourceType": kind} for kind in kinds)]
        if self._rendering.capture:
            page.on("requestfinished", self._finished)
        steps = asyncio.create_task(self._steps(page, patterns))
        try:
            await asyncio.wait([steps, self._ended], return_when=asyncio.FIRST_COMPLETED)
            return self._ended.result() if self._ended.done() else steps.result()
        finally:
            self._tab.user = None
            if self._rendering.capture:
                page.remove_listener("requestfinished", self._finished)
            for task in (steps, *self._answers, *self._captures):
                task.cancel()
            with suppress(Error, asyncio.CancelledError):
                await steps

    def crashed(self) -> None:
        """See `TabUser`."""
        self.fail(FetchError(f"{self._request.url} crashed its tab in the browser", "crash"))

    def fail(self, error: FetchError | LocalFailure | Error) -> None:
        """End the rendering."""
        if not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()  # it may be too late for anyone to read it

    async def _steps(self, page: Page, patterns: list[dict[str, str]]) -> Response:
        wait_for = self._rendering.wait_for
        await self._tab.devtools.send("Fetch.enable", {"patterns": patterns})
        await page.goto(self._request.url, wait_until="commit", timeout=0)
        moment: Any = wait_for if wait_for in MOMENTS else "domcontentloaded"
        await page.wait_for_load_state(moment, timeout=0)
        if wait_for not in MOMENTS:
            await page.wait_for_selector(wait_for, state="attached", timeout=0)
        if self._rendering.actions is not None:
            self._in_actions = True
            self._tab.is_reusable = False
            await self._rendering.actions(page)
        captured = self._within_limits(await asyncio.gather(*self._captures))
        return msgspec.structs.replace(
            await self._read(),
            screenshot=await self._take_screenshot(page) if self._rendering.screenshot else None,
            captured=captured,
        )

    async def _take_screenshot(self, page: Page) -> bytes:
        image = await page.screenshot(full_page=True, timeout=0)
        if len(image) > MOST_IMAGE:
            raise ResponseTooLarge(
                f"the screenshot of {self._request.url} has {len(image)} bytes; the limit is {MOST_IMAGE}"
            )
        return image

    # ── JSON responses ──

    def _finished(self, request: BrowserRequest) -> None:
        """Read a JSON response that has arrived, if it is wanted."""
        is_data = request.resource_type in ("xhr", "fetch")
        if is_data and any(matches(pattern, request.url) for pattern in self._rendering.capture):
            self._captures.append(asyncio.create_task(self._capture(request, len(self._captures))))

    async def _capture(self, request: BrowserRequest, number: int) -> Captured | None:
        if number >= MOST_CAPTURED:
            return None
        try:
            response = await request.response()
            if response is None or "json" not in response.headers.get("content-type", ""):
                return None
            return Captured(request.url, response.status, await response.body())
        except Error:  # it was too large for the browser to keep it
            return None

    @staticmethod
    def _within_limits(found: list[Captured | None]) -> tuple[Captured, ...]:
        """Return the responses, without those that are too large together."""
        kept, left = [], MOST_CAPTURED_BYTES
        for captured in found:
            if captured is not None and len(captured.body) <= left:
                left -= len(captured.body)
                kept.append(captured)
        return tuple(kept)

    # ── the HTML ──

    async def _read(self) -> RenderedResponse:
        """Read the HTML, in a world of scripts that the page cannot change."""
        result = await self._tab.evaluate(READ % self._most)
        if "value" not in result:
            raise FetchError(f"the HTML of {self._request.url} cannot be read from the browser", "browser")
        url, length, html = result["value"]
        body = html.encode(errors="replace")
        if length > self._most or len(body) > self._most:
            raise ResponseTooLarge(f"the rendered page has {max(length, len(body))} bytes; the limit is {self._most}")
        headers = [(name, value) for name, value in self._response.headers.pairs if name.lower() != "content-type"]
        cookies = [("set-cookie", line) for line in await self._set_cookies()]
        return RenderedResponse(
            self._final(url),
            self._response.status,
            Headers([*headers, ("content-type", "text/html; charset=utf-8"), *cookies]),
            body,
            self._response.elapsed,
            self._response.http_version,
            original=self._response,
        )

    async def _set_cookies(self, *more: str) -> list[str]:
        """Return the cookies that the page has now and its request did not have, as headers; also those for *more* URLs of its site.

        Those of other hosts, from which the page has loaded something, are left out.
        """
        sent, host = cookies_of(self._request), host_of(parse(self._request.url))
        found = [
            one
            for one in await self._tab.context.cookies([self._request.url, *more])
            if sent.get(one.get("name", "")) != one.get("value")
            and (one.get("domain", host) == host or one.get("domain", "").startswith("."))
        ]
        return [header_of(one) for one in found][:MOST_COOKIES]

    def _final(self, url: str) -> str:
        """Return the URL of the page, which scripts may have changed within its site."""
        if url.partition("#")[0] == self._address:
            return self._request.url
        try:
            return parse(url).url
        except RequestError:  # about:blank, for example
            return self._request.url

    # ── what the page requests ──

    def paused(self, event: dict[str, Any]) -> None:
        """See `TabUser`."""
        if event["resourceType"] != "Document":
            self._tab.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "BlockedByClient"})
            return
        if event["frameId"] == self._tab.frame and not self._in_actions:
            self._address = self._address or event["request"]["url"]
            task = asyncio.create_task(self._answer(event))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        else:
            self._tab.is_reusable = False  # a frame may keep something for another origin
            self._tab.send("Fetch.continueRequest", {"requestId": event["requestId"]})

    async def _answer(self, event: dict[str, Any]) -> None:
        try:
            await self._give_document(event)
        except (FetchError, LocalFailure, Error) as error:
            self.fail(error)

    async def _give_document(self, event: dict[str, Any]) -> None:
        """Give the document of the page to the browser."""
        request = event["request"]
        if request["url"] != self._address or request["method"] != "GET" or self._reloads > MOST_RELOADS:
            self._tab.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})
            await self._move(request["url"])
            return
        if self._reloads:
            again = with_only(await self._cookies(request["url"]), self._request)
            again = msgspec.structs.replace(again, method="GET", body=b"")
            self._response = await self._fetch(again)
            if not can_be_rendered(self._response):
                self._end_with(self._response)
                return
        self._reloads += 1
        answer = self._response
        headers = [
            {"name": name, "value": value} for name, value in answer.headers.pairs if name.lower() not in BODILESS
        ]
        self._tab.send(
            "Fetch.fulfillRequest",
            {
                "requestId": event["requestId"],
                "responseCode": answer.status,
                "responseHeaders": headers,
                "body": b64encode(answer.body).decode(),
            },
        )

    async def _move(self, url: str) -> None:
        """End with a redirect to the document that the page has asked for, with the cookies that it has set."""
        lines = [("set-cookie", line) for line in await self._set_cookies(url)]
        kept = [
            (name, value)
            for name, value in self._response.headers.pairs
            if name.lower() not in ("set-cookie", "location")
        ]
        headers = Headers([*kept, ("location", url), *lines])
        self._end_with(msgspec.structs.replace(self._response, status=MOVED, headers=headers))

    async def _cookies(self, url: str) -> dict[str, str]:
        found = await self._tab.context.cookies([url])
        return {cookie["name"]: cookie["value"] for cookie in found if "name" in cookie and "value" in cookie}

    def _end_with(self, response: Response) -> None:
        if not self._ended.done():
            self._ended.set_result(response)


def header_of(cookie: Cookie) -> str:
    """Return a cookie of the browser as the header that sets it."""
    parts = [f"{cookie.get('name', '')}={cookie.get('value', '')}", f"Path={cookie.get('path', '/')}"]
    domain, expires = cookie.get("domain", ""), cookie.get("expires", -1)
    if domain.startswith("."):
        parts.append(f"Domain={domain[1:]}")
    if expires > 0:
        parts.append(f"Max-Age={max(0, int(expires - time.time()))}")
    parts += [word for word in ("Secure", "HttpOnly") if cookie.get("secure" if word == "Secure" else "httpOnly")]
    return "; ".join(parts)
