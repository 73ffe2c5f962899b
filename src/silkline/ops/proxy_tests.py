"""Testing proxies one by one, as `silkline proxy test` does: without a crawl, and without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from silkline.core.request import Request
from silkline.errors import FetchError, LocalFailure
from silkline.fetch.proxies import Proxies, Proxy, proxy_names
from silkline.fetch.wreq_fetcher import WreqFetcher

AT_A_TIME = 64


class ProxyTest(NamedTuple):
    """How a proxy did in a test."""

    proxy: str
    """Its URL without user and password."""
    works: bool
    http: bool | None = None
    """Whether it replies to requests for http pages; None if a page was fetched."""
    https: bool | None = None
    """Whether it replies to requests for https pages; None if a page was fetched."""
    status: int | None = None
    """The status of the page; None if none was fetched."""
    seconds: float = 0.0
    why: str = ""
    """Why it does not work, or not for all pages."""


async def run_proxy_tests(
    fetcher: WreqFetcher, sources: Sequence[Proxies], request: Request | None, user_agent: str
) -> list[ProxyTest]:
    """Test all proxies of *sources*: with a request for a host that cannot exist, or with *request*."""
    listed = [proxy for source in sources for proxy in await fetcher.read_proxies(source)]
    proxies = list(dict.fromkeys(listed))
    turns = asyncio.Semaphore(AT_A_TIME)

    async def test(proxy: Proxy, name: str) -> ProxyTest:
        async with turns:
            return await (
                _fetched(fetcher, proxy, name, request, user_agent) if request else _checked(fetcher, proxy, name)
            )

    return await asyncio.gather(*map(test, proxies, proxy_names(proxies)))


async def _checked(fetcher: WreqFetcher, proxy: Proxy, name: str) -> ProxyTest:
    began = time.monotonic()
    plain, tunnel = await asyncio.gather(*(fetcher.check_proxy(proxy, tunnel=tunnel) for tunnel in (False, True)))
    return ProxyTest(
        name,
        works=not (plain.why and tunnel.why),
        http=not plain.why,
        https=not tunnel.why,
        seconds=time.monotonic() - began,
        why=plain.why or tunnel.why,
    )


async def _fetched(fetcher: WreqFetcher, proxy: Proxy, name: str, request: Request, user_agent: str) -> ProxyTest:
    began = time.monotonic()
    try:
        response = await fetcher.fetch_through(proxy, request, user_agent=user_agent)
    except (FetchError, LocalFailure) as error:
        return ProxyTest(name, works=False, seconds=time.monotonic() - began, why=str(error))
    return ProxyTest(name, works=True, status=response.status, seconds=time.monotonic() - began)
