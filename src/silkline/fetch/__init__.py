"""HTTP clients that fetch pages from hostile servers safely, and the protocol for a client of your own.

A name is imported when it is first used: importing the package does not load an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silkline.errors import FetchError
    from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
    from silkline.fetch.browser.options import BrowserOptions, Rendering
    from silkline.fetch.cache import HttpCache
    from silkline.fetch.cookies.pool import Sessions
    from silkline.fetch.fetcher import Fetcher, Headers, Received, Response
    from silkline.fetch.guard import FetchTarget, Guard, read_target
    from silkline.fetch.limits import Limits
    from silkline.fetch.proxies import Proxies
    from silkline.fetch.wreq_fetcher import WreqFetcher

__all__ = [
    "AiohttpFetcher",
    "BrowserOptions",
    "FetchError",
    "FetchTarget",
    "Fetcher",
    "Guard",
    "Headers",
    "HttpCache",
    "Limits",
    "Proxies",
    "Received",
    "Rendering",
    "Response",
    "Sessions",
    "WreqFetcher",
    "read_target",
]

_HOMES = {
    "AiohttpFetcher": "silkline.fetch.aiohttp_fetcher",
    "BrowserOptions": "silkline.fetch.browser.options",
    "FetchError": "silkline.errors",
    "FetchTarget": "silkline.fetch.guard",
    "Fetcher": "silkline.fetch.fetcher",
    "Guard": "silkline.fetch.guard",
    "Headers": "silkline.fetch.fetcher",
    "HttpCache": "silkline.fetch.cache",
    "Limits": "silkline.fetch.limits",
    "Proxies": "silkline.fetch.proxies",
    "Received": "silkline.fetch.fetcher",
    "Rendering": "silkline.fetch.browser.options",
    "Response": "silkline.fetch.fetcher",
    "Sessions": "silkline.fetch.cookies.pool",
    "WreqFetcher": "silkline.fetch.wreq_fetcher",
    "read_target": "silkline.fetch.guard",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'silkline.fetch' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
