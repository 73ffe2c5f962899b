"""``silkline enqueue``: add URLs to a crawl."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Self, TextIO

import msgspec
from cyclopts import Parameter, validators
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.options.crawl import CrawlOptions, open_existing
from silkline.cli.options.server import Json, Redis, address
from silkline.cli.url_lines import STDIN, UrlLine, UrlLines
from silkline.core.request import MAX_PRIORITY, Request
from silkline.core.url import parse
from silkline.errors import ConfigError, RequestError
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.verbs.enqueue import Admission


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
    """Add URLs to a crawl.

    Creates the crawl if it does not exist and a URL is valid. URLs that it has
    seen are skipped, so you can run the same command again.

    Examples:
      silkline enqueue books https://books.toscrape.com/ --delay 0.5
      silkline enqueue shop --file urls.txt.gz --refused refused.txt
      grep -v logout urls.txt | silkline enqueue shop -

    Exit code: 0 all added or seen, 1 some were refused, 2 wrong usage,
    3 server unavailable or out of memory, 4 full and --no-wait, 130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs; - reads them from stdin.
    file
        A file with one URL per line, plain or gzip; blank lines and # comments are skipped. May be repeated.
    priority
        From -1000 to 1000; higher priorities are crawled first.
    wait
        If the crawl is full: wait for room, or exit with code 4.
    refused
        Write all refused URLs to this file, each below a comment with the reason.
    json
        Print the summary as JSON.
    """
    _check_dashes([*urls, *(file or [])])
    lines = UrlLines(urls, file or [])
    if not lines:
        raise ConfigError("nothing to enqueue: give URLs, --file FILE, or - to read them from stdin")
    with _refusals(refused) as refused_to:
        creator = CrawlCreator(address(redis), crawl, options or CrawlOptions())
        with creator:
            intake = UrlFeeder(creator, EnqueueSummary(crawl, created=False), priority=priority, refused_to=refused_to)
            return feed(intake, lines, wait=wait, json=json)


def _check_dashes(given: list[str]) -> None:
    """Reject arguments that begin with a dash, which are unknown options; a single dash is stdin."""
    for word in given:
        if word.startswith("-") and word != STDIN:
            raise ConfigError(f"unknown option {word}; see silkline enqueue --help")


def feed(intake: UrlFeeder, lines: UrlLines, *, wait: bool, json: bool) -> int:
    """Enqueue all lines, print the summary, and return the exit code."""
    started = time.monotonic()
    try:
        with _EnqueueProgress(intake, lines, wait=wait) as meter:
            intake.feed(lines, wait=wait, on_step=meter.step)
    except KeyboardInterrupt:
        intake.summary.interrupted = True
    finally:
        intake.summary.seconds = round(time.monotonic() - started, 3)
        screen.tell_json(intake.summary) if json else _report(intake)
    return _verdict(intake)


def _verdict(intake: UrlFeeder) -> Exit:
    summary = intake.summary
    if summary.interrupted:
        return Exit.INTERRUPTED
    if summary.full:
        return Exit.UNAVAILABLE if intake.no_memory else Exit.FULL
    return Exit.FAILED if summary.refused else Exit.OK


@contextmanager
def _refusals(path: Path | None) -> Iterator[TextIO | None]:
    try:
        opened = path.open("w", errors="surrogateescape") if path else nullcontext(None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    with opened as file:
        yield file


class _EnqueueProgress:
    """Progress of ``enqueue``: a bar on a terminal; elsewhere, a message when it waits."""

    def __init__(self, intake: UrlFeeder, lines: UrlLines, *, wait: bool) -> None:
        self._intake = intake
        self._summary = summary = intake.summary
        self._lines = lines
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
        """Update after a batch of which *without_room* URLs did not fit."""
        summary, full = self._summary, without_room > 0
        if full and self._wait and not self._waiting:
            room = (
                "; waiting until there is room" if self._intake.no_memory else ": waiting until its workers make room"
            )
            screen.remark(f"{escape(self._intake.why_full())}{room}. Ctrl-C stops; nothing is lost.")
        self._waiting = full
        counts = f"{summary.added:,} added, {summary.seen:,} seen, {summary.refused:,} refused"
        state = "full, waiting" if full else summary.crawl
        self._progress.update(self._task, description=f"{state}: {counts}", completed=self._lines.read)


def _report(intake: UrlFeeder) -> None:
    summary = intake.summary
    counts = [f"[bold]{summary.added:,}[/] added", f"{summary.seen:,} seen before", f"{summary.refused:,} refused"]
    if summary.full:
        counts.append(f"[yellow]{summary.full:,} did not fit[/]")
    new = " (created)" if summary.created else ""
    screen.show(f"{summary.crawl}{new}: {', '.join(counts)}, in {summary.seconds:.1f} s")
    for refused in summary.refusals:
        url = refused.url if len(refused.url) <= 100 else refused.url[:99] + "…"
        screen.remark(f"  [red]refused[/] {escape(screen.printable(f'{refused.where}, {url}: {refused.reason}'))}")
    if summary.refused > len(summary.refusals):
        screen.remark(f"  … and {summary.refused - len(summary.refusals):,} more; --refused FILE writes them all")
    if intake.has_no_crawl and not summary.interrupted:
        screen.remark(f"The crawl {summary.crawl} does not exist, and was not created: there was no valid URL.")
    if summary.full:
        screen.remark(
            f"{escape(intake.why_full())}. Run the same command again later: URLs that were added are skipped."
        )
    if summary.interrupted:
        screen.remark("Interrupted. Nothing is lost: run the same command again; URLs that were added are skipped.")


BATCH = 1000
SHOWN_REFUSALS = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0


class RefusedUrl(msgspec.Struct, frozen=True):
    """A refused URL, with its source and the reason."""

    where: str
    url: str
    reason: str


class EnqueueSummary(msgspec.Struct):
    """Counts of an ``enqueue``. *full* counts the URLs that did not fit with --no-wait."""

    crawl: str
    created: bool
    added: int = 0
    seen: int = 0
    refused: int = 0
    full: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    refusals: list[RefusedUrl] = []
    """The first refused URLs."""

    @property
    def offered(self) -> int:
        return self.added + self.seen + self.refused + self.full


class CrawlCreator:
    """Opens a crawl, and creates one that does not exist when `create` is called: a typo leaves no empty crawl."""

    def __init__(self, url: str, crawl: str, options: CrawlOptions) -> None:
        self._create = partial(SyncFrontier.open, url, crawl=crawl, **options.arguments())
        self.frontier = open_existing(url, crawl, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.frontier:
            self.frontier.close()

    def create(self) -> None:
        self.frontier = self._create()


class UrlFeeder:
    """One run of ``enqueue``."""

    def __init__(
        self,
        frontier: SyncFrontier | CrawlCreator,
        summary: EnqueueSummary,
        *,
        priority: int,
        refused_to: TextIO | None,
    ) -> None:
        self._creator = frontier if isinstance(frontier, CrawlCreator) else None
        self._frontier = frontier.frontier if isinstance(frontier, CrawlCreator) else frontier
        self._priority = priority
        self._refused_to = refused_to
        self.summary = summary
        self.no_memory = False
        """Whether the server had no memory for the last batch."""

    def feed(self, lines: Iterable[UrlLine], *, wait: bool, on_step: Callable[[int], None]) -> None:
        """Enqueue all lines in batches; call *on_step* after every batch with the number of URLs that did not fit.

        Without *wait*, stop at the first batch that does not fit.
        """
        for batch in _batches(lines):
            left = self._offer(batch)
            pause = FIRST_PAUSE
            while left:
                on_step(len(left))
                if not wait:
                    self.summary.full = len(left)
                    return
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                fewer = self._offer(left)
                if len(fewer) < len(left):
                    pause = FIRST_PAUSE
                left = fewer
            on_step(0)

    @property
    def has_no_crawl(self) -> bool:
        """Whether the crawl does not exist, because no URL was valid."""
        return self._frontier is None

    def why_full(self) -> str:
        """Return why the last batch did not fit."""
        assert self._frontier
        if self.no_memory:
            return f"{self.summary.crawl} takes no more requests now, because {self._frontier.internal.out_of_memory()}"
        return f"{self.summary.crawl} is full ({self._frontier.layout.settings.capacity:,} requests)"

    def _offer(self, batch: list[UrlLine]) -> list[UrlLine]:
        """Enqueue a batch; return the lines that did not fit."""
        frontier = self._frontier or self._create_for(batch)
        if frontier is None:
            return []
        refusals = frontier.internal.memory_refusals
        answers = frontier.enqueue([self._request(line.url) for line in batch])
        self.no_memory = frontier.internal.memory_refusals > refusals
        tally = answers.tally()
        self.summary.added += tally[Admission.ADDED]
        self.summary.seen += tally[Admission.SEEN]
        self.summary.refused += tally[Admission.REFUSED]
        for refusal in answers.refusals:
            self._note(RefusedUrl(batch[refusal.position].where, batch[refusal.position].url, refusal.reason))
        return [line for line, answer in zip(batch, answers, strict=True) if answer is Admission.FULL]

    def _create_for(self, batch: list[UrlLine]) -> SyncFrontier | None:
        """Create the crawl, unless all lines of a batch are invalid: then they are refused, and None is returned."""
        assert self._creator
        reasons = [_fault(line.url) for line in batch]
        if not all(reasons):
            self._creator.create()
            self._frontier, self.summary.created = self._creator.frontier, True
            return self._frontier
        self.summary.refused += len(batch)
        for line, reason in zip(batch, reasons, strict=True):
            self._note(RefusedUrl(line.where, line.url, reason))
        return None

    def _request(self, url: str) -> str | Request:
        return Request(url, priority=self._priority) if self._priority else url

    def _note(self, refused: RefusedUrl) -> None:
        if len(self.summary.refusals) < SHOWN_REFUSALS:
            self.summary.refusals.append(refused)
        if self._refused_to:
            self._refused_to.write(f"# {refused.where}: {refused.reason}\n{refused.url}\n")


def _fault(url: str) -> str:
    """Return why a URL cannot be crawled; empty if it can."""
    try:
        parse(url)
    except RequestError as error:
        return str(error)
    return ""


def _batches(lines: Iterable[UrlLine]) -> Iterator[list[UrlLine]]:
    iterator = iter(lines)
    while batch := list(islice(iterator, BATCH)):
        yield batch
