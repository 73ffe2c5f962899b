"""``silkline crawl``: crawls as a whole: list, show, pause, resume, drain, cancel, remove."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.dead import show_groups
from silkline.cli.exits import Exit
from silkline.cli.operating import DryRun, Limit, Yes, confirm, open_crawl, operator, safe
from silkline.cli.server import Json, Redis, existing
from silkline.cli.status import show_acts, status
from silkline.frontier.acts import Act
from silkline.frontier.crawls import note_removal, removals
from silkline.frontier.inspection import Stats
from silkline.frontier.sync import SyncFrontier
from silkline.operate.durations import seconds
from silkline.operate.numbers import plural

app = App(
    name="crawl",
    help="Crawls as a whole: list, show, pause, resume, drain, cancel, remove; and who did what.",
    help_format="plaintext",
)

LOOK_EVERY = 0.25
SHOWN_GROUPS = 5


@app.command(name="ls", usage="Usage: silkline crawl ls [OPTIONS]")
def ls(*, redis: Redis = None, json: Json = False) -> int:
    """List the crawls of a server, as `silkline status` does.

    Exit code: 0, 2 wrong usage, 3 server unavailable.

    Parameters
    ----------
    json
        Print everything as JSON.
    """
    return status(redis=redis, json=json)


@app.command(name="show", usage="Usage: silkline crawl show CRAWL [OPTIONS]")
def show(crawl: str, /, *, hosts: int = 10, redis: Redis = None, json: Json = False) -> int:
    """Show one crawl: its counts, settings, busiest hosts, why requests died, and what operators did last.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    hosts
        How many hosts to show.
    json
        Print the counts, settings and hosts as JSON.
    """
    status(crawl, hosts=hosts, redis=redis, json=json)
    if not json:
        with open_crawl(redis, crawl) as frontier:
            reasons, acts = frontier.dead_groups("reason", limit=SHOWN_GROUPS), frontier.audit(limit=5)
        if reasons:
            screen.show()
            show_groups("dead because of", reasons)
        if acts:
            screen.show()
            show_acts(acts)
    return Exit.OK


@app.command(name="pause", usage="Usage: silkline crawl pause CRAWL [OPTIONS]")
def pause(crawl: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Hand out nothing more of a crawl, until it is resumed. What is under way goes on.

    Exit code: 0, 2 wrong usage, no such crawl or a cancelled one, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print its state as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        frontier.pause()
        frontier.note_act(operator(), "pause")
        _report(frontier.stats(), "paused; workers end what is under way", json=json)
    return Exit.OK


@app.command(name="resume", usage="Usage: silkline crawl resume CRAWL [OPTIONS]")
def resume(crawl: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Let a paused crawl go on.

    Exit code: 0, 2 wrong usage, no such crawl or a cancelled one, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print its state as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        frontier.resume()
        frontier.note_act(operator(), "resume")
        _report(frontier.stats(), "open", json=json)
    return Exit.OK


@app.command(name="drain", usage="Usage: silkline crawl drain CRAWL [OPTIONS]")
def drain(
    crawl: str,
    /,
    *,
    timeout: Annotated[str, Parameter(name="--timeout")] = "5m",
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Pause a crawl and wait until nothing of it is under way: before its server is restarted, say.

    What waits stays where it is; `crawl resume` lets the crawl go on. Ctrl-C ends
    the waiting, not the pause.

    Exit code: 0 nothing is under way, 1 something still was when time was up,
    2 wrong usage, no such crawl or a cancelled one, 3 server unavailable, 130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    timeout
        How long to wait at most: 90s, 15m, 2h.
    json
        Print its state as JSON.
    """
    limit = seconds("--timeout", timeout) or 0.0
    with open_crawl(redis, crawl) as frontier:
        frontier.pause()
        frontier.note_act(operator(), "pause")
        stats = _wait_until_quiet(frontier, limit)
    drained = stats.leased == 0
    words = "paused, and nothing is under way" if drained else f"paused; {stats.leased:,} still under way"
    _report(stats, words, json=json)
    return Exit.OK if drained else Exit.FAILED


