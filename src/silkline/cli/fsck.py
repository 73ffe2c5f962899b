"""``silkline fsck``: is a crawl whole, and if not, make it so."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.operating import open_crawl, operator, safe
from silkline.cli.server import Json, Redis, existing
from silkline.core.errors import ConfigError
from silkline.frontier.crawls import crawl_names
from silkline.frontier.fsck import Checkup
from silkline.operate.numbers import plural


def fsck(
    crawl: str | None = None,
    /,
    *,
    repair: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Check a crawl, or all of a server, for damage: what evicted keys, lost writes or a stray hand leave behind.

    Requests that are nowhere, hosts in no line, leases that nobody would rescue,
    counters that drifted. It may run while the crawl does. A repair puts things
    right from what is there, and may be repeated.

    Examples:
      silkline fsck books
      silkline fsck books --repair

    Exit code: 0 it is whole, or was repaired, 1 it is damaged, 2 wrong usage or no such crawl,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of a crawl. Without one, all.
    repair
        Repair what is damaged.
    json
        Print what was found as JSON.
    """
    names = [crawl] if crawl else crawl_names(existing(redis))
    if not names:
        raise ConfigError("there are no crawls on this server yet")
    found = [_check(redis, name, repair=repair) for name in names]
    if json:
        screen.tell_json({"crawls": [_as_json(one) for one in found]})
    else:
        for one in found:
            _show(one)
    return Exit.OK if all(one.sound for one in found) else Exit.FAILED


def _check(redis: str | None, name: str, *, repair: bool) -> Checkup:
    with open_crawl(redis, name) as frontier:
        found = frontier.fsck(repair=repair)
        if repair and found.damages:
            kinds = ", ".join(sorted({damage.kind for damage in found.damages}))
            frontier.note_act(operator(), "repair", kinds)
    return found


def _as_json(found: Checkup) -> dict[str, Any]:
    damages = [{**msgspec.structs.asdict(damage), "text": damage.text} for damage in found.damages]
    return {**msgspec.structs.asdict(found), "damages": damages, "sound": found.sound}


def _show(found: Checkup) -> None:
    looked = (
        f"{plural(found.hosts, 'queue')}, {found.queued:,} waiting, {found.leases:,} leased, {found.letters:,} dead"
    )
    word = "[green]whole[/]" if not found.damages else "[green]repaired[/]" if found.sound else "[bold red]damaged[/]"
    screen.show(f"[bold]{found.crawl}[/] is {word} ({looked}, {found.seen:,} seen)")
    if found.damages:
        table = screen.listing("shard", "how many", "what", "", left=0)
        for column in table.columns[2:]:
            column.justify = "left"
        for damage in found.damages:
            table.add_row(f"{damage.shard}", f"{damage.count:,}", damage.text, f"[dim]{safe(damage.detail)}[/]")
        screen.show(table)
    for note in found.notes:
        screen.remark(f"[yellow]not checked:[/] {safe(note)}")
    if not found.sound:
        screen.remark(f"To repair it: silkline fsck {found.crawl} --repair")
