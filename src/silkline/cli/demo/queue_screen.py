"""What the demo looks like: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from silkline.cli import screen
from silkline.cli.demo.queue_fleet import Fleet
from silkline.cli.demo.queue_proof import Proof
from silkline.frontier.inspection import Stats

PLAIN_EVERY = 2.0
SHOWN_TWICE = 3


class Show:
    """The screen of one run."""

    def __init__(self, urls: int, console: Console) -> None:
        self._console = console
        self._urls = urls
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(30),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
            TextColumn("{task.fields[rate]:>9}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._bar.add_task("enqueue", total=urls, rate="")
        self._live = Live(self._bar, console=console, transient=True, refresh_per_second=8)
        self._started = self._spoke = time.monotonic()
        self._looks: list[tuple[float, int]] = []

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._live.stop()

    def title(self, hosts: int, workers: int, delay: float) -> None:
        self._say(f"[bold]{self._urls:,} URLs on {hosts:,} hosts, {workers} workers, one of them killed half-way[/]")
        self._say(f"Politeness: {delay:g} s between two starts on a host, for all workers together")
        self._say("")

    def event(self, text: str) -> None:
        """Something happened: a line that stays."""
        self._say(f"[dim]{time.monotonic() - self._started:5.1f} s[/]  {text}")

    def filled(self, count: int) -> None:
        self._bar.update(self._task, completed=count)

    def crawl(self, workers: int) -> None:
        self.event(f"{workers} workers start")
        self._bar.reset(self._task, description="crawl", rate="")

    def progress(self, stats: Stats) -> None:
        rate = f"{self._rate(stats.done):,}/s"
        self._bar.update(self._task, completed=stats.done, rate=rate)
        counts = [(f"{state} {getattr(stats, state):,}", colour) for state, colour in screen.COLOURS.items()]
        self._live.update(Group(self._bar, Text("   ").join(Text(text, colour) for text, colour in counts)))
        if not self._console.is_terminal and time.monotonic() - self._spoke > PLAIN_EVERY:
            self.event(f"{stats.done / self._urls:4.0%}  {rate:>8}  {'   '.join(text for text, _ in counts)}")
            self._spoke = time.monotonic()

    def _rate(self, done: int) -> int:
        """Per second, over the last looks."""
        self._looks = [*self._looks[-9:], (time.monotonic(), done)]
        (then, before), (now, after) = self._looks[0], self._looks[-1]
        return round((after - before) / (now - then)) if now > then else 0

    def summary(self, proof: Proof, fleet: Fleet, stats: Stats) -> None:
        self._say("")
        table = screen.listing("worker", "pid", "handed out", "done", "")
        for number, (process, journal) in enumerate(zip(fleet.processes, fleet.journals(), strict=True)):
            fate = "[red]killed[/]" if number == fleet.killed else ""
            handed, done = f"{len(journal.handed):,}", f"{len(journal.done):,}"
            table.add_row(f"{number + 1}", f"{process.pid}", handed, done, fate)
        self._console.print(table)
        self._say("")
        self._console.print(screen.pairs(_findings(proof, stats)))
        self._say("")
        colour = "green" if proof.sound else "red"
        self._say(f"[bold {colour}]{proof.completed:,} completed, {len(proof.lost):,} lost[/]")

    def _say(self, text: str) -> None:
        self._console.print(text)


def _findings(proof: Proof, stats: Stats) -> list[tuple[str, str]]:
    files, frontier = f"{proof.completed:,}", f"{proof.completed_says_frontier:,}"
    sums = "nothing is left ready, delayed, leased or dead" if proof.conserved else "[red]they do not add up[/]"
    return [
        ("enqueued", f"{proof.enqueued:,}"),
        ("completed", f"{files} by the workers' own files, {frontier} by the frontier's count"),
        ("counts", sums),
        ("rescued", f"{stats.rescued:,} from the killed worker"),
        ("handed out twice", _twice(proof)),
        ("worked on twice", f"{proof.done_twice:,}"),
        ("politeness", _politeness(proof)),
    ]


def _twice(proof: Proof) -> str:
    urls = proof.handed_out_twice
    if not urls:
        return "0"
    because = ", all because of the kill" if proof.first_held_by_killed else ""
    more = ", …" if len(urls) > SHOWN_TWICE else ""
    return f"{len(urls):,}{because}: {escape(', '.join(urls[:SHOWN_TWICE]))}{more}"


def _politeness(proof: Proof) -> str:
    if proof.closest_starts is None:
        return "no host was visited twice"
    verdict = "kept" if proof.polite else "[red]broken[/]"
    return f"{verdict}: the closest two starts on a host were {proof.closest_starts:.3f} s apart"
