"""``silkline shell``: a Python prompt with a page."""

from __future__ import annotations

import code
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rich.markup import escape

from silkline.cli import screen
from silkline.cli.develop.one_page import FetchTrace, OnePage
from silkline.cli.develop.options import PageOptions, request_of
from silkline.cli.develop.report import complain_of
from silkline.cli.develop.trial import frontier_in_memory
from silkline.cli.exits import Exit
from silkline.cli.logs import log_to_screen
from silkline.core.request import Request
from silkline.errors import FetchError
from silkline.runtime.event_loop import run_async
from silkline.testing.handlers import AnyHandlers, HandlerResult, with_args
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.handlers import Handler, run_handler
from silkline.worker.crawl.page import Links, Page


def shell(
    url: str,
    /,
    *,
    options: PageOptions | None = None,
    file: str | None = None,
) -> int:
    """Open a Python prompt with a page, to try selectors.

    The page is fetched as a worker does. The prompt has `page`, `crawl`,
    `fetch(url)`, which fetches another page, and `run_handler(handler, page)`;
    with --file also the handlers of the file. It is IPython if that is
    installed. Code can be piped to it.

    Examples:
      silkline shell https://books.toscrape.com/
      silkline shell https://books.toscrape.com/ --file books.py
      echo 'print(page.text_of("h1"))' | silkline shell https://books.toscrape.com/

    Exit code: 0, 1 the page was not fetched, 2 wrong usage.

    Parameters
    ----------
    url
        The URL of the page. Without a scheme, https is used.
    file
        Fetch as the workers of this file do, and follow links by its scope.
    """
    log_to_screen("warning", as_json=False)
    options = options or PageOptions()
    request = request_of(url)
    crawl = options.crawl(file)
    prompt = PagePrompt(crawl, options.fetcher(crawl))
    trace = prompt.visit(request)
    if trace.problem:
        complain_of(trace.problem, trace.request.url)
        return Exit.FAILED
    prompt.run()
    return Exit.OK


class PagePrompt:
    """The names that a user has at the prompt, and the prompt itself."""

    def __init__(self, crawl: Crawl, fetcher: OnePage) -> None:
        self._crawl = crawl
        self._fetcher = fetcher
        handlers = {name: crawl.handlers.get(name) for name in crawl.handlers.names}
        self.names: dict[str, Any] = {
            **handlers,
            "crawl": crawl,
            "fetch": self.fetch,
            "run_handler": self.run_handler,
            "Request": Request,
        }

    def fetch(self, target: str | Request) -> Page:
        """Fetch another page, which is `page` from now on. Raises `FetchError` if it cannot be fetched."""
        trace = self.visit(request_of(target) if isinstance(target, str) else target)
        if trace.problem:
            raise FetchError(trace.problem.message, trace.problem.kind)
        page: Page = self.names["page"]
        return page

    def run_handler(self, handler: Handler, page: Page, args: dict[str, Any] | None = None) -> HandlerResult:
        """Call a handler with a page and its arguments, and return its items and links. Nothing is stored on a server."""

        async def call() -> HandlerResult:
            async with frontier_in_memory(self._crawl):
                output = await run_handler(handler, page)
            return HandlerResult(output.items, output.requests, dict(page.skipped))

        with_args(handler, page, args)
        result: HandlerResult = run_async(call())
        return result

    def visit(self, request: Request) -> FetchTrace:
        """Fetch a page; if that succeeds, it is `page` from now on."""
        trace: FetchTrace = run_async(self._fetcher.fetch(request))
        if trace.response is not None:
            handlers = self._crawl.handlers
            known = handlers if len(handlers) else AnyHandlers()
            name = trace.request.handler or handlers.first
            self.names["page"] = Page(trace.request, trace.response, name, known, Links(self._crawl.scope))
        return trace

    def run(self) -> None:
        """Run the prompt until the user leaves it."""
        banner = f"{self.names['page']}\nnames: page, {', '.join(name for name in self.names if name != 'page')}"
        if find_spec("IPython") is not None and sys.stdin.isatty():
            screen.remark(escape(screen.printable(banner)))
            import_module("IPython").start_ipython(argv=["--no-banner"], user_ns=self.names)
            return
        if not sys.stdin.isatty():
            sys.ps1 = sys.ps2 = ""  # stdout is only what the code prints
            banner = ""
        code.interact(banner, local=self.names, exitmsg="")
