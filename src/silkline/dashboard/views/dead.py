"""Dead letters: in groups, one by one, and back to life: all that match a filter, counted first."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.exceptions import HTTPException
from starlette.responses import Response

from silkline.dashboard import queries
from silkline.dashboard.forms import Form
from silkline.dashboard.pages import Page
from silkline.frontier.dead_letters import DeadGroup
from silkline.frontier.frontier import Frontier
from silkline.frontier.letters import DeadLetter
from silkline.operate.dead_filter import LOOKED_AT, DeadAsked

SHOWN_GROUPS = 8
SHOWN = 50


def _asked(page: Page) -> DeadAsked:
    return DeadAsked(*(page.asked(name) for name in DeadAsked._fields))


async def listing(page: Page) -> Response:
    asked, crawl, every = _asked(page), await most_dead(page), page.asked("all") == "1"
    reasons, hosts = list[DeadGroup](), list[DeadGroup]()
    letters: list[DeadLetter] | None = []
    if crawl:
        frontier = await page.house.frontier(crawl)
        reasons = await frontier.dead_groups("reason", limit=SHOWN_GROUPS)
        hosts = await frontier.dead_groups("host", limit=SHOWN_GROUPS)
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
        letters=letters,
        total=total,
        shown=SHOWN,
        looked_at=total if every else min(total, LOOKED_AT),
    )


async def _matching(page: Page, frontier: Frontier, asked: DeadAsked, newest: int | None) -> list[DeadLetter] | None:
    """Of the *newest* so many, or of all; None while they are sought, which takes a while if hardly any match."""
    if not asked.given:
        return await frontier.dead(limit=SHOWN)
    wishes = asked.wishes()

    def seek() -> Awaitable[list[DeadLetter]]:
        return frontier.dead(limit=SHOWN, newest=newest, **wishes)

    return await page.background.answer((frontier.crawl, asked, newest), seek, again=page.live)


async def most_dead(page: Page) -> str:
    """The crawl asked for; else the one with the most dead letters; "" without any."""
    if page.asked("crawl"):
        return (await page.chosen())[0]
    names = await page.crawls()
    if len(names) < 2:
        return names[0] if names else ""
    found = await queries.look(page.house, names)
    return max(found.each, key=lambda one: one.stats.dead).name if found.each else ""


async def letter(page: Page) -> Response:
    frontier, number = await page.house.frontier(page.asked("crawl")), page.asked("id")
    found = await frontier.dead(id=number, limit=1)
    if not found:
        raise HTTPException(404, "There is no such dead letter: it was revived or purged meanwhile.")
    return await page.show("letter.html", "Dead letters", crawl=frontier.crawl, letter=found[0])


async def ask_revive(page: Page) -> Response:
    return await _ask(page, "revive")


async def ask_purge(page: Page) -> Response:
    return await _ask(page, "purge")


async def _ask(page: Page, verb: str) -> Response:
    """Count first: what would be done, before it is. Of very many that takes a while."""
    frontier, asked = await page.house.frontier(page.asked("crawl")), _asked(page)
    wishes = asked.wishes()
    counted = await page.background.answer(("count", frontier.crawl, asked), lambda: frontier.count_dead(**wishes))
    if counted is None:
        all_of_them = sum(group.letters for group in await frontier.dead_groups("reason", limit=1))
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


async def _meant(page: Page, form: Form) -> tuple[Frontier, DeadAsked]:
    frontier = await page.house.frontier(form.get("crawl", ""))
    return frontier, DeadAsked(*(form.get(name, "") for name in DeadAsked._fields))


async def revive(page: Page, form: Form) -> Response:
    frontier, asked = await _meant(page, form)
    revived = await frontier.revive(**asked.wishes())
    if revived:
        await frontier.note_act(page.by, "revive", f"{asked.words()}: {revived}")
    return page.go("/dead", crawl=frontier.crawl, said="revived", count=revived)


async def purge(page: Page, form: Form) -> Response:
    frontier, asked = await _meant(page, form)
    if form.get("sure") != "yes":
        raise HTTPException(400, "Nothing was deleted: tick the box to confirm.")
    purged = await frontier.purge(**asked.wishes())
    if purged:
        await frontier.note_act(page.by, "purge", f"{asked.words()}: {purged}")
    return page.go("/dead", crawl=frontier.crawl, said="purged", count=purged)
