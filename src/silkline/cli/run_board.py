"""What a running crawl looks like: a board that moves on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from silkline.cli import screen
from silkline.cli.run_pulse import Look, clock, in_bytes, per_second

PLAIN_EVERY = 5.0
MOST_ERRORS = 6


class Board:
    """The display of one run. With *live* off it only speaks now and then, and with *quiet* not at all."""

    def __init__(self, crawl: str, *, live: bool = True, quiet: bool = False, console: Console | None = None) -> None:
        self._crawl = crawl
        self._console = console or screen.err
        self._quiet = quiet
        self._is_live = live and not quiet and self._console.is_terminal
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._spoke = time.monotonic()

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._live.stop()

    def show(self, look: Look) -> None:
        if self._is_live:
            self._live.update(draw(self._crawl, look), refresh=True)
        elif not self._quiet and time.monotonic() - self._spoke >= PLAIN_EVERY:
            self._spoke = time.monotonic()
            self._console.print(plain(look), soft_wrap=True, markup=False)

    def say(self, text: str) -> None:
        """Something happened: a line that stays, above the board."""
        self._console.print(text, soft_wrap=True)


def draw(crawl: str, look: Look) -> RenderableType:
    """The whole board."""
    lines: list[RenderableType] = [_headline(crawl, look), _counts(look), _work(look)]
    if look.tally.errors:
        lines.append(Text(f"errors      {_list(look.tally.errors)}", "yellow", no_wrap=True, overflow="ellipsis"))
    room = _room(look)
    if room:
        lines.append(Text(f"room        {room}", "bold red" if look.tally.postponed else "yellow"))
    if look.waiting_hosts:
        lines.append(Text(f"hosts       {look.waiting_hosts}", "yellow"))
    lines += [Text(f"trouble     {screen.printable(trouble)}", "bold red") for trouble in look.troubles]
    if look.stopping:
        lines.append(Text(look.stopping, "bold"))
    return Group(Text(), *lines)


def _headline(crawl: str, look: Look) -> RenderableType:
    stats = look.stats
    known = stats.done + stats.dead + stats.pending + stats.leased
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_row(
        f"[bold]{escape(crawl)}[/]",
        ProgressBar(total=max(known, 1), completed=stats.done + stats.dead, width=24),
        f"{stats.done + stats.dead:,} of {known:,}",
        f"[bold]{per_second(look.rate)}[/] pages/s",
        f"{clock(look.elapsed)}",
        _left(look),
    )
    return line


def _left(look: Look) -> str:
    return "" if look.left is None else f"about {clock(look.left)} left"


def _counts(look: Look) -> Text:
    states = [Text(f"{name} {getattr(look.stats, name):,}", colour) for name, colour in screen.COLOURS.items()]
    hosts = Text(f"hosts {look.stats.hosts_ready:,} open, {look.stats.hosts_waiting:,} waiting")
    return Text("   ").join([*states, hosts])


def _work(look: Look) -> Text:
    tally = look.tally
    parts = [f"in flight {look.in_flight:,}", f"items {tally.items:,}", in_bytes(tally.bytes)]
    extra = {"retries": tally.retried, "denied by robots.txt": tally.robots_denied, "restarts": look.restarts}
    parts += [f"{name} {count:,}" for name, count in extra.items() if count]
    return Text("   ".join(parts))


def _room(look: Look) -> str:
    """What becomes of links while there is no room for them."""
    full, postponed = look.stats.full, look.tally.postponed
    if postponed:
        was = "is" if full else "was"
        return f"the crawl {was} full: {postponed:,} pages were put back and are fetched again; give it --overflow PATH"
    waiting = f"{look.stats.overflow:,} links wait on disk" if look.stats.overflow else ""
    return ", ".join(part for part in ("the crawl is full" if full else "", waiting) if part)


def plain(look: Look) -> str:
    """The same in one line."""
    stats, tally = look.stats, look.tally
    parts = [
        f"{stats.done:,} done",
        f"{per_second(look.rate)}/s",
        f"{look.in_flight:,} in flight",
        f"{stats.ready:,} ready",
        f"{stats.delayed:,} delayed",
        f"{stats.dead:,} dead",
        f"{tally.items:,} items",
    ]
    if tally.errors:
        parts.append(f"errors: {_list(tally.errors)}")
    parts += [
        part for part in (_room(look), look.waiting_hosts, _left(look), *map(screen.printable, look.troubles)) if part
    ]
    return f"{clock(look.elapsed):>7}  {', '.join(parts)}"


def _list(counts: Counter[str]) -> str:
    shown = [f"{screen.printable(name)} {count:,}" for name, count in counts.most_common(MOST_ERRORS)]
    return ", ".join([*shown, "…"] if len(counts) > MOST_ERRORS else shown)
