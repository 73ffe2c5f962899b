"""A run of a crawl: create or resume it, enqueue its starts, have it worked on, and account for it.

``silkline run`` takes these steps with a fleet of processes; `run` takes them in this one, for programs::

    if __name__ == "__main__":
        run(crawl, "books.jsonl")
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from silkline.core.errors import ConfigError, SilklineError, UnknownCrawl
from silkline.core.lease import Admissions
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.frontier.frontier import Frontier
from silkline.frontier.overflow import LateOverflow
from silkline.frontier.settings import Settings
from silkline.frontier.wishes import read_wishes
from silkline.worker.crawl import Crawl, as_requests, resolve
from silkline.worker.pace import Pace
from silkline.worker.process import open_sinks, run_async, work
from silkline.worker.spill import overflow_of, place_of
from silkline.worker.summary import READ_LETTERS, Course, Summary, summarise
from silkline.worker.tally import Tally

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """A crawl's frontier, whether the crawl goes on or was removed first, and its politeness until now if that was another."""

    frontier: Frontier
    resumed: bool
    politeness_was: Politeness | None = None
    removed: bool = False


def run(crawl: Crawl, *outs: str, redis: str | None = None, pace: Pace | None = None, fresh: bool = False) -> Summary:
    """Crawl in this process until all is done, or until Ctrl-C; a crawl that was stopped goes on where it was.

    *outs* say where items go, as ``silkline run -o`` has them. With *fresh* all that the crawl has done is forgotten
    first. Without *redis* the embedded server keeps it in ``.silkline``.
    """
    summary: Summary = run_async(_run(crawl, outs, redis, pace, fresh=fresh))
    return summary


async def _run(crawl: Crawl, outs: Sequence[str], redis: str | None, pace: Pace | None, *, fresh: bool) -> Summary:
    began = time.monotonic()
    crawl.check_ready()
    frontier, resumed, *_ = await open_to_run(crawl, redis, fresh=fresh, overflow=place_of(None, redis))
    async with frontier:
        await enqueue_starts(crawl, frontier)
        tally = await work(crawl, redis, outs, pace=pace, overflow=overflow_of(None, redis))
        course = Course(seconds=time.monotonic() - began, resumed=resumed)
        return await conclude(crawl, frontier, tally, course, outs)


async def open_to_run(crawl: Crawl, redis: str | None, *, fresh: bool = False, overflow: Path | None = None) -> Opened:
    """The crawl, created if need be. One that is there takes on the file's politeness; all else it keeps.

    With *fresh* it is removed first, with what waits at the place of its *overflow*.
    """
    waiting = LateOverflow(overflow) if fresh and overflow else None
    try:
        frontier = await Frontier.open(redis, crawl=crawl.name, create=False, overflow=waiting)
    except UnknownCrawl:
        return Opened(await _create(crawl, redis), resumed=False)
    try:
        if not fresh:
            _check_settings(crawl, frontier.plan.settings)
            return await _resume(crawl, frontier)
        await frontier.remove()
    except BaseException:
        await frontier.close()
        raise
    created = await _create(crawl, redis)
    await frontier.close()  # only now: an embedded server stops when nobody uses it
    return Opened(created, resumed=False, removed=True)


async def _resume(crawl: Crawl, frontier: Frontier) -> Opened:
    before = frontier.plan.settings.politeness
    if before == crawl.politeness:
        return Opened(frontier, resumed=True)
    await frontier.set_politeness(crawl.politeness)
    return Opened(frontier, resumed=True, politeness_was=before)


async def _create(crawl: Crawl, redis: str | None) -> Frontier:
    return await Frontier.open(redis, crawl=crawl.name, **crawl.wishes)


def _check_settings(crawl: Crawl, stored: Settings) -> None:
    changes = [
        change
        for name, wish in read_wishes(crawl.wishes).items()
        if name != "politeness"
        for change in _changes(name, getattr(stored, name), wish)
    ]
    if changes:
        raise ConfigError(
            f"the crawl {crawl.name!r} was created with other settings: {'; '.join(changes)}. A crawl keeps these settings: "
            "set them back, or start over with --fresh, or give it another name"
        )


def _changes(name: str, stored: Any, wish: Any) -> list[str]:
    """What differs, field by field where there are fields."""
    if stored == wish:
        return []
    if name != "budget":
        return [f"{name} was {stored}, now {wish}"]
    was, now = msgspec.structs.asdict(stored), msgspec.structs.asdict(wish)
    return [f"{name} {field} was {was[field]}, now {now[field]}" for field in was if was[field] != now[field]]


async def enqueue_starts(crawl: Crawl, frontier: Frontier) -> Admissions:
    """Offer the start requests and what the `on_start` hooks give. Those that were seen before change nothing."""
    requests: list[Request] = await _called("the start of the crawl", crawl.starts)
    for hook in crawl.start_hooks:
        given = await _called(f"on_start hook {_name(hook)}", hook)
        requests += as_requests(given)
    return await frontier.enqueue(requests)


async def conclude(crawl: Crawl, frontier: Frontier, tally: Tally, course: Course, outs: Sequence[str]) -> Summary:
    """Account for a run. If the crawl is finished its sinks are told so; then the `on_finish` hooks have their say."""
    finished = await frontier.finished()
    stats = await frontier.stats()
    letters = await frontier.dead(limit=READ_LETTERS) if stats.dead else []
    if finished:
        await _finish_sinks(crawl, outs, frontier.url)
    summary = summarise(stats, tally, course, letters, finished=finished)
    for hook in crawl.finish_hooks:
        await _called(f"on_finish hook {_name(hook)}", hook, summary)
    return summary


async def _finish_sinks(crawl: Crawl, outs: Sequence[str], redis: str | None) -> None:
    async with open_sinks(outs, redis, crawl.sink_makers) as sinks:
        for sink in sinks:
            finish = getattr(sink, "finish", None)
            if finish:
                await finish()


async def _called(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the user's function gives; its errors as a sentence."""
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
