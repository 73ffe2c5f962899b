"""``silkline dead``: the requests that were given up."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.dead_options import DeadOptions
from silkline.cli.exits import Exit
from silkline.cli.operating import DryRun, Limit, Yes, confirm, open_crawl, operator, safe
from silkline.cli.server import Json, Redis
from silkline.core.errors import ConfigError
from silkline.frontier.dead_letters import DeadCount, DeadGroup
from silkline.frontier.letters import DeadLetter
from silkline.frontier.sentences import clock_time
from silkline.frontier.sync import SyncFrontier
from silkline.operate.dead_filter import LOOKED_AT
from silkline.operate.numbers import plural

app = App(name="dead", help="Requests that were given up: list, show, revive, purge.", help_format="plaintext")

SHOWN_GROUPS = 10


@app.command(name="ls", usage="Usage: silkline dead ls CRAWL [OPTIONS]")
def ls(
    crawl: str,
    /,
    *,
    which: DeadOptions | None = None,
    letters: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    every: Annotated[bool, Parameter(name="--all", negative=(), show_default=False)] = False,
    limit: Limit = 20,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """List dead letters: groups by reason and host, or with a filter the letters themselves.

    The groups are read off counts that the crawl keeps; a filter has the letters
    looked at one by one, newest first, until there are enough or 25,000 were looked
    at. Of a host only its own are looked at.

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
        The letters, newest first, even without a filter.
    every
        Look at every letter for those that match, not only at the newest 25,000.
    json
        Print everything as JSON.
    """
    wishes = (which or DeadOptions()).asked().wishes()
    _check(limit)
    with open_crawl(redis, crawl) as frontier:
        if wishes or letters:
            found = frontier.dead(limit=limit, newest=None if every else LOOKED_AT, **wishes)
            screen.tell_json([_as_json(letter) for letter in found]) if json else _show_letters(found, limit)
            dead = frontier.stats().dead
            if len(found) < limit and dead > LOOKED_AT and not every:
                screen.remark(f"Only the newest {LOOKED_AT:,} of {dead:,} were looked at; --all looks at every one.")
        else:
            _list_groups(frontier, limit, json=json)
    return Exit.OK


def _check(limit: int) -> None:
    if not 1 <= limit <= 10_000:
        raise ConfigError(f"--limit is from 1 to 10000, got {limit}")


def _list_groups(frontier: SyncFrontier, limit: int, *, json: bool) -> None:
    reasons, hosts = frontier.dead_groups("reason", limit=limit), frontier.dead_groups("host", limit=limit)
    total = sum(group.letters for group in reasons)
    if json:
        screen.tell_json({"crawl": frontier.crawl, "dead": total, **_groups_as_json(reasons, hosts)})
        return
    if not total:
        screen.show(f"{frontier.crawl} has no dead letters.")
        return
    screen.show(f"[bold]{frontier.crawl}[/] has {plural(total, 'dead letter')}")
    screen.show()
    show_groups("reason", reasons)
    screen.show()
    show_groups("host", hosts)
    screen.remark(f"[dim]One by one: silkline dead ls {frontier.crawl} --letters[/]")


def _groups_as_json(reasons: list[DeadGroup], hosts: list[DeadGroup]) -> dict[str, Any]:
    return {
        "reasons": [{"reason": group.name or None, "letters": group.letters} for group in reasons],
        "hosts": [{"host": group.name or None, "letters": group.letters} for group in hosts],
    }


def show_groups(heading: str, groups: list[DeadGroup]) -> None:
    """A table of groups, the largest first."""
    table = screen.listing(heading, "letters")
    for group in groups:
        table.add_row(safe(group.name) if group.name else "[dim](all others)[/]", f"{group.letters:,}")
    screen.show(table)


def _show_letters(letters: list[DeadLetter], limit: int) -> None:
    if not letters:
        screen.show("No dead letter matches.")
        return
    table = screen.listing("id", "buried", "status", "attempts", "reason", "url", left=6)
    for letter in letters:
        numbers = (str(letter.status or ""), str(letter.attempts))
        table.add_row(letter.id, clock_time(letter.last), *numbers, safe(letter.reason), safe(letter.url))
    screen.show(table)
    if len(letters) == limit:
        screen.remark(f"[dim]The newest {limit:,}; --limit shows more.[/]")


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "url": letter.url,
        "host": letter.host,
        "reason": letter.reason,
        "status": letter.status,
        "attempts": letter.attempts,
        "crashes": letter.crashes,
        "first": letter.first,
        "last": letter.last,
        "history": [trial._asdict() for trial in letter.history],
    }


@app.command(name="show", usage="Usage: silkline dead show CRAWL ID [OPTIONS]")
def show(crawl: str, id_: Annotated[str, Parameter(name="ID")], /, *, redis: Redis = None, json: Json = False) -> int:
    """Show one dead letter with the history of its attempts.

    Example:
      silkline dead show books 0-1795276800000123

    Exit code: 0, 2 wrong usage or no such letter, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    id_
        Its id, as `dead ls --letters` shows it.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        found = frontier.dead(id=id_, limit=1)
    if not found:
        raise ConfigError(f"{crawl} has no dead letter with the id {id_}")
    screen.tell_json(_as_json(found[0])) if json else show_letter(found[0])
    return Exit.OK


