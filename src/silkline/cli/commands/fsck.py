"""``silkline fsck``: check and repair crawls."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.operator import operator, safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.errors import ConfigError
from silkline.frontier.admin_verbs.audit import append_audit
from silkline.frontier.admin_verbs.fsck import FsckReport, check_crawl
from silkline.frontier.crawl_server import connected, crawl_names
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.transport.sync.connection import drive
from silkline.ops.parsing import plural


def fsck(
    crawl: str | None = None,
    /,
    *,
    repair: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Check crawls for inconsistent data, and repair it.

    Evicted keys, lost writes and manual edits cause such data: lost requests,
    hosts that are never served, leases without an expiry, wrong counters. You
    can check and repair while the crawl is running, and repair repeatedly.

    Examples:
      silkline fsck books
      silkline fsck books --repair

    Exit code: 0 consistent or repaired, 1 damaged, 2 wrong usage or no such crawl,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of a crawl. Default: all crawls.
    repair
        Repair the damage.
    json
        Print the findings as JSON.
    """
    names = [crawl] if crawl else crawl_names(existing(redis))
    if not names:
        raise ConfigError("this server has no crawls")
    found = [_check(redis, name, repair=repair) for name in names]
    if json:
        screen.print_json({"crawls": [_as_json(one) for one in found]})
    else:
        for one in found:
            _show(one)
    return Exit.OK if all(one.sound for one in found) else Exit.FAILED


def _check(redis: str | None, name: str, *, repair: bool) -> FsckReport:
    keys = CrawlKeys(name)
    with connected(existing(redis)) as connection:
        found = drive(connection, check_crawl(keys, repair=repair))
        if repair and found.damages:
            kinds = ", ".join(sorted({damage.kind for damage in found.damages}))
            connection.call(append_audit(keys.audit, operator(), "repair", kinds))
    return found


def _as_json(found: FsckReport) -> dict[str, Any]:
    damages = [{**msgspec.structs.asdict(damage), "text": damage.text} for damage in found.damages]
    return {**msgspec.structs.asdict(found), "damages": damages, "sound": found.sound}


def _show(found: FsckReport) -> None:
    looked = (
        f"{plural(found.hosts, 'queue')}, {found.queued:,} waiting, {found.leases:,} leased, {found.letters:,} dead"
    )
    word = (
        "[green]consistent[/]" if not found.damages else "[green]repaired[/]" if found.sound else "[bold red]damaged[/]"
    )
    screen.show(f"[bold]{found.crawl}[/] is {word} ({looked}, {found.seen:,} seen)")
    if found.damages:
        fold = {"damage": screen.FOLDED_NAME, "": screen.FOLDED_NAME}
        table = screen.listing("shard", "count", "damage", "", left=0, fold=fold)
        for damage in found.damages:
            table.add_row(f"{damage.shard}", f"{damage.count:,}", damage.text, f"[dim]{safe(damage.detail)}[/]")
        screen.show(table)
    for note in found.notes:
        screen.remark(f"[yellow]not checked:[/] {safe(note)}")
    if not found.sound and not any(damage.kind == "settings" and damage.detail for damage in found.damages):
        screen.remark(f"To repair it: silkline fsck {found.crawl} --repair")
