"""Dashboard: the ASGI application. It connects when it is first asked, so that it can be mounted anywhere."""

from __future__ import annotations

import asyncio
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

from silkline.core.errors import SilklineError, StoreUnavailable, UnknownCrawl
from silkline.dashboard import pages, security
from silkline.dashboard.background import Background
from silkline.dashboard.forms import Form, read_form
from silkline.dashboard.pages import LIVE, Page
from silkline.dashboard.security import Guard, Visitor
from silkline.dashboard.views import (
    audit,
    crawls,
    dead,
    hosts,
    machines,
    overview,
    redis,
    requests,
    session,
    workers,
)
from silkline.frontier.house import House

View = Callable[[Page], Awaitable[Response]]
Act = Callable[[Page, Form], Awaitable[Response]]


class Dashboard(Starlette):
    """Pages about all crawls of one server. Mount it, or run it; `close` it if you mounted it."""

    def __init__(self, url: str | None, guard: Guard) -> None:
        super().__init__(
            routes=_routes(),
            middleware=[Middleware(_Headers), Middleware(_Door, guard)],
            exception_handlers={SilklineError: _trouble, HTTPException: _trouble},
            lifespan=_lifespan,
        )
        self.router.redirect_slashes = False
        self.guard = guard
        self.templates = pages.environment()
        self.background = Background()
        self._url = url
        self._house: House | None = None
        self._opening = asyncio.Lock()

    async def house(self) -> House:
        """The server's crawls; the first who asks connects."""
        async with self._opening:
            if self._house is None:
                self._house = await House.open(self._url)
            return self._house

    async def close(self) -> None:
        """Leave the server. Asked again, it connects again."""
        await self.background.close()
        async with self._opening:
            if self._house is not None:
                await self._house.close()
                self._house = None


def app(
    url: str | None = None,
    *,
    token: str | None = None,
    read_only: bool = False,
    hosts: Sequence[str] | None = None,
) -> Dashboard:
    """The dashboard as an ASGI application, to be mounted at any path of a Starlette or FastAPI app.

    *url* is the server, as for `Frontier.open`. Without a *token* everybody may look and nobody may act; with one,
    everybody must show it, and may act unless it is *read_only*. *hosts* are the names under which it may be asked for,
    beside localhost and addresses; None allows any, which is for apps that check this themselves.
    """
    return Dashboard(url, Guard(token, read_only=read_only, hosts=hosts))


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
        _act("/crawls/{crawl}/pause", crawls.pause),
        _act("/crawls/{crawl}/resume", crawls.resume),
        _page("/crawls/{crawl}/cancel", crawls.ask_cancel),
        _act("/crawls/{crawl}/cancel", crawls.cancel),
        _page("/crawls/{crawl}/remove", crawls.ask_remove),
        _act("/crawls/{crawl}/remove", crawls.remove),
        _page("/hosts", hosts.listing),
        _page("/host", hosts.show),
        _act("/host/set", hosts.set_pace),
        _act("/host/block", hosts.block),
        _act("/host/unblock", hosts.unblock),
        _act("/host/pause", hosts.pause),
        _act("/host/resume", hosts.resume),
        _page("/requests", requests.search),
        _act("/requests/forget", requests.forget),
        _act("/requests/add", requests.add),
        _page("/dead", dead.listing),
        _page("/dead/letter", dead.letter),
        _page("/dead/revive", dead.ask_revive),
        _act("/dead/revive", dead.revive),
        _page("/dead/purge", dead.ask_purge),
        _act("/dead/purge", dead.purge),
        _page("/workers", workers.listing),
        _act("/workers/order", workers.order),
        _page("/redis", redis.show),
        _page("/audit", audit.listing),
        Route("/sign-in", session.sign_in, methods=["GET", "POST"]),
        _act("/sign-out", session.sign_out, looking=True),
        Route("/healthz", _healthz),
        Route("/readyz", _readyz),
        _page("/metrics", machines.metrics),
        _page("/autoscale", machines.autoscale),
        Mount("/static", StaticFiles(directory=pages.STATIC)),
    ]


