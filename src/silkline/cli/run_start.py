"""How a run begins: created, resumed or started over, and what is said about it."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from rich.markup import escape

from silkline.cli import screen
from silkline.cli.operating import ask, operator
from silkline.core.errors import ConfigError, UnknownCrawl
from silkline.core.lease import Admission, Admissions
from silkline.core.politeness import Politeness
from silkline.frontier.frontier import Frontier
from silkline.frontier.house import House
from silkline.frontier.inspection import Stats
from silkline.frontier.sync import SyncFrontier
from silkline.worker.crawl import Crawl
from silkline.worker.run import enqueue_starts, open_to_run

SHOWN_REFUSALS = 5


@dataclass
class Start:
    """What is to be begun, and afterwards what was found."""

    crawl: Crawl
    file: str
    redis: str
    outs: list[str]
    _: KW_ONLY
    fresh: bool = False
    revive: bool = False
    quiet: bool = False
    overflow: Path | None = None
    resumed: bool = False
    all_done: bool = False
    """Whether nothing was left to do when it began."""

    def say(self, text: str) -> None:
        if not self.quiet:
            screen.remark(text)


async def prepare(start: Start) -> Frontier:
    """Open the crawl, say how it is treated, and enqueue its starts."""
    frontier, start.resumed, was, removed = await open_to_run(
        start.crawl, start.redis, fresh=start.fresh, overflow=start.overflow
    )
    try:
        if removed:
            await _note_removal(start)
        before = await frontier.stats()
        revived = await _revive(frontier) if start.revive and before.dead else 0
        _check_starts(await enqueue_starts(start.crawl, frontier), before)
        start.all_done = start.resumed and await frontier.finished()
        _tell(start, frontier, before, revived)
        if was and not start.all_done:
            start.say(f"the pace has changed: it was {_pace(was)}")
    except BaseException:
        await frontier.close()
        raise
    return frontier


async def _note_removal(start: Start) -> None:
    """Where removed crawls are noted: the audit of the crawl itself went with it."""
    house = await House.open(start.redis)
    try:
        await house.note_removal(operator(), start.crawl.name)
    finally:
        await house.close()


async def _revive(frontier: Frontier) -> int:
    revived = await frontier.revive()
    await frontier.note_act(operator(), "revive", f"all: {revived}")
    return revived


def confirm(start: Start) -> None:
    """Before all is forgotten, say what that is, and ask."""
    try:
        with SyncFrontier.open(start.redis, crawl=start.crawl.name, create=False) as frontier:
            stats = frontier.stats()
    except UnknownCrawl:
        return
    what = f"{start.crawl.name} has {_counts(stats)} and {stats.seen:,} seen"
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}; --fresh forgets all of it. Without a terminal to ask on, it needs --yes")
    screen.remark(f"{escape(what)}. --fresh forgets all of it; what sinks hold stays.")
    ask("Start over?")


def _check_starts(answers: Admissions, before: Stats) -> None:
    """A crawl without a beginning is a mistake; a start that is refused is told."""
    for refusal in answers.refusals[:SHOWN_REFUSALS]:
        screen.remark(f"[yellow]start refused:[/] {escape(screen.printable(f'{refusal.request}: {refusal.reason}'))}")
    if Admission.FULL in answers:
        screen.remark(f"[yellow]{answers.count(Admission.FULL):,} starts found no room in the crawl, which is full[/]")
    if not before.accepted and Admission.ADDED not in answers:
        raise ConfigError(
            f"the crawl {before.crawl!r} has nothing to begin with: give it start=[…] in its file, "
            f"or put URLs in: silkline enqueue {before.crawl} URL…"
        )


def _tell(start: Start, frontier: Frontier, before: Stats, revived: int) -> None:
    crawl, fetching = start.crawl, start.crawl.fetching
    name = escape(crawl.name)
    if revived:
        start.say(f"{name}: {revived:,} dead letters are tried again")
    if start.all_done:
        start.say(f"{name} is all done: {_counts(before)}. To start over: --fresh")
        return
    if start.resumed:
        start.say(f"resuming {name}: {_counts(before)}")
    robots = "robots.txt is obeyed" if fetching.obey_robots else "robots.txt is not asked"
    start.say(
        f"[dim]{_pace(frontier.plan.settings.politeness)} per host "
        f"(politeness=Politeness(…) in {escape(start.file)} changes that); {robots}; "
        f"user agent {escape(screen.printable(fetching.agent(crawl.name)))}[/]"
    )
    _warn(start)


def _pace(pace: Politeness) -> str:
    at_a_time = "1 request at a time" if pace.concurrency == 1 else f"{pace.concurrency} requests at a time"
    return f"{at_a_time} and {pace.delay:g} s between two starts"


def _warn(start: Start) -> None:
    """Of what is easily forgotten."""
    if not start.outs:
        start.say("[yellow]no -o:[/] items are counted, not kept; -o items.jsonl keeps them, -o - prints them")
    fetching = start.crawl.fetching
    if fetching.contact is None and fetching.user_agent is None:
        start.say(
            "[yellow]no contact:[/] tell site owners how to reach you with "
            'fetching=Fetching(contact="https://you.example/crawler")'
        )


def _counts(stats: Stats) -> str:
    names = ("done", "ready", "delayed", "leased", "dead")
    counts = [f"{getattr(stats, name):,} {name}" for name in names if getattr(stats, name) or name == "done"]
    return ", ".join(counts)
