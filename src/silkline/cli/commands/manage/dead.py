"""``silkline dead``: list, show, export, revive and purge dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.operator import CrawlName, DryRun, Limit, Yes, confirm, open_crawl, operator, safe
from silkline.cli.options.server import Json, Redis
from silkline.core.lease import FailedAttempt
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.dead_letters import DeadCount, DeadGroup, DeadLetter
from silkline.frontier.admin_verbs.explain_text import clock_time
from silkline.frontier.sync import SyncFrontier
from silkline.ops import exporting
from silkline.ops.exporting import ExportFormat
from silkline.ops.parsing import LOOKED_AT, DeadFilterOptions, plural

GROUP = Group("Filter", help="Only dead letters that match all given options.", sort_key=8)


@Parameter(name="*", group=GROUP)
@dataclass(frozen=True, kw_only=True)
class DeadOptions:
    """The filter options. None matches all dead letters."""

    host: str | None = None
    """From this host."""
    reason: str | None = None
    """With this text in the reason, ignoring case."""
    status: int | None = None
    """With this HTTP status."""
    older: str | None = None
    """Older than this: 90s, 15m, 2h, 3d."""
    newer: str | None = None
    """Newer than this."""
    id: str | None = None
    """With this id, as shown by `dead ls --letters`."""

    def asked(self) -> DeadFilterOptions:
        """Return the filter. An empty option, such as an unset shell variable, is an error: it must not match all."""
        given = {name: str(value) for name, value in vars(self).items() if value is not None}
        for name, text in given.items():
            if not text.strip():
                raise ConfigError(f"--{name} is empty; leave it out to match all dead letters")
        return DeadFilterOptions(**given)


FOLDED_REASON = 16
"""Width of the reasons of letters on a narrow screen."""
app = App(
    name="dead",
    help="Manage dead letters, the requests that failed for good: list, show, export, revive, purge.",
    help_format="plaintext",
)

SHOWN_GROUPS = 10


@app.command(name="ls", usage="Usage: silkline dead ls [CRAWL] [OPTIONS]")
def ls(  # noqa: PLR0913 - each is an option of the command
    crawl: CrawlName,
    /,
    *,
    which: DeadOptions | None = None,
    letters: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    every: Annotated[bool, Parameter(name="--all", negative=(), show_default=False)] = False,
    limit: Limit = 20,
    after: str = "",
    redis: Redis = None,
    json: Json = False,
) -> int:
    """List dead letters: counts by reason and host, or single letters with a filter.

    The crawl stores the counts. A filter reads letters one by one, newest
    first, until it has found enough or read 25,000. With --host it reads only the
    letters of that host.

    Examples:
      silkline dead ls books
      silkline dead ls books --status 503 --older 2h
      silkline dead ls books --letters --limit 100

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    letters
        List the letters, newest first, even without a filter.
    every
        Search all letters, not only the newest 25,000.
    after
        List the letters after the previous page, as printed at its end.
    json
        Print everything as JSON; a letter has its `position` for --after.
    """
    arguments = (which or DeadOptions()).asked().arguments()
    _check(limit)
    with open_crawl(redis, crawl) as frontier:
        if arguments or letters or after:
            found = frontier.admin.dead(limit=limit, newest=None if every else LOOKED_AT, after=after, **arguments)
            screen.print_json([_as_json(letter) for letter in found]) if json else _show_letters(found, limit)
            dead = frontier.admin.stats().dead
            if len(found) < limit and dead > LOOKED_AT and not every:
                screen.remark(f"Searched the newest {LOOKED_AT:,} of {dead:,} only; --all searches all.")
        else:
            _list_groups(frontier, limit, json=json)
    return Exit.OK


def _check(limit: int) -> None:
    if not 1 <= limit <= 10_000:
        raise ConfigError(f"--limit must be between 1 and 10000, got {limit}")


def _list_groups(frontier: SyncFrontier, limit: int, *, json: bool) -> None:
    reasons, hosts = frontier.admin.dead_groups("reason", limit=limit), frontier.admin.dead_groups("host", limit=limit)
    total = sum(group.letters for group in reasons)
    examples = frontier.admin.dead_examples([group.name for group in reasons])
    dropped = frontier.admin.stats().dead_dropped
    if json:
        screen.print_json(
            {"crawl": frontier.crawl, "dead": total, "dropped": dropped, **_groups_as_json(reasons, hosts, examples)}
        )
        return
    if not total:
        screen.show(f"{frontier.crawl} has no dead letters{_dropped(dropped)}.")
        return
    screen.show(f"[bold]{frontier.crawl}[/] has {plural(total, 'dead letter')}{_dropped(dropped)}")
    screen.show()
    show_groups("reason", reasons, examples)
    screen.show()
    show_groups("host", hosts)
    screen.remark(f"[dim]To list them: silkline dead ls {frontier.crawl} --letters[/]")
    if examples:
        screen.remark(f"[dim]To see a traceback: silkline dead show {frontier.crawl} ID[/]")


def _dropped(letters: int) -> str:
    return (
        f"; {plural(letters, 'older one')} beyond its limit (--dead-limit) {'was' if letters == 1 else 'were'} dropped"
        if letters
        else ""
    )


def _groups_as_json(
    reasons: list[DeadGroup], hosts: list[DeadGroup], examples: dict[str, DeadLetter] | None = None
) -> dict[str, Any]:
    def example(group: DeadGroup) -> dict[str, Any]:
        letter = (examples or {}).get(group.name)
        return {"example": {"id": letter.id, "url": letter.url, "reason": letter.reason}} if letter else {}

    return {
        "reasons": [{"reason": group.name or None, "letters": group.letters, **example(group)} for group in reasons],
        "hosts": [{"host": group.name or None, "letters": group.letters} for group in hosts],
    }


def show_groups(heading: str, groups: list[DeadGroup], examples: dict[str, DeadLetter] | None = None) -> None:
    """Print a table of groups, largest first, with the id of an example of each if *examples* are given."""
    table = screen.listing(heading, "letters", *(["example"] if examples else []))
    for group in groups:
        name = safe(group.name) if group.name else "[dim](all others)[/]"
        letter = (examples or {}).get(group.name)
        table.add_row(name, f"{group.letters:,}", *([letter.id if letter else ""] if examples else []))
    screen.show(table)


def _show_letters(letters: list[DeadLetter], limit: int) -> None:
    if not letters:
        screen.show("No dead letter matches.")
        return
    table = screen.listing(
        *("id", "buried", "status", "attempts", "reason", "url"),
        left=4,
        fold={"reason": FOLDED_REASON, "url": screen.FOLDED_URL},
        optional=("attempts", "buried", "status"),
    )
    for letter in letters:
        numbers = (str(letter.status or ""), str(letter.attempts))
        table.add_row(letter.id, clock_time(letter.last), *numbers, safe(letter.reason), safe(letter.url))
    screen.show(table)
    if len(letters) == limit:
        screen.remark(f"[dim]More: repeat the command with --after {letters[-1].position}[/]")


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    history = [trial._asdict() for trial in letter.history]
    return exporting.letter_summary(letter) | {"position": letter.position, "history": history}


@app.command(name="show", usage="Usage: silkline dead show [CRAWL] ID [OPTIONS]")
def show(
    crawl: CrawlName, id_: Annotated[str, Parameter(name="ID")], /, *, redis: Redis = None, json: Json = False
) -> int:
    """Show one dead letter with the history of its attempts.

    Example:
      silkline dead show books 0-1795276800000123

    Exit code: 0, 2 wrong usage or no such letter, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    id_
        The id, as shown by `dead ls --letters`.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        found = frontier.admin.dead(id=id_, limit=1)
    if not found:
        raise ConfigError(f"{crawl} has no dead letter with the id {id_}")
    screen.print_json(_as_json(found[0])) if json else show_letter(found[0])
    return Exit.OK


