"""What a fetch did, for people: a block of lines per request."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.develop.one_page import BY_NAME, FetchProblem, FetchStep, FetchTrace

SHOWN_ADDRESSES = 4


def show_trace(trace: FetchTrace, console: Console | None = None) -> None:
    """Print the steps, and the headers of the last response."""
    console = console or screen.out
    for step in trace.steps:
        screen.print_line(f"[bold]{escape(step.method)} {_plain(step.url)}[/]", console)
        for name, value in _rows(step):
            screen.print_line(f"  {name:<11} {_plain(value)}", console)
    if trace.response is not None:
        for name, value in trace.response.headers.pairs:
            screen.print_line(f"    {_plain(name)}: {_plain(value)}", console)


def _rows(step: FetchStep) -> list[tuple[str, str]]:
    rows = []
    if step.guard == "permitted":
        rows.append(("guard", f"{_addresses(step)} permitted, looked up in {step.lookup or 0.0:.3f} s"))
    elif step.guard:
        rows.append(
            ("guard", f"{step.guard}; the proxy looks up the addresses" if step.guard == BY_NAME else step.guard)
        )
    if step.robots:
        reason = f": {step.robots_reason}" if step.robots_reason else ""
        delay = f", Crawl-delay {step.crawl_delay:g} s" if step.crawl_delay is not None else ""
        rows.append(("robots.txt", f"{step.robots}{reason}{delay}"))
    if step.status is not None:
        rows.append(("response", _response(step)))
    return rows


def _addresses(step: FetchStep) -> str:
    more = len(step.addresses) - SHOWN_ADDRESSES
    return ", ".join(step.addresses[:SHOWN_ADDRESSES]) + (f" and {more} more" if more > 0 else "")


def _response(step: FetchStep) -> str:
    where = f"{step.http_version}, {step.bytes:,} bytes in {step.seconds:.3f} s"
    if step.cached_at is not None:
        where += f", from the cache: stored {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(step.cached_at))}"
    target = next((value for name, value in step.headers if name.lower() == "location"), None)
    return f"{step.status}, {where}" + (f", redirects to {target}" if target is not None else "")


def complain_of(problem: FetchProblem, url: str) -> None:
    """Print why there is no page, and the option that would help."""
    screen.complain(f"{url} was not fetched: {problem}")
    if problem.kind == "robots":
        screen.remark("To fetch it nevertheless: --ignore-robots")


def _plain(text: str) -> str:
    return escape(screen.printable(text))
