"""Render pages: the templates, and what all pages share."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from silkline.dashboard.formatting import FILTERS
from silkline.dashboard.security import Authenticator, Visitor
from silkline.dashboard.slow_queries import SlowQueries
from silkline.errors import UnknownCrawl
from silkline.frontier.admin_verbs.explain_text import lost_writes
from silkline.frontier.crawl_server import CrawlServer

STATIC = Path(__file__).parent / "static"
LONGEST = 8000
THEMES = ("light", "dark")
LIVE = "silkline-live"
"""The header of the requests with which a page refreshes its content every few seconds."""


class MenuEntry(NamedTuple):
    """A menu entry: its name, its path, and the key that opens it after g."""

    name: str
    path: str
    key: str


MENU = (
    MenuEntry("Overview", "/", "o"),
    MenuEntry("Crawls", "/crawls", "c"),
    MenuEntry("Hosts", "/hosts", "h"),
    MenuEntry("Tasks", "/tasks", "t"),
    MenuEntry("Requests", "/requests", "r"),
    MenuEntry("Dead letters", "/dead", "d"),
    MenuEntry("Workers", "/workers", "w"),
    MenuEntry("Proxies", "/proxies", "x"),
    MenuEntry("Redis", "/redis", "s"),
    MenuEntry("Audit", "/audit", "a"),
)


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("silkline.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals.update(menu=MENU, edition=_edition(), lost_writes=lost_writes)
    return made


def _edition() -> str:
    """Return a hash of the static files, so that browsers can cache them."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class PageContext:
    """One request for a page: its parameters, and how the response is rendered."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.server: CrawlServer = request.state.server
        self.slow_queries: SlowQueries = request.app.slow_queries
        self.visitor: Visitor = request.state.visitor
        self.base = request.scope.get("root_path", "").rstrip("/")
        self._crawls: list[str] | None = None

    @property
    def by(self) -> str:
        """The user, for the audit log."""
        return f"{self.visitor.name}@dashboard"

    @property
    def live(self) -> bool:
        """Whether the page refreshes itself."""
        return LIVE in self.request.headers

    def asked(self, name: str) -> str:
        """Return a query parameter, or "". It is cut to the maximum length of a URL; unprintable characters are removed."""
        given = self.request.query_params.get(name, "")[:LONGEST]
        return "".join(letter for letter in given if letter.isprintable()).strip()

    async def crawls(self) -> list[str]:
        if self._crawls is None:
            self._crawls = await self.server.names()
        return self._crawls

    async def chosen(self) -> list[str]:
        """Return the selected crawl, or all crawls."""
        name, names = self.asked("crawl"), await self.crawls()
        if name and name not in names:
            raise UnknownCrawl(f"this server has no crawl named {name!r}")
        return [name] if name else names

    def link(self, path: str, **parameters: Any) -> str:
        """Return the URL of a page of the dashboard; empty parameters are left out."""
        given = {name: value for name, value in parameters.items() if value not in (None, "")}
        return f"{self.base}{path}" + (f"?{urlencode(given)}" if given else "")

    async def show(self, template: str, here: str, *, status: int = 200, **matter: Any) -> Response:
        """Render a page; *here* is its menu entry."""
        names = await self.crawls()
        return self.render(template, here=here, status=status, crawls=names, **matter)

    def render(self, template: str, *, here: str, status: int = 200, **matter: Any) -> Response:
        guard: Authenticator = self.request.app.guard
        theme = self.request.cookies.get("silkline_theme", "")
        context: dict[str, Any] = {
            "base": self.base,
            "here": here,
            "link": self.link,
            "live": self.live,
            "chosen": self.asked("crawl"),
            "visitor": self.visitor,
            "asks": guard.asks,
            "theme": theme if theme in THEMES else "",
            "now": time.time(),
            "said": SAID.get(self.asked("said"), ""),
            "count": self.asked("count") if self.asked("count").isdigit() else "",
            "crawls": [],
        }
        text = self.request.app.templates.get_template(template).render(context | matter)
        return HTMLResponse(text, status_code=status)

    def go(self, path: str, **parameters: Any) -> RedirectResponse:
        """Redirect after a change."""
        return RedirectResponse(self.link(path, **parameters), status_code=303)


SAID: Mapping[str, str] = {
    "paused": "Crawl paused. Workers finish the requests in progress.",
    "resumed": "Crawl resumed.",
    "cancelled": "Cancelled. Requests dropped:",
    "removed": "Crawl deleted.",
    "revived": "Dead letters revived:",
    "purged": "Dead letters deleted:",
    "set": "The rate limits of the host were changed.",
    "changed": "The settings of the crawl were changed.",
    "same": "Nothing was changed: the crawl already has these settings.",
    "blocked": "The host is blocked.",
    "unblocked": "The host is no longer blocked.",
    "forgotten": "Removed from the seen filter. The URL can be enqueued again.",
    "unknown": "The URL was not in the seen filter.",
    "added": "Enqueued.",
    "seen": "Not enqueued: the URL was seen before. Forget it first.",
    "full": "Not enqueued: the crawl is full.",
    "refused": "Not enqueued: the crawl refused the URL.",
    "dropped": "Requests dropped:",
    "promoted": "Requests that can be claimed now:",
    "none": "No request was selected.",
    "ordered": "The worker receives the order within seconds.",
    "gone": "The worker no longer exists.",
}
"""The message after a change, by the word in the URL: text from the URL itself is never shown as a message."""


Form = Mapping[str, str]
KIND = "application/x-www-form-urlencoded"
LARGEST, MOST_FIELDS = 64 * 1024, 120


async def read_form(request: Request) -> Form:
    """Parse a form. Of fields with the same name, the last one counts."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        raise HTTPException(415, f"Forms must be sent as {KIND}.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise HTTPException(413, "The form is too large.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:  # includes UnicodeDecodeError
        raise HTTPException(400, "The form cannot be read.") from None
