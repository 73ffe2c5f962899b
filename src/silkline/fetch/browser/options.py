"""How pages are rendered: the settings of a handler, and those of the browser. This module needs no browser."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from silkline.core.request import Request, is_time
from silkline.errors import ConfigError

Resource = Literal["image", "media", "font", "stylesheet", "script", "xhr", "fetch", "manifest", "ping", "other"]
"""Kinds of resources that can be blocked, as Playwright calls them."""
Moment = Literal["load", "domcontentloaded", "networkidle"]
"""Moments of loading a page."""
MOMENTS = frozenset(get_args(Moment))


class Rendering(msgspec.Struct, frozen=True, kw_only=True):
    """How the pages of a handler are rendered: ``@crawl.handler(render=Rendering(wait_for=".price"))``.

    - *wait_for*: when the page is complete: ``load`` (the default), ``domcontentloaded``, ``networkidle`` (no connection for half a
      second), or a CSS selector that must match an element.
    - *timeout*: seconds in the browser. A page that takes longer fails and is retried.
    - *block*: kinds of resources that are not loaded: ``image``, ``media``, ``font``, ``stylesheet``, ``script``, ``xhr``, ``fetch``,
      ``manifest``, ``ping`` or ``other``.
    """

    wait_for: str = "load"
    timeout: float = 30.0
    block: tuple[Resource, ...] = ("image", "media", "font")

    def __post_init__(self) -> None:
        if not isinstance(self.wait_for, str) or not self.wait_for.strip():
            raise ConfigError(f"wait_for must be a CSS selector or one of {_listed(MOMENTS)}, got {self.wait_for!r}")
        if not (is_time(self.timeout) and self.timeout > 0):
            raise ConfigError(f"timeout must be a number of seconds above 0, got {self.timeout!r}")
        if not isinstance(self.block, tuple | list) or any(kind not in get_args(Resource) for kind in self.block):
            raise ConfigError(f"block must be a list of {_listed(get_args(Resource))}, got {self.block!r}")

    @classmethod
    def of(cls, given: Rendering | bool | None) -> Rendering | None:  # noqa: FBT001 - as users write it
        """Return the rendering that a user has given; None if pages are not rendered."""
        if given is None or isinstance(given, bool):
            return cls() if given else None
        if not isinstance(given, Rendering):
            raise ConfigError(f"render must be True, False or a Rendering, got {given!r}")
        return given


class BrowserOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The browser of each worker process: ``FetchOptions(browser=BrowserOptions(pages=8))``.

    - *pages*: pages that it renders at a time.
    - *executable*: the program; by default the Chromium or Chrome of the system, else the one that Playwright has installed.
    - *channel*: a browser that Playwright finds itself, such as ``chrome`` or ``msedge``, instead of *executable*.
    - *max_bytes*: bytes that one page may load besides itself: scripts, styles, data.
    - *sandbox*: whether Chromium's own sandbox is used; by default, unless the worker runs as root, where it does not work.
    """

    pages: int = 4
    executable: str | Path | None = None
    channel: str | None = None
    max_bytes: int = 64 * 2**20
    sandbox: bool | None = None

    def __post_init__(self) -> None:
        if type(self.pages) is not int or not 1 <= self.pages <= 100:
            raise ConfigError(f"pages must be from 1 to 100 pages in a browser at a time, got {self.pages!r}")
        if self.executable is not None and self.channel is not None:
            raise ConfigError("executable and channel both name a browser; leave one out")
        if type(self.max_bytes) is not int or self.max_bytes < 1:
            raise ConfigError(f"max_bytes must be at least 1, got {self.max_bytes!r}")


RenderingOf: TypeAlias = Callable[[Request], "Rendering | None"]
"""Returns how the page of a request is rendered; None if it is not."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
