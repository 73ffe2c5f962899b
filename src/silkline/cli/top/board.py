"""The screen of ``silkline top``: its state, and how it is drawn. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from silkline.cli import screen
from silkline.cli.options.operator import safe
from silkline.errors import SilklineError
from silkline.frontier.crawl_server import CrawlDetail
from silkline.frontier.verbs.explain_text import clock_time, urls_in_progress
from silkline.frontier.verbs.stats import Stats
from silkline.ops.parsing import plural

Verb = Literal["pause", "resume", "revive", "quit"]
REMEMBERED = 60
SHOWN_CRAWLS = 10
BARS = " ▁▂▃▄▅▆▇█"
KEYS = "[dim]↑ ↓ select   p pause   r resume   v revive dead letters   q quit[/]"


class KeyAction(NamedTuple):
    """An action and the name of its crawl: the position in the list may change before the action runs."""

    verb: Verb
    crawl: str


@dataclass
class TopBoard:
    """The state of the screen."""

    server: str
    crawls: dict[str, Stats | SilklineError] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """The status of each crawl, such as running or idle."""
    detail: CrawlDetail | None = None
    chosen: int = 0
    message: str = ""
    asking: str | None = None
    """The crawl whose dead letters are revived if the next key is y."""
    rates: dict[str, deque[float]] = field(default_factory=dict)
    """Completed requests per second of each crawl, newest last."""
    _before: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def crawl(self) -> str | None:
        names = list(self.crawls)
        return names[min(self.chosen, len(names) - 1)] if names else None

    def window(self) -> list[tuple[str, Stats | SilklineError]]:
        """Return the crawls that are shown: the selected one and its neighbors."""
        first = max(0, min(self.chosen - SHOWN_CRAWLS // 2, len(self.crawls) - SHOWN_CRAWLS))
        return list(self.crawls.items())[first : first + SHOWN_CRAWLS]

    def take(self, crawls: dict[str, Stats | SilklineError], now: float) -> None:
        """Store new statistics and update the rates."""
        chosen = self.crawl
        self.crawls = crawls
        if chosen in crawls:
            self.chosen = list(crawls).index(chosen)
        for name, stats in crawls.items():
            if isinstance(stats, Stats):
                self._note_rate(name, stats.done, now)

    def _note_rate(self, name: str, done: int, now: float) -> None:
        before = self._before.get(name)
        self._before[name] = (now, done)
        if before and now > before[0]:
            rates = self.rates.setdefault(name, deque(maxlen=REMEMBERED))
            rates.append(max(0.0, (done - before[1]) / (now - before[0])))

    def press(self, key: str) -> KeyAction | None:
        """Handle a key; return the action to run, or None."""
        if self.asking is not None:
            crawl, self.asking = self.asking, None
            self.message = "" if key == "y" else "nothing was revived"
            return KeyAction("revive", crawl) if key == "y" else None
        self.message = ""
        if key in ("up", "k", "down", "j"):
            self.chosen = max(0, min(len(self.crawls) - 1, self.chosen + (1 if key in ("down", "j") else -1)))
        elif key == "v":
            self._ask()
        verbs: dict[str, Verb] = {"p": "pause", "r": "resume", "q": "quit", "\x03": "quit"}
        return KeyAction(verbs[key], self.crawl or "") if key in verbs else None

    def _ask(self) -> None:
        stats = self.crawls.get(self.crawl or "")
        if isinstance(stats, Stats) and stats.dead:
            self.asking = stats.crawl
            self.message = f"Revive {plural(stats.dead, 'dead letter')} of {stats.crawl}? y/n"
        else:
            self.message = "the crawl has no dead letters"


def draw(board: TopBoard) -> RenderableType:
    """Render the screen."""
    parts: list[RenderableType] = [
        Text.from_markup(f"[bold]silkline top[/]  {safe(board.server)}  {plural(len(board.crawls), 'crawl')}"),
        Text(),
        _crawls(board),
    ]
    if not board.crawls:
        parts.append(Text("No crawls yet. Start one: silkline run FILE, or silkline enqueue NAME URL…"))
    if board.detail and board.crawl:
        parts += [Text(), *_detail(board.detail)]
    parts += [Text(), Text.from_markup(safe(board.message), style="yellow"), Text.from_markup(KEYS)]
    return Group(*parts)


def _crawls(board: TopBoard) -> Table:
    table = screen.listing("crawl", "state", "ready", "delayed", "leased", "done", "per s", "dead", "hosts", "", left=2)
    for name, stats in board.window():
        mark = "reverse" if name == board.crawl else ""
        if not isinstance(stats, Stats):
            table.add_row(safe(name), "[red]unreadable[/]", style=mark)
            continue
        rates = board.rates.get(name, deque())
        counts = (stats.ready, stats.delayed, stats.leased, stats.done)
        pace = f"{rates[-1]:,.1f}" if rates else ""
        hosts = f"{stats.hosts_ready + stats.hosts_waiting:,}"
        table.add_row(
            name,
            board.words.get(name, stats.state),
            *(f"{one:,}" for one in counts),
            pace,
            f"{stats.dead:,}",
            hosts,
            spark(rates),
            style=mark,
        )
    return table


def spark(rates: deque[float], width: int = 20) -> str:
    """Return *rates* as a sparkline."""
    shown = list(rates)[-width:]
    highest = max(shown, default=0.0) or 1.0
    return "".join(BARS[round(rate / highest * (len(BARS) - 1))] for rate in shown)


def _detail(detail: CrawlDetail) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if detail.paused_by:
        by = detail.paused_by
        parts.append(Text.from_markup(f"[yellow]paused[/] by {safe(by.by)} at {clock_time(by.time)}"))
    parts.append(_hosts(detail))
    if detail.reasons:
        table = screen.listing("reason", "letters")
        for group in detail.reasons:
            table.add_row(safe(group.name) if group.name else "[dim](all others)[/]", f"{group.letters:,}")
        parts += [Text(), table]
    parts += [Text(), _workers(detail)]
    return parts


def _hosts(detail: CrawlDetail) -> RenderableType:
    headings = ("host", "state", "queued", "leased", "delay", "opens in", "CPU", "responses")
    table = screen.listing(
        *headings, left=2, whole=screen.longest((host.host for host in detail.hosts), screen.WIDEST_HOST)
    )
    for host in detail.hosts:
        opens = f"{host.opens_in:.1f} s" if host.place == "waiting" else ""
        answers, cost = (host.answers.mix, host.answers.cost) if host.answers else ("", "")
        counts = (f"{host.queued:,}", f"{host.leased}/{host.concurrency}")
        table.add_row(safe(host.host), host.place, *counts, host.short_pace, opens, cost, answers)
    return table if detail.hosts else Text("no host has requests", style="dim")


def _workers(detail: CrawlDetail) -> RenderableType:
    alive = [worker for worker in detail.workers if worker.alive]
    silent = len(detail.workers) - len(alive)
    if not detail.workers:
        return Text("no workers", style="dim")
    table = screen.listing("worker", "version", "in progress", left=3)
    for worker in alive[:8]:
        urls = urls_in_progress(worker)
        table.add_row(
            safe(worker.name),
            safe(str(worker.info.get("version", ""))),
            safe(f"{len(urls)}: {urls[0]}" if urls else ""),
        )
    if silent:
        table.add_row(f"[red]{silent} lost[/]", "", "")
    return table