def show_letter(letter: DeadLetter) -> None:
    """All that is known of a dead letter."""
    request = letter.request
    rows = [
        ("id", letter.id),
        ("url", safe(letter.url)),
        ("reason", safe(letter.reason)),
        ("status", str(letter.status or "none")),
        ("attempts", f"{letter.attempts}" + (f", and {plural(letter.crashes, 'crash')}" if letter.crashes else "")),
        ("first tried", clock_time(letter.first)),
        ("buried", clock_time(letter.last)),
        ("request", safe(f"{request.method}, priority {request.priority}, depth {request.depth}")),
    ]
    screen.show(screen.pairs(rows))
    for trial in letter.history:
        status = f" (status {trial.status})" if trial.status is not None else ""
        screen.show(f"  {clock_time(trial.time)}  {safe(trial.reason)}{status}")
        if trial.detail:
            screen.show(safe(trial.detail))


@app.command(name="revive", usage="Usage: silkline dead revive CRAWL [OPTIONS]")
def revive(
    crawl: str,
    /,
    *,
    which: DeadOptions | None = None,
    dry_run: DryRun = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Give dead letters another chance: all that match, or all.

    They return to the ends of their queues with no attempts behind them; their
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
        Print what was done as JSON.
    """
    asked = (which or DeadOptions()).asked()
    with open_crawl(redis, crawl) as frontier:
        counted = frontier.count_dead(**asked.wishes())
        revived = frontier.revive(**asked.wishes()) if counted.total and not dry_run else 0
        if revived:
            frontier.note_act(operator(), "revive", f"{asked.words()}: {revived}")
    _report(counted, "revived", revived, dry_run=dry_run, json=json)
    return Exit.OK


@app.command(name="purge", usage="Usage: silkline dead purge CRAWL [OPTIONS]")
def purge(
    crawl: str,
    /,
    *,
    which: DeadOptions | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Delete dead letters for good: all that match, or all. Their URLs stay seen.

    Examples:
      silkline dead purge books --older 30d
      silkline dead purge books --reason "status 404" --yes

    Exit code: 0, 2 wrong usage, no such crawl or not confirmed, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print what was done as JSON.
    """
    asked = (which or DeadOptions()).asked()
    with open_crawl(redis, crawl) as frontier:
        counted = frontier.count_dead(**asked.wishes())
        if counted.total and not dry_run:
            confirm(f"{plural(counted.total, 'dead letter')} of {crawl} would be deleted for good", yes=yes)
            purged = frontier.purge(**asked.wishes())
            frontier.note_act(operator(), "purge", f"{asked.words()}: {purged}")
        else:
            purged = 0
    _report(counted, "purged", purged, dry_run=dry_run, json=json)
    return Exit.OK


def _report(counted: DeadCount, verb: str, ended: int, *, dry_run: bool, json: bool) -> None:
    if json:
        groups = _groups_as_json(counted.reasons[:SHOWN_GROUPS], counted.hosts[:SHOWN_GROUPS])
        screen.tell_json({"matching": counted.total, verb: ended, "dry_run": dry_run, **groups})
        return
    if not counted.total:
        screen.show("No dead letter matches.")
    elif dry_run:
        screen.show(f"{plural(counted.total, 'dead letter')} would be {verb}:")
        show_groups("reason", counted.reasons[:SHOWN_GROUPS])
    else:
        screen.show(f"{plural(ended, 'dead letter')} {verb}")
