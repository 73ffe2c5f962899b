"""Hosts of a crawl: queues, rate limits, responses, and why they wait."""

from __future__ import annotations

import time

from starlette.responses import Response

from silkline.dashboard import queries
from silkline.dashboard.pages import Form, PageContext
from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.audit import who_paused
from silkline.frontier.admin_verbs.explain_text import held_back, span
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.hosts import LOOKED_AT, HostArguments, HostState, enough_hosts
from silkline.frontier.verbs.robots import RobotsFile
from silkline.ops.parsing import HostFilter, seconds, whole

PLACES = ("ready", "waiting", "busy", "paused", "resting")
SHOWN = 100
LEAST = 20
"""Number of hosts that are read from each shard."""
LONGEST_ROBOTS = 20_000
"""Maximum number of bytes of a robots.txt that are shown."""


async def listing(page: PageContext) -> Response:
    asked = HostFilter(page.asked("q"), page.asked("place"), page.asked("blocked") == "1", page.asked("sort"))
    crawl = await busiest_crawl(page)
    found: list[HostState] = []
    total = 0
    if crawl:
        frontier = await page.server.frontier(crawl)
        states = await frontier.admin.hosts(limit=enough_hosts(frontier.layout, LEAST))
        total = len(states)
        found = asked.choose(states)
        if asked.name and not found:
            found = await _exactly(frontier, asked)
    return await page.show(
        "hosts.html",
        "Hosts",
        crawl=crawl,
        chosen=crawl,
        hosts=found[:SHOWN],
        matching=len(found),
        total=total,
        looked_at=LOOKED_AT,
        longest=max((host.queued for host in found), default=0),
        asked=asked,
        places=PLACES,
    )


async def _exactly(frontier: Frontier, asked: HostFilter) -> list[HostState]:
    """Return the host with exactly this name, even if its queue is too short for the list."""
    try:
        [host] = await frontier.admin.hosts(asked.name.lower())
    except SilklineError:
        return []  # the filter is only a part of a name
    return [host] if (host.place != "unknown" or host.answers) and asked.matches(host) else []


async def busiest_crawl(page: PageContext) -> str:
    """Return the selected crawl, or the one with the longest queue; "" without crawls."""
    if page.asked("crawl"):
        return (await page.chosen())[0]
    names = await page.crawls()
    if len(names) < 2:
        return names[0] if names else ""
    found = await queries.look(page.server, names)
    return max(found.each, key=lambda one: one.stats.pending).name if found.each else ""


async def show(page: PageContext) -> Response:
    frontier, host = await page.server.frontier(page.asked("crawl")), page.asked("host")
    [state], entries = await frontier.admin.hosts(host), await frontier.admin.audit(limit=200)
    stats = await frontier.admin.stats()
    [dead] = await frontier.admin.dead_groups("host", name=host)
    robots = await _robots(page, frontier, host)
    return await page.show(
        "host.html",
        "Hosts",
        crawl=frontier.crawl,
        host=state,
        why=held_back(stats.state, state, entries) if state.queued or state.paused else "",
        by=who_paused(entries, host) if state.paused else None,
        dead=dead.letters,
        robots=robots,
        robots_text=_text(robots),
    )


async def _robots(page: PageContext, frontier: Frontier, host: str) -> RobotsFile:
    """Return the robots.txt of https, or of http."""
    found = await page.server.robots(frontier, f"https://{host}/")
    return found if found.text else await page.server.robots(frontier, f"http://{host}/")


def _text(robots: RobotsFile) -> str:
    return (robots.text or b"")[:LONGEST_ROBOTS].decode(errors="replace")


async def set_pace(page: PageContext, form: Form) -> Response:
    """Set the rate limits of a host. Empty fields restore the default of the crawl."""
    pace = HostArguments(
        delay=seconds("The delay", _given(form, "delay")),
        concurrency=_whole(form, "concurrency"),
        burst=_whole(form, "burst"),
    )
    said = " ".join(f"{name}={'default' if value is None else value}" for name, value in pace.items())
    return await _change(page, form, pace, ("set", "set"), said)


async def block(page: PageContext, form: Form) -> Response:
    duration = seconds("The time", _given(form, "for") or "1h") or 0.0
    pace = HostArguments(block_until=time.time() + duration)
    return await _change(page, form, pace, ("block", "blocked"), f"for {span(duration)}")


async def unblock(page: PageContext, form: Form) -> Response:
    return await _change(page, form, HostArguments(block_until=None), ("unblock", "unblocked"))


async def pause(page: PageContext, form: Form) -> Response:
    return await _change(page, form, HostArguments(paused=True), ("pause", "paused"))


async def resume(page: PageContext, form: Form) -> Response:
    return await _change(page, form, HostArguments(paused=False), ("resume", "resumed"))


async def _change(
    page: PageContext, form: Form, pace: HostArguments, words: tuple[str, str], how: str = ""
) -> Response:
    frontier, host = await page.server.frontier(form.get("crawl", "")), form.get("host", "")
    await frontier.admin.set_host(host, **pace)
    await frontier.internal.append_audit(page.by, words[0], f"{host} {how}".strip())
    return page.go("/host", crawl=frontier.crawl, host=host, said=words[1])


def _given(form: Form, name: str) -> str | None:
    return form.get(name, "").strip() or None


def _whole(form: Form, name: str) -> int | None:
    text = _given(form, name)
    return None if text is None else whole(name, text)
