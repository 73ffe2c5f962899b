"""``silkline enqueue``: add URLs to a crawl."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO, Self

import msgspec
from cyclopts import Parameter, validators
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from silkline.cli import screen
from silkline.cli.entry_lines import PART, STDIN, EntryLine, EntryLines
from silkline.cli.exits import Exit
from silkline.cli.options.crawl import CrawlOptions, open_existing
from silkline.cli.options.server import Json, Redis, address
from silkline.core.entry import BadEntry
from silkline.core.request import MAX_PRIORITY, Request, check
from silkline.core.url import parse
from silkline.errors import ConfigError, RequestError
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.verbs.enqueue import Admission
from silkline.worker.feeds.entry_file import EntryFormat


def enqueue(  # noqa: PLR0913 - each is an option of the command
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: Annotated[list[str] | None, Parameter(allow_leading_hyphen=True, negative=())] = None,
    format_: Annotated[EntryFormat | None, Parameter(name="--format", show_default=False)] = None,
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
      silkline enqueue shop --file products.csv --file more.jsonl.zst
      grep -v logout urls.txt | silkline enqueue shop -

    Exit code: 0 all added or seen, 1 some were refused, 2 wrong usage,
    3 server unavailable or out of memory, 4 full and --no-wait, 130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs, or JSON objects with a url and further fields; - reads them from stdin.
    file
        A file: URLs or JSON objects, one per line; CSV with a column url; or Parquet. Plain, gzip or zstd. May be repeated.
    format_
        The format of files and stdin: txt, csv, jsonl or parquet. Default: what the name says, else the first line.
    priority
        From -1000 to 1000; higher priorities are crawled first. Entries that have one keep it.
    wait
        If the crawl is full: wait for room, or exit with code 4.
    refused
        Write all refused URLs to this file, each below a comment with the reason.
    json
        Print the summary as JSON.
    """
    _check_dashes([*urls, *(file or [])])
    lines = EntryLines(urls, file or [], format_)
    if not lines:
        raise ConfigError("nothing to enqueue: give URLs, --file FILE, or - to read them from stdin")
    with _refusals(refused) as refused_to:
        creator = CrawlCreator(address(redis), crawl, options or CrawlOptions())
        with creator:
            feeder = EntryFeeder(
                creator, EnqueueSummary(crawl, created=False), priority=priority, refused_to=refused_to
            )
            return feed(feeder, lines, wait=wait, json=json)


def _check_dashes(given: list[str]) -> None:
    """Reject arguments that begin with a dash, which are unknown options; a single dash is stdin."""
    for word in given:
        if word.startswith("-") and word != STDIN:
            raise ConfigError(f"unknown option {word}; see silkline enqueue --help")


def feed(feeder: EntryFeeder, lines: EntryLines, *, wait: bool, json: bool) -> int:
    """Enqueue all lines, print the summary, and return the exit code."""
    started = time.monotonic()
    try:
        with _EnqueueProgress(feeder, lines, wait=wait) as meter:
            feeder.feed(lines, wait=wait, on_step=meter.step)
    except KeyboardInterrupt:
        feeder.summary.interrupted = True
    finally:
        feeder.summary.seconds = round(time.monotonic() - started, 3)
        screen.print_json(feeder.summary) if json else _report(feeder)
    return _verdict(feeder)


def _verdict(feeder: EntryFeeder) -> Exit:
    summary = feeder.summary
    if summary.interrupted:
        return Exit.INTERRUPTED
    if summary.full:
        return Exit.UNAVAILABLE if feeder.no_memory else Exit.FULL
    return Exit.FAILED if summary.refused else Exit.OK


