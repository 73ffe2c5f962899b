"""What machines ask: metrics of all crawls, and how many workers a crawl can use."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from silkline.core.errors import ConfigError
from silkline.dashboard.pages import Page
from silkline.dashboard.queries import Answers, ask_each
from silkline.metrics.crawl import crawl_families
from silkline.metrics.text import CONTENT_TYPE, Family, Sample, gauge, render
from silkline.operate.autoscale import Target, advise
from silkline.operate.monitor import read_target


async def metrics(page: Page) -> Response:
    """Of every crawl, or of the one that is asked for; those of workers are at the workers."""
    found = await ask_each(page.house, await page.chosen(), crawl_families)
    families = merged(family for families in found.each for family in families)
    return Response(render([*families, *about(found)]), media_type=CONTENT_TYPE)


def about(found: Answers[list[Family]]) -> list[Family]:
    """What is missing: a value that nobody sees must not be taken for one that is well."""
    unreadable = [Sample(1, {"crawl": one.name}) for one in found.unreadable]
    return [
        Family("silkline_crawl_unreadable", "gauge", "Crawls that cannot be read; a page says why.", unreadable),
        gauge("silkline_crawls_unreadable", "How many crawls cannot be read.", len(unreadable)),
        gauge("silkline_crawls_left_out", "Crawls that are not told here; ?crawl= tells them.", found.left_out),
        gauge("silkline_redis_up", "Whether the server answered when it was asked last.", 1),
    ]


def merged(families: Iterable[Family]) -> list[Family]:
    """One family per name, and in it one value per set of labels."""
    found: dict[str, Family] = {}
    for family in families:
        kept = found.setdefault(family.name, Family(family.name, family.kind, family.help, []))
        known = [sample.labels for sample in kept.samples]
        kept.samples.extend(sample for sample in family.samples if sample.labels not in known)
    return list(found.values())


async def autoscale(page: Page) -> Response:
    """``?crawl=NAME&target=SECONDS&least=N&most=N``."""
    if not page.asked("crawl"):
        raise ConfigError("name the crawl: /autoscale?crawl=NAME")
    frontier = await page.house.frontier(page.asked("crawl"))
    advice = await advise(frontier, read_target(page.request.query_params, Target()))
    return Response(msgspec.json.encode(advice) + b"\n", media_type="application/json")
