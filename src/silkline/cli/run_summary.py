"""How a run ended, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.run_pulse import clock, in_bytes, per_second
from silkline.frontier.address import without_password
from silkline.worker.summary import Summary

MOST = 8
LONGEST_URL = 100


def show_summary(summary: Summary, outs: Sequence[str], again: str, console: Console) -> None:
    """On *console*; *again* is the command that goes on with the crawl."""
    console.print(_headline(summary), soft_wrap=True)
    if summary.statuses or not summary.finished:
        console.print(screen.pairs(list(_rows(summary, outs))))
    if summary.slowest_hosts:
        _show_hosts(summary, console)
    if summary.dead_letters:
        _show_dead(summary, again, console)
    if not summary.finished:
        console.print(f"\nTo go on where it stopped: {escape(again)}", soft_wrap=True)


def _headline(summary: Summary) -> str:
    name = f"[bold]{escape(summary.crawl)}[/]"
    left = summary.ready + summary.delayed + summary.leased
    if not summary.finished:
        return f"{name} is [yellow]not finished[/]: {left:,} requests are left"
    if summary.dead:
        letters = "1 dead letter" if summary.dead == 1 else f"{summary.dead:,} dead letters"
        return f"{name} is finished, but has [red]{letters}[/]"
    spent = f"; its budget is spent, and {left:,} requests were left" if left else ""
    return f"{name} is [green]finished[/]{spent}"


def _rows(summary: Summary, outs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What happened in this run; what did not happen is not told."""
    rate = f"{per_second(summary.pages_per_second)} a second"
    yield "pages", f"{summary.pages:,} in {clock(summary.seconds)} ({rate}), {in_bytes(summary.bytes)}"
    kept = (
        ", ".join(escape(screen.printable(without_password(out.partition("?")[0]))) for out in outs)
        or "nowhere: no -o was given"
    )
    yield "items", f"{summary.items:,}, kept in {kept}" if outs else f"{summary.items:,}, kept {kept}"
    lists = {"statuses": _counts(summary.statuses), "errors": _counts(summary.errors)}
    for name, counts in (lists | {"links skipped": _counts(summary.skipped)}).items():
        if counts:
            yield name, escape(counts)
    numbers = {
        "redirects": summary.redirects,
        "retries": summary.retried,
        "dropped": summary.dropped,
        "robots.txt": summary.robots_denied,
        "rescued": summary.rescued,
        "workers": summary.restarts,
    }
    words = {
        "dropped": " by handlers",
        "robots.txt": " pages denied",
        "workers": f" of {summary.workers} started again",
    }
    for name, number in numbers.items():
        if number:
            yield name, f"{number:,}{words.get(name, '')}"
    if summary.blocked_seconds >= 1:
        yield "blocked", f"handlers kept workers from everything else for {summary.blocked_seconds:.0f} s"
    yield "in all", f"{summary.done:,} done, {summary.dead:,} dead, {summary.seen:,} seen"


def _counts(counts: Mapping[int, int] | Mapping[str, int]) -> str:
    shown = [f"{screen.printable(str(name))}: {count:,}" for name, count in list(counts.items())[:MOST]]
    return ", ".join([*shown, "…"] if len(counts) > MOST else shown)


def _show_hosts(summary: Summary, console: Console) -> None:
    console.print()
    table = screen.listing("slowest hosts", "pages", "a page")
    for host in summary.slowest_hosts:
        table.add_row(escape(screen.printable(host.host)), f"{host.pages:,}", f"{host.seconds:.2f} s")
    console.print(table)


def _show_dead(summary: Summary, again: str, console: Console) -> None:
    console.print()
    table = screen.listing("dead letters", "", "for example", left=1)
    table.columns[2].justify = "left"
    for group in summary.dead_letters:
        url = group.example if len(group.example) <= LONGEST_URL else f"{group.example[: LONGEST_URL - 1]}…"
        table.add_row(escape(screen.printable(group.reason)), f"{group.count:,}", escape(screen.printable(url)))
    console.print(table)
    console.print(f"To try them again: {escape(again)} --revive", soft_wrap=True)
