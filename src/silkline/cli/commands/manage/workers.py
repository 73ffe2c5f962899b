"""``silkline workers``: list the workers of a crawl and give them orders: quiet, stop, resume.

The name is plural because ``silkline worker FILE`` starts a worker. ``silkline worker ls`` works too unless a file ``ls`` exists.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from cyclopts import App

from silkline.cli import screen
from silkline.cli.commands.manage.printing import print_result, print_rows
from silkline.cli.commands.status import show_missing_capabilities
from silkline.cli.exits import Exit
from silkline.cli.options.operator import CrawlName, Limit, open_crawl, operator, safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.core.units import format_bytes
from silkline.errors import ConfigError, SilklineError
from silkline.frontier.admin_verbs.explain_text import span, urls_in_progress
from silkline.frontier.crawl_server import workers_of_all
from silkline.frontier.verbs.workers import ALL_WORKERS, WorkerOrder, WorkerState, audit_action, missing_capabilities
from silkline.ops.parsing import plural

app = App(
    name="workers",
    help="Manage the workers of a crawl: list, quiet, stop, resume. (`silkline worker FILE` starts one.)",
    help_format="plaintext",
)

ALL = "all"
SHOWN_URLS = 3


@app.command(name="ls", usage="Usage: silkline workers ls [CRAWL] [OPTIONS]")
def ls(crawl: str | None = None, /, *, limit: Limit = 100, redis: Redis = None, json: Json = False) -> int:
    """List the workers of a crawl, or of all crawls, and those lost within the last hour.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl. Default: all crawls of the server.
    json
        Print everything as JSON.
    """
    if crawl is None:
        return _list_all(existing(redis), limit, json=json)
    with open_crawl(redis, crawl) as frontier:
        found = frontier.admin.workers(limit=limit)
    none = f"{crawl} has no workers. To start one: silkline worker FILE"
    return print_rows(found, lambda workers: _show({crawl: workers}), none, json=json)


def _list_all(url: str, limit: int, *, json: bool) -> int:
    by_crawl = workers_of_all(url, limit)
    found = {name: some for name, some in by_crawl.items() if not isinstance(some, SilklineError)}
    if json:
        screen.print_json([{"crawl": name, **worker._asdict()} for name, some in found.items() for worker in some])
    elif any(found.values()):
        _show(found, of_all=True)
    else:
        screen.show("No crawl has workers. To start one: silkline worker FILE")
    for name, error in by_crawl.items():
        if isinstance(error, SilklineError):
            screen.remark(f"[yellow]{safe(name)} cannot be read:[/] {safe(str(error))}")
    return Exit.OK


def _show(by_crawl: Mapping[str, Sequence[WorkerState]], *, of_all: bool = False) -> None:
    now = time.time()
    table = screen.listing(
        *(["crawl"] if of_all else []),
        *("worker", "state", "last seen", "uptime", "version", "memory", "in progress"),
        left=7 if of_all else 6,
        fold={"crawl": screen.FOLDED_NAME, "worker": screen.FOLDED_NAME, "in progress": screen.FOLDED_URL},
        optional=("version", "memory", "uptime"),
    )
    for crawl, worker in ((crawl, worker) for crawl, workers in by_crawl.items() for worker in workers):
        state = (
            "[red]lost[/]"
            if not worker.alive
            else "running"
            if worker.order == "work"
            else f"[yellow]{worker.order}[/]"
        )
        table.add_row(
            *([safe(crawl)] if of_all else []),
            safe(worker.name),
            state,
            f"{span(now - worker.beat)} ago",
            span(now - worker.joined),
            *_details(worker),
        )
    screen.show(table)
    for workers in by_crawl.values():
        show_missing_capabilities(missing_capabilities(workers))


def _details(worker: WorkerState) -> tuple[str, str, str]:
    """Return the cells for what the worker reports. The values are untrusted: any Redis client can write them."""
    memory: Any = worker.info.get("memory")
    size = format_bytes(memory) if isinstance(memory, int | float) else ""
    urls = urls_in_progress(worker)
    shown = [*urls[:SHOWN_URLS], *([f"and {len(urls) - SHOWN_URLS} more"] if len(urls) > SHOWN_URLS else [])]
    trouble = str(worker.info.get("trouble") or "")[:300] if worker.alive else ""
    lines = [*([f"[red]{safe(trouble)}[/]"] if trouble else []), *map(safe, shown)]
    return safe(str(worker.info.get("version", ""))), size, "\n".join(lines)


@app.command(name="quiet", usage="Usage: silkline workers quiet [CRAWL] WORKER|all [OPTIONS]")
def quiet(crawl: CrawlName, worker: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Let a worker finish its pages and claim no more, but keep running.

    The worker receives the order with its next heartbeat, within seconds.

    Exit code: 0, 2 wrong usage, no such crawl or worker, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    worker
        Name of the worker, or `all`.
    json
        Print the workers as JSON.
    """
    return _order(redis, crawl, worker, "quiet", json=json)


@app.command(name="stop", usage="Usage: silkline workers stop [CRAWL] WORKER|all [OPTIONS]")
def stop(crawl: CrawlName, worker: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Stop a worker: it finishes its pages, gives back the rest and exits.

    The worker receives the order with its next heartbeat, within seconds. Other
    workers continue with its pages.

    Exit code: 0, 2 wrong usage, no such crawl or worker, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    worker
        Name of the worker, or `all`.
    json
        Print the workers as JSON.
    """
    return _order(redis, crawl, worker, "stop", json=json)


@app.command(name="resume", usage="Usage: silkline workers resume [CRAWL] WORKER|all [OPTIONS]")
def resume(crawl: CrawlName, worker: str, /, *, redis: Redis = None, json: Json = False) -> int:
    """Let a quiet worker claim pages again.

    Exit code: 0, 2 wrong usage, no such crawl or worker, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    worker
        Name of the worker, or `all`.
    json
        Print the workers as JSON.
    """
    return _order(redis, crawl, worker, "work", json=json)


def _order(redis: str | None, crawl: str, worker: str, order: WorkerOrder, *, json: bool) -> int:
    with open_crawl(redis, crawl) as frontier:
        alive = [one.name for one in frontier.admin.workers(limit=ALL_WORKERS) if one.alive]
        meant = alive if worker == ALL else [worker]
        ordered = [name for name in meant if frontier.admin.order(name, order)]
        if not ordered:
            known = f"; running: {', '.join(alive[:10])}" if alive else "; no worker is running"
            raise ConfigError(
                f"{crawl} has no worker named {worker!r}{known}" if worker != ALL else f"{crawl} has no workers"
            )
        frontier.internal.append_audit(operator(), audit_action(order), worker)
    words = f"{plural(len(ordered), 'worker')} ordered to {'resume' if order == 'work' else order}"
    return print_result(words, {"crawl": crawl, "order": order, "workers": ordered}, json=json)