@app.command(name="export", usage="Usage: silkline dead export [CRAWL] [OPTIONS]")
def export(
    crawl: CrawlName,
    /,
    *,
    which: DeadOptions | None = None,
    format_: Annotated[ExportFormat, Parameter(name="--format")] = "csv",
    redis: Redis = None,
) -> int:
    """Print the dead letters that match the filter, or all, newest first.

    Examples:
      silkline dead export books > dead.csv
      silkline dead export books --status 503 --format jsonl

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    format_
        csv for spreadsheets, jsonl for programs.
    """
    arguments = (which or DeadOptions()).asked().arguments()
    with open_crawl(redis, crawl) as frontier:
        screen.write(exporting.heading(format_, exporting.LETTER_FIELDS))
        after = ""
        while some := frontier.admin.dead(limit=exporting.PAGE, after=after, **arguments):
            screen.write(exporting.lines(format_, map(exporting.letter_row, some)))
            after = some[-1].position
    return Exit.OK


def show_letter(letter: DeadLetter) -> None:
    """Print one dead letter with its history."""
    request = letter.request
    rows = [
        ("id", letter.id),
        ("url", safe(letter.url)),
        ("reason", safe(letter.reason)),
        ("status", str(letter.status or "none")),
        ("attempts", f"{letter.attempts}" + (f", and {plural(letter.crashes, 'crash')}" if letter.crashes else "")),
        *([("enqueued", clock_time(letter.created))] if letter.created is not None else []),
        ("first attempt", clock_time(letter.first)),
        ("buried", clock_time(letter.last)),
        ("request", safe(f"{request.method}, priority {request.priority}, depth {request.depth}")),
    ]
    screen.show(screen.pairs(rows))
    for trial in letter.history:
        screen.show(attempt_line(trial))
        if trial.detail:
            screen.show(safe(trial.detail))


