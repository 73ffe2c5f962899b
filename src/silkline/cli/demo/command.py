"""``silkline demo``: a worker is killed in the middle of a crawl, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from silkline.cli import screen
from silkline.cli.demo.queue import Plan, demo_queue
from silkline.cli.demo.shop import ShopPlan, demo_shop
from silkline.cli.exits import Exit
from silkline.cli.server import Json
from silkline.cli.temporary import temporary_server
from silkline.core.errors import ConfigError


def demo(  # noqa: PLR0913 - each is an option of the command
    *,
    pages: Annotated[int | None, Parameter(validator=validators.Number(gte=50, lte=100_000))] = None,
    hosts: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    workers: Annotated[int | None, Parameter(validator=validators.Number(gte=2, lte=64))] = None,
    delay: Annotated[float | None, Parameter(validator=validators.Number(gte=0, lte=60))] = None,
    dir: Path | None = None,  # noqa: A002 - the name of the option
    queue: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    urls: Annotated[int | None, Parameter(validator=validators.Number(gte=100, lte=5_000_000))] = None,
    json: Json = False,
) -> int:
    """Kill a worker in the middle of a crawl; nothing is lost.

    A shop is served on this machine, with slow pages, 429s, 500s, redirects
    and a trap. Two workers crawl it into a SQLite file, one of them is killed
    half-way, and what was served is compared with what was stored.

    Examples:
      silkline demo
      silkline demo --pages 500 --dir demo-data
      silkline demo --queue --urls 20000 --hosts 200

    Exit code: 0 nothing missing and nothing twice, 1 something was,
    2 wrong usage, 3 server unavailable, 130 interrupted.

    Parameters
    ----------
    pages
        Pages of the shop. [2000]
    hosts
        Loopback addresses over which they are spread. [79; with --queue 500]
    workers
        How many processes work; one of them is killed half-way. [2; with --queue 4]
    delay
        Seconds between two starts on one host. [0.2; with --queue 0.1]
    dir
        Keep the data in this directory.
    queue
        Drain a queue of URLs instead; nothing is fetched.
    urls
        With --queue: how many URLs. [100000]
    json
        Print the proof as JSON; progress goes to stderr.
    """
    if pages if queue else urls:
        raise ConfigError("--pages is for the shop, and --urls for --queue")
    with _home(dir) as home:
        if queue:
            count = urls or 100_000
            plan = Plan(count, min(hosts or 500, count), workers or 4, 0.1 if delay is None else delay)
            sound = demo_queue(plan, home, json=json)
        else:
            shop = ShopPlan(pages or 2000, hosts or 79, workers or 2, 0.2 if delay is None else delay)
            sound = demo_shop(shop, home, json=json)
        if dir:
            screen.remark(f"Kept in {dir}. Look at it: silkline status --redis embedded:{dir}")
    return Exit.OK if sound else Exit.FAILED


@contextmanager
def _home(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with temporary_server("silkline-demo-") as folder:
            yield folder
    else:
        yield directory
