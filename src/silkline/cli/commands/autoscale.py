"""``silkline autoscale``: recommend a number of workers for a crawl."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.logs import LogJson, log_to_screen
from silkline.cli.options.operator import CrawlName
from silkline.cli.options.server import Json, Redis, address, existing
from silkline.cli.run.waiting import Awaited, embedded_server, stop_requested, wait_for_crawl
from silkline.frontier.frontier import Frontier
from silkline.ops.autoscale import Advice, ScalingTarget, advise
from silkline.ops.http_server import ListenAddress
from silkline.ops.monitor import Monitor


def autoscale(  # noqa: PLR0913 - each is an option of the command
    crawl: CrawlName,
    /,
    *,
    target: Annotated[float, Parameter(validator=validators.Number(gte=10, lte=86_400))] = ScalingTarget().drain,
    least: Annotated[int, Parameter(validator=validators.Number(gte=0))] = ScalingTarget().least,
    most: Annotated[int, Parameter(validator=validators.Number(gte=0))] = ScalingTarget().most,
    serve: Annotated[str | None, Parameter(show_default=False)] = None,
    log_json: LogJson = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Recommend a number of workers for a crawl.

    The number is the smaller of two: the workers needed to finish the queue
    within the target time at the measured speed, and the workers needed to
    run all pages in parallel that the rate limits of the hosts allow.

    Examples:
      silkline autoscale books --target 1800
      silkline autoscale books --serve 0.0.0.0:9090

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    target
        Seconds within which the queue should be finished.
    least
        Minimum number of workers.
    most
        Maximum number of workers.
    serve
        Keep running and serve /autoscale, /metrics, /healthz and /readyz at [HOST:]PORT.
    json
        Print the recommendation as JSON.
    """
    scaling, url = (
        ScalingTarget(drain=target, least=least, most=most),
        existing(redis) if serve is None else address(redis),
    )
    if log_json or serve is not None:
        log_to_screen("info", as_json=log_json, crawl=crawl)
    if serve is not None:
        asyncio.run(_serve(url, crawl, scaling, ListenAddress.parse(serve)))
        return Exit.OK
    advice = asyncio.run(_ask(url, crawl, scaling))
    screen.print_json(msgspec.to_builtins(advice)) if json else _show(advice)
    return Exit.OK


async def _ask(url: str, crawl: str, target: ScalingTarget) -> Advice:
    async with await Frontier.open(url, crawl=crawl, create=False) as frontier:
        return await advise(frontier, target)


async def _serve(url: str, crawl: str, target: ScalingTarget, place: ListenAddress) -> None:
    """Serve the recommendation until SIGTERM or Ctrl-C. Until the crawl exists, no workers are recommended."""
    awaited = Awaited(crawl, url, "silkline start FILE")
    async with embedded_server(url):
        if await wait_for_crawl(awaited, place, target):
            await _serve_until_stopped(url, crawl, target, place)


async def _serve_until_stopped(url: str, crawl: str, target: ScalingTarget, place: ListenAddress) -> None:
    async with (
        await Frontier.open(url, crawl=crawl, create=False) as frontier,
        Monitor(place, frontier, None, target) as http,
        stop_requested() as stop,
    ):
        screen.remark(f"serving /autoscale, /metrics, /healthz and /readyz for {crawl} on port {http.port}")
        with suppress(asyncio.CancelledError):
            await stop.wait()


def _show(advice: Advice) -> None:
    workers = "worker" if advice.workers == 1 else "workers"
    screen.show(f"[bold]{advice.workers}[/] {workers} recommended, {advice.running} running: {advice.reason}")
    screen.show()
    rows = [
        ("left to do", f"{advice.depth:,}"),
        ("in progress", f"{advice.in_flight:,} of at most {advice.useful:,}"),
        ("per worker", f"{advice.pages_per_second:,} done/s"),
        (
            "needed",
            f"{advice.by_depth} for the target time, {advice.by_hosts} for the hosts, {advice.by_flight} for what is in progress",
        ),
    ]
    screen.show(screen.pairs(rows))
