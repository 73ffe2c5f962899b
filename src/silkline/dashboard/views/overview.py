"""The first page: how it goes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from silkline.dashboard import charts, queries, words
from silkline.dashboard.charts import Chart, Frame, Line
from silkline.dashboard.pages import Page
from silkline.dashboard.queries import SPANS, Standing
from silkline.frontier.history import HISTOGRAM, LATENCY_BOUNDS, Point
from silkline.frontier.inspection import STATES


class Share(NamedTuple):
    """A part of all requests, as a piece of a bar of 1000."""

    name: str
    amount: int
    x: float
    width: float


async def show(page: Page) -> Response:
    since: queries.Range = "day" if page.asked("range") == "day" else "hour"
    found, memory = await asyncio.gather(queries.look(page.house, await page.chosen()), page.house.memory())
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
        oldest=max((standing.demand.oldest for standing in standings), default=0.0),
        drains=drains(standings),
        memory=memory,
        charts=draw(hour if since == "hour" else await queries.days(standings), since),
        since=since,
    )


def totals(standings: Sequence[Standing]) -> dict[str, int]:
    counted = (*STATES, "accepted", "duplicates", "overflow", "rescued", "seen")
    return {name: sum(getattr(one.stats, name) for one in standings) for name in counted}


def shares(standings: Sequence[Standing]) -> list[Share]:
    """How many requests are in which state, side by side."""
    counts = {name: sum(getattr(one.stats, name) for one in standings) for name in STATES}
    total, at, found = sum(counts.values()) or 1, 0.0, []
    for name, count in counts.items():
        width = 1000 * count / total
        found.append(Share(name, count, round(at, 2), round(width, 2)))
        at += width
    return found


def drains(standings: Sequence[Standing]) -> dict[str, str]:
    """When all will be done, in words: the last crawl to end says it. Those that are paused do not count."""
    each = [one.drains_in for one in standings if one.stats.state == "open"]
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return {"value": "–", "note": "not known yet"}
    longest = max(known, default=0.0)
    if longest == 0:
        return {"value": "0 s", "note": "nothing is left to do"}
    if math.isinf(longest):
        return {"value": "∞", "note": "more comes than goes"}
    return {"value": words.lasting(longest), "note": "as in the last 10 min"}


def draw(histories: Sequence[Sequence[Point]], since: queries.Range) -> list[Chart]:
    points = queries.summed(histories)[:-1]  # the newest step has only begun
    times = [point.time for point in points]
    step = SPANS[since][1]

    def each(name: str, unit: float = step) -> list[float | None]:
        return [getattr(point, name) / unit for point in points]

    statuses = [Line(f"{kind}xx", f"status-{kind}", each(f"status_{kind}xx")) for kind in (5, 4, 3, 2)]
    return [
        charts.draw(
            "Pages",
            Frame(times, words.rate),
            [Line("pages", "pages", each("pages")), Line("errors", "errors", each("errors"))],
        ),
        charts.draw("Left to do", Frame(times), [Line("left", "left", queries.depths(histories, times))]),
        charts.draw("Answers by status", Frame(times, words.rate), statuses, stacked=True),
        charts.draw(
            "Time to answer",
            Frame(times, _say_latency),
            [
                Line("average", "mean", [point.latency for point in points]),
                Line("95 of 100 within", "p95", [within(point, 0.95) for point in points]),
            ],
        ),
        charts.draw("Downloaded", Frame(times, words.traffic), [Line("bytes", "bytes", each("bytes"))]),
        charts.draw("Items", Frame(times, words.rate), [Line("items", "items", each("items"))]),
    ]


def _say_latency(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.3g} s"


def within(point: Point, part: float) -> float | None:
    """Seconds within which this part of the answers came, as the histogram tells; None without answers."""
    if not point.fetched:
        return None
    counted, wanted = 0, part * point.fetched
    for name, bound in zip(HISTOGRAM, LATENCY_BOUNDS, strict=False):
        counted += getattr(point, name)
        if counted >= wanted:
            return bound
    return LATENCY_BOUNDS[-1]
