"""``silkline try``: run one page through its handler, and print the items and links."""

from __future__ import annotations

import json as json_module
import sys
from contextlib import redirect_stdout
from typing import Any

import msgspec
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.develop.one_page import as_report
from silkline.cli.develop.options import PageOptions, request_of
from silkline.cli.develop.report import complain_of
from silkline.cli.develop.trial import HandlerTrial, try_page
from silkline.cli.exits import Exit
from silkline.cli.logs import log_to_screen
from silkline.cli.options.server import Json
from silkline.core.request import Request, check
from silkline.errors import ConfigError, RequestError
from silkline.ops.parsing import plural
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.crawl import Crawl


def try_(
    file: str,
    url: str | None = None,
    /,
    *,
    options: PageOptions | None = None,
    handler: str | None = None,
    meta: str | None = None,
    args: str | None = None,
    json: Json = False,
) -> int:
    """Run one page through its handler, and print its items and links.

    Nothing is stored and no server is needed. The page is fetched as a worker
    does, with the guard, robots.txt and the redirects.

    Examples:
      silkline try books.py
      silkline try books.py https://books.toscrape.com/catalogue/soumission_998/index.html --handler product
      silkline try books.py --cache .cache --json

    Exit code: 0 the handler succeeded or dropped the page, 1 it failed, or there
    was no page for it, 2 wrong usage.

    Parameters
    ----------
    file
        The Python file that defines the crawl; FILE:NAME if it defines several.
    url
        The URL of the page. Default: the first start URL of the crawl.
    handler
        The name of the handler. Default: the first handler of the file.
    meta
        The `meta` of the request, as JSON.
    args
        The arguments of the handler besides the page, as JSON.
    json
        Print the items, the links and the fetch as JSON.
    """
    log_to_screen("warning", as_json=False)
    options = options or PageOptions()
    with redirect_stdout(sys.stderr):  # stdout is for the result; output of the file goes to stderr
        crawl = options.crawl(file)
        trial: HandlerTrial = run_async(_try(crawl, options, url, handler, _values(meta, args)))
    if json:
        screen.print_json(_as_json(trial, crawl))
    else:
        _show(trial)
    return Exit.OK if trial.succeeded else Exit.FAILED


async def _try(
    crawl: Crawl, options: PageOptions, url: str | None, handler: str | None, values: dict[str, dict[str, Any]]
) -> HandlerTrial:
    request = request_of(url) if url else await _first_start(crawl)
    name = crawl.handlers.name_of(handler) if handler else request.handler
    given = {field: {**getattr(request, field), **more} for field, more in values.items()}
    request = msgspec.structs.replace(request, handler=name, **given)
    crawl.handlers.check_args(name or crawl.handlers.first, request.args)
    return await try_page(crawl, options.fetcher(crawl), request)


async def _first_start(crawl: Crawl) -> Request:
    starts = await crawl.starts()
    if not starts:
        raise ConfigError(f"the crawl {crawl.name!r} has no start URLs; name the page: silkline try FILE URL")
    check(starts[0])
    return starts[0]


def _values(meta: str | None, args: str | None) -> dict[str, dict[str, Any]]:
    """Return the fields of the request that are given as JSON."""
    found = {}
    for field, text in (("meta", meta), ("args", args)):
        try:
            value = json_module.loads(text or "{}")
            check(Request("https://example.com/", **{field: value}))
        except (ValueError, RequestError):
            raise ConfigError(
                f'--{field} must be a JSON object, such as \'{{"category": "books"}}\', got {text!r}'
            ) from None
        found[field] = dict(value)
    return found


def _as_json(trial: HandlerTrial, crawl: Crawl) -> dict[str, Any]:
    links = [
        {
            "url": link.url,
            "handler": link.handler,
            "method": link.method,
            "priority": link.priority,
            "meta": link.meta,
            "args": link.args,
        }
        for link in trial.links
    ]
    return {
        "handler": trial.handler,
        "items": trial.items,
        "links": links,
        "skipped": trial.skipped,
        "dropped": trial.dropped,
        "retry": trial.retry,
        "error": trial.why_not or None,
        "traceback": trial.traceback or None,
        "fetch": as_report(trial.trace, crawl.fetching.agent(crawl.name)),
    }


def _show(trial: HandlerTrial) -> None:
    response, url = trial.trace.response, trial.trace.request.url
    if response is None:
        if trial.trace.problem:
            complain_of(trial.trace.problem, url)
        return
    where = f"{response.status}, {len(response.body):,} bytes in {response.elapsed:.3f} s"
    screen.show(f"[bold]{_plain(url)}[/] {where}, handler {_plain(trial.handler)}")
    if trial.traceback:
        sys.stderr.write(screen.printable(trial.traceback))
    if trial.why_not:
        screen.complain(trial.why_not)
        return
    if trial.dropped is not None:
        screen.show(f"dropped: {_plain(trial.dropped or 'no reason')}")
        return
    screen.show(plural(len(trial.items), "item"))
    for item in trial.items:
        screen.show(f"  {escape(screen.as_json(item))}")
    screen.show(plural(len(trial.links), "link"))
    for link in trial.links:
        method = "" if link.method == "GET" else f"{_plain(link.method)} "
        values = "".join(f" {escape(screen.as_json(one))}" for one in (link.args, link.meta) if one)
        screen.show(f"  {method}{_plain(link.url)} → {_plain(link.handler or trial.handler)}{values}")
    if trial.skipped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in trial.skipped.items())
        screen.show(f"not followed: {_plain(reasons)}")


def _plain(text: str) -> str:
    return escape(screen.printable(text))
