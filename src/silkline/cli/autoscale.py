"""``silkline autoscale``: how many workers a crawl can use."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.server import Json, Redis, existing
from silkline.frontier.frontier import Frontier
from silkline.metrics.http import Place
from silkline.operate.autoscale import Advice, Target, advise
from silkline.operate.monitor import Monitor


def autoscale(
    crawl: str,
    /,
    *,
    target: Annotated[float, Parameter(validator=validators.Number(gte=10, lte=86_400))] = Target().drain,
    least: Annotated[int, Parameter(validator=validators.Number(gte=0))] = Target().least,
    most: Annotated[int, Parameter(validator=validators.Number(gte=0))] = Target().most,
    serve: Annotated[str | None, Parameter(show_default=False)] = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Say how many workers a crawl can use now, and why.

    The lesser of two: as many as get all that waits done within the target
    time, at the speed that was measured; and as many as have places for all
    pages that may be under way at the pace of their hosts.

    Examples:
      silkline autoscale books --target 1800
      silkline autoscale books --serve 0.0.0.0:9090

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    target
        Seconds within which all that is found should be done.
    least
        Workers to keep whatever happens.
    most
        Workers to have at most.
    serve
        [HOST:]PORT at which to go on answering: /autoscale, /metrics, /healthz, /readyz.
    json
        Print the answer as JSON.
    """
    wish, url = Target(drain=target, least=least, most=most), existing(redis)
    if serve is not None:
        asyncio.run(_serve(url, crawl, wish, Place.parse(serve)))
        return Exit.OK
    advice = asyncio.run(_ask(url, crawl, wish))
    screen.tell_json(msgspec.to_builtins(advice)) if json else _show(advice)
    return Exit.OK


async def _ask(url: str, crawl: str, target: Target) -> Advice:
    async with await Frontier.open(url, crawl=crawl, create=False) as frontier:
        return await advise(frontier, target)


async def _serve(url: str, crawl: str, target: Target, place: Place) -> None:
    """Until SIGTERM or Ctrl-C."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    async with (
        await Frontier.open(url, crawl=crawl, create=False) as frontier,
        Monitor(place, frontier, None, target) as http,
    ):
        screen.remark(f"answering for {crawl} at port {http.port}: /autoscale, /metrics, /healthz, /readyz")
        with suppress(asyncio.CancelledError):
            await told.wait()


def _show(advice: Advice) -> None:
    running = f"{advice.running} {'is' if advice.running == 1 else 'are'} running"
    workers = "worker" if advice.workers == 1 else "workers"
    screen.show(f"[bold]{advice.workers}[/] {workers}, {running}: {advice.reason}")
    screen.show()
    rows = [
        ("to be done", f"{advice.depth:,}"),
        ("under way", f"{advice.in_flight:,} of {advice.useful:,} that could be"),
        ("one worker", f"{advice.pages_per_second:,} pages/s"),
        (
            "wanted",
            f"{advice.by_depth} for the target time, {advice.by_hosts} for the hosts, {advice.by_flight} for what is under way",
        ),
    ]
    screen.show(screen.pairs(rows))
