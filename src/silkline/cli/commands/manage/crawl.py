"""``silkline crawl``: list, show, change, pause, resume, drain, cancel and remove crawls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.commands.manage.dead import show_groups
from silkline.cli.commands.manage.printing import print_result, print_rows
from silkline.cli.commands.status import read_crawl, show_audit, show_crawl, status
from silkline.cli.exits import Exit
from silkline.cli.options.operator import CrawlName, DryRun, Limit, Yes, confirm, open_crawl, operator, safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.frontier.admin_verbs.audit import AuditEntry
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.crawl_server import note_removal, removals
from silkline.frontier.sync import SyncFrontier
from silkline.ops import crawl_settings
from silkline.ops.parsing import plural, seconds

app = App(
    name="crawl",
    help="Manage crawls: list, show, change, pause, resume, drain, cancel, remove, audit.",
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


@app.command(name="show", usage="Usage: silkline crawl show [CRAWL] [OPTIONS]")
def show(crawl: CrawlName, /, *, hosts: int = 10, redis: Redis = None, json: Json = False) -> int:
    """Show one crawl: counts, settings, busiest hosts, dead letters by reason, and recent operator actions.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    hosts
        Number of hosts to show.
    json
        Print the counts, settings and hosts as JSON.
    """
    found = read_crawl(existing(redis), crawl, hosts)
    if json:
        screen.print_json(found.as_json())
    else:
        show_crawl(found, settings=True)
        with open_crawl(redis, crawl) as frontier:
            reasons, entries = frontier.admin.dead_groups("reason", limit=SHOWN_GROUPS), frontier.admin.audit(limit=5)
        if reasons:
            screen.show()
            show_groups("reason", reasons)
        if entries:
            screen.show()
            show_audit(entries)
    return Exit.OK


@app.command(name="pause", usage="Usage: silkline crawl pause [CRAWL] [OPTIONS]")
def pause(crawl: CrawlName, /, *, redis: Redis = None, json: Json = False) -> int:
    """Pause a crawl until it is resumed. Requests in progress are finished.

    Exit code: 0, 2 wrong usage, no such crawl or a cancelled one,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print its state as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        frontier.admin.pause()
        frontier.internal.append_audit(operator(), "pause")
        _report(frontier.admin.stats(), "paused; workers finish the requests in progress", json=json)
    return Exit.OK


@app.command(name="resume", usage="Usage: silkline crawl resume [CRAWL] [OPTIONS]")
def resume(crawl: CrawlName, /, *, redis: Redis = None, json: Json = False) -> int:
    """Resume a paused crawl.

    Exit code: 0, 2 wrong usage, no such crawl or a cancelled one,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print its state as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        was_paused = frontier.admin.stats().state != "open"
        if was_paused:
            frontier.admin.resume()
            frontier.internal.append_audit(operator(), "resume")
        _report(frontier.admin.stats(), "resumed" if was_paused else "not paused", json=json)
    return Exit.OK


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NewSettings:
    """The settings of an existing crawl that can be changed; None leaves a setting unchanged."""

    delay: str | None = None
    """Seconds between two requests to one host."""
    concurrency: Annotated[str | None, Parameter(name=("--concurrency", "--host-concurrency"))] = None
    """Requests in progress on one host."""
    burst: str | None = None
    """Requests that may start at once on an idle host."""
    max_pages: str | None = None
    """Maximum number of pages of the crawl; none for no limit."""
    max_pages_per_host: str | None = None
    """Maximum number of pages of one host; none for no limit."""
    max_depth: str | None = None
    """Maximum number of links between a start URL and a page; none for no limit."""
    capacity: str | None = None
    """Maximum number of queued requests."""
    dead_limit: str | None = None
    """Maximum number of dead letters, beyond which the oldest are dropped; none for no limit."""
    allow_private: Annotated[bool | None, Parameter(negative="--no-allow-private")] = None
    """Whether workers may fetch private addresses. Scrapy spiders have their own setting."""

    def given(self) -> dict[str, Any]:
        texts = {name: text for name, text in vars(self).items() if name != "allow_private" and text is not None}
        private = {} if self.allow_private is None else {"allow_private": self.allow_private}
        return crawl_settings.read(texts) | private


@app.command(name="set", usage="Usage: silkline crawl set [CRAWL] [OPTIONS]")
def set_(
    crawl: CrawlName,
    /,
    *,
    settings: NewSettings | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Change the rate limits, budget, capacity or dead limit of a crawl, also while it runs.

    The change applies to all workers at once; a new depth and --allow-private
    take a few seconds. A lower limit may end the crawl or drop requests, so it
    needs confirmation.

    Examples:
      silkline crawl set books --max-pages 5000
      silkline crawl set books --delay 0.5 --concurrency 4 --max-pages none

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the changes as JSON.
    """
    given = (settings or NewSettings()).given()
    with open_crawl(redis, crawl) as frontier:
        wanted = crawl_settings.want(frontier.layout.settings, frontier.admin.run_options(), given)
        answer = {"crawl": crawl, "changes": [change._asdict() for change in wanted.changes], "dry_run": dry_run}
        if not wanted.changes:
            return print_result(f"{crawl} already has these settings; nothing was changed", answer, json=json)
        if dry_run:
            return print_result(f"{crawl} would be changed: {wanted.words}", answer, json=json)
        if wanted.tighter:
            confirm(f"{crawl} would be changed: {wanted.words}. {wanted.warning}", yes=yes)
        _change(frontier, wanted)
        frontier.internal.append_audit(operator(), "set", wanted.words)
    return print_result(f"{crawl} was changed: {wanted.words}", answer, json=json)


