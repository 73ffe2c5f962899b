"""Endpoints for programs: metrics of all crawls, and the recommended number of workers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from silkline.dashboard.pages import PageContext
from silkline.dashboard.queries import Results, ask_each
from silkline.errors import ConfigError
from silkline.ops.autoscale import ScalingTarget, advise
from silkline.ops.crawl_metrics import crawl_families
from silkline.ops.monitor import read_target
from silkline.ops.prometheus import CONTENT_TYPE, Family, Sample, gauge, render


async def metrics(page: PageContext) -> Response:
    """Return the metrics of all crawls or of the selected one. Workers serve their own metrics."""
    found = await ask_each(page.server, await page.chosen(), crawl_families)
    families = merged(family for families in found.each for family in families)
    return Response(render([*families, *about(found)]), media_type=CONTENT_TYPE)


def about(found: Results[list[Family]]) -> list[Family]:
    """Return metrics about crawls that are missing from the response, so that alerts can notice them."""
    unreadable = [Sample(1, {"crawl": one.name}) for one in found.unreadable]
    return [
        Family("silkline_crawl_unreadable", "gauge", "Crawls that cannot be read.", unreadable),
        gauge("silkline_crawls_unreadable", "Number of crawls that cannot be read.", len(unreadable)),
        gauge("silkline_crawls_left_out", "Crawls left out of this response; use ?crawl=NAME.", found.left_out),
        gauge("silkline_redis_up", "1 if the last call to the server succeeded.", 1),
    ]


def merged(families: Iterable[Family]) -> list[Family]:
    """Merge families of the same name; keep one sample per set of labels."""
    found: dict[str, Family] = {}
    known: set[tuple[str, str, tuple[tuple[str, str], ...]]] = set()
    for family in families:
        kept = found.setdefault(family.name, Family(family.name, family.kind, family.help, []))
        for sample in family.samples:
            identity = family.name, sample.suffix, tuple(sample.labels.items())
            if identity not in known:
                known.add(identity)
                kept.samples.append(sample)
    return list(found.values())


async def autoscale(page: PageContext) -> Response:
    """``?crawl=NAME&target=SECONDS&least=N&most=N``."""
    if not page.asked("crawl"):
        raise ConfigError("name the crawl: /autoscale?crawl=NAME")
    frontier = await page.server.frontier(page.asked("crawl"))
    advice = await advise(frontier, read_target(page.request.query_params, ScalingTarget()))
    return Response(msgspec.json.encode(advice) + b"\n", media_type="application/json")
