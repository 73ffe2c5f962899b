"""``silkline task``: the tasks of a crawl and their calls: list, show, groups, enqueue, result, cancel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.commands.manage.printing import print_result, print_rows
from silkline.cli.exits import Exit
from silkline.cli.options.operator import CrawlName, open_crawl, operator, safe
from silkline.cli.options.server import Json, Redis, address
from silkline.core.units import format_latency
from silkline.errors import ConfigError, QueueFull, TaskFailed, TaskUnknown
from silkline.frontier.admin_verbs.explain_text import clock_time, span
from silkline.frontier.admin_verbs.task_states import TaskState
from silkline.frontier.sync import SyncFrontier
from silkline.ops.parsing import seconds
from silkline.tasks.app import Tasks
from silkline.tasks.calls import TaskStatus
from silkline.tasks.spec import CallOptions
from silkline.tasks.sync_calls import SyncTaskCalls, SyncTaskHandle
from silkline.worker.crawl.loading import load_crawl

app = App(
    name="task",
    help="Manage tasks and their calls: list, show, groups, enqueue, result, cancel.",
    help_format="plaintext",
)

TaskName = Annotated[str, Parameter(name="TASK", help="Name of the task.")]
CallId = Annotated[str, Parameter(name="ID", help="The id of the call, or its URL.")]


@app.command(name="ls", usage="Usage: silkline task ls [CRAWL] [OPTIONS]")
def ls(crawl: CrawlName, /, *, redis: Redis = None, json: Json = False) -> int:
    """List the tasks of a crawl, those with the most calls first.

    A task is listed if a worker has it or had it within the last hour, or if its
    calls wait. Done, failed, dead and the durations are counted since the crawl
    began, the rate since the last report of the workers.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        found = frontier.admin.tasks()
    return print_rows(found, _show_table, safe(_no_tasks(crawl)), json=json)


def _no_tasks(crawl: str) -> str:
    return f"{crawl} has no tasks: no worker of the last hour had one, and no call waits. See: silkline worker FILE"


def _show_table(found: Sequence[TaskState]) -> None:
    table = screen.listing(
        *("task", "state", "waiting", "delayed", "running", "done", "failed", "dead", "per s", "p50", "p95", "next"),
        left=2,
        optional=("p50", "per s", "state", "done", "delayed"),
    )
    for task in found:
        counts = (task.waiting, task.delayed, task.running, task.done, task.failures, task.dead)
        table.add_row(
            safe(task.name),
            task.state,
            *(f"{count:,}" for count in counts),
            f"{task.rate:,.1f}",
            format_latency(task.p50),
            format_latency(task.p95),
            _next(task),
        )
    screen.show(table)


def _next(task: TaskState) -> str:
    """Return when a recurring task is called next."""
    if task.next_tick is None:
        return ""
    left = task.next_tick - time.time()
    return f"in {span(left)}" if left > 0 else "due"


