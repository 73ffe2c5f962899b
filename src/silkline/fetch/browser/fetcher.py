"""The fetcher of a crawl with rendered pages: another fetcher gets the documents, and the browser runs their scripts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from silkline.core.request import Request
from silkline.errors import ConfigError, LocalFailure
from silkline.fetch.browser.browser_needs import BrowserNeeds
from silkline.fetch.browser.options import Rendering, RenderingOf
from silkline.fetch.browser.rendered import RenderedResponse, can_be_rendered
from silkline.fetch.fetcher import Fetcher, Response

if TYPE_CHECKING:
    from silkline.fetch.browser.renderer import Renderer

MISSING = "rendering pages needs Playwright: pip install 'silkline[browser]'"


class RenderingFetcher:
    """Fetches pages with another fetcher, and renders those for which *rendering_of* returns how.

    *make* creates the renderer, when the first page needs it. robots.txt and sitemaps are never rendered.
    """

    def __init__(self, fetcher: Fetcher, rendering_of: RenderingOf, make: Callable[[], Renderer]) -> None:
        self.rendering_of = rendering_of
        self._fetcher = fetcher
        self._make = make
        self._renderer: Renderer | None = None
        self.browser_needs = BrowserNeeds()
        """Which pages need a browser, for automatic rendering."""

    def __getattr__(self, name: str) -> Any:
        """Return further members of the other fetcher, such as `allow_private`."""
        return getattr(self._fetcher, name)

    def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Coroutine[Any, Any, Response]:
        """See `Fetcher.fetch`."""
        rendering = self.rendering_of(request) if cut is None else None
        if rendering is None:
            return self._fetcher.fetch(request, user_agent=user_agent, cut=cut)
        return self._render(request, rendering, user_agent)

    async def _render(self, request: Request, rendering: Rendering, user_agent: str) -> Response:
        response = await self._fetcher.fetch(request, user_agent=user_agent)
        if rendering.when == "auto" and not self.browser_needs.needs_browser(request):
            return response
        return await self.render(request, response, rendering, user_agent)

    @property
    def rendering(self) -> RenderingFetcher:
        """Itself, for those that have a fetcher around it."""
        return self

    def may_need_browser(self, request: Request, response: Response) -> Rendering | None:
        """Return how a page can be rendered that was fetched without the browser; None if that would not help."""
        rendering = self.rendering_of(request)
        if rendering is None or rendering.when != "auto" or isinstance(response, RenderedResponse):
            return None
        return rendering if can_be_rendered(response) and not self.browser_needs.is_hopeless(request) else None

    async def render(self, request: Request, response: Response, rendering: Rendering, user_agent: str) -> Response:
        """Render a response that was fetched without the browser."""
        try:
            renderer = self.prepare()
        except ConfigError as error:
            raise LocalFailure(str(error), "browser") from None
        fetch = partial(self._fetcher.fetch, user_agent=user_agent)
        return await renderer.render(request, response, rendering, user_agent=user_agent, fetch=fetch)

    def prepare(self) -> Renderer:
        """Return the renderer. Raises `ConfigError` if Playwright or the browser is not installed."""
        if self._renderer is None:
            self._renderer = self._make()
        return self._renderer

    async def close(self) -> None:
        """See `Fetcher.close`."""
        if self._renderer is not None:
            await self._renderer.close()
        await self._fetcher.close()


def make_renderer(*arguments: Any, **options: Any) -> Renderer:
    """Create a `Renderer`. Raises `ConfigError` if Playwright or the browser is not installed."""
    try:
        module = import_module("silkline.fetch.browser.renderer")
    except ImportError:
        raise ConfigError(MISSING) from None
    renderer: Renderer = module.Renderer(*arguments, **options)
    return renderer