def _change(frontier: SyncFrontier, wanted: crawl_settings.Wanted) -> None:
    if wanted.touches(*crawl_settings.PACE):
        frontier.admin.set_politeness(wanted.politeness)
    if wanted.touches(*crawl_settings.LIMITS):
        frontier.admin.set_budget(wanted.budget)
    if wanted.touches("capacity"):
        frontier.admin.set_capacity(wanted.capacity)
    if wanted.touches(crawl_settings.DEAD_LIMIT):
        frontier.admin.set_dead_limit(wanted.dead_limit)
    if wanted.touches("allow_private"):
        frontier.admin.set_run_options(wanted.run)


@app.command(name="drain", usage="Usage: silkline crawl drain [CRAWL] [OPTIONS]")
def drain(
    crawl: CrawlName,
    /,
    *,
    timeout: Annotated[str, Parameter(name="--timeout")] = "5m",
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Pause a crawl and wait until no request is in progress.

    Use it for example before you restart the server. Queued requests stay in
    their queues; `crawl resume` resumes the crawl. Ctrl-C ends the waiting, not
    the pause.

    Exit code: 0 no request is in progress, 1 timed out with requests in progress,
    2 wrong usage, no such crawl or a cancelled one, 3 server unavailable,
    130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    timeout
        Longest time to wait: 90s, 15m, 2h.
    json
        Print its state as JSON.
    """
    limit = seconds("--timeout", timeout) or 0.0
    with open_crawl(redis, crawl) as frontier:
        frontier.admin.pause()
        frontier.internal.append_audit(operator(), "pause")
        stats = _wait_until_quiet(frontier, limit)
    drained = stats.leased == 0
    words = "paused, and no request is in progress" if drained else f"paused; {stats.leased:,} still in progress"
    _report(stats, words, json=json)
    return Exit.OK if drained else Exit.FAILED


def _wait_until_quiet(frontier: SyncFrontier, limit: float) -> Stats:
    """Wait until no request is leased. Claims on a paused crawl return nothing, but rescue the expired leases of lost workers."""
    deadline, last = time.monotonic() + limit, -1
    while True:
        frontier.claim()
        stats = frontier.admin.stats()
        if stats.leased == 0 or time.monotonic() >= deadline:
            return stats
        if stats.leased != last:
            screen.remark(f"[dim]{stats.leased:,} in progress[/]")
            last = stats.leased
        time.sleep(LOOK_EVERY)


@app.command(name="cancel", usage="Usage: silkline crawl cancel CRAWL [OPTIONS]")
def cancel(crawl: str, /, *, dry_run: DryRun = False, yes: Yes = False, redis: Redis = None, json: Json = False) -> int:
    """Cancel a crawl: drop its queue and refuse new requests. This cannot be undone.

    Requests in progress may still complete. Counts, seen URLs and dead letters
    stay.

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the result as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        stats = frontier.admin.stats()
        what = (
            f"{plural(stats.pending, 'request')} of {crawl} would be dropped, and the crawl would be cancelled for good"
        )
        if dry_run:
            return print_result(
                what, {"crawl": crawl, "pending": stats.pending, "dropped": 0, "dry_run": True}, json=json
            )
        confirm(what, yes=yes)
        dropped = frontier.admin.cancel()
        frontier.internal.append_audit(operator(), "cancel")
    answer = {"crawl": crawl, "pending": stats.pending, "dropped": dropped, "dry_run": False}
    return print_result(f"{crawl} is cancelled; {plural(dropped, 'request')} dropped", answer, json=json)


@app.command(name="rm", usage="Usage: silkline crawl rm CRAWL [OPTIONS]")
def rm(crawl: str, /, *, dry_run: DryRun = False, yes: Yes = False, redis: Redis = None, json: Json = False) -> int:
    """Delete a crawl: its requests, seen URLs, settings and name. This cannot be undone.

    Stop its workers first: a worker that restarts may create the crawl again.
    Items in sinks stay.

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the result as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        stats, alive = frontier.admin.stats(), [worker for worker in frontier.admin.workers() if worker.alive]
        held = f"{stats.pending:,} waiting, {stats.leased:,} in progress, {stats.dead:,} dead, {stats.seen:,} seen"
        working = f"; {plural(len(alive), 'worker')} running" if alive else ""
        what = f"{crawl} would be deleted ({held}{working})"
        answer = {"crawl": crawl, "removed": not dry_run, "dry_run": dry_run, "workers": len(alive)}
        counts = {name: getattr(stats, name) for name in ("ready", "delayed", "leased", "done", "dead", "seen")}
        if dry_run:
            return print_result(what, answer | counts, json=json)
        confirm(what, yes=yes)
        frontier.admin.remove()
    note_removal(existing(redis), operator(), crawl)
    return print_result(f"{crawl} was deleted ({held})", answer | counts, json=json)


@app.command(name="audit", usage="Usage: silkline crawl audit [CRAWL] [OPTIONS]")
def audit(crawl: str | None = None, /, *, limit: Limit = 50, redis: Redis = None, json: Json = False) -> int:
    """Show what operators did to a crawl, or without a name, which crawls they deleted.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    entries: list[AuditEntry]
    if crawl is None:
        entries = removals(existing(redis), limit)
    else:
        with open_crawl(redis, crawl) as frontier:
            entries = frontier.admin.audit(limit=limit)
    return print_rows(entries, show_audit, "No actions are recorded.", json=json)


def _report(stats: Stats, words: str, *, json: bool) -> None:
    print_result(
        f"{safe(stats.crawl)} is {words}",
        {"crawl": stats.crawl, "state": stats.state, "leased": stats.leased, "ready": stats.ready},
        json=json,
    )