def _wait_until_quiet(frontier: SyncFrontier, limit: float) -> Stats:
    """Leases of lost workers end when they expire: a claim takes them back, and while paused it takes nothing out."""
    deadline, told = time.monotonic() + limit, -1
    while True:
        frontier.claim()
        stats = frontier.stats()
        if stats.leased == 0 or time.monotonic() >= deadline:
            return stats
        if stats.leased != told:
            screen.remark(f"[dim]{stats.leased:,} under way[/]")
            told = stats.leased
        time.sleep(LOOK_EVERY)


@app.command(name="cancel", usage="Usage: silkline crawl cancel CRAWL [OPTIONS]")
def cancel(crawl: str, /, *, dry_run: DryRun = False, yes: Yes = False, redis: Redis = None, json: Json = False) -> int:
    """End a crawl for good: drop all that waits, and take nothing more. There is no way back.

    What is under way may still complete. What it has done, seen and buried stays.

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print what was done as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        stats = frontier.stats()
        what = f"{plural(stats.pending, 'request')} of {crawl} would be dropped, and the crawl would end for good"
        if dry_run:
            return _told(what, {"crawl": crawl, "pending": stats.pending, "dropped": 0, "dry_run": True}, json=json)
        confirm(what, yes=yes)
        dropped = frontier.cancel()
        frontier.note_act(operator(), "cancel")
    answer = {"crawl": crawl, "pending": stats.pending, "dropped": dropped, "dry_run": False}
    return _told(f"{crawl} is cancelled; {plural(dropped, 'request')} dropped", answer, json=json)


@app.command(name="rm", usage="Usage: silkline crawl rm CRAWL [OPTIONS]")
def rm(crawl: str, /, *, dry_run: DryRun = False, yes: Yes = False, redis: Redis = None, json: Json = False) -> int:
    """Destroy a crawl: its requests, what it has seen, its settings and its name. There is no way back.

    Stop its workers first: one that starts again may create it anew. What sinks
    hold stays.

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print what was done as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        stats, alive = frontier.stats(), [worker for worker in frontier.workers() if worker.alive]
        held = f"{stats.pending:,} waiting, {stats.leased:,} under way, {stats.dead:,} dead, {stats.seen:,} seen"
        working = f"; {plural(len(alive), 'worker')} at work" if alive else ""
        what = f"{crawl} would be destroyed ({held}{working})"
        answer = {"crawl": crawl, "removed": not dry_run, "dry_run": dry_run, "workers": len(alive)}
        counts = {name: getattr(stats, name) for name in ("ready", "delayed", "leased", "done", "dead", "seen")}
        if dry_run:
            return _told(what, answer | counts, json=json)
        confirm(what, yes=yes)
        frontier.remove()
    note_removal(existing(redis), operator(), crawl)
    return _told(f"{crawl} is gone ({held})", answer | counts, json=json)


@app.command(name="audit", usage="Usage: silkline crawl audit [CRAWL] [OPTIONS]")
def audit(crawl: str | None = None, /, *, limit: Limit = 50, redis: Redis = None, json: Json = False) -> int:
    """Show what operators did to a crawl, from the command line or the dashboard; without a name, which crawls they removed.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    acts: list[Act]
    if crawl is None:
        acts = removals(existing(redis), limit)
    else:
        with open_crawl(redis, crawl) as frontier:
            acts = frontier.audit(limit=limit)
    if json:
        screen.tell_json([act._asdict() for act in acts])
    elif acts:
        show_acts(acts)
    else:
        screen.show("Nothing is noted.")
    return Exit.OK


def _report(stats: Stats, words: str, *, json: bool) -> None:
    _told(
        f"{safe(stats.crawl)} is {words}",
        {"crawl": stats.crawl, "state": stats.state, "leased": stats.leased, "ready": stats.ready},
        json=json,
    )


def _told(words: str, answer: dict[str, Any], *, json: bool) -> int:
    screen.tell_json(answer) if json else screen.show(words)
    return Exit.OK
