"""Progress of a run on stderr: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from silkline.cli import screen
from silkline.cli.run.pulse import RunSnapshot, clock, per_second
from silkline.core.units import format_bytes
from silkline.ops.parsing import plural

PLAIN_EVERY = 5.0
MOST_ERRORS = 6
NARROWEST_NAME, NARROWEST_BAR, WIDEST_BAR = 8, 6, 24


class RunBoard:
    """The display of one run. Without *live* it prints a line every few seconds; with *quiet* it prints nothing."""

    def __init__(self, crawl: str, *, live: bool = True, quiet: bool = False, console: Console | None = None) -> None:
        self._crawl = crawl
        self._console = console or screen.err
        self._quiet = quiet
        self._is_live = live and not quiet and self._console.is_terminal and not screen.remarks_are_logged()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._spoke = time.monotonic()

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._live.stop()

    def show(self, look: RunSnapshot) -> None:
        if self._is_live:
            self._live.update(draw(self._crawl, look), refresh=True)
        elif not self._quiet and time.monotonic() - self._spoke >= PLAIN_EVERY:
            self._spoke = time.monotonic()
            self._print(escape(plain(look)))

    def say(self, text: str) -> None:
        """Print a line above the display."""
        self._print(text)

    def _print(self, text: str) -> None:
        if screen.remarks_are_logged():
            screen.remark(text.strip())
        else:
            screen.print_line(text, self._console)


def draw(crawl: str, look: RunSnapshot) -> RenderableType:
    """Render the display."""
    lines: list[RenderableType] = [_Headline(crawl, look), _counts(look), _work(look)]
    if look.counters.errors:
        lines.append(Text(f"errors      {_list(look.counters.errors)}", "yellow", no_wrap=True, overflow="ellipsis"))
    room = _room(look)
    if room:
        lines.append(Text(f"capacity    {room}", "bold red" if look.counters.postponed else "yellow"))
    if look.waiting_hosts:
        lines.append(Text(f"waiting     {look.waiting_hosts}", "yellow"))
    lines += [Text(f"problem     {screen.printable(trouble)}", "bold red") for trouble in look.troubles]
    if look.stopping:
        lines.append(Text(look.stopping, "bold"))
    return Group(Text(), *lines)


class _Headline:
    """The first line: on a narrow screen its bar is shorter or left out, then the name of the crawl is cut.

    While the crawl finds new URLs, it has no bar, because the end is unknown.
    """

    def __init__(self, crawl: str, look: RunSnapshot) -> None:
        self._crawl = crawl
        self._look = look

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        look, stats = self._look, self._look.stats
        ended, waiting = stats.done + stats.dead, stats.pending + stats.leased
        name = Text(self._crawl, "bold")
        rest = [
            Text(f"{ended:,} done, {waiting:,} waiting" if look.growing else f"{ended:,} of {ended + waiting:,}"),
            Text.assemble((per_second(look.rate), "bold"), " pages/s"),
            Text(clock(look.elapsed)),
            *([Text(_left(look))] if _left(look) else []),
        ]
        width = options.max_width - sum(text.cell_len + 2 for text in rest)
        spare = width - name.cell_len - 2
        if spare < NARROWEST_BAR or look.growing:
            name.truncate(max(NARROWEST_NAME, width), overflow="ellipsis")
            line = Text("  ", no_wrap=True, overflow="ellipsis").join([name, *rest])
            line.truncate(options.max_width, overflow="ellipsis")
            yield line
            return
        bar = ProgressBar(total=max(ended + waiting, 1), completed=ended, width=min(WIDEST_BAR, spare))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row(name, bar, *rest)
        yield grid


def _left(look: RunSnapshot) -> str:
    return "" if look.left is None else f"about {clock(look.left)} left"


def _counts(look: RunSnapshot) -> Text:
    states = [Text(f"{name} {getattr(look.stats, name):,}", color) for name, color in screen.COLORS.items()]
    hosts = Text(f"hosts {look.stats.hosts_ready:,} ready, {look.stats.hosts_waiting:,} waiting")
    return Text("   ").join([*states, hosts])


def _work(look: RunSnapshot) -> Text:
    counters = look.counters
    parts = [f"in flight {look.in_flight:,}", f"items {counters.items:,}", format_bytes(counters.bytes)]
    extra = {"retries": counters.retried, "denied by robots.txt": counters.robots_denied, "restarts": look.restarts}
    parts += [f"{name} {count:,}" for name, count in extra.items() if count]
    return Text("   ".join(parts))


def _room(look: RunSnapshot) -> str:
    """Describe what happens to links while the crawl is full."""
    full, postponed = look.stats.full, look.counters.postponed
    if postponed:
        was = "is" if full else "was"
        return f"the crawl {was} full: {postponed:,} pages are retried later; use --overflow PATH"
    waiting = f"{look.stats.overflow:,} links in the overflow file" if look.stats.overflow else ""
    return ", ".join(part for part in ("the crawl is full" if full else "", waiting) if part)


def plain(look: RunSnapshot) -> str:
    """Return the snapshot as one line of text."""
    stats, counters = look.stats, look.counters
    parts = [
        f"{stats.done:,} done",
        f"{per_second(look.rate)}/s",
        f"{look.in_flight:,} in flight",
        f"{stats.ready:,} ready",
        f"{stats.delayed:,} delayed",
        f"{stats.dead:,} dead",
        plural(counters.items, "item"),
    ]
    if counters.errors:
        parts.append(f"errors: {_list(counters.errors)}")
    parts += [
        part for part in (_room(look), look.waiting_hosts, _left(look), *map(screen.printable, look.troubles)) if part
    ]
    return f"{clock(look.elapsed):>7}  {', '.join(parts)}"


def _list(counts: Counter[str]) -> str:
    shown = [f"{count:,} × {screen.printable(name)}" for name, count in counts.most_common(MOST_ERRORS)]
    return ", ".join([*shown, "…"] if len(counts) > MOST_ERRORS else shown)
