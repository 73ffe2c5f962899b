"""One page through its handler, as a worker would do it, but nothing is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from silkline.cli.develop.one_page import FetchTrace, OnePage
from silkline.core.request import Request
from silkline.core.retries import RetryLater
from silkline.core.url import parse
from silkline.errors import ConfigError, HostileHtml, LocalFailure
from silkline.sinks.sink import record_of
from silkline.testing.memory.frontier import MemoryFrontier
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.handlers import Drop, run_handler
from silkline.worker.crawl.page import Links, Page
from silkline.worker.failures import explain_failure, user_traceback
from silkline.worker.parsing import Parser

if TYPE_CHECKING:
    from silkline.frontier.frontier import Frontier


class HandlerTrial(msgspec.Struct):
    """The fetch of a page, and what its handler made of it."""

    trace: FetchTrace
    handler: str
    items: list[dict[str, Any]] = []
    links: list[Request] = []
    skipped: dict[str, int] = {}
    dropped: str | None = None
    """Why the handler dropped the page; None if it did not."""
    retry: str | None = None
    """Why the handler wants the page later; None if it does not."""
    refused: str = ""
    """Why no worker would pass the page to a handler."""
    error: str = ""
    """The error of the handler."""
    traceback: str = ""

    @property
    def succeeded(self) -> bool:
        return not self.why_not

    @property
    def why_not(self) -> str:
        """Why the page has no result; empty if it has one, or if the handler dropped it."""
        if self.trace.problem:
            return str(self.trace.problem)
        if self.refused:
            return f"no handler gets this page: {self.refused}"
        if self.retry is not None:
            return f"the handler asks to try again later: {self.retry}"
        return self.error


async def try_page(crawl: Crawl, fetcher: OnePage, request: Request) -> HandlerTrial:
    """Fetch a page and call its handler."""
    handler = crawl.handlers.get(request.handler)
    if handler is None:
        raise ConfigError(
            f"{request.handler!r} is not a handler of this crawl; its handlers are {', '.join(crawl.handlers.names)}"
        )
    trace = await fetcher.fetch(request)
    trial = HandlerTrial(trace, crawl.handlers.name_of(handler))
    if trace.response is None:
        return trial
    if trace.response.status >= 400 and trace.response.status not in crawl.retries.accept:
        trial.refused = f"status {trace.response.status}"
        return trial
    page = Page(trace.request, trace.response, trial.handler, crawl.handlers, Links(crawl.scope))
    async with frontier_in_memory(crawl):
        await _handle(trial, handler, page)
    return trial


@asynccontextmanager
async def frontier_in_memory(crawl: Crawl) -> AsyncIterator[None]:
    """Let handlers use locks and tasks of the crawl without a server."""
    frontier = await MemoryFrontier.open(crawl=crawl.name)
    crawl.tasks.use(cast("Frontier", frontier))
    try:
        yield
    finally:
        crawl.tasks.use(None)
        await frontier.close()


async def _handle(trial: HandlerTrial, handler: Any, page: Page) -> None:
    parser = Parser()
    try:
        await parser.prepare(page, trial.handler, parse(page.url).host)
        output = await run_handler(handler, page)
        trial.items = [record_of(str(number), page.url, item).item for number, item in enumerate(output.items)]
        trial.links, trial.skipped = output.requests, dict(page.skipped)
    except Drop as drop:
        trial.dropped = drop.why
    except RetryLater as later:
        trial.retry = later.why
    except (HostileHtml, LocalFailure) as error:
        trial.error = f"{error.kind}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises
        trial.error = f"handler {trial.handler}: {type(error).__name__}: {explain_failure(error)}"
        trial.traceback = user_traceback(error)
    finally:
        parser.close()
