"""``silkline enqueue``: put URLs into a crawl."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Self, TextIO

from cyclopts import Parameter, validators
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from silkline.cli import screen
from silkline.cli.crawl_options import CrawlOptions, open_or_create
from silkline.cli.exits import Exit
from silkline.cli.intake import Intake, Summary
from silkline.cli.lines import STDIN, Lines
from silkline.cli.server import Json, Redis, address
from silkline.core.errors import ConfigError
from silkline.core.request import MAX_PRIORITY
from silkline.frontier.sync import SyncFrontier


def enqueue(  # noqa: PLR0913 - each is an option of the command
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: Annotated[list[str] | None, Parameter(allow_leading_hyphen=True, negative=())] = None,
    priority: Annotated[int, Parameter(validator=validators.Number(gte=-MAX_PRIORITY, lte=MAX_PRIORITY))] = 0,
    wait: Annotated[bool, Parameter(show_default=False)] = True,
    refused: Path | None = None,
    redis: Redis = None,
    json: Json = False,
    options: CrawlOptions | None = None,
) -> int:
    """Put URLs into a crawl.

    The crawl is created if need be. URLs that it has seen are skipped,
    so running the same command twice is safe.

    Examples:
      silkline enqueue books https://books.toscrape.com/ --delay 0.5
      silkline enqueue shop --file urls.txt.gz --refused refused.txt
      grep -v logout urls.txt | silkline enqueue shop -

    Exit code: 0 all are in, 1 some were refused, 2 wrong usage,
    3 server unavailable, 4 full and --no-wait, 130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs; - reads them from stdin.
    file
        A file with one URL a line, gzip or not; blank lines and # comments are skipped. May be repeated.
    priority
        From -1000 to 1000; higher goes first.
    wait
        When the crawl is full: wait for room, or end with exit code 4.
    refused
        Write all refused URLs to this file, each below a comment that says why.
    json
        Print the summary as JSON.
    """
    _check_dashes([*urls, *(file or [])])
    lines = Lines(urls, file or [])
    if not lines:
        raise ConfigError("nothing to enqueue: give URLs, --file FILE, or - to read them from stdin")
    with _refusals(refused) as refused_to:
        frontier, created = open_or_create(address(redis), crawl, options or CrawlOptions())
        with frontier:
            intake = Intake(frontier, Summary(crawl, created), priority=priority, refused_to=refused_to)
            return feed(intake, frontier, lines, wait=wait, json=json)


def _check_dashes(given: list[str]) -> None:
    """A lone dash means stdin; anything else that starts with one is an option that we do not have."""
    for word in given:
        if word.startswith("-") and word != STDIN:
            raise ConfigError(f"unknown option {word}; see silkline enqueue --help")


def feed(intake: Intake, frontier: SyncFrontier, lines: Lines, *, wait: bool, json: bool) -> int:
    """Feed, and account for it however it ends."""
    started = time.monotonic()
    try:
        with _Meter(intake.summary, lines, frontier, wait=wait) as meter:
            intake.feed(lines, wait=wait, on_step=meter.step)
    except KeyboardInterrupt:
        intake.summary.interrupted = True
    finally:
        intake.summary.seconds = round(time.monotonic() - started, 3)
        screen.tell_json(intake.summary) if json else _report(intake.summary)
    return _verdict(intake.summary)


def _verdict(summary: Summary) -> Exit:
    if summary.interrupted:
        return Exit.INTERRUPTED
    if summary.full:
        return Exit.FULL
    return Exit.FAILED if summary.refused else Exit.OK


@contextmanager
def _refusals(path: Path | None) -> Iterator[TextIO | None]:
    try:
        opened = path.open("w", errors="surrogateescape") if path else nullcontext(None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    with opened as file:
        yield file


class _Meter:
    """Shows how far it is: a bar on a terminal; elsewhere only that it waits."""

    def __init__(self, summary: Summary, lines: Lines, frontier: SyncFrontier, *, wait: bool) -> None:
        self._summary = summary
        self._lines = lines
        self._capacity = frontier.plan.settings.capacity
        self._wait = wait
        self._waiting = False
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
        self._progress = Progress(*columns, console=screen.err, transient=True, disable=not screen.err.is_terminal)
        self._task = self._progress.add_task(f"enqueue {summary.crawl}", total=lines.size)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, without_room: int) -> None:
        """After an offer, of which so many found no room."""
        summary, full = self._summary, without_room > 0
        if full and self._wait and not self._waiting:
            screen.remark(
                f"{summary.crawl} is full ({self._capacity:,} waiting): waiting for its workers to make room. "
                "Ctrl-C ends this and loses nothing."
            )
        self._waiting = full
        counts = f"{summary.added:,} added, {summary.seen:,} seen, {summary.refused:,} refused"
        state = "full, waiting" if full else summary.crawl
        self._progress.update(self._task, description=f"{state}: {counts}", completed=self._lines.read)


def _report(summary: Summary) -> None:
    counts = [f"[bold]{summary.added:,}[/] added", f"{summary.seen:,} seen before", f"{summary.refused:,} refused"]
    if summary.full:
        counts.append(f"[yellow]{summary.full:,} found no room[/]")
    new = " (created)" if summary.created else ""
    screen.show(f"{summary.crawl}{new}: {', '.join(counts)}, in {summary.seconds:.1f} s")
    for refused in summary.refusals:
        url = refused.url if len(refused.url) <= 100 else refused.url[:99] + "…"
        screen.remark(f"  [red]refused[/] {escape(screen.printable(f'{refused.where}, {url}: {refused.reason}'))}")
    if summary.refused > len(summary.refusals):
        screen.remark(f"  … and {summary.refused - len(summary.refusals):,} more; --refused FILE writes them all")
    if summary.full:
        screen.remark("The crawl is full, so reading stopped. Run the same command again later: what is in is skipped.")
    if summary.interrupted:
        screen.remark("Interrupted. Nothing is lost: run the same command again, what is in already is skipped.")
