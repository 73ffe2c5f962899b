"""Dead letters: groups, single letters, export, revive and purge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

from starlette.exceptions import HTTPException
from starlette.responses import Response

from silkline.core.url import mask_passwords
from silkline.dashboard import queries
from silkline.dashboard.pages import Form, PageContext
from silkline.dashboard.views.requests import asked_format, download
from silkline.frontier.admin_verbs.dead_letters import DeadGroup, DeadLetter
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.frontier import Frontier
from silkline.ops import exporting
from silkline.ops.parsing import LOOKED_AT, DeadFilterOptions

SHOWN_GROUPS = 8
SHOWN = 50


def _asked(page: PageContext) -> DeadFilterOptions:
    return DeadFilterOptions(*(page.asked(name) for name in DeadFilterOptions._fields))


async def listing(page: PageContext) -> Response:
    asked, crawl, every = _asked(page), await most_dead(page), page.asked("all") == "1"
    reasons, hosts = list[DeadGroup](), list[DeadGroup]()
    letters: list[DeadLetter] | None = []
    examples: dict[str, DeadLetter] = {}
    stats: Stats | None = None
    if crawl:
        frontier = await page.server.frontier(crawl)
        await frontier.refresh()
        stats = await frontier.admin.stats()
        reasons = await frontier.admin.dead_groups("reason", limit=SHOWN_GROUPS)
        hosts = await frontier.admin.dead_groups("host", limit=SHOWN_GROUPS)
        if not asked.given:
            examples = await frontier.admin.dead_examples([group.name for group in reasons])
        letters = await _matching(page, frontier, asked, None if every else LOOKED_AT)
    total = sum(group.letters for group in reasons)
    return await page.show(
        "dead.html",
        "Dead letters",
        crawl=crawl,
        chosen=crawl,
        asked=asked,
        reasons=reasons,
        hosts=hosts,
        examples=examples,
        letters=letters,
        total=total,
        stats=stats,
        shown=SHOWN,
        after=page.asked("after"),
        every=every,
        looked_at=total if every else min(total, LOOKED_AT),
    )


async def _matching(
    page: PageContext, frontier: Frontier, asked: DeadFilterOptions, newest: int | None
) -> list[DeadLetter] | None:
    """Return the matching letters among the *newest*, or among all; None while the search runs."""
    after = page.asked("after")
    if not asked.given:
        return await frontier.admin.dead(limit=SHOWN, after=after)
    arguments = asked.arguments()

    def seek() -> Awaitable[list[DeadLetter]]:
        return frontier.admin.dead(limit=SHOWN, newest=newest, after=after, **arguments)

    return await page.slow_queries.answer((frontier.crawl, asked, newest, after), seek, again=page.live)


async def export(page: PageContext) -> Response:
    """Send all letters that match the filter as a file, page by page."""
    frontier, arguments, kind = (
        await page.server.frontier(page.asked("crawl")),
        _asked(page).arguments(),
        asked_format(page),
    )

    async def parts() -> AsyncIterator[bytes]:
        yield exporting.heading(kind, exporting.LETTER_FIELDS)
        after = ""
        while some := await frontier.admin.dead(limit=exporting.PAGE, after=after, **arguments):
            yield exporting.lines(kind, map(exporting.letter_row, some), mask_passwords)
            after = some[-1].position

    return download(parts(), kind, f"{frontier.crawl}-dead")


async def most_dead(page: PageContext) -> str:
    """Return the selected crawl, or the one with the most dead letters; "" without crawls."""
    if page.asked("crawl"):
        return (await page.chosen())[0]
    names = await page.crawls()
    if len(names) < 2:
        return names[0] if names else ""
    found = await queries.look(page.server, names)
    return max(found.each, key=lambda one: one.stats.dead).name if found.each else ""


async def letter(page: PageContext) -> Response:
    frontier, number = await page.server.frontier(page.asked("crawl")), page.asked("id")
    found = await frontier.admin.dead(id=number, limit=1)
    if not found:
        raise HTTPException(404, "The dead letter does not exist. It may have been revived, purged or dropped.")
    return await page.show("letter.html", "Dead letters", crawl=frontier.crawl, letter=found[0])


async def ask_revive(page: PageContext) -> Response:
    return await _ask(page, "revive")


async def ask_purge(page: PageContext) -> Response:
    return await _ask(page, "purge")


async def _ask(page: PageContext, verb: str) -> Response:
    """Show how many letters match, and ask for confirmation."""
    frontier, asked = await page.server.frontier(page.asked("crawl")), _asked(page)
    arguments = asked.arguments()
    counted = await page.slow_queries.answer(
        ("count", frontier.crawl, asked), lambda: frontier.admin.count_dead(**arguments)
    )
    if counted is None:
        all_of_them = sum(group.letters for group in await frontier.admin.dead_groups("reason", limit=1))
        return await page.show(
            "dead_counting.html", "Dead letters", crawl=frontier.crawl, verb=verb, asked=asked, total=all_of_them
        )
    return await page.show(
        "dead_confirm.html",
        "Dead letters",
        crawl=frontier.crawl,
        verb=verb,
        asked=asked,
        total=counted.total,
        groups=[("By reason", counted.reasons[:SHOWN_GROUPS]), ("By host", counted.hosts[:SHOWN_GROUPS])],
    )


async def _meant(page: PageContext, form: Form) -> tuple[Frontier, DeadFilterOptions]:
    frontier = await page.server.frontier(form.get("crawl", ""))
    return frontier, DeadFilterOptions(*(form.get(name, "") for name in DeadFilterOptions._fields))


async def revive(page: PageContext, form: Form) -> Response:
    frontier, asked = await _meant(page, form)
    revived = await frontier.admin.revive(**asked.arguments())
    if revived:
        await frontier.internal.append_audit(page.by, "revive", f"{asked.words()}: {revived}")
    return page.go("/dead", crawl=frontier.crawl, said="revived", count=revived)


async def purge(page: PageContext, form: Form) -> Response:
    frontier, asked = await _meant(page, form)
    if form.get("sure") != "yes":
        raise HTTPException(400, "Nothing was deleted: select the check box to confirm.")
    purged = await frontier.admin.purge(**asked.arguments())
    if purged:
        await frontier.internal.append_audit(page.by, "purge", f"{asked.words()}: {purged}")
    return page.go("/dead", crawl=frontier.crawl, said="purged", count=purged)
