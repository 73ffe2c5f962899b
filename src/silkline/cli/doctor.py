"""``silkline doctor``: is the server fit for a crawl, and how to mend what is not."""

from __future__ import annotations

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.operating import safe
from silkline.cli.server import Json, Redis, existing
from silkline.frontier.address import without_password
from silkline.frontier.crawls import visit
from silkline.operate.doctor import Finding, examine

_MARKS = {"bad": "[bold red]bad[/]", "warn": "[yellow]warn[/]", "unknown": "[dim]?[/]", "fine": "[green]fine[/]"}


def doctor(*, redis: Redis = None, json: Json = False) -> int:
    """Examine a server: is it fit to keep crawls, and if not, what mends it.

    Its version and what is known against it, eviction, persistence, memory,
    clock, access, cluster, compression. Changes nothing.

    Examples:
      silkline doctor
      silkline doctor --redis redis://10.0.0.7/0

    Exit code: 0 nothing is bad, 1 something is, 2 wrong usage, 3 server unavailable.

    Parameters
    ----------
    redis
        Address of the server to examine.
    json
        Print the findings as JSON.
    """
    url = existing(redis)
    with visit(url, checked=False) as connection:
        findings = examine(connection.examine())
    screen.tell_json({"server": without_password(url), "findings": findings}) if json else _show(findings)
    return Exit.FAILED if any(finding.grade == "bad" for finding in findings) else Exit.OK


def _show(findings: list[Finding]) -> None:
    table = screen.listing("", "what", "finding", left=3)
    for finding in findings:
        where = f"{safe(finding.where)}: " if finding.where else ""
        fix = f"\n[bold]→[/] {safe(finding.fix)}" if finding.fix else ""
        table.add_row(_MARKS[finding.grade], finding.check, f"{where}{safe(finding.text)}{fix}")
    screen.show(table)
