"""The overview page."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from silkline.core.units import format_latency
from silkline.dashboard import charts, formatting, queries
from silkline.dashboard.charts import Chart, Frame, Series
from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import SPANS, CrawlOverview
from silkline.frontier.admin_verbs.stats import STATES
from silkline.frontier.verbs.history import Point, quantile
from silkline.ops.notices import memory_notice

SHOWN_CRAWLS = 5
"""Number of crawls in trouble with a banner."""


class Share(NamedTuple):
    """A segment of a bar of width 1000."""

    name: str
    amount: int
    x: float
    width: float


async def show(page: PageContext) -> Response:
    since: queries.Range = "day" if page.asked("range") == "day" else "hour"
    found, memory = await asyncio.gather(queries.look(page.server, await page.chosen()), page.server.memory())
    standings = found.each
    hour = [standing.points for standing in standings]
    late = queries.summed(hour)
    return await page.show(
        "overview.html",
        "Overview",
        found=found,
        totals=totals(standings),
        shares=shares(standings),
        pace=queries.pages_per_second(late),
        failing=queries.error_rate(late),
        spark=charts.spark([point.pages for point in late[-61:-1]]),
        oldest=max(standings, key=lambda one: one.demand.oldest, default=None),
        of_server=memory_notice(memory, [standing.status for standing in standings]),
        troubled=(troubled := [one for one in standings if one.notices])[:SHOWN_CRAWLS],
        more=len(troubled[SHOWN_CRAWLS:]),
        items=sum(one.status.activity.items for one in standings),
        drains=drains(standings),
        memory=memory,
        charts=draw(hour if since == "hour" else await queries.days(standings), since),
        since=since,
    )


def totals(standings: Sequence[CrawlOverview]) -> dict[str, int]:
    counted = (*STATES, "accepted", "duplicates", "overflow", "rescued", "seen")
    return {name: sum(getattr(one.stats, name) for one in standings) for name in counted}


def shares(standings: Sequence[CrawlOverview]) -> list[Share]:
    """Return the number of requests by state, as segments of a bar."""
    counts = {name: sum(getattr(one.stats, name) for one in standings) for name in STATES}
    total, at, found = sum(counts.values()) or 1, 0.0, []
    for name, count in counts.items():
        width = 1000 * count / total
        found.append(Share(name, count, round(at, 2), round(width, 2)))
        at += width
    return found


def drains(standings: Sequence[CrawlOverview]) -> dict[str, str]:
    """Describe the time left: that of the crawl that ends last. Paused crawls do not count."""
    each = [one.drains_in for one in standings if one.stats.state == "open"]
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return {"value": "–", "note": "not known yet"}
    longest = max(known, default=0.0)
    if longest == 0:
        return {"value": "0 s", "note": "nothing left to do"}
    if math.isinf(longest):
        return {"value": "∞", "note": "the queue is growing"}
    return {"value": formatting.lasting(longest), "note": "at the current speed"}


def draw(histories: Sequence[Sequence[Point]], since: queries.Range, done: str = "done") -> list[Chart]:
    """Draw all charts. *done* says what the crawls complete: pages, calls, or both."""
    points = queries.summed(histories)[:-1]  # the newest step is still in progress
    times = [point.time for point in points]
    step = SPANS[since][1]

    def each(name: str, unit: float = step) -> list[float | None]:
        return [getattr(point, name) / unit for point in points]

    statuses = [Series(f"{kind}xx", f"status-{kind}", each(f"status_{kind}xx")) for kind in (5, 4, 3, 2)]
    return [
        charts.draw(
            done.capitalize(),
            Frame(times, formatting.rate),
            [Series(done, "pages", each("pages")), Series("errors", "errors", each("errors"))],
        ),
        charts.draw("Queue", Frame(times), [Series("left", "left", queries.depths(histories, times))]),
        charts.draw("Responses by status", Frame(times, formatting.rate), statuses, stacked=True),
        charts.draw(
            "Response time",
            Frame(times, format_latency),
            [
                Series(f"p{part}", f"p{part}", [quantile(point, part / 100) for point in points])
                for part in (50, 95, 99)
            ],
        ),
        charts.draw("Downloaded", Frame(times, formatting.traffic, 1024), [Series("bytes", "bytes", each("bytes"))]),
        charts.draw("Items", Frame(times, formatting.rate), [Series("items", "items", each("items"))]),
    ]