@app.command(name="show", usage="Usage: silkline task show [CRAWL] TASK [OPTIONS]")
def show(crawl: CrawlName, task: TaskName, /, *, redis: Redis = None, json: Json = False) -> int:
    """Show one task: its calls, limits, durations, schedule and dead letters.

    Exit code: 0, 2 wrong usage or no such crawl or task, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        found = _known(frontier, crawl, task)
        [(_, letters)] = frontier.admin.dead_groups("host", name=task)
    if json:
        screen.print_json({**found._asdict(), "dead_letters": letters})
        return Exit.OK
    rate = f"{1 / found.delay:,.3g} per second" if found.delay else "no limit"
    rows = [
        ("task", safe(found.name)),
        ("state", found.state),
        ("waiting", f"{found.waiting:,}"),
        ("delayed", f"{found.delayed:,}"),
        ("running", f"{found.running:,} of {found.concurrency:,}"),
        ("done", f"{found.done:,}, {found.rate:,.1f} per second now"),
        ("failed", f"{found.failures:,} attempts"),
        ("dead letters", f"{letters:,}" + (f": silkline dead ls {crawl} --host {task}" if letters else "")),
        ("duration", f"{format_latency(found.p50)} median, {format_latency(found.p95)} p95"),
        ("rate limit", rate),
        ("workers", f"{found.workers:,}"),
        ("schedule", safe(found.schedule) or "none"),
    ]
    if found.next_tick is not None:
        rows.append(("next call", f"{clock_time(found.next_tick)} ({_next(found)})"))
    screen.show(screen.pairs(rows))
    return Exit.OK


@app.command(name="groups", usage="Usage: silkline task groups [CRAWL] [OPTIONS]")
def groups(crawl: CrawlName, /, *, limit: int = 100, redis: Redis = None, json: Json = False) -> int:
    """List calls that wait until other calls have ended, those that expire first.

    These are calls that were enqueued with after=, and the callbacks of groups.
    Such a call becomes a dead letter when it expires, or if one of the others fails
    and it does not allow failures. silkline explain shows the same for one call.

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    limit
        How many calls to list, up to 1,000.
    json
        Print everything as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        found = frontier.internal.groups(limit=limit)
    if json:
        screen.print_json([group._asdict() for group in found])
    elif found:
        table = screen.listing("call", "group", "calls", "left", "failed", "expires", left=2)
        for group in found:
            counts = (group.calls, group.left, group.failed)
            table.add_row(
                safe(group.url.removeprefix("https://")),
                "closed" if group.closed else "open",
                *(f"{count:,}" for count in counts),
                f"in {span(group.expires - time.time())}",
            )
        screen.show(table)
    else:
        screen.show(f"No call of {safe(crawl)} waits for others.")
    return Exit.OK


def _known(frontier: SyncFrontier, crawl: str, task: str) -> TaskState:
    """Return the state of a task. Raises `ConfigError` for an unknown one."""
    found = {one.name: one for one in frontier.admin.tasks()}
    if task in found:
        return found[task]
    if not found:
        raise ConfigError(_no_tasks(crawl))
    raise ConfigError(f"{crawl} has no task {task!r}; it has: {', '.join(sorted(found))}")


