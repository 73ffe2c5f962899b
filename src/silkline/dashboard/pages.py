"""From values to pages: the templates, and what every page shows besides its own matter."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from silkline.core.errors import UnknownCrawl
from silkline.dashboard.background import Background
from silkline.dashboard.security import Guard, Visitor
from silkline.dashboard.words import FILTERS
from silkline.frontier.house import House

STATIC = Path(__file__).parent / "static"
LONGEST = 8000
THEMES = ("light", "dark")
LIVE = "silkline-live"
"""The header with which a page asks for its own matter alone, every few seconds."""


class Place(NamedTuple):
    """A page of the menu: what it is called, where it is, and which key goes there after g."""

    name: str
    path: str
    key: str


MENU = (
    Place("Overview", "/", "o"),
    Place("Crawls", "/crawls", "c"),
    Place("Hosts", "/hosts", "h"),
    Place("Requests", "/requests", "r"),
    Place("Dead letters", "/dead", "d"),
    Place("Workers", "/workers", "w"),
    Place("Redis", "/redis", "s"),
    Place("Audit", "/audit", "a"),
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
    made.globals.update(menu=MENU, edition=_edition())
    return made


def _edition() -> str:
    """Changes when a file does, so that browsers may keep them for long."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Page:
    """One request for a page: what it asks for, and how it is answered."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.house: House = request.state.house
        self.background: Background = request.app.background
        self.visitor: Visitor = request.state.visitor
        self.base = request.scope.get("root_path", "").rstrip("/")
        self._crawls: list[str] | None = None

    @property
    def by(self) -> str:
        """Who acts, for the audit."""
        return f"{self.visitor.name}@dashboard"

    @property
    def live(self) -> bool:
        """Whether it only refreshes itself."""
        return LIVE in self.request.headers

    def asked(self, name: str) -> str:
        """A parameter of the address, or ""; only what can be read, and never more than a URL may be long."""
        given = self.request.query_params.get(name, "")[:LONGEST]
        return "".join(letter for letter in given if letter.isprintable()).strip()

    async def crawls(self) -> list[str]:
        if self._crawls is None:
            self._crawls = await self.house.names()
        return self._crawls

    async def chosen(self) -> list[str]:
        """The crawl that is asked for, or all."""
        name, names = self.asked("crawl"), await self.crawls()
        if name and name not in names:
            raise UnknownCrawl(f"there is no crawl {name} on this server")
        return [name] if name else names

    def link(self, path: str, **parameters: Any) -> str:
        """The address of one of our pages; parameters without a value are left out."""
        given = {name: value for name, value in parameters.items() if value not in (None, "")}
        return f"{self.base}{path}" + (f"?{urlencode(given)}" if given else "")

    async def show(self, template: str, here: str, *, status: int = 200, **matter: Any) -> Response:
        """Render a page; *here* is its place in the menu."""
        names = await self.crawls()
        return self.render(template, here=here, status=status, crawls=names, **matter)

    def render(self, template: str, *, here: str, status: int = 200, **matter: Any) -> Response:
        guard: Guard = self.request.app.guard
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
        """After an act: show where it led."""
        return RedirectResponse(self.link(path, **parameters), status_code=303)


SAID: Mapping[str, str] = {
    "paused": "Paused. Workers end what is under way.",
    "resumed": "Goes on.",
    "cancelled": "Cancelled. Requests dropped:",
    "removed": "The crawl is gone.",
    "revived": "Dead letters revived:",
    "purged": "Dead letters deleted for good:",
    "set": "The host has a new pace.",
    "blocked": "The host is left alone for a while.",
    "unblocked": "The host is no longer blocked.",
    "forgotten": "Forgotten: it can be enqueued again.",
    "unknown": "There was nothing to forget.",
    "added": "Enqueued.",
    "seen": "Not enqueued: it was seen before. Forget it first.",
    "full": "Not enqueued: the crawl is full.",
    "refused": "Not enqueued: the crawl refuses it.",
    "ordered": "The worker is told within some seconds.",
    "gone": "That worker is no longer there.",
}
"""What is said after an act, by the word in the address: nothing that an address brings along is shown as ours."""