def attempt_line(trial: FailedAttempt) -> str:
    """Return a failed attempt as a line: its time, its reason, and its status unless the reason contains it."""
    known = trial.status is None or f"status {trial.status}" in trial.reason
    return f"  {clock_time(trial.time)}  {safe(trial.reason)}{'' if known else f' (status {trial.status})'}"


@app.command(name="revive", usage="Usage: silkline dead revive [CRAWL] [OPTIONS]")
def revive(
    crawl: CrawlName,
    /,
    *,
    which: DeadOptions | None = None,
    dry_run: DryRun = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Retry dead letters: those that match the filter, or all.

    They return to the ends of their queues with an attempt count of zero; their
    history is kept.

    Examples:
      silkline dead revive books --status 503
      silkline dead revive books --host shop.example --dry-run

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the result as JSON.
    """
    asked = (which or DeadOptions()).asked()
    with open_crawl(redis, crawl) as frontier:
        counted = frontier.admin.count_dead(**asked.arguments())
        revived = frontier.admin.revive(**asked.arguments()) if counted.total and not dry_run else 0
        if revived:
            frontier.internal.append_audit(operator(), "revive", f"{asked.words()}: {revived}")
    _report(counted, "revived", revived, dry_run=dry_run, json=json)
    return Exit.OK


@app.command(name="purge", usage="Usage: silkline dead purge [CRAWL] [OPTIONS]")
def purge(
    crawl: CrawlName,
    /,
    *,
    which: DeadOptions | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Delete dead letters: those that match the filter, or all. Their URLs stay seen.

    Examples:
      silkline dead purge books --older 30d
      silkline dead purge books --reason "status 404" --yes

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the result as JSON.
    """
    asked = (which or DeadOptions()).asked()
    with open_crawl(redis, crawl) as frontier:
        counted = frontier.admin.count_dead(**asked.arguments())
        if counted.total and not dry_run:
            confirm(f"{plural(counted.total, 'dead letter')} of {crawl} would be deleted", yes=yes)
            purged = frontier.admin.purge(**asked.arguments())
            frontier.internal.append_audit(operator(), "purge", f"{asked.words()}: {purged}")
        else:
            purged = 0
    _report(counted, "purged", purged, dry_run=dry_run, json=json)
    return Exit.OK


def _report(counted: DeadCount, verb: str, ended: int, *, dry_run: bool, json: bool) -> None:
    if json:
        groups = _groups_as_json(counted.reasons[:SHOWN_GROUPS], counted.hosts[:SHOWN_GROUPS])
        screen.print_json({"matching": counted.total, verb: ended, "dry_run": dry_run, **groups})
        return
    if not counted.total:
        screen.show("No dead letter matches.")
    elif dry_run:
        screen.show(f"{plural(counted.total, 'dead letter')} would be {verb}:")
        show_groups("reason", counted.reasons[:SHOWN_GROUPS])
    else:
        screen.show(f"{plural(ended, 'dead letter')} {verb}")
