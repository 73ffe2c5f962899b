"""``silkline doctor``: check the configuration of a server."""

from __future__ import annotations

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.operator import safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.frontier.crawl_server import connected
from silkline.frontier.transport.redis_url import without_password
from silkline.ops.doctor import Finding, examine

_MARKS = {"bad": "[bold red]bad[/]", "warn": "[yellow]warn[/]", "unknown": "[dim]?[/]", "fine": "[green]fine[/]"}


def doctor(*, redis: Redis = None, json: Json = False) -> int:
    """Check the configuration of a server and suggest fixes.

    The checks cover version, eviction, persistence, memory, clock, latency,
    slow log, access, cluster and compression. Nothing is changed.

    To create a Redis user with the permissions that Silkline needs:
      ACL SETUSER silkline on >PASSWORD resetchannels ~silkline:* &silkline:*
        +@hash +@sortedset +@set +@list +@string +@bitmap +exists +type +del
        +unlink +publish +subscribe +time +eval +evalsha +info +ping
    A crawl with durability always also needs +waitaof, one with replicated +wait.

    Examples:
      silkline doctor
      silkline doctor --redis redis://10.0.0.7/0

    Exit code: 0 no problem, 1 a check is bad, 2 wrong usage, 3 server unavailable.

    Parameters
    ----------
    redis
        Address of the server to check.
    json
        Print the findings as JSON.
    """
    url = existing(redis)
    with connected(url, checked=False) as connection:
        findings = examine(connection.server_info())
    screen.print_json({"server": without_password(url), "findings": findings}) if json else _show(findings)
    return Exit.FAILED if any(finding.grade == "bad" for finding in findings) else Exit.OK


def _show(findings: list[Finding]) -> None:
    table = screen.listing("", "check", "finding", left=2, fold={"finding": screen.FOLDED_URL})
    for finding in findings:
        where = f"{safe(finding.where)}: " if finding.where else ""
        fix = f"\n[bold]→[/] {safe(finding.fix)}" if finding.fix else ""
        table.add_row(_MARKS[finding.grade], finding.check, f"{where}{safe(finding.text)}{fix}")
    screen.show(table)
