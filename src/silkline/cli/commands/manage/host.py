"""``silkline host``: the hosts of a crawl and their rate limits."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.commands.manage.printing import print_rows
from silkline.cli.commands.status import show_hosts
from silkline.cli.exits import Exit
from silkline.cli.options.operator import CrawlName, Limit, open_crawl, operator, safe
from silkline.cli.options.server import Json, Redis
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.audit import who_paused
from silkline.frontier.admin_verbs.explain_text import clock_time, held_back, span
from silkline.frontier.verbs.hosts import HostArguments, HostState, enough_hosts
from silkline.ops.parsing import HostFilter, seconds, whole

app = App(
    name="host",
    help="Manage the hosts of a crawl: list, show, set, block, unblock, pause, resume.",
    help_format="plaintext",
)

HostPlace = Literal["ready", "waiting", "busy", "paused", "resting"]
Sort = Literal["queue", "trouble", "cpu"]
Host = Annotated[str, Parameter(name="HOST", help="The host, with its port unless it is the default port.")]
DEFAULT = "default"
WHOLE = f"a whole number or {DEFAULT}"


@app.command(name="ls", usage="Usage: silkline host ls [CRAWL] [OPTIONS]")
def ls(
    crawl: CrawlName,
    /,
    *,
    place: HostPlace | None = None,
    blocked: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    sort: Sort = "queue",
    limit: Limit = 20,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """List hosts with requests or their own rate limits, longest queues first.

    If a crawl has very many hosts, only about a thousand are searched.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    place
        Only hosts in this state: ready, waiting, busy (at their concurrency limit), paused or resting.
    blocked
        Only hosts that are blocked, or slowed down after a 429 or 503.
    sort
        Longest queues first (queue), highest error rates first (trouble), or most CPU time of workers first (cpu).
    json
        Print everything as JSON.
    """
    if not 1 <= limit <= 10_000:
        raise ConfigError(f"--limit must be between 1 and 10000, got {limit}")
    with open_crawl(redis, crawl) as frontier:
        found = frontier.admin.hosts(limit=enough_hosts(frontier.layout, limit))
    chosen = HostFilter(place=place or "", blocked=blocked, sort=sort).choose(found)[:limit]
    none = "No host matches." if place or blocked else f"No host of {crawl} has requests."
    return print_rows(chosen, show_hosts, none, json=json)


@app.command(name="show", usage="Usage: silkline host show [CRAWL] HOST [OPTIONS]")
def show(crawl: CrawlName, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Show one host: its queue, rate limits, recent responses, and why it is waiting.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        [state], entries = frontier.admin.hosts(host), frontier.admin.audit(limit=200)
        crawl_state = frontier.admin.stats().state
        [(_, dead)] = frontier.admin.dead_groups("host", name=host)
    by = who_paused(entries, host)
    if json:
        screen.print_json({**state._asdict(), "dead": dead, "paused_by": by.by if by and state.paused else None})
        return Exit.OK
    rows = [
        ("host", safe(state.host)),
        ("state", state.place),
        ("queued", f"{state.queued:,}"),
        ("in progress", f"{state.leased:,} of {state.concurrency}"),
        ("dead", f"{dead:,}"),
        ("delay", state.pace),
        ("burst", f"{state.burst}"),
        ("Crawl-delay", "none" if state.crawl_delay is None else f"{state.crawl_delay:g} s (robots.txt)"),
        ("responses", _answers(state)),
        ("CPU", (state.answers and state.answers.cost) or "unknown"),
        ("blocked until", clock_time(state.blocked_until) if state.blocked_until else "not blocked"),
    ]
    screen.show(screen.pairs(rows))
    if state.queued or state.paused:
        screen.show(safe(held_back(crawl_state, state, entries)))
    return Exit.OK


def _answers(state: HostState) -> str:
    """Describe the recent responses of a host, and when they were last reported."""
    answers = state.answers
    if answers is None:
        return "none reported yet"
    last = "no response" if answers.last is None else f"{answers.last}"
    return f"{answers.mix} of the last {answers.total:,}; last: {last}, reported at {clock_time(answers.updated)}"


@app.command(name="set", usage="Usage: silkline host set [CRAWL] HOST [OPTIONS]")
def set_(
    crawl: CrawlName,
    host: Host,
    /,
    *,
    delay: str | None = None,
    concurrency: str | None = None,
    burst: str | None = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Set the rate limits of one host; `default` returns to those of the crawl.

    A delay overrides the Crawl-delay of robots.txt and ends a slowdown.

    Examples:
      silkline host set books shop.example --delay 5 --concurrency 1
      silkline host set books shop.example --delay default

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    delay
        Seconds between two requests.
    concurrency
        Requests in progress at the same time.
    burst
        Requests that may start at once on an idle host.
    json
        Print the host as JSON.
    """
    pace = HostArguments()
    if delay is not None:
        pace["delay"] = None if delay == DEFAULT else seconds("--delay", delay)
    if concurrency is not None:
        pace["concurrency"] = None if concurrency == DEFAULT else whole("--concurrency", concurrency, WHOLE)
    if burst is not None:
        pace["burst"] = None if burst == DEFAULT else whole("--burst", burst, WHOLE)
    if not pace:
        raise ConfigError("nothing to set: give --delay, --concurrency or --burst")
    words = " ".join(f"{name}={DEFAULT if value is None else value}" for name, value in pace.items())
    return _change(redis, crawl, host, pace, "set", f"{host} {words}", json=json)


@app.command(name="block", usage="Usage: silkline host block [CRAWL] HOST --for TIME [OPTIONS]")
def block(
    crawl: CrawlName,
    host: Host,
    /,
    *,
    for_: Annotated[str, Parameter(name="--for")],
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Block a host: send it no requests for some time.

    Example:
      silkline host block books shop.example --for 2h

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    for_
        For how long: 90s, 15m, 2h, 3d.
    json
        Print the host as JSON.
    """
    duration = seconds("--for", for_) or 0.0
    pace = HostArguments(block_until=time.time() + duration)
    return _change(redis, crawl, host, pace, "block", f"{host} for {span(duration)}", json=json)


@app.command(name="unblock", usage="Usage: silkline host unblock [CRAWL] HOST [OPTIONS]")
def unblock(crawl: CrawlName, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Unblock a host.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the host as JSON.
    """
    return _change(redis, crawl, host, HostArguments(block_until=None), "unblock", host, json=json)


@app.command(name="pause", usage="Usage: silkline host pause [CRAWL] HOST [OPTIONS]")
def pause(crawl: CrawlName, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Pause a host until it is resumed. Requests in progress are finished.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the host as JSON.
    """
    return _change(redis, crawl, host, HostArguments(paused=True), "pause", host, json=json)


@app.command(name="resume", usage="Usage: silkline host resume [CRAWL] HOST [OPTIONS]")
def resume(crawl: CrawlName, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Resume a paused host.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the host as JSON.
    """
    return _change(redis, crawl, host, HostArguments(paused=False), "resume", host, json=json)


def _change(redis: str | None, crawl: str, host: str, pace: HostArguments, what: str, about: str, *, json: bool) -> int:
    with open_crawl(redis, crawl) as frontier:
        was = frontier.admin.hosts(host)[0].place
        state = frontier.admin.set_host(host, **pace)
        frontier.internal.append_audit(operator(), what, about)
    if was == "unknown":
        screen.remark(
            f"[yellow]{safe(crawl)} has no requests for {safe(host)}[/]; the change applies when it has. "
            f"Check the name: silkline host ls {safe(crawl)}"
        )
    screen.print_json(state._asdict()) if json else show_hosts([state])
    return Exit.OK
