"""``silkline fetch``: fetch one page as a worker does, and print what happened."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.develop.one_page import FetchTrace, as_report
from silkline.cli.develop.options import PageOptions, request_of
from silkline.cli.develop.report import complain_of, show_trace
from silkline.cli.exits import Exit
from silkline.cli.logs import log_to_screen
from silkline.cli.options.server import Json
from silkline.errors import ConfigError
from silkline.runtime.event_loop import run_async


def fetch(
    url: str,
    /,
    *,
    options: PageOptions | None = None,
    file: str | None = None,
    body: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: Json = False,
) -> int:
    """Fetch one page as a worker does, and print what happened.

    Shows the addresses that the guard permits, what robots.txt says, each
    redirect, the time, and the headers. Needs no server, and stores nothing
    on one.

    Examples:
      silkline fetch https://books.toscrape.com/
      silkline fetch https://books.toscrape.com/ --body > page.html
      silkline fetch https://shop.example/ --file shop.py --json

    Exit code: 0 fetched, 1 not fetched, or a status of 400 or above,
    2 wrong usage.

    Parameters
    ----------
    url
        The URL of the page. Without a scheme, https is used.
    file
        Fetch as the workers of this file do: with its user agent, headers, limits, scope and middleware.
    body
        Print the body on stdout, and what happened on stderr.
    json
        Print what happened as JSON.
    """
    if body and json:
        raise ConfigError("--body and --json both write to stdout; use only one of them")
    log_to_screen("warning", as_json=False)
    options = options or PageOptions()
    request = request_of(url)
    crawl = options.crawl(file)
    trace: FetchTrace = run_async(options.fetcher(crawl).fetch(request))
    if json:
        screen.print_json(as_report(trace, crawl.fetching.agent(crawl.name)))
    else:
        show_trace(trace, screen.err if body else screen.out)
    if trace.problem and not json:
        complain_of(trace.problem, trace.request.url)
    if trace.response is None:
        return Exit.FAILED
    if body:
        screen.write(trace.response.body)
    return Exit.FAILED if trace.response.status >= 400 else Exit.OK
