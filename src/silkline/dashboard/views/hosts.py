"""Hosts of a crawl: what each has to do, its pace, what it answered, and what holds it back."""

from __future__ import annotations

import time

from starlette.responses import Response

from silkline.core.errors import SilklineError
from silkline.dashboard import queries
from silkline.dashboard.forms import Form
from silkline.dashboard.pages import Page
from silkline.frontier.acts import who_paused
from silkline.frontier.frontier import Frontier
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import LOOKED_AT, enough_hosts
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.sentences import held_back, span
from silkline.frontier.wishes import HostWishes
from silkline.operate.durations import seconds
from silkline.operate.host_filter import HostFilter
from silkline.operate.numbers import whole

PLACES = ("ready", "waiting", "busy", "paused", "resting")
SHOWN = 100
LEAST = 20
"""Hosts that are asked of each shard, however many shards there are."""
LONGEST_ROBOTS = 20_000
"""Bytes of a robots.txt that are shown."""


async def listing(page: Page) -> Response:
    asked = HostFilter(page.asked("q"), page.asked("place"), page.asked("blocked") == "1", page.asked("sort"))
    crawl = await busiest_crawl(page)
    found: list[HostState] = []
    total = 0
    if crawl:
        frontier = await page.house.frontier(crawl)
        states = await frontier.hosts(limit=enough_hosts(frontier.plan, LEAST))
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
    """The host of that very name, which may be too far down the list."""
    try:
        [host] = await frontier.hosts(asked.name.lower())
    except SilklineError:
        return []  # it is only a part of a name
    return [host] if (host.place != "unknown" or host.answers) and asked.matches(host) else []


async def busiest_crawl(page: Page) -> str:
    """The crawl asked for; else the one with the most to do; "" without any."""
    if page.asked("crawl"):
        return (await page.chosen())[0]
    names = await page.crawls()
    if len(names) < 2:
        return names[0] if names else ""
    found = await queries.look(page.house, names)
    return max(found.each, key=lambda one: one.stats.pending).name if found.each else ""


async def show(page: Page) -> Response:
    frontier, host = await page.house.frontier(page.asked("crawl")), page.asked("host")
    [state], acts = await frontier.hosts(host), await frontier.audit(limit=200)
    stats = await frontier.stats()
    [dead] = await frontier.dead_groups("host", name=host)
    robots = await _robots(page, frontier, host)
    return await page.show(
        "host.html",
        "Hosts",
        crawl=frontier.crawl,
        host=state,
        why=held_back(stats.state, state, acts) if state.queued or state.paused else "",
        by=who_paused(acts, host) if state.paused else None,
        dead=dead.letters,
        robots=robots,
        robots_text=_text(robots),
    )


async def _robots(page: Page, frontier: Frontier, host: str) -> RobotsFile:
    """Of https, or else of http."""
    found = await page.house.robots(frontier, f"https://{host}/")
    return found if found.text else await page.house.robots(frontier, f"http://{host}/")


def _text(robots: RobotsFile) -> str:
    return (robots.text or b"")[:LONGEST_ROBOTS].decode(errors="replace")


async def set_pace(page: Page, form: Form) -> Response:
    """A field left empty returns to the crawl's default."""
    pace = HostWishes(
        delay=seconds("The delay", _given(form, "delay")),
        concurrency=_whole(form, "concurrency"),
        burst=_whole(form, "burst"),
    )
    said = " ".join(f"{name}={'default' if value is None else value}" for name, value in pace.items())
    return await _change(page, form, pace, ("set", "set"), said)


async def block(page: Page, form: Form) -> Response:
    duration = seconds("The time", _given(form, "for") or "1h") or 0.0
    pace = HostWishes(block_until=time.time() + duration)
    return await _change(page, form, pace, ("block", "blocked"), f"for {span(duration)}")


async def unblock(page: Page, form: Form) -> Response:
    return await _change(page, form, HostWishes(block_until=None), ("unblock", "unblocked"))


async def pause(page: Page, form: Form) -> Response:
    return await _change(page, form, HostWishes(paused=True), ("pause", "paused"))


async def resume(page: Page, form: Form) -> Response:
    return await _change(page, form, HostWishes(paused=False), ("resume", "resumed"))


async def _change(page: Page, form: Form, pace: HostWishes, words: tuple[str, str], how: str = "") -> Response:
    frontier, host = await page.house.frontier(form.get("crawl", "")), form.get("host", "")
    await frontier.set_host(host, **pace)
    await frontier.note_act(page.by, words[0], f"{host} {how}".strip())
    return page.go("/host", crawl=frontier.crawl, host=host, said=words[1])


def _given(form: Form, name: str) -> str | None:
    return form.get(name, "").strip() or None


def _whole(form: Form, name: str) -> int | None:
    text = _given(form, name)
    return None if text is None else whole(name, text)
