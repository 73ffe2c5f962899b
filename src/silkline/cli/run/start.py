"""Start of a run: create, resume or restart the crawl, and print what was done."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from rich.markup import escape

from silkline.cli import screen
from silkline.cli.options.operator import ask, operator
from silkline.cli.options.work import naming_the_flag
from silkline.cli.run.every import STARTED
from silkline.core.politeness import Politeness
from silkline.errors import ConfigError, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.admin_verbs.stats import Stats, levels_of
from silkline.frontier.arguments import embedded_in
from silkline.frontier.crawl_server import CrawlServer
from silkline.frontier.frontier import Frontier
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.verbs.enqueue import Admission, Admissions
from silkline.frontier.verbs.history import Counts
from silkline.ops.autoscale import ScaleDownDelay, ScalingTarget, advise
from silkline.ops.parsing import plural
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.feeds.feed_name import is_endless
from silkline.worker.feeds.feeder import check_feeds
from silkline.worker.feeds.query_name import public_name
from silkline.worker.process.fleet import Fleet
from silkline.worker.process.outputs import (
    STDOUT,
    check_overwrite,
    describe,
    empty_outputs,
    keep_permission,
    lack_of_items,
    listed,
    share_options,
)
from silkline.worker.process.process import open_sinks
from silkline.worker.process.run import enqueue_starts, open_to_run, resume_if_it_paused_itself

SHOWN_REFUSALS = 5
CREATOR = "run"
"""The name under which a run that fails asks whether others have joined its crawl. It has not joined itself."""


@dataclass
class RunStart:
    """What to start, and what was found when the crawl was opened."""

    crawl: Crawl
    file: str
    redis: str
    outs: list[str]
    _: KW_ONLY
    fresh: bool = False
    overwrite: bool = False
    """Whether the outputs are emptied before the crawl begins."""
    revive: bool = False
    quiet: bool = False
    overflow: Path | None = None
    archived: bool = False
    """Whether pages come from an archive."""
    run: str = ""
    """The name of the run that begins, with ``--every``."""
    only_starts: bool = False
    """Whether other processes do the work (`silkline start`): a crawl that paused itself stays paused."""
    resumed: bool = False
    added: int = 0
    """Start URLs that were new."""
    seen: int = 0
    """Start URLs that were not."""
    all_done: bool = False
    """Whether the crawl was already finished."""

    def say(self, text: str) -> None:
        if not self.quiet:
            screen.remark(text)

    def say_plain(self, text: str) -> None:
        self.say(escape(text))


async def prepare(start: RunStart) -> Frontier:
    """Open the crawl, print its settings, and enqueue its start URLs."""
    with naming_the_flag():
        opened = await open_to_run(start.crawl, start.redis, fresh=start.fresh, overflow=start.overflow)
    frontier, start.resumed, was = opened.frontier, opened.resumed, opened.politeness_was
    try:
        if opened.removed:
            await _note_removal(start)
        if start.run:
            await frontier.internal.append_audit(operator(), STARTED, start.run)
        was_done = start.resumed and not start.revive and await frontier.finished()
        if was_done:
            keep_permission(start.crawl, await frontier.admin.run_options(), start.say_plain)
        else:
            start.outs = await share_options(start.crawl, start.outs, frontier, start.say_plain)
        if start.overwrite:
            await empty_outputs(start.outs)
            start.say(f"overwriting {escape(_places(start))}")
        before = await frontier.admin.stats()
        revived = await _revive(frontier) if start.revive and before.dead else 0
        with naming_the_flag():
            admissions = await enqueue_starts(start.crawl, frontier)
        start.added, start.seen = map(admissions.count, (Admission.ADDED, Admission.SEEN))
        lack = await frontier.internal.out_of_memory() if frontier.internal.memory_refusals else ""
        _check_starts(admissions, before, lack, fed=bool(start.crawl.feeds) or start.crawl.tasks.are_recurring)
        await _go_on(start, frontier)
        stays = start.crawl.feeds or start.crawl.until_idle is not None or start.crawl.tasks.are_recurring
        start.all_done = start.resumed and not stays and await frontier.finished()
        if was_done:
            await _share_late(start, frontier)
        _report(start, frontier, before, revived)
        if was and not start.all_done:
            start.say(f"politeness has changed; before: {_pace(was)}")
        for change in opened.changes:
            start.say(f"the crawl's {escape(change)}, as set in {escape(start.file)} or the options")
    except BaseException as error:
        if isinstance(error, Exception):
            await remove_if_new(start, frontier)
        await frontier.close()
        raise
    return frontier


async def remove_if_new(start: RunStart, frontier: Frontier) -> None:
    """Remove the crawl that a run has created before it failed, unless another process has joined it or added to it meanwhile."""
    if start.resumed:
        return
    with suppress(SilklineError):  # then it is continued by the next run
        stats = await frontier.admin.stats()
        if stats.accepted == stats.ready + stats.delayed == start.added and stats.duplicates <= start.seen:
            await frontier.internal.remove_unused(CREATOR, added=start.added, seen=start.seen)


async def check_outputs(start: RunStart) -> None:
    """Open the outputs once, to report errors before anything is stored. Those of a finished crawl are opened if it has more to do.

    Files that feed the crawl are opened too.
    """
    check_feeds(start.crawl.feeds, start.crawl.handlers.names)
    if start.fresh or start.revive or not start.outs or not await is_finished(start):
        async with open_sinks(start.outs, start.redis):
            pass


def _has_data(redis: str) -> bool:
    """Return whether the server may have crawls; an embedded one is not created to find that out."""
    directory = embedded_in(redis)
    return not directory or Path(directory).expanduser().is_dir()


async def is_finished(start: RunStart) -> bool:
    """Whether the crawl exists and has nothing left to do."""
    if not _has_data(start.redis):
        return False
    try:
        async with await Frontier.open(start.redis, crawl=start.crawl.name, create=False) as frontier:
            return await frontier.finished()
    except UnknownCrawl:
        return False


async def _share_late(start: RunStart, frontier: Frontier) -> None:
    """Store the options of a crawl that was finished, if it has new start URLs; else leave its outputs as they are."""
    if start.all_done:
        stored = (await frontier.admin.run_options()).outputs or ()
        if start.outs and {describe(out) for out in start.outs} != set(stored):
            start.say_plain(f"nothing is left to crawl, so the output stays {listed(stored) or 'as it is'}")
        start.outs = [output.out for output in stored]
        return
    async with open_sinks(start.outs, start.redis):
        pass
    start.outs = await share_options(start.crawl, start.outs, frontier, start.say_plain)


async def _go_on(start: RunStart, frontier: Frontier) -> None:
    resumes = start.resumed and not start.only_starts
    why = await resume_if_it_paused_itself(frontier, operator()) if resumes else None
    if why:
        start.say(f"[yellow]the crawl had paused itself[/] because {escape(screen.printable(why))}; it is resumed now")


async def _note_removal(start: RunStart) -> None:
    """Record the removal in the audit log of the server: the audit log of the crawl was deleted with it."""
    server = await CrawlServer.open(start.redis)
    try:
        await server.note_removal(operator(), start.crawl.name)
    finally:
        await server.close()


async def _revive(frontier: Frontier) -> int:
    revived = await frontier.admin.revive()
    await frontier.internal.append_audit(operator(), "revive", f"all: {revived}")
    return revived


def confirm(start: RunStart) -> None:
    """Show what --fresh deletes and ask for confirmation."""
    try:
        with SyncFrontier.open(start.redis, crawl=start.crawl.name, create=False) as frontier:
            stats = frontier.admin.stats()
    except UnknownCrawl:
        return
    what = f"{start.crawl.name} has {counts_in_words(stats)} and {stats.seen:,} seen"
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}; --fresh deletes all of it. Without a terminal, it needs --yes")
    items = f"--overwrite empties {_places(start)}" if start.overwrite else "items in sinks stay"
    screen.remark(f"{escape(what)}. --fresh deletes all of it; {escape(items)}.")
    ask("Start over?")


def check_overwriting(start: RunStart) -> None:
    """Raise `ConfigError` if a crawl is continued: its pages are not crawled again, so their items would be lost."""
    check_overwrite(start.outs)
    if start.fresh:
        return
    try:
        with SyncFrontier.open(start.redis, crawl=start.crawl.name, create=False) as frontier:
            stats = frontier.admin.stats()
    except UnknownCrawl:
        return
    if stats.done or stats.leased:
        raise ConfigError(
            f"{start.crawl.name} has {counts_in_words(stats)}; its done pages are not crawled again, so --overwrite would lose "
            "their items. To start over, add --fresh; to continue, leave --overwrite out"
        )


def _places(start: RunStart) -> str:
    return ", ".join(screen.printable(out.partition("?")[0]) for out in start.outs if out != STDOUT)


def _check_starts(answers: Admissions, before: Stats, no_memory: str, *, fed: bool) -> None:
    """Print refused start URLs; raise `ConfigError` for a crawl without any requests. *no_memory* says if the server lacks it."""
    for refusal in answers.refusals[:SHOWN_REFUSALS]:
        screen.remark(
            f"[yellow]start URL refused:[/] {escape(screen.printable(f'{refusal.request}: {refusal.reason}'))}"
        )
    if Admission.FULL in answers:
        why = no_memory or "the crawl is full"
        screen.remark(
            f"[yellow]{plural(answers.count(Admission.FULL), 'start URL')} did not fit, because {escape(why)}[/]"
        )
    if not before.accepted and Admission.ADDED not in answers and not fed:
        if no_memory:
            raise StoreUnavailable(f"{before.crawl} cannot start: {no_memory}")
        raise ConfigError(
            f"the crawl {before.crawl!r} has no start URLs: set start=[…] in its file, "
            f"or enqueue URLs: silkline enqueue {before.crawl} URL…"
        )


def _report(start: RunStart, frontier: Frontier, before: Stats, revived: int) -> None:
    crawl, fetching = start.crawl, start.crawl.fetching
    name = escape(crawl.name)
    if revived:
        start.say(f"{name}: {plural(revived, 'dead letter')} revived")
    if start.all_done:
        if not start.only_starts:
            start.say(f"{name} is finished: {counts_in_words(before)}. To start over: --fresh")
        return
    if start.resumed:
        start.say(f"resuming {name}: {counts_in_words(before)}")
    if start.archived:
        _warn_of_no_items(start)
        return
    robots = "robots.txt is obeyed" if fetching.obey_robots else "robots.txt is ignored"
    robots = "offline, all pages come from the cache" if fetching.is_offline else robots
    start.say(
        f"[dim]{_pace(frontier.layout.settings.politeness)} per host "
        f"(politeness=Politeness(…) in {escape(start.file)} changes that); {robots}; "
        f"user agent {escape(screen.printable(fetching.agent(crawl.name)))}[/]"
    )
    if crawl.feeds:
        start.say(f"feeds: {escape(screen.printable(', '.join(map(public_name, crawl.feeds))))}; {_until(crawl)}")
    _warn(start)


def _until(crawl: Crawl) -> str:
    if crawl.until_idle is not None:
        return f"the crawl ends when it was idle for {crawl.until_idle:g} s"
    if not is_endless(crawl.feeds):
        return "the crawl ends when they are read and nothing is left"
    return "the crawl stays open until Ctrl-C; --until-idle 30s ends it when there is nothing to do"


def _pace(pace: Politeness) -> str:
    at_a_time = "1 request at a time" if pace.concurrency == 1 else f"{pace.concurrency} requests at a time"
    return f"{at_a_time} and {pace.delay:g} s between two requests"


def _warn(start: RunStart) -> None:
    """Warn about a missing -o or contact."""
    _warn_of_no_items(start)
    fetching = start.crawl.fetching
    if fetching.contact is None and fetching.user_agent is None:
        start.say(
            "[yellow]no contact:[/] tell site owners how to reach you with "
            'fetching=FetchOptions(contact="https://you.example/crawler")'
        )


def _warn_of_no_items(start: RunStart) -> None:
    if not start.crawl.sink_makers and (lack := lack_of_items(start.outs)):
        what, _, rest = lack.partition(":")
        start.say(f"[yellow]{what}:[/]{rest}")


def counts_in_words(stats: Stats) -> str:
    names = ("done", "ready", "delayed", "leased", "dead")
    counts = [f"{getattr(stats, name):,} {name}" for name in names if getattr(stats, name) or name == "done"]
    return ", ".join(counts)


log = logging.getLogger(__name__)

EVERY = 2.0
SCALE_DOWN_AFTER = 30.0
"""Seconds for which fewer workers must be enough before a worker is stopped."""


async def keep_scaling(frontier: Frontier, fleet: Fleet, target: ScalingTarget) -> None:
    """Adjust the number of workers periodically, until cancelled."""
    delay = ScaleDownDelay(SCALE_DOWN_AFTER)
    while True:
        try:
            await frontier.internal.add_history(Counts(), levels_of(await frontier.admin.stats()))
            advice = await advise(frontier, target)
        except SilklineError as error:
            log.debug("autoscaling: cannot determine the number of workers: %s", error)
        else:
            workers = delay.follow(time.monotonic(), advice.workers)
            if workers != len(fleet.active):
                log.info("autoscaling: %d workers wanted, %d running: %s", workers, len(fleet.active), advice.reason)
                fleet.resize(workers)
        await asyncio.sleep(EVERY)
