"""A run of a crawl: create or resume it, enqueue its start requests, work on it, and return a summary.

``silkline run`` takes these steps with a fleet of processes; `run` takes them in this one, for programs::

    if __name__ == "__main__":
        run(crawl, "books.jsonl")

`Crawl.run` takes them in an event loop that runs already, as in Jupyter or a web application.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.errors import ConfigError, SettingsConflict, SilklineError, UnknownCrawl
from silkline.frontier.admin_verbs.audit import who_paused, why_paused_itself
from silkline.frontier.arguments import read_crawl_arguments
from silkline.frontier.frontier import Frontier
from silkline.frontier.overflow import LateOverflow, overflow_of, overflow_path
from silkline.frontier.store.settings import Settings
from silkline.frontier.verbs.enqueue import Admissions
from silkline.frontier.verbs.history import unused_handlers
from silkline.runtime.counters import Counters
from silkline.runtime.event_loop import run_async
from silkline.worker.crawl.crawl import Crawl, as_requests, check_private, resolve
from silkline.worker.options import WorkerOptions
from silkline.worker.process.outputs import share_options
from silkline.worker.process.process import Hooks, open_sinks, work
from silkline.worker.process.stuck import StopsWhenStuck
from silkline.worker.process.summary import MOST_REASONS, DeadReason, RunInfo, Summary, summarize

log = logging.getLogger(__name__)

CHANGEABLE = ("budget", "capacity", "dead_limit")
"""Settings of a stored crawl that a run updates from its file, besides the politeness."""

LOOKED_AT = 200
"""The newest entries of the audit log that are searched for the one that paused the crawl."""


class OpenedCrawl(NamedTuple):
    """The frontier of a crawl, whether it is resumed or was removed first, and its previous politeness if that has changed."""

    frontier: Frontier
    resumed: bool
    politeness_was: Politeness | None = None
    removed: bool = False
    changes: Sequence[str] = ()
    """The other stored settings that were updated from the file, as text."""


def run(
    crawl: Crawl, *outs: str, redis: str | None = None, options: WorkerOptions | None = None, fresh: bool = False
) -> Summary:
    """Crawl in this process until the crawl is finished, or until Ctrl-C. A crawl that was stopped is resumed.

    *outs* are the places for items, as in ``silkline run -o``. With *fresh*, the crawl is removed first. Without *redis*, the
    embedded server stores it in ``.silkline``. Where an event loop runs already, write ``await crawl.run(…)`` instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        summary: Summary = run_async(run_here(crawl, outs, redis, options, fresh=fresh))
        return summary
    raise ConfigError(
        "silkline.run starts an event loop, but one runs here already (Jupyter, FastAPI, async def); write: await crawl.run(…)"
    )


async def run_here(
    crawl: Crawl,
    outs: Sequence[str],
    redis: str | None = None,
    options: WorkerOptions | None = None,
    *,
    fresh: bool = False,
    own_process: bool = True,
) -> Summary:
    """Crawl in the running event loop; see `run` and `Crawl.run`."""
    began = time.monotonic()
    if not isinstance(crawl, Crawl):
        raise ConfigError(f"run takes a Crawl, got {crawl!r:.100}; to run a file: silkline run FILE")
    crawl.check_ready()
    frontier, resumed, *_ = await open_to_run(crawl, redis, fresh=fresh, overflow=overflow_path(None, redis))
    async with frontier:
        outs = await share_options(crawl, outs, frontier, log.info)
        await enqueue_starts(crawl, frontier)
        await resume_if_it_paused_itself(frontier, "silkline.run")
        alone = StopsWhenStuck()
        hooks = Hooks(alongside=alone.alongside)
        overflow = overflow_of(None, redis)
        done = await work(crawl, redis, outs, options=options, hooks=hooks, overflow=overflow, own_process=own_process)
        run_info = RunInfo(seconds=time.monotonic() - began, resumed=resumed, waits_for=alone.waits_for)
        return await conclude(crawl, frontier, done.counters, run_info, outs)


async def open_to_run(
    crawl: Crawl, redis: str | None, *, fresh: bool = False, overflow: Path | None = None
) -> OpenedCrawl:
    """Open the crawl, or create it. An existing one gets the politeness, budget, capacity and dead limit of the file, and keeps all else.

    With *fresh* it is removed first, with the links in its *overflow* file.
    """
    waiting = LateOverflow(overflow) if fresh and overflow else None
    try:
        frontier = await Frontier.open(redis, crawl=crawl.name, create=False, overflow=waiting)
    except UnknownCrawl:
        check_private(crawl, crawl.listed_starts())
        return OpenedCrawl(await _create(crawl, redis), resumed=False)
    try:
        if not fresh:
            _check_settings(crawl, frontier.layout.settings)
            return await _resume(crawl, frontier)
        check_private(crawl, crawl.listed_starts())
        await frontier.admin.remove()
    except BaseException:
        await frontier.close()
        raise
    created = await _create(crawl, redis)
    await frontier.close()  # only now: an embedded server stops with its last client
    return OpenedCrawl(created, resumed=False, removed=True)