def _page(path: str, view: View) -> Route:
    async def endpoint(request: Request) -> Response:
        request.state.house = await request.app.house()
        return await view(Page(request))

    return Route(path, endpoint, methods=["GET"])


def _act(path: str, act: Act, *, looking: bool = False) -> Route:
    """A change: only by those who may act, and only through a form that we made for them.

    With *looking* it is for those who may only look too.
    """

    async def endpoint(request: Request) -> Response:
        visitor: Visitor = request.state.visitor
        if not (visitor.may_act or looking):
            raise HTTPException(403, "This dashboard is read-only. Start it with a token to act.")
        if not security.is_from_here(request):
            raise HTTPException(403, "This form was sent by another site, so nothing was changed.")
        form = await read_form(request)
        if not security.is_genuine(visitor, form.get("csrf", "")):
            raise HTTPException(
                403, "This form is out of date, so nothing was changed. Go back and load the page anew."
            )
        request.state.house = await request.app.house()
        try:
            return await act(Page(request), form)
        finally:
            request.app.background.outdate()

    return Route(path, endpoint, methods=["POST"])


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(request: Request) -> Response:
    """Whether pages can be shown. Everybody may ask, so it is not told which server does not answer, nor why."""
    try:
        await (await request.app.house()).names()
    except SilklineError:
        return PlainTextResponse("The server of the crawls does not answer.\n", 503)
    return PlainTextResponse("ok\n")


async def _trouble(request: Request, error: Exception) -> Response:
    """A page that says in a sentence what went wrong."""
    status = 400
    if isinstance(error, HTTPException):
        status = error.status_code
    elif isinstance(error, StoreUnavailable):
        status = 503
    elif isinstance(error, UnknownCrawl):
        status = 404
    text = str(error.detail if isinstance(error, HTTPException) else error)
    request.state.house = None
    if "text/html" not in request.headers.get("accept", "") or not hasattr(request.state, "visitor"):
        return PlainTextResponse(f"{text}\n", status)
    return Page(request).render("trouble.html", here="", status=status, text=text, code=status)


class _Headers:
    """Puts on every answer what browsers are to keep to."""

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


class _Door:
    """Lets in who may come in, and says who it is."""

    OPEN = ("/static/", "/sign-in", "/healthz", "/readyz")

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        name = security.asked_name(request)
        if name is None:
            text = "The header Host is no name or address, so nothing can be shown.\n"
            await PlainTextResponse(text, 400)(scope, receive, send)
            return
        if not self._guard.knows_host(name):
            text = "This dashboard is not known by that name. Start it with --host and the name, or use its address.\n"
            await PlainTextResponse(text, 421)(scope, receive, send)
            return
        visitor = self._guard.visitor(request)
        if visitor is None and not _inner_path(scope).startswith(self.OPEN):
            await self._turn_away(request)(scope, receive, send)
            return
        request.state.visitor = visitor or Visitor("", may_act=False, csrf=None)
        await self._app(scope, receive, send)

    def _turn_away(self, request: Request) -> Response:
        """People are led to the form; programs, and pages that only refresh themselves, are told."""
        by_hand = "text/html" in request.headers.get("accept", "") and LIVE not in request.headers
        if request.method == "GET" and by_hand and "authorization" not in request.headers:
            base = request.scope.get("root_path", "").rstrip("/")
            query = request.scope["query_string"].decode("latin-1")  # bytes that need be no text
            wanted = quote(request.scope["path"]) + (f"?{query}" if query else "")
            return RedirectResponse(session.address(base, wanted), 303)
        headers = {} if LIVE in request.headers else {"WWW-Authenticate": 'Basic realm="Silkline", charset="UTF-8"'}
        return PlainTextResponse("Sign in with the token first.\n", 401, headers)


def _inner_path(scope: Scope) -> str:
    """The path below the one we are mounted at."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/"))
