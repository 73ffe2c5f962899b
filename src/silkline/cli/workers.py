"""``silkline workers``: who works on a crawl; told to be quiet, to stop, to work again.

The plural, because ``silkline worker FILE`` starts one; ``silkline worker ls`` means the same unless there is a file named so.
"""

from __future__ import annotations

import time
from typing import Any

from cyclopts import App

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.operating import Limit, open_crawl, operator, safe
from silkline.cli.server import Json, Redis
from silkline.core.errors import ConfigError
from silkline.frontier.roster import Order, WorkerState, act_of
from silkline.frontier.sentences import at_work_on, span
from silkline.operate.numbers import plural

app = App(
    name="workers",
    help="Who works on a crawl: list, quiet, stop, resume. (`silkline worker FILE` starts one.)",
    help_format="plaintext",
)

ALL = "all"
SHOWN_URLS = 3


@app.command(name="ls", usage="Usage: silkline workers ls CRAWL [OPTIONS]")
def ls(crawl: str, /, *, limit: Limit = 100, redis: Redis = None, json: Json = False) -> int:
    """List who works on a crawl, and who fell silent within the last hour.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        found = frontier.workers(limit=limit)
        orders = {worker.name: frontier.ordered(worker.name) for worker in found}
    if json:
        screen.tell_json([{**worker._asdict(), "order": orders[worker.name]} for worker in found])
    elif found:
        _show(found, orders)
    else:
        screen.show(f"Nobody works on {crawl}. To start: silkline worker FILE")
    return Exit.OK


def _show(workers: list[WorkerState], orders: dict[str, Order]) -> None:
    now = time.time()
    table = screen.listing("worker", "state", "heard of", "for", "version", "memory", "at work on", left=7)
    for worker in workers:
        state = (
            "[red]silent[/]"
            if not worker.alive
            else "work"
            if orders[worker.name] == "work"
            else f"[yellow]{orders[worker.name]}[/]"
        )
        table.add_row(
            safe(worker.name), state, f"{span(now - worker.beat)} ago", span(now - worker.joined), *_details(worker)
        )
    screen.show(table)


def _details(worker: WorkerState) -> tuple[str, str, str]:
    """What the worker told of itself; anybody who may write there could have written it."""
    memory: Any = worker.info.get("memory")
    size = f"{memory / 2**20:.0f} MiB" if isinstance(memory, int | float) else ""
    urls = at_work_on(worker)
    shown = [*urls[:SHOWN_URLS], *([f"and {len(urls) - SHOWN_URLS} more"] if len(urls) > SHOWN_URLS else [])]
    return safe(str(worker.info.get("version", ""))), size, safe("\n".join(shown))


@app.command(name="quiet", usage="Usage: silkline workers quiet CRAWL WORKER|all [OPTIONS]")
def quiet(crawl: str, worker: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Have a worker end what is under way and claim nothing more, but stay.

    It obeys at its next heartbeat, within some seconds.

    Exit code: 0, 2 wrong usage, no such crawl or worker, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    worker
        Its name, or `all`.
    json
        Print who was told as JSON.
    """
    return _order(redis, crawl, worker, "quiet", json=json)


@app.command(name="stop", usage="Usage: silkline workers stop CRAWL WORKER|all [OPTIONS]")
def stop(crawl: str, worker: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Have a worker end what is under way, give back the rest, and leave.

    It obeys at its next heartbeat, within some seconds. What it had is not lost:
    others go on with it.

    Exit code: 0, 2 wrong usage, no such crawl or worker, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    worker
        Its name, or `all`.
    json
        Print who was told as JSON.
    """
    return _order(redis, crawl, worker, "stop", json=json)


@app.command(name="resume", usage="Usage: silkline workers resume CRAWL WORKER|all [OPTIONS]")
def resume(crawl: str, worker: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Have a worker that was told to be quiet work again.

    Exit code: 0, 2 wrong usage, no such crawl or worker, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    worker
        Its name, or `all`.
    json
        Print who was told as JSON.
    """
    return _order(redis, crawl, worker, "work", json=json)


def _order(redis: str | None, crawl: str, worker: str, order: Order, *, json: bool) -> int:
    with open_crawl(redis, crawl) as frontier:
        alive = [one.name for one in frontier.workers(limit=1000) if one.alive]
        meant = alive if worker == ALL else [worker]
        told = [name for name in meant if frontier.order(name, order)]
        if not told:
            known = f"; there are {', '.join(alive[:10])}" if alive else "; there are none"
            raise ConfigError(
                f"{crawl} has no worker named {worker!r}{known}" if worker != ALL else f"nobody works on {crawl}"
            )
        frontier.note_act(operator(), act_of(order), worker)
    if json:
        screen.tell_json({"crawl": crawl, "order": order, "workers": told})
    else:
        screen.show(
            f"{plural(len(told), 'worker')} told to {'work again' if order == 'work' else 'be quiet' if order == 'quiet' else order}"
        )
    return Exit.OK