async def _resume(crawl: Crawl, frontier: Frontier) -> OpenedCrawl:
    before, arguments = frontier.layout.settings, read_crawl_arguments(crawl.arguments)
    changes = [
        change
        for name in CHANGEABLE
        if name in arguments
        for change in _changes(name, getattr(before, name), arguments[name])
    ]
    if before.budget != crawl.budget:
        await frontier.admin.set_budget(crawl.budget)
    if before.capacity != arguments.get("capacity", before.capacity):
        await frontier.admin.set_capacity(arguments["capacity"])
    if before.dead_limit != arguments.get("dead_limit", before.dead_limit):
        await frontier.admin.set_dead_limit(arguments["dead_limit"])
    if before.politeness == crawl.politeness:
        return OpenedCrawl(frontier, resumed=True, changes=changes)
    await frontier.admin.set_politeness(crawl.politeness)
    return OpenedCrawl(frontier, resumed=True, politeness_was=before.politeness, changes=changes)


async def _create(crawl: Crawl, redis: str | None) -> Frontier:
    return await Frontier.open(redis, crawl=crawl.name, **crawl.arguments)


def _check_settings(crawl: Crawl, stored: Settings) -> None:
    changes = [
        change
        for name, value in read_crawl_arguments(crawl.arguments).items()
        if name not in ("politeness", *CHANGEABLE)
        for change in _changes(name, getattr(stored, name), value)
    ]
    if changes:
        raise SettingsConflict(
            f"the crawl {crawl.name!r} was created with other settings: {'; '.join(changes)}. A crawl keeps these settings: "
            "set them back, or start over with --fresh, or give it another name"
        )


def _changes(name: str, stored: Any, wanted: Any) -> list[str]:
    """Return the differences as text, by field if there are fields."""
    if stored == wanted:
        return []
    if name != "budget":
        return [f"{name} was {stored}, now {wanted}"]
    was, now = msgspec.structs.asdict(stored), msgspec.structs.asdict(wanted)
    return [
        f"{name} {field} was {_limit(was[field])}, now {_limit(now[field])}"
        for field in was
        if was[field] != now[field]
    ]


def _limit(value: int | None) -> str:
    return "unlimited" if value is None else f"{value:,}"


async def enqueue_starts(crawl: Crawl, frontier: Frontier) -> Admissions:
    """Enqueue the start requests and those of the `on_start` hooks. Requests that were seen before change nothing."""
    requests: list[Request] = await _called("the start of the crawl", crawl.starts)
    for hook in crawl.start_hooks:
        given = await _called(f"on_start hook {_name(hook)}", hook)
        requests += as_requests(given)
    check_private(crawl, requests)
    return await frontier.enqueue(requests)


async def conclude(
    crawl: Crawl, frontier: Frontier, counters: Counters, run_info: RunInfo, outs: Sequence[str]
) -> Summary:
    """Return the summary of a run.

    If the crawl is finished, its sinks are finished first; then the `on_finish` hooks are called.
    """
    finished = await frontier.finished()
    stats = await frontier.admin.stats()
    dead = await _dead_reasons(frontier) if stats.dead else []
    paused = await who_paused_it(frontier) if stats.state == "paused" else ""
    if finished:
        await _finish_sinks(crawl, outs, frontier.url)
    over = finished and not stats.pages_spent
    unused = unused_handlers(crawl.handlers.names, await frontier.admin.handlers()) if over else []
    tasks = crawl.tasks.names
    summary = summarize(stats, counters, run_info, dead, finished=finished, paused=paused, unused=unused, tasks=tasks)
    for hook in crawl.finish_hooks:
        await _called(f"on_finish hook {_name(hook)}", hook, summary)
    return summary


async def _dead_reasons(frontier: Frontier) -> list[DeadReason]:
    """Return the largest groups of dead letters, each with an example."""
    groups = [group for group in await frontier.admin.dead_groups(limit=MOST_REASONS) if group.name]
    examples = await frontier.admin.dead_examples([group.name for group in groups])
    reasons = []
    for group in groups:
        letter = examples.get(group.name)
        example = (letter.url, letter.reason, letter.id) if letter else ("", "", "")
        reasons.append(DeadReason(group.name, group.letters, *example))
    return reasons


async def who_paused_it(frontier: Frontier) -> str:
    """Return why a crawl paused itself, or the operator who paused it: ``by mira@ops``."""
    entries = await frontier.admin.audit(limit=LOOKED_AT)
    entry = who_paused(entries)
    return why_paused_itself(entries) or (f"by {entry.by}" if entry else "by an operator")


async def resume_if_it_paused_itself(frontier: Frontier, by: str) -> str | None:
    """Resume a crawl that a worker paused, because its file may be correct now. Returns why it was paused.

    A crawl that an operator paused stays paused.
    """
    why = why_paused_itself(await frontier.admin.audit(limit=LOOKED_AT))
    if why:
        await frontier.admin.resume()
        await frontier.internal.append_audit(by, "resume")
    return why


async def _finish_sinks(crawl: Crawl, outs: Sequence[str], redis: str | None) -> None:
    async with open_sinks(outs, redis, crawl.sink_makers) as sinks:
        for sink in sinks:
            finish = getattr(sink, "finish", None)
            if finish:
                await finish()


async def _called(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of the user's function; raise its errors as a `ConfigError`."""
    try:
        return await resolve(function(*arguments))
    except SilklineError:
        raise
    except Exception as error:
        log.debug("%s failed", what, exc_info=True)
        *_, last = traceback.extract_tb(error.__traceback__)
        place = f"{last.filename}, line {last.lineno}"
        raise ConfigError(f"{what} failed: {type(error).__name__}: {error} ({place})") from error


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__name__", repr(hook))
