"""``silkline demo``: kill a worker in the middle of a crawl and show that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from silkline.cli import screen
from silkline.cli.demo.shop import ShopPlan, demo_shop
from silkline.cli.exits import Exit
from silkline.cli.options.server import Json
from silkline.cli.options.temporary import temporary_server
from silkline.errors import ConfigError


def demo(
    *,
    pages: Annotated[int, Parameter(validator=validators.Number(gte=50, lte=100_000))] = 2000,
    hosts: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 79,
    workers: Annotated[int, Parameter(validator=validators.Number(gte=2, lte=64))] = 2,
    delay: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=60))] = 0.2,
    dir: Path | None = None,  # noqa: A002 - the name of the option
    json: Json = False,
) -> int:
    """Kill a worker in the middle of a crawl and show that nothing is lost.

    The demo serves a shop on this machine, with slow pages, 429s, 500s,
    redirects and an endless calendar. Two workers crawl it into a SQLite file.
    Halfway, the demo kills one of them. At the end, it compares what the shop
    served with what the workers stored.

    Examples:
      silkline demo
      silkline demo --pages 500 --dir demo-data

    Exit code: 0 no item is missing or duplicated, 1 some are,
    2 wrong usage, 3 server unavailable, 130 interrupted.

    Parameters
    ----------
    pages
        Pages of the shop.
    hosts
        Loopback addresses that serve them.
    workers
        Worker processes; one of them is killed halfway.
    delay
        Seconds between two requests to one host.
    dir
        Keep the data in this directory.
    json
        Print the comparison as JSON; progress goes to stderr.
    """
    with _home(dir) as home:
        sound = demo_shop(ShopPlan(pages, hosts, workers, delay), home, json=json)
        if dir:
            screen.remark(f"The data is in {dir}. To inspect it: silkline status --redis embedded:{dir}")
    return Exit.OK if sound else Exit.FAILED


@contextmanager
def _home(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with temporary_server("silkline-demo-") as folder:
            yield folder
    else:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--dir {directory} cannot be used: {error.strerror}") from None
        yield directory
