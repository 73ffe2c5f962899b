"""List, show, change, pause, resume, cancel and remove crawls."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.responses import Response

from silkline.dashboard import charts, queries
from silkline.dashboard.pages import Form, PageContext
from silkline.dashboard.views import overview
from silkline.frontier.admin_verbs.explain_text import describe_priorities, describe_revisits, describe_waits
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.frontier import Frontier
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.verbs.hosts import enough_hosts
from silkline.frontier.verbs.workers import ALL_WORKERS, have_only_tasks
from silkline.ops import crawl_settings
from silkline.ops.notices import crawl_notices

SHOWN_GROUPS = 6
SHOWN_HOSTS = 8
SHOWN_ENTRIES = 200


async def listing(page: PageContext) -> Response:
    if page.asked("crawl"):
        return page.go(f"/crawls/{(await page.chosen())[0]}")
    found = await queries.look(page.server, await page.crawls())
    sparks = {one.name: charts.spark([point.pages for point in one.points[-61:-1]]) for one in found.each}
    return await page.show("crawls.html", "Crawls", found=found, sparks=sparks)


async def show(page: PageContext) -> Response:
    frontier = await page.server.frontier(_name(page))
    await frontier.refresh()
    one = await queries.crawl_overview(frontier)
    shared, handlers, hosts, reasons, audit_log, workers = await asyncio.gather(
        frontier.admin.run_options(),
        frontier.admin.handlers(),
        frontier.admin.hosts(limit=enough_hosts(frontier.layout, SHOWN_HOSTS)),
        frontier.admin.dead_groups("reason", limit=SHOWN_GROUPS),
        frontier.admin.audit(limit=SHOWN_ENTRIES),
        frontier.admin.workers(limit=ALL_WORKERS),
    )
    only_tasks = have_only_tasks(workers)
    return await page.show(
        "crawl.html",
        "Crawls",
        one=one,
        chosen=one.name,
        shares=overview.shares([one]),
        chart=overview.draw([one.points], "hour", "calls" if only_tasks else "pages")[0],
        handlers=handlers,
        hosts=hosts[:SHOWN_HOSTS],
        reasons=reasons,
        audit_log=audit_log[:8],
        by=one.status.paused_by,
        priorities=describe_priorities(one.stats),
        waited=describe_waits(one.status.activity.hour),
        revisits=describe_revisits(one.status.activity.total),
        notices=crawl_notices(one.status, workers, handlers),
        only_tasks=only_tasks,
        stored=frontier.layout.settings,
        settings=[*_settings(frontier), *_run(shared)],
    )


def _settings(frontier: Frontier) -> list[tuple[str, str]]:
    settings = frontier.layout.settings
    pace, budget = settings.politeness, settings.budget
    limits = [
        f"{limit:,} {what}"
        for limit, what in ((budget.pages, "pages"), (budget.pages_per_host, "pages per host"), (budget.depth, "deep"))
        if limit is not None
    ]
    return [
        ("Politeness", f"{pace.delay:g} s delay, {pace.concurrency} at a time, burst {pace.burst}, per host"),
        ("Budget", ", ".join(limits) or "no limit"),
        ("Capacity", f"{settings.capacity:,} requests"),
        ("Dead limit", f"{settings.dead_limit:,} dead letters" if settings.dead_limit else "no limit"),
        ("Seen filter", str(settings.seen)),
        ("Order", settings.order),
        ("Durability", settings.durability),
        ("Shards", f"{settings.shards}"),
    ]


def _run(shared: RunOptions) -> list[tuple[str, str]]:
    """Rows for the options that a run shares with all workers."""
    if shared.outputs is None:
        return []
    outputs = [*map(str, shared.outputs), *(f"@crawl.sink {name}" for name in shared.sinks)]
    private = "allowed" if shared.allow_private else "refused"
    return [("Outputs", ", ".join(outputs) or "none: items are counted, not stored"), ("Private addresses", private)]


async def pause(page: PageContext, _: Form) -> Response:
    frontier = await page.server.frontier(_name(page))
    await frontier.admin.pause()
    await frontier.internal.append_audit(page.by, "pause")
    return page.go(f"/crawls/{frontier.crawl}", said="paused")


async def resume(page: PageContext, _: Form) -> Response:
    frontier = await page.server.frontier(_name(page))
    await frontier.admin.resume()
    await frontier.internal.append_audit(page.by, "resume")
    return page.go(f"/crawls/{frontier.crawl}", said="resumed")


async def change(page: PageContext, form: Form) -> Response:
    """Change settings. Empty fields are not changed; a lower limit needs the check box."""
    frontier = await page.server.frontier(_name(page))
    await frontier.refresh()
    given = {name: form.get(name, "").strip() for name in crawl_settings.WORDS}
    run = await frontier.admin.run_options()
    read = crawl_settings.read({name: text for name, text in given.items() if text})
    wanted = crawl_settings.want(frontier.layout.settings, run, read)
    if wanted.tighter and form.get("sure") != "yes":
        raise HTTPException(400, f"Nothing was changed: a lower limit ({wanted.words}) must be confirmed in the form.")
    if wanted.touches(*crawl_settings.PACE):
        await frontier.admin.set_politeness(wanted.politeness)
    if wanted.touches(*crawl_settings.LIMITS):
        await frontier.admin.set_budget(wanted.budget)
    if wanted.touches("capacity"):
        await frontier.admin.set_capacity(wanted.capacity)
    if wanted.touches(crawl_settings.DEAD_LIMIT):
        await frontier.admin.set_dead_limit(wanted.dead_limit)
    if wanted.changes:
        await frontier.internal.append_audit(page.by, "set", wanted.words)
    return page.go(f"/crawls/{frontier.crawl}", said="changed" if wanted.changes else "same")


async def ask_cancel(page: PageContext) -> Response:
    stats = await _stats(page)
    text = f"{stats.pending:,} queued requests will be dropped, and the crawl will accept no more."
    return await page.show("confirm.html", "Crawls", stats=stats, verb="cancel", text=text)


async def cancel(page: PageContext, form: Form) -> Response:
    name = _confirmed(page, form)
    frontier = await page.server.frontier(name)
    dropped = await frontier.admin.cancel()
    await frontier.internal.append_audit(page.by, "cancel")
    return page.go(f"/crawls/{name}", said="cancelled", count=dropped)


async def ask_remove(page: PageContext) -> Response:
    stats = await _stats(page)
    text = (
        f"The crawl will be deleted: {stats.pending:,} waiting, {stats.leased:,} in progress, {stats.dead:,} dead and "
        f"{stats.seen:,} seen. Stop its workers first: a worker that restarts may create the crawl again."
    )
    return await page.show("confirm.html", "Crawls", stats=stats, verb="remove", text=text)


async def remove(page: PageContext, form: Form) -> Response:
    name = _confirmed(page, form)
    await (await page.server.frontier(name)).admin.remove()
    await page.server.note_removal(page.by, name)
    return page.go("/crawls", said="removed")


def _name(page: PageContext) -> str:
    return str(page.request.path_params["crawl"])


async def _stats(page: PageContext) -> Stats:
    return await (await page.server.frontier(_name(page))).admin.stats()


def _confirmed(page: PageContext, form: Form) -> str:
    """Check that the user typed the crawl's name to confirm; return it."""
    name = _name(page)
    if form.get("name") != name:
        raise HTTPException(400, f"Nothing was changed: type {name} to confirm.")
    return name
