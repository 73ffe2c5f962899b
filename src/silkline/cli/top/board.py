"""The screen of ``silkline top``: its state, and how it is drawn. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from silkline.cli import screen
from silkline.cli.options.operator import safe
from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.explain_text import clock_time, urls_in_progress
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.crawl_server import CrawlDetail
from silkline.ops.notices import Notice
from silkline.ops.parsing import plural

BoardAction = Literal["pause", "resume", "revive", "quit"]
REMEMBERED = 60
SHOWN_CRAWLS = 10
SHOWN_ROWS = 8
"""Rows of each other section if the height is not limited."""
BARS = " ▁▂▃▄▅▆▇█"
GRAPH = ""
"""The heading of the sparklines. A crawl in trouble has a notice in the place of its graph."""
SHOWN_NOTICES = 2
"""Notices of the selected crawl."""
NAMES = ("crawl", "host", "worker")
"""Headings of columns with names. The end of a name says whose site or worker it is."""
_REFUSED = {"revive": "nothing was revived", "pause": "{} was not paused"}
KEYS = "[dim]↑ ↓ select   p pause   r resume   v revive dead letters   q quit[/]"


class KeyAction(NamedTuple):
    """An action and the name of its crawl: the position in the list may change before the action runs."""

    verb: BoardAction
    crawl: str


@dataclass
class TopBoard:
    """The state of the screen."""

    server: str
    crawls: dict[str, Stats | SilklineError] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """The status of each crawl, such as running or idle."""
    notices: dict[str, list[Notice]] = field(default_factory=dict)
    """What is wrong with each crawl."""
    of_server: Notice | None = None
    """What is wrong with the server."""
    detail: CrawlDetail | None = None
    chosen: int = 0
    message: str = ""
    asking: KeyAction | None = None
    """The action that runs if the next key is y."""
    rates: dict[str, deque[float]] = field(default_factory=dict)
    """Completed requests per second of each crawl, newest last."""
    _before: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def crawl(self) -> str | None:
        names = list(self.crawls)
        return names[min(self.chosen, len(names) - 1)] if names else None

    def window(self, most: int = SHOWN_CRAWLS) -> list[tuple[str, Stats | SilklineError]]:
        """Return the crawls that are shown: the selected one and its neighbors."""
        first = max(0, min(self.chosen - most // 2, len(self.crawls) - most))
        return list(self.crawls.items())[first : first + most]

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
            action, self.asking = self.asking, None
            self.message = "" if key == "y" else _REFUSED[action.verb].format(action.crawl)
            return action if key == "y" else None
        self.message = ""
        if key in ("up", "k", "down", "j"):
            self.chosen = max(0, min(len(self.crawls) - 1, self.chosen + (1 if key in ("down", "j") else -1)))
        elif key in ("v", "p"):
            self._ask("revive" if key == "v" else "pause")
        verbs: dict[str, BoardAction] = {"r": "resume", "q": "quit", "\x03": "quit"}
        return KeyAction(verbs[key], self.crawl or "") if key in verbs else None

    def _ask(self, verb: BoardAction) -> None:
        stats = self.crawls.get(self.crawl or "")
        if not isinstance(stats, Stats) or (verb == "revive" and not stats.dead):
            self.message = "the crawl has no dead letters" if verb == "revive" else "no crawl is selected"
            return
        what = f"Revive {plural(stats.dead, 'dead letter')} of" if verb == "revive" else "Pause"
        self.asking = KeyAction(verb, stats.crawl)
        self.message = f"{what} {stats.crawl}? y/n"


def draw(board: TopBoard, height: int | None = None) -> RenderableType:
    """Render the screen. With a limited height, all sections share the rows, and the last row has the keys."""
    return _TopScreen(board, height)


class _TopScreen:
    def __init__(self, board: TopBoard, height: int | None) -> None:
        self._board = board
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        board, width, height = self._board, options.max_width, self._height
        title = Text.from_markup(f"[bold]silkline top[/]  {safe(board.server)}  {plural(len(board.crawls), 'crawl')}")
        notice = board.of_server
        head = [title, *(_lines(notice, width) if notice else []), Text()]
        if not board.crawls:
            head.append(Text("No crawls yet. Start one: silkline run FILE, or silkline enqueue NAME URL…"))
        foot = [*Text(screen.printable(board.message), "yellow").wrap(console, width)[:2], Text.from_markup(KEYS)]
        body = head + _body(board, width, height and height - len(head) - len(foot))
        blanks = 1 if height is None else max(0, height - len(body) - len(foot))
        for line in [*body[: height and height - len(foot)], *[Text()] * blanks, *foot]:
            line.truncate(width, overflow="ellipsis")
            yield line


class _Section(NamedTuple):
    """A part of the screen: a title line, and rows of which some may be left out."""

    rows: int
    """The rows that it has."""
    draw: Callable[[int], list[Text]]
    """Draws its title and the given number of rows."""


def _body(board: TopBoard, width: int, height: int | None) -> list[Text]:
    """Return the lines between the title and the message."""
    detail = board.detail if board.crawl else None
    sections = [_Section(len(board.crawls), lambda rows: _crawls(board, width, rows))] if board.crawls else []
    notes = _notes(board, width)
    if detail:
        sections.append(_Section(len(detail.hosts), lambda rows: _hosts(detail, width, rows)))
        if detail.reasons:
            sections.append(_Section(len(detail.reasons), lambda rows: _reasons(detail, width, rows)))
        sections.append(_Section(len(detail.workers), lambda rows: _workers(detail, width, rows)))
    limits = [SHOWN_CRAWLS, *[SHOWN_ROWS] * 3]
    wanted = [
        section.rows if height else min(section.rows, limit) for section, limit in zip(sections, limits, strict=False)
    ]
    if height is not None:
        wanted = screen.shared(wanted, height - len(notes) - 2 * len(sections) + 1)
    lines: list[Text] = []
    for number, (section, rows) in enumerate(zip(sections, wanted, strict=True)):
        lines += [*([Text()] if number else []), *(notes if number == 1 else []), *section.draw(rows)]
    return lines


def _notes(board: TopBoard, width: int) -> list[Text]:
    """Return the lines about the selected crawl: who paused it, what is wrong, and what to do."""
    notes = []
    found = [notice for notice in board.notices.get(board.crawl or "", []) if notice.kind != "paused" or notice.severe]
    paused_itself = any(notice.kind == "paused" for notice in found)
    if board.detail and (by := board.detail.paused_by) and not paused_itself:
        notes.append(Text.from_markup(f"[yellow]paused[/] by {safe(by.by)} at {clock_time(by.time)}"))
    for notice in found[:SHOWN_NOTICES]:
        notes += _lines(notice, width)
    return notes


def _lines(notice: Notice, width: int) -> list[Text]:
    text = Text(screen.printable(notice.sentence), "red" if notice.severe else "yellow")
    return screen.wrapped(text, width, indent=2)


class _Columns(NamedTuple):
    """How a table is made narrower: the column that is shortened first, with its smallest width, and those that are left out then."""

    left: int
    elastic: int
    smallest: int
    optional: Sequence[int] = ()


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, how: _Columns) -> list[Text]:
    """Return a table as lines of at most *width* characters: nothing is wrapped, what does not fit is left out."""
    cells = [[Text.from_markup(cell) for cell in row] for row in (headings, *rows)]
    wide = [max(row[column].cell_len for row in cells) for column in range(len(headings))]
    shown = list(range(len(headings)))
    for column in (None, *how.optional):
        if column is not None:
            shown.remove(column)
        spare = width - sum(wide[other] for other in shown) - 2 * (len(shown) - 1)
        room = wide[how.elastic] - how.smallest if how.elastic in shown else 0
        if spare + max(0, room) >= 0:
            break
    if spare < 0:
        less = min(-spare, max(0, room))
        wide[how.elastic] -= less
        wide[0] = max(1, wide[0] + spare + less)
    lines = []
    for number, row in enumerate(cells):
        line = Text(style="bold" if number == 0 else "")
        for position, column in enumerate(shown):
            cell, size = row[column], wide[column]
            _shorten(cell, size, headings[column])
            gap = " " * (size - cell.cell_len)
            parts = (cell, gap) if column < how.left or column == how.elastic else (gap, cell)
            line.append("  " if position else "")
            for part in parts:
                line.append(part)
        lines.append(line)
    return lines


def _shorten(cell: Text, size: int, heading: str) -> None:
    """Cut a cell. Of a graph the newest rates are kept, of a name its end, and of responses whole shares."""
    if cell.cell_len <= size:
        return
    if heading == GRAPH:
        cell.plain = cell.plain[len(cell.plain) - size :]
    elif heading in NAMES:
        cell.plain = "…" + cell.plain[len(cell.plain) - size + 1 :]
    elif heading == screen.RESPONSES:
        screen.cut_shares(cell, size)
    else:
        cell.truncate(size, overflow="ellipsis")


def _crawls(board: TopBoard, width: int, most: int) -> list[Text]:
    headings = ("crawl", "state", "ready", "delayed", "leased", "done", "per s", "dead", "hosts", GRAPH)
    rows, window = [], board.window(most)
    for name, stats in window:
        if not isinstance(stats, Stats):
            rows.append([safe(name), "[red]unreadable[/]", *[""] * 8])
            continue
        rates = board.rates.get(name, deque())
        counts = (stats.ready, stats.delayed, stats.leased, stats.done)
        pace = f"{rates[-1]:,.1f}" if rates else ""
        hosts = f"{stats.hosts_ready + stats.hosts_waiting:,}"
        graph = spark(rates, max(20, min(REMEMBERED, width - 100)))
        notices = board.notices.get(name, [])
        if notices and notices[0].short:
            color = "red" if notices[0].severe else "yellow"
            graph = f"[{color}]{safe(notices[0].short)}[/]"
        state = board.words.get(name, stats.state)
        rows.append([safe(name), state, *(f"{one:,}" for one in counts), pace, f"{stats.dead:,}", hosts, graph])
    longest = max((len(one[0].short) for name, _ in window if (one := board.notices.get(name))), default=0)
    optional = (8, 3, 6) if longest else (9, 8, 3)  # a notice stays, a graph does not
    lines = _table(headings, rows, width, _Columns(left=2, elastic=9, smallest=max(8, longest), optional=optional))
    for line, (name, _) in zip(lines[1:], window, strict=True):
        if name == board.crawl:
            line.stylize("reverse")
    return lines


def spark(rates: deque[float], width: int = 20) -> str:
    """Return *rates* as a sparkline."""
    shown = list(rates)[-width:]
    highest = max(shown, default=0.0) or 1.0
    return "".join(BARS[round(rate / highest * (len(BARS) - 1))] for rate in shown)


def _hosts(detail: CrawlDetail, width: int, most: int) -> list[Text]:
    if not detail.hosts:
        return [Text("no host has requests", style="dim")]
    rows = []
    for host in detail.hosts[:most]:
        opens = f"{host.opens_in:.1f} s" if host.place == "waiting" else ""
        answers, cost = (host.answers.errors_first, host.answers.cost) if host.answers else ("", "")
        counts = (f"{host.queued:,}", f"{host.leased}/{host.concurrency}")
        rows.append([safe(host.host), host.place, *counts, host.short_pace, opens, cost, answers])
    headings = ("host", "state", "queued", "leased", "delay", "opens in", "CPU", screen.RESPONSES)
    return _table(headings, rows, width, _Columns(left=2, elastic=7, smallest=screen.CUT_RESPONSES, optional=(6, 5, 4)))


def _reasons(detail: CrawlDetail, width: int, most: int) -> list[Text]:
    rows = [
        [safe(group.name) if group.name else "[dim](all others)[/]", f"{group.letters:,}"]
        for group in detail.reasons[:most]
    ]
    return _table(("reason", "letters"), rows, width, _Columns(left=1, elastic=0, smallest=20))


def _workers(detail: CrawlDetail, width: int, most: int) -> list[Text]:
    alive = [worker for worker in detail.workers if worker.alive]
    silent = len(detail.workers) - len(alive)
    if not detail.workers:
        return [Text("no workers", style="dim")]
    rows = []
    for worker in alive[: most - 1 if silent else most]:
        urls = urls_in_progress(worker)
        version = safe(str(worker.info.get("version", "")))
        rows.append([safe(worker.name), version, safe(f"{len(urls)}: {urls[0]}" if urls else "")])
    if silent and most:
        rows.append([f"[red]{silent} lost[/]", "", ""])
    return _table(
        ("worker", "version", "in progress"), rows, width, _Columns(left=3, elastic=2, smallest=20, optional=(1,))
    )
