"""``silkline host``: the hosts of a crawl, and the pace of each."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.operating import Limit, open_crawl, operator, safe
from silkline.cli.server import Json, Redis
from silkline.cli.status import show_hosts
from silkline.core.errors import ConfigError
from silkline.frontier.acts import who_paused
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import enough_hosts
from silkline.frontier.sentences import clock_time, held_back, span
from silkline.frontier.wishes import HostWishes
from silkline.operate.durations import seconds
from silkline.operate.host_filter import HostFilter
from silkline.operate.numbers import whole

app = App(
    name="host", help="Hosts of a crawl: list, show, set, block, unblock, pause, resume.", help_format="plaintext"
)

Place = Literal["ready", "waiting", "busy", "paused", "resting"]
Sort = Literal["queue", "trouble"]
Host = Annotated[str, Parameter(name="HOST", help="The host, with its port if that is not the usual one.")]
DEFAULT = "default"
WHOLE = f"a whole number or {DEFAULT}"


@app.command(name="ls", usage="Usage: silkline host ls CRAWL [OPTIONS]")
def ls(
    crawl: str,
    /,
    *,
    place: Place | None = None,
    blocked: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    sort: Sort = "queue",
    limit: Limit = 20,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """List hosts that have something waiting, under way, or a pace of their own: the longest queues first.

    Of a crawl with very many hosts, about the first thousand are looked at.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    place
        Only those that are ready, waiting, busy (at their cap), paused or resting.
    blocked
        Only those that are blocked, or slowed because the site complained.
    sort
        The longest queues first, or those whose answers are the worst (trouble).
    json
        Print everything as JSON.
    """
    if not 1 <= limit <= 10_000:
        raise ConfigError(f"--limit is from 1 to 10000, got {limit}")
    with open_crawl(redis, crawl) as frontier:
        found = frontier.hosts(limit=enough_hosts(frontier.plan, limit))
    chosen = HostFilter(place=place or "", blocked=blocked, sort=sort).choose(found)[:limit]
    if json:
        screen.tell_json([host._asdict() for host in chosen])
    elif chosen:
        show_hosts(chosen)
    else:
        screen.show("No host matches." if place or blocked else f"No host of {crawl} has anything to do.")
    return Exit.OK


@app.command(name="show", usage="Usage: silkline host show CRAWL HOST [OPTIONS]")
def show(crawl: str, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Show one host: what it has to do, its pace, what it answered of late, and what holds it back.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        [state], acts = frontier.hosts(host), frontier.audit(limit=200)
        crawl_state = frontier.stats().state
        [(_, dead)] = frontier.dead_groups("host", name=host)
    by = who_paused(acts, host)
    if json:
        screen.tell_json({**state._asdict(), "dead": dead, "paused_by": by.by if by and state.paused else None})
        return Exit.OK
    rows = [
        ("host", safe(state.host)),
        ("place", state.place),
        ("queued", f"{state.queued:,}"),
        ("under way", f"{state.leased:,} of {state.concurrency}"),
        ("dead", f"{dead:,}"),
        ("delay", state.pace),
        ("burst", f"{state.burst}"),
        ("Crawl-delay", "none" if state.crawl_delay is None else f"{state.crawl_delay:g} s, asks robots.txt"),
        ("answers", _answers(state)),
        ("blocked until", clock_time(state.blocked_until) if state.blocked_until else "not blocked"),
    ]
    screen.show(screen.pairs(rows))
    if state.queued or state.paused:
        screen.show(safe(held_back(crawl_state, state, acts)))
    return Exit.OK


def _answers(state: HostState) -> str:
    """What it answered of late, and when that was told last."""
    answers = state.answers
    if answers is None:
        return "none yet, or none that workers told"
    last = "no answer" if answers.last is None else f"{answers.last}"
    return f"{answers.mix}, of the last {answers.total:,}; the last: {last}, at {clock_time(answers.heard)}"


@app.command(name="set", usage="Usage: silkline host set CRAWL HOST [OPTIONS]")
def set_(
    crawl: str,
    host: Host,
    /,
    *,
    delay: str | None = None,
    concurrency: str | None = None,
    burst: str | None = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Give a host a pace of its own; `default` returns it to the crawl's.

    A delay is the last word: it holds whatever robots.txt asks for, and ends a slow-down.

    Examples:
      silkline host set books shop.example --delay 5 --concurrency 1
      silkline host set books shop.example --delay default

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    delay
        Seconds between two starts.
    concurrency
        Requests under way at a time.
    burst
        Requests that may start at once when it is rested.
    json
        Print the host as JSON.
    """
    pace = HostWishes()
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


@app.command(name="block", usage="Usage: silkline host block CRAWL HOST --for TIME [OPTIONS]")
def block(
    crawl: str,
    host: Host,
    /,
    *,
    for_: Annotated[str, Parameter(name="--for")],
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Leave a host alone for a time.

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
    pace = HostWishes(block_until=time.time() + duration)
    return _change(redis, crawl, host, pace, "block", f"{host} for {span(duration)}", json=json)


@app.command(name="unblock", usage="Usage: silkline host unblock CRAWL HOST [OPTIONS]")
def unblock(crawl: str, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """End the block of a host.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the host as JSON.
    """
    return _change(redis, crawl, host, HostWishes(block_until=None), "unblock", host, json=json)


@app.command(name="pause", usage="Usage: silkline host pause CRAWL HOST [OPTIONS]")
def pause(crawl: str, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Hand out nothing more of a host, until it is resumed. What is under way goes on.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the host as JSON.
    """
    return _change(redis, crawl, host, HostWishes(paused=True), "pause", host, json=json)


@app.command(name="resume", usage="Usage: silkline host resume CRAWL HOST [OPTIONS]")
def resume(crawl: str, host: Host, /, *, redis: Redis = None, json: Json = False) -> int:
    """Let a paused host go on.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the host as JSON.
    """
    return _change(redis, crawl, host, HostWishes(paused=False), "resume", host, json=json)


def _change(redis: str | None, crawl: str, host: str, pace: HostWishes, what: str, about: str, *, json: bool) -> int:
    with open_crawl(redis, crawl) as frontier:
        state = frontier.set_host(host, **pace)
        frontier.note_act(operator(), what, about)
    screen.tell_json(state._asdict()) if json else show_hosts([state])
    return Exit.OK
