"""The summary of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.run.pulse import clock, per_second
from silkline.core.units import format_bytes
from silkline.frontier.admin_verbs.explain_text import lost_writes
from silkline.frontier.transport.redis_url import without_password
from silkline.ops.parsing import plural
from silkline.sinks.destination import ARCHIVES, read_out
from silkline.worker.process.outputs import STDOUT
from silkline.worker.process.summary import Summary

MOST = 8
LONGEST_URL = 100
_NO_PAGE = "handler {} got no page: check that the selectors of the other handlers find its links, then start over with --fresh"
IN_CODE = re.compile(r" \([^()]+:\d+\)$")
"""Matches the file and line at the end of the reason of a handler failure."""


def show_summary(summary: Summary, outs: Sequence[str], again: str, console: Console, revive: str = "") -> None:
    """Print the summary on *console*; *again* is the command that continues the crawl, and *revive* one that retries its dead letters."""
    screen.print_line(headline(summary), console)
    if summary.lost_at:
        screen.print_line(f"[yellow]{lost_writes(summary.losses, summary.lost_at)}[/]", console)
    if summary.statuses or not summary.finished:
        console.print(screen.pairs(list(_rows(summary, outs))))
    for name in summary.unused_handlers:
        screen.print_line(f"[yellow]{escape(_NO_PAGE.format(screen.printable(name)))}[/]", console)
    if summary.slowest_hosts:
        _show_hosts(summary, console)
    if summary.dead_letters:
        _show_dead(summary, revive or f"{again} --revive", console)
    if summary.waits_for:
        _show_needs(summary, console)
    retries = summary.paused and not summary.paused.startswith("by ") and summary.dead_letters
    if (
        not summary.finished and not retries
    ):  # a crawl that paused itself needs --revive, which is printed with its dead letters
        screen.print_line(f"\nTo continue: {escape(again)}", console)


def headline(summary: Summary) -> str:
    """Return the first line of the summary: whether the crawl is finished."""
    name = f"[bold]{escape(summary.crawl)}[/]"
    left = summary.ready + summary.delayed + summary.leased
    if summary.paused and not summary.finished:
        why = summary.paused if summary.paused.startswith("by ") else f"because {summary.paused}"
        return f"{name} is [yellow]paused[/] {escape(screen.printable(why))}: {_requests(left)} left"
    if not summary.finished:
        return f"{name} is [yellow]not finished[/]: {_requests(left)} left"
    spent = f"; its budget is used up, and {_requests(left)} left" if left else ""
    if summary.dead:
        return f"{name} is finished, but has [red]{plural(summary.dead, 'dead letter')}[/]{spent}"
    return f"{name} is [green]finished[/]{spent}"


def _requests(count: int) -> str:
    return f"{plural(count, 'request')} {'is' if count == 1 else 'are'}"


def _rows(summary: Summary, outs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary; zero counts are left out."""
    rate = f"{per_second(summary.pages_per_second)}/s"
    yield "pages", f"{summary.pages:,} in {clock(summary.seconds)} ({rate}), {format_bytes(summary.bytes)}"
    if summary.calls:
        yield "tasks", plural(summary.calls, "call")
    archives = [out for out in outs if read_out(out).kind in ARCHIVES]
    places = _places(out for out in outs if out != STDOUT and out not in archives)
    kept = [*(["printed"] if STDOUT in outs else []), *([f"stored in {', '.join(places)}"] if places else [])]
    yield "items", f"{summary.items:,}, {escape(' and '.join(kept) or _not_stored(archives))}"
    if archives:
        yield "archive", escape(", ".join(_places(archives)))
    lists = {"statuses": _counts(summary.statuses), "errors": _counts(summary.errors)}
    lists |= {"links skipped": _counts(summary.skipped), "given back": _needs(summary.given_back)}
    for name, counts in lists.items():
        if counts:
            yield name, escape(counts)
    numbers = {
        "redirects": summary.redirects,
        "revisits": summary.revisited,
        "status 304": summary.not_modified,
        "unchanged": summary.unchanged,
        "retries": summary.retried,
        "dropped": summary.dropped,
        "robots.txt": summary.robots_denied,
        "rescued": summary.rescued,
        "workers": summary.restarts,
    }
    words = {
        "revisits": " visits of known pages",
        "unchanged": " pages, which their handlers did not get",
        "dropped": " by handlers",
        "robots.txt": " denied pages",
        "workers": f" of {summary.workers} restarted",
    }
    for name, number in numbers.items():
        if number:
            yield name, f"{number:,}{words.get(name, '')}"
    if summary.blocked_seconds >= 1:
        yield "blocked", f"handlers blocked the event loop for {summary.blocked_seconds:.0f} s"
    yield "total", f"{summary.done:,} done, {summary.dead:,} dead, {summary.seen:,} seen"


def _places(outs: Iterable[str]) -> list[str]:
    return [screen.printable(without_password(out.partition("?")[0])) for out in outs]


def _not_stored(archives: Sequence[str]) -> str:
    return "not stored: an archive has only pages" if archives else "not stored: no -o was given"


def _counts(counts: Mapping[int, int] | Mapping[str, int]) -> str:
    shown = [f"{screen.printable(str(name))}: {count:,}" for name, count in list(counts.items())[:MOST]]
    return ", ".join([*shown, "…"] if len(counts) > MOST else shown)


def _needs(counts: Mapping[str, int]) -> str:
    shown = [f"{count:,} times, missing {screen.printable(need)}" for need, count in list(counts.items())[:MOST]]
    return ", ".join([*shown, "…"] if len(counts) > MOST else shown)


def _show_needs(summary: Summary, console: Console) -> None:
    console.print()
    for why in summary.waits_for:
        screen.print_line(f"[red]{escape(screen.printable(why))}[/]", console)
    screen.print_line(
        "Add what is missing to the file, or start a worker that has it: silkline worker FILE. To keep the pages of a "
        "renamed handler, use @crawl.handler(name=…)",
        console,
    )


def _show_hosts(summary: Summary, console: Console) -> None:
    console.print()
    table = screen.listing("slowest hosts", "pages", "per page")
    for host in summary.slowest_hosts:
        table.add_row(escape(screen.printable(host.host)), f"{host.pages:,}", f"{host.seconds:.2f} s")
    console.print(table)


def _show_dead(summary: Summary, revive: str, console: Console) -> None:
    console.print()
    fold = {"dead letters": screen.FOLDED_NAME, "example": screen.FOLDED_URL}
    table = screen.listing("dead letters", "", "example", fold=fold)
    for group in summary.dead_letters:
        url = group.example if len(group.example) <= LONGEST_URL else f"{group.example[: LONGEST_URL - 1]}…"
        table.add_row(escape(screen.printable(group.reason)), f"{group.count:,}", escape(screen.printable(url)))
    console.print(table)
    failed = next((group.id for group in summary.dead_letters if group.id and IN_CODE.search(group.reason)), None)
    if failed:
        screen.print_line(f"To see the traceback: silkline dead show {escape(summary.crawl)} {failed}", console)
    if summary.dead_dropped:
        screen.print_line(
            f"{summary.dead_dropped:,} older dead letters were dropped beyond the limit (dead_limit)", console
        )
    screen.print_line(f"To retry them: {escape(revive)}", console)
