"""Dashboard: the ASGI application. It connects at the first request, so that it can be mounted in any app.

All pages share one `CrawlServer`, and so its connections: two per node of the server at most (`CALL_CONNECTIONS` in
`frontier/transport/clients.py`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from silkline.dashboard import pages, security
from silkline.dashboard.pages import LIVE, Form, PageContext, read_form
from silkline.dashboard.security import Authenticator, Visitor
from silkline.dashboard.slow_queries import SlowQueries
from silkline.dashboard.views import (
    audit,
    crawls,
    dead,
    hosts,
    machines,
    overview,
    proxies,
    redis,
    requests,
    session,
    tasks,
    workers,
)
from silkline.errors import SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.crawl_server import CrawlServer

View = Callable[[PageContext], Awaitable[Response]]
Action = Callable[[PageContext, Form], Awaitable[Response]]

MOST_SESSIONS = 10_000
ASK_EVERY = 5.0
"""Seconds between two checks whether a session was ended on another dashboard."""


class Dashboard(Starlette):
    """The dashboard of one server. Mount it or run it; call `close` if you mounted it."""

    def __init__(self, url: str | None, guard: Authenticator) -> None:
        super().__init__(
            routes=_routes(),
            middleware=[Middleware(HeadersMiddleware), Middleware(AuthMiddleware, guard)],
            exception_handlers={SilklineError: _trouble, HTTPException: _trouble},
            lifespan=_lifespan,
        )
        self.router.redirect_slashes = False
        self.guard = guard
        self.templates = pages.environment()
        self.slow_queries = SlowQueries()
        self._url = url
        self._server: CrawlServer | None = None
        self._opening = asyncio.Lock()
        self._ended: dict[str, float] = {}  # session -> time of the next check whether it has ended; inf if it has

    async def server(self) -> CrawlServer:
        """Return the server of the crawls; the first call connects."""
        async with self._opening:
            if self._server is None:
                self._server = await CrawlServer.open(self._url)
            return self._server

    async def end_session(self, session: str) -> None:
        """Sign a session out, in all processes that serve this dashboard."""
        self._ended[session] = math.inf
        await (await self.server()).end_session(session, security.SESSION)

    async def has_ended(self, session: str) -> bool:
        """Whether the user has signed out, here or on another dashboard of this server. The result is cached for seconds."""
        now = time.monotonic()
        if self._ended.get(session, 0.0) < now:
            try:
                ended = await (await self.server()).session_has_ended(session)
            except SilklineError:
                return False  # no page can be shown in this case either
            if len(self._ended) > MOST_SESSIONS:
                self._ended.clear()
            self._ended[session] = math.inf if ended else now + ASK_EVERY
        return self._ended[session] == math.inf

    async def close(self) -> None:
        """Close the connection. The next request opens it again."""
        await self.slow_queries.close()
        async with self._opening:
            if self._server is not None:
                await self._server.close()
                self._server = None


def app(
    url: str | None = None,
    *,
    token: str | None = None,
    read_only: bool = False,
    hosts: Sequence[str] | None = None,
) -> Dashboard:
    """Return the dashboard as an ASGI application. Mount it at any path of a Starlette or FastAPI app.

    *url* is the server, as for `Frontier.open`. Without a *token*, the dashboard is read-only for everyone. With a token,
    users must sign in and can make changes, unless *read_only* is set. *hosts* are the host names that requests may use,
    besides localhost and IP addresses; None allows any name, for apps that check it themselves.
    """
    return Dashboard(url, Authenticator(token, read_only=read_only, hosts=hosts))


@asynccontextmanager
async def _lifespan(dashboard: Starlette) -> AsyncIterator[None]:
    assert isinstance(dashboard, Dashboard)
    yield
    await dashboard.close()


def _routes() -> list[BaseRoute]:
    return [
        _page("/", overview.show),
        _page("/crawls", crawls.listing),
        _page("/crawls/{crawl}", crawls.show),
        _action("/crawls/{crawl}/set", crawls.change),
        _action("/crawls/{crawl}/pause", crawls.pause),
        _action("/crawls/{crawl}/resume", crawls.resume),
        _page("/crawls/{crawl}/cancel", crawls.ask_cancel),
        _action("/crawls/{crawl}/cancel", crawls.cancel),
        _page("/crawls/{crawl}/remove", crawls.ask_remove),
        _action("/crawls/{crawl}/remove", crawls.remove),
        _page("/hosts", hosts.listing),
        _page("/host", hosts.show),
        _action("/host/set", hosts.set_pace),
        _action("/host/block", hosts.block),
        _action("/host/unblock", hosts.unblock),
        _action("/host/pause", hosts.pause),
        _action("/host/resume", hosts.resume),
        _page("/tasks", tasks.listing),
        _page("/requests", requests.search),
        _page("/requests/export", requests.export),
        _action("/requests/drop", requests.drop),
        _action("/requests/promote", requests.promote),
        _action("/requests/forget", requests.forget),
        _action("/requests/add", requests.add),
        _page("/dead", dead.listing),
        _page("/dead/letter", dead.letter),
        _page("/dead/export", dead.export),
        _page("/dead/revive", dead.ask_revive),
        _action("/dead/revive", dead.revive),
        _page("/dead/purge", dead.ask_purge),
        _action("/dead/purge", dead.purge),
        _page("/workers", workers.listing),
        _page("/workers/stop", workers.ask_stop),
        _action("/workers/order", workers.order),
        _page("/proxies", proxies.listing),
        _page("/redis", redis.show),
        _page("/audit", audit.listing),
        Route("/sign-in", session.sign_in, methods=["GET", "POST"]),
        _action("/sign-out", session.sign_out, looking=True),
        Route("/healthz", _healthz),
        Route("/readyz", _readyz),
        _page("/metrics", machines.metrics),
        _page("/autoscale", machines.autoscale),
        Mount("/static", StaticFiles(directory=pages.STATIC)),
    ]


def _page(path: str, view: View) -> Route:
    async def endpoint(request: Request) -> Response:
        request.state.server = await request.app.server()
        return await view(PageContext(request))

    return Route(path, endpoint, methods=["GET"])


def _action(path: str, action: Action, *, looking: bool = False) -> Route:
    """Return a route for a change. The user must be allowed to make changes, and the form must have a valid CSRF token.

    With *looking*, read-only users may send it too.
    """

    async def endpoint(request: Request) -> Response:
        visitor: Visitor = request.state.visitor
        if not (visitor.may_act or looking):
            raise HTTPException(403, "This dashboard is read-only. Start it with a token to allow changes.")
        if not security.is_from_here(request):
            raise HTTPException(403, "The form was sent by another site. Nothing was changed.")
        form = await read_form(request)
        if not security.is_genuine(visitor, form.get("csrf", "")):
            raise HTTPException(403, "The form is out of date. Nothing was changed. Go back and reload the page.")
        request.state.server = await request.app.server()
        try:
            return await action(PageContext(request), form)
        finally:
            request.app.slow_queries.outdate()

    return Route(path, endpoint, methods=["POST"])


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(request: Request) -> Response:
    """Fail if the server is unavailable. The path needs no token, so the response does not name the server or the error."""
    try:
        await (await request.app.server()).names()
    except SilklineError:
        return PlainTextResponse("Redis is unavailable.\n", 503)
    return PlainTextResponse("ok\n")


async def _trouble(request: Request, error: Exception) -> Response:
    """Return an error page."""
    status = 400
    if isinstance(error, HTTPException):
        status = error.status_code
    elif isinstance(error, StoreUnavailable):
        status = 503
    elif isinstance(error, UnknownCrawl):
        status = 404
    text = str(error.detail if isinstance(error, HTTPException) else error)
    request.state.server = None
    if "text/html" not in request.headers.get("accept", "") or not hasattr(request.state, "visitor"):
        return PlainTextResponse(f"{text}\n", status)
    return PageContext(request).render("trouble.html", here="", status=status, text=text, code=status)


class HeadersMiddleware:
    """Adds the security and cache headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        static = _inner_path(scope).startswith("/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in security.HEADERS.items():
                    headers[name] = value
                headers["Cache-Control"] = "public, max-age=86400" if static else "no-store"
                if not static:
                    headers.add_vary_header(LIVE)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class AuthMiddleware:
    """Authenticates requests, and rejects unknown host names."""

    OPEN = ("/static/", "/sign-in", "/healthz", "/readyz")

    def __init__(self, app: ASGIApp, guard: Authenticator) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        name = security.asked_name(request)
        if name is None:
            text = "The Host header is not a valid host name or address.\n"
            await PlainTextResponse(text, 400)(scope, receive, send)
            return
        if not self._guard.knows_host(name):
            text = "This host name is not allowed. Start the dashboard with --host NAME, or use its IP address.\n"
            await PlainTextResponse(text, 421)(scope, receive, send)
            return
        client = security.address_of(request)
        by_header = "authorization" in request.headers and self._guard.asks
        if by_header and (wait := self._guard.wrong_tokens.wait(client)):
            await session.too_many(wait)(scope, receive, send)
            return
        visitor = self._guard.visitor(request)
        if by_header:
            (self._guard.wrong_tokens.forget if visitor else self._guard.wrong_tokens.note)(client)
        if visitor and visitor.session and await request.app.has_ended(visitor.session):
            visitor = None
        if visitor is None and not _inner_path(scope).startswith(self.OPEN):
            await self._turn_away(request)(scope, receive, send)
            return
        request.state.visitor = visitor or Visitor("", may_act=False, csrf=None)
        await self._app(scope, receive, send)

    def _turn_away(self, request: Request) -> Response:
        """Redirect browsers to the sign-in form; reply 401 to programs and to pages that refresh themselves."""
        by_hand = "text/html" in request.headers.get("accept", "") and LIVE not in request.headers
        if request.method == "GET" and by_hand and "authorization" not in request.headers:
            base = request.scope.get("root_path", "").rstrip("/")
            query = request.scope["query_string"].decode("latin-1")  # may be any bytes
            wanted = quote(request.scope["path"]) + (f"?{query}" if query else "")
            return RedirectResponse(session.address(base, wanted), 303)
        headers = {} if LIVE in request.headers else {"WWW-Authenticate": 'Basic realm="Silkline", charset="UTF-8"'}
        return PlainTextResponse("Authentication required: sign in with the token.\n", 401, headers)


def _inner_path(scope: Scope) -> str:
    """Return the path below the mount point."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/"))
