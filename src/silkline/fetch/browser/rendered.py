"""The response of a page that was rendered."""

from __future__ import annotations

from silkline.fetch.fetcher import Response


class RenderedResponse(Response, frozen=True):
    """A response whose body is the HTML after the scripts of the page have run; *original* is that of the web server."""

    original: Response | None = None