@contextmanager
def _refusals(path: Path | None) -> Iterator[BinaryIO | None]:
    try:
        opened = path.open("wb") if path else nullcontext(None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    with opened as file:
        yield file


class _EnqueueProgress:
    """Progress of ``enqueue``: a bar on a terminal; elsewhere, a message when it waits."""

    def __init__(self, feeder: EntryFeeder, lines: EntryLines, *, wait: bool) -> None:
        self._intake = feeder
        self._summary = summary = feeder.summary
        self._lines = lines
        self._wait = wait
        self._waiting = False
        columns: list[ProgressColumn] = [
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(20),
            TimeElapsedColumn(),
        ]
        if lines.size:
            columns.insert(3, DownloadColumn())
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


def _report(feeder: EntryFeeder) -> None:
    summary = feeder.summary
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
    if feeder.has_no_crawl and not summary.interrupted:
        screen.remark(f"The crawl {summary.crawl} does not exist, and was not created: there was no valid URL.")
    if summary.full:
        screen.remark(
            f"{escape(feeder.why_full())}. Run the same command again later: URLs that were added are skipped."
        )
    if summary.interrupted:
        screen.remark("Interrupted. Nothing is lost: run the same command again; URLs that were added are skipped.")


SHOWN_REFUSALS = 20
MOST_SHOWN = 2000
"""Characters of a refused URL in the summary."""
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


class EntryFeeder:
    """One run of ``enqueue``."""

    def __init__(
        self,
        frontier: SyncFrontier | CrawlCreator,
        summary: EnqueueSummary,
        *,
        priority: int,
        refused_to: BinaryIO | None,
    ) -> None:
        self._creator = frontier if isinstance(frontier, CrawlCreator) else None
        self._frontier = frontier.frontier if isinstance(frontier, CrawlCreator) else frontier
        self._priority = priority
        self._refused_to = refused_to
        self.summary = summary
        self.no_memory = False
        """Whether the server had no memory for the last batch."""

    def feed(self, lines: Iterable[EntryLine], *, wait: bool, on_step: Callable[[int], None]) -> None:
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

    def _offer(self, batch: list[EntryLine]) -> list[EntryLine]:
        """Enqueue a batch; return the lines that did not fit."""
        frontier = self._frontier or self._create_for(batch)
        if frontier is None:
            return []
        refusals = frontier.internal.memory_refusals
        batch = self._without_bad(batch)
        answers = frontier.enqueue([self._request(line.item) for line in batch])
        self.no_memory = frontier.internal.memory_refusals > refusals
        tally = answers.tally()
        self.summary.added += tally[Admission.ADDED]
        self.summary.seen += tally[Admission.SEEN]
        self.summary.refused += tally[Admission.REFUSED]
        for refusal in answers.refusals:
            self._note(batch[refusal.position], refusal.reason)
        return [line for line, answer in zip(batch, answers, strict=True) if answer is Admission.FULL]

    def _create_for(self, batch: list[EntryLine]) -> SyncFrontier | None:
        """Create the crawl, unless all lines of a batch are invalid: then they are refused, and None is returned."""
        assert self._creator
        reasons = [_fault(line.item) for line in batch]
        if not all(reasons):
            self._creator.create()
            self._frontier, self.summary.created = self._creator.frontier, True
            return self._frontier
        self.summary.refused += len(batch)
        for line, reason in zip(batch, reasons, strict=True):
            self._note(line, reason)
        return None

    def _without_bad(self, batch: list[EntryLine]) -> list[EntryLine]:
        """Return the entries of a batch that are requests; the others are refused."""
        good = []
        for line in batch:
            if isinstance(line.item, BadEntry):
                self.summary.refused += 1
                self._note(line, str(line.item))
            else:
                good.append(line)
        return good

    def _request(self, item: str | Request | BadEntry) -> str | Request:
        assert not isinstance(item, BadEntry)
        if not self._priority:
            return item
        if isinstance(item, str):
            return Request(item, priority=self._priority)
        return item if item.priority else msgspec.structs.replace(item, priority=self._priority)

    def _note(self, line: EntryLine, reason: str) -> None:
        if len(self.summary.refusals) < SHOWN_REFUSALS:
            self.summary.refusals.append(RefusedUrl(line.where, line.url[:MOST_SHOWN], reason))
        if self._refused_to:
            self._refused_to.write(f"# {line.where}: {reason}\n".encode(errors="surrogateescape") + line.data + b"\n")


def _fault(item: str | Request | BadEntry) -> str:
    """Return why an entry cannot be crawled; empty if it can."""
    if isinstance(item, BadEntry):
        return str(item)
    try:
        parse(item if isinstance(item, str) else item.url)
        if isinstance(item, Request):
            check(item)
    except RequestError as error:
        return str(error)
    return ""


def _batches(lines: Iterable[EntryLine]) -> Iterator[list[EntryLine]]:
    iterator = iter(lines)
    while batch := list(islice(iterator, PART)):
        yield batch
