"""How pages are rendered: the settings of a handler, and those of the browser. This module needs no browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from silkline.core.request import Request, is_time
from silkline.errors import ConfigError

Resource = Literal["image", "media", "font", "stylesheet", "script", "xhr", "fetch", "manifest", "ping", "other"]
"""Kinds of resources that can be blocked, as Playwright calls them."""
Moment = Literal["load", "domcontentloaded", "networkidle"]
"""Moments of loading a page."""
MOMENTS = frozenset(get_args(Moment))


Actions: TypeAlias = Callable[[Any], Awaitable[object]]
"""A user's function that gets the page of Playwright."""


class Rendering(msgspec.Struct, frozen=True, kw_only=True):
    """How the pages of a handler are rendered: ``@crawl.handler(render=Rendering(wait_for=".price"))``.

    - *when*: ``always``, or ``auto`` to render only pages that lack something without a browser: their handler raises `ElementNotFound`, or no
      element matches *needs*.
    - *needs*: a CSS selector that must match an element of a page, or the page is rendered; for ``auto``.
    - *wait_for*: when the page is complete: ``load`` (the default), ``domcontentloaded``, ``networkidle`` (no connection for half a
      second), or a CSS selector that must match an element.
    - *timeout*: seconds in the browser. A page that takes longer fails and is retried.
    - *block*: kinds of resources that are not loaded: ``image``, ``media``, ``font``, ``stylesheet``, ``script``, ``xhr``, ``fetch``,
      ``manifest``, ``ping`` or ``other``.
    - *actions*: an async function that gets the page of Playwright when it is complete, to click, type and scroll.
    - *capture*: JSON responses that are kept for `Page.captured`: patterns for their path and query, such as ``/api/*``, or for whole URLs.
    - *screenshot*: whether an image of the whole page is kept for `Page.screenshot`.
    """

    when: Literal["always", "auto"] = "always"
    needs: str | None = None
    wait_for: str = "load"
    timeout: float = 30.0
    block: tuple[Resource, ...] = ("image", "media", "font")
    actions: Actions | None = None
    capture: tuple[str, ...] = ()
    screenshot: bool = False

    def __post_init__(self) -> None:
        if self.when not in ("always", "auto"):
            raise ConfigError(f'when must be "always" or "auto", got {self.when!r}')
        if self.needs is not None and (self.when != "auto" or not isinstance(self.needs, str)):
            raise ConfigError(f'needs is a CSS selector for when="auto", got {self.needs!r} and when={self.when!r}')
        if not isinstance(self.wait_for, str) or not self.wait_for.strip():
            raise ConfigError(f"wait_for must be a CSS selector or one of {_listed(MOMENTS)}, got {self.wait_for!r}")
        if not (is_time(self.timeout) and self.timeout > 0):
            raise ConfigError(f"timeout must be a number of seconds above 0, got {self.timeout!r}")
        if not isinstance(self.block, tuple | list) or any(kind not in get_args(Resource) for kind in self.block):
            raise ConfigError(f"block must be a list of {_listed(get_args(Resource))}, got {self.block!r}")
        if self.actions is not None and not iscoroutinefunction(self.actions):
            raise ConfigError(
                f"actions must be an async function that takes a page of Playwright, got {self.actions!r}"
            )
        if not isinstance(self.capture, tuple | list) or not all(isinstance(one, str) for one in self.capture):
            raise ConfigError(f"capture must be a list of patterns such as '/api/*', got {self.capture!r}")

    @property
    def keeps_more(self) -> bool:
        """Whether more than the HTML is kept of a page."""
        return bool(self.capture) or self.screenshot

    @classmethod
    def of(cls, given: Rendering | bool | str | None) -> Rendering | None:  # noqa: FBT001 - as users write it
        """Return the rendering that a user has given; None if pages are not rendered."""
        if given == "auto":
            return cls(when="auto")
        if given is None or isinstance(given, bool):
            return cls() if given else None
        if not isinstance(given, Rendering):
            raise ConfigError(f'render must be True, False, "auto" or a Rendering, got {given!r}')
        return given


LEAST_MEMORY = 256 * 2**20
"""Bytes that Chromium needs for small pages."""


class BrowserOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The browser of each worker process: ``FetchOptions(browser=BrowserOptions(pages=8))``.

    - *pages*: pages that it renders at a time.
    - *executable*: the program; by default the Chromium or Chrome of the system, else the one that Playwright has installed.
    - *channel*: a browser that Playwright finds itself, such as ``chrome`` or ``msedge``, instead of *executable*.
    - *max_bytes*: bytes that one page may load besides itself: scripts, styles, data.
    - *memory*: bytes that the browser may use with all its pages (Linux only). If it uses more, its largest page fails; if it still does when
      a page has ended, it is started again. None for no limit.
    - *pages_per_browser*: pages after which it is started again, because a browser that runs for long grows.
    - *sandbox*: whether Chromium's own sandbox is used; by default, unless the worker runs as root, where it does not work.
    """

    pages: int = 4
    executable: str | Path | None = None
    channel: str | None = None
    max_bytes: int = 64 * 2**20
    memory: int | None = 2 * 2**30
    pages_per_browser: int = 1_000
    sandbox: bool | None = None

    def __post_init__(self) -> None:
        if type(self.pages) is not int or not 1 <= self.pages <= 100:
            raise ConfigError(f"pages must be from 1 to 100 pages in a browser at a time, got {self.pages!r}")
        if self.executable is not None and self.channel is not None:
            raise ConfigError("executable and channel both name a browser; leave one out")
        if type(self.max_bytes) is not int or self.max_bytes < 1:
            raise ConfigError(f"max_bytes must be at least 1, got {self.max_bytes!r}")
        if self.memory is not None and (type(self.memory) is not int or self.memory < LEAST_MEMORY):
            raise ConfigError(f"memory must be at least {LEAST_MEMORY} bytes, or None, got {self.memory!r}")
        if type(self.pages_per_browser) is not int or self.pages_per_browser < 1:
            raise ConfigError(f"pages_per_browser must be at least 1, got {self.pages_per_browser!r}")


RenderingOf: TypeAlias = Callable[[Request], "Rendering | None"]
"""Returns how the page of a request is rendered; None if it is not."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