@app.command(name="enqueue", usage="Usage: silkline task enqueue FILE[:NAME] TASK [ARGUMENT=VALUE]... [OPTIONS]")
def enqueue(  # noqa: PLR0913 - the options of the command
    file: Annotated[str, Parameter(name="FILE", help="The Python file with the tasks.")],
    task: TaskName,
    /,
    *arguments: Annotated[str, Parameter(name="ARGUMENT=VALUE")],
    delay: str | None = None,
    priority: int = 0,
    unique: str | None = None,
    expires: str | None = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Enqueue a call of a task, and print its id.

    The arguments are checked against the hints in the file. A value is JSON, or
    else text; a number that is meant as text needs quotes: 'sku="42"'.

    Examples:
      silkline task enqueue thumbnails.py resize sku=a size=5
      silkline task enqueue thumbnails.py resize sku=a --delay 10m

    Exit code: 0, 2 wrong usage, no such task or wrong arguments, 3 server unavailable.

    Parameters
    ----------
    delay
        Do not run it for this time: 90s, 15m, 2h, 3d.
    priority
        Calls with a higher priority (-1000 to 1000) run first.
    unique
        Enqueue nothing if a call with this key was enqueued before.
    expires
        If it is not started within this time, it becomes a dead letter.
    json
        Print the call as JSON.
    """
    tasks = load_crawl(file, or_tasks=True).tasks
    if task not in tasks.by_name:
        known = f"it has: {', '.join(sorted(tasks.names))}" if tasks.names else "it has none: see @app.task"
        raise ConfigError(f"{file} has no task {task!r}; {known}")
    expiry = seconds("--expires", expires)
    options = CallOptions(
        delay=seconds("--delay", delay),
        priority=priority,
        unique=unique,
        expires=None if expiry is None else time.time() + expiry,
    )
    tasks.redis = redis or tasks.redis or address(redis)
    calls: SyncTaskCalls[..., Any] = SyncTaskCalls(tasks.by_name[task], tasks.sync_frontier, options)
    try:
        call = calls.enqueue(**_arguments(arguments))
    except QueueFull as error:
        screen.complain(str(error))
        return Exit.FULL
    finally:
        tasks.close_sync()
    print_result(safe(call.id), {"id": call.id, "url": call.url, "added": call.added}, json=json)
    if not call.added:
        screen.remark(f"A call with the key {safe(str(unique))} was enqueued before; nothing was added.")
    return Exit.OK


def _arguments(given: Sequence[str]) -> dict[str, Any]:
    """Parse ARGUMENT=VALUE. A value that is not JSON is text."""
    found: dict[str, Any] = {}
    for word in given:
        name, mark, text = word.partition("=")
        if not mark or not name.isidentifier():
            raise ConfigError(f"arguments are written as NAME=VALUE, such as size=3, got {word!r:.200}")
        if name in found:
            raise ConfigError(f"the argument {name!r} is given twice")
        try:
            found[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found[name] = text
    return found


@app.command(name="result", usage="Usage: silkline task result [CRAWL] TASK ID [OPTIONS]")
def result(
    crawl: CrawlName, task: TaskName, call: CallId, /, *, wait: str = "0", redis: Redis = None, json: Json = False
) -> int:
    """Print the result of a call as JSON, or why it has failed.

    Exit code: 0, 1 it has failed or not ended, 2 wrong usage or no such call, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    wait
        Wait at most this long for the call to end: 90s, 15m, 2h.
    json
        Print the status with the result, or with the reason and the traceback.
    """
    with open_crawl(redis, crawl) as frontier:
        handle = _handle(frontier, task, call)
        try:
            value = handle.result(timeout=seconds("--wait", wait))
        except TaskFailed as error:
            failed = {"status": "failed", "reason": error.reason, "attempts": error.attempts}
            if json:
                screen.print_json({**failed, "traceback": error.traceback})
            else:
                screen.complain(f"{error}\n{error.traceback}".strip())
            return Exit.FAILED
        except TimeoutError as error:
            status = handle.status()
            if status is TaskStatus.UNKNOWN:
                raise TaskUnknown(_is_unknown(crawl, handle)) from None
            progress = handle.progress()
            if json:
                screen.print_json({"status": status, "progress": progress and progress._asdict()})
            else:
                screen.complain(str(error))
                if progress:
                    screen.remark(f"{progress.done:.0%} done {safe(progress.note)}".strip())
            return Exit.FAILED
    screen.print_json({"status": "done", "result": value} if json else value)
    return Exit.OK


@app.command(name="cancel", usage="Usage: silkline task cancel [CRAWL] TASK ID [OPTIONS]")
def cancel(crawl: CrawlName, task: TaskName, call: CallId, /, *, redis: Redis = None, json: Json = False) -> int:
    """Cancel a call: drop it if it waits, end it if it runs.

    A thread of a running call cannot be ended; its result is dropped.

    Exit code: 0, 1 it has ended already, 2 wrong usage or no such call, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    json
        Print the outcome as JSON.
    """
    with open_crawl(redis, crawl) as frontier:
        handle = _handle(frontier, task, call)
        cancelled = handle.cancel()
        status = None if cancelled else handle.status()
        if status is TaskStatus.UNKNOWN:
            raise TaskUnknown(_is_unknown(crawl, handle))
        if cancelled:
            frontier.internal.append_audit(operator(), "cancel", handle.url)
    words = "Cancelled." if cancelled else f"Not cancelled: the call is {status}."
    print_result(words, {"cancelled": cancelled, "status": status}, json=json)
    return Exit.OK if cancelled else Exit.FAILED


def _is_unknown(crawl: str, call: SyncTaskHandle[Any]) -> str:
    return f"{call.url} is not in {crawl}: it was cancelled, its result has expired or is not kept, or it was never enqueued"


def _handle(frontier: SyncFrontier, task: str, call: str) -> SyncTaskHandle[Any]:
    """Return the handle of a call. The file of the task is not needed: a result is printed as it is stored."""

    def function() -> Any: ...

    known = Tasks(frontier.crawl).task(name=task)(function)
    calls: SyncTaskCalls[..., Any] = SyncTaskCalls(known.spec, lambda: frontier)
    return calls.handle(call.removeprefix(known.spec.url("")))
