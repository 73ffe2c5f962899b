"""``silkline url``: list, export, explain, add, forget, drop and promote URLs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from cyclopts import App, Group, Parameter, validators

from silkline.cli import screen
from silkline.cli.commands.enqueue import EnqueueSummary, EntryFeeder, feed
from silkline.cli.commands.manage.dead import attempt_line
from silkline.cli.commands.manage.printing import print_result
from silkline.cli.entry_lines import EntryLines
from silkline.cli.exits import Exit
from silkline.cli.options.operator import CrawlName, DryRun, Limit, Yes, confirm, open_crawl, operator, safe
from silkline.cli.options.server import Json, Redis, existing
from silkline.cli.plugins import register_scrapy
from silkline.core.lease import State
from silkline.core.request import MAX_PRIORITY, Request, check
from silkline.core.url import parse
from silkline.errors import ConfigError, InvalidUrl, RequestError, SilklineError
from silkline.frontier.admin_verbs.explain_text import Explanation, clock_time
from silkline.frontier.admin_verbs.requests import ListedRequest, ListedState, may_hold
from silkline.frontier.admin_verbs.requests import explain as explain_page
from silkline.frontier.crawl_server import ask_crawls, connected, crawl_names
from silkline.frontier.sync import SyncFrontier
from silkline.ops import exporting
from silkline.ops.exporting import ExportFormat
from silkline.ops.identities import identities_of, requests_of
from silkline.ops.parsing import plural
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.crawl.loading import load_crawl

FEW = 10
"""With at most this many crawls, a URL that no crawl has seen is explained for each of them."""


class CrawlRules(NamedTuple):
    """The rules of a crawl that only its Python file contains."""

    agent: str | None = None
    attempts: int | None = None
    objection: str | None = None


def explain(
    url: Annotated[str, Parameter(name="URL")],
    /,
    *,
    crawl: str | None = None,
    file: str | None = None,
    slot: str | None = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Explain the state of a URL and why it is not crawled yet.

    Searches all crawls of the server, or the given one.

    Examples:
      silkline explain https://books.example/page/7
      silkline explain https://books.example/page/7 --file books.py

    Exit code: 0, 2 wrong usage, invalid URL or no such crawl, 3 server unavailable.

    Parameters
    ----------
    url
        The URL; it is normalized.
    crawl
        Name of the crawl.
    file
        The Python file of the crawl; its scope, user agent and retries are taken into account.
    slot
        The download_slot of the request, as `silkline host ls` shows it; without it, the queue of the URL's host is searched.
    json
        Print everything as JSON.
    """
    try:
        parse(url)
    except InvalidUrl as error:
        raise ConfigError(f"{url!r} cannot be explained: {error}") from None
    wanted = Request(url, download_slot=slot)
    check(wanted)
    register_scrapy()
    defined = load_crawl(file) if file else None
    asked = _ask_file(defined, url) if defined else CrawlRules()
    where = existing(redis)
    names = [crawl or defined.name] if crawl or defined else crawl_names(where)  # type: ignore[union-attr]
    if not names:
        raise ConfigError("this server has no crawls")
    found = (
        _explain_all(where, names, wanted, asked)
        if len(names) > 1
        else {names[0]: _explain(where, names[0], wanted, asked)}
    )
    known = {name: one for name, one in found.items() if one.state is not None} or (found if len(names) <= FEW else {})
    if json:
        screen.print_json({"url": url, "crawls": [_as_json(name, one, asked) for name, one in known.items()]})
    else:
        for name, one in known.items():
            _show(name, one, asked)
        if not known:
            screen.show(
                f"None of the {len(names):,} crawls has seen this URL. Use --crawl NAME to see whether that crawl would refuse it."
            )
    return Exit.OK


def _ask_file(crawl: Crawl, url: str) -> CrawlRules:
    """Apply the rules of the crawl's file, as if a start page linked to *url*."""
    address = parse(url)
    objections = [crawl.scope.objection(address, parse(start.url), 1) for start in crawl.listed_starts()]
    objection = objections[0] if objections and None not in objections else None
    backoff = crawl.retries.backoff
    attempts = backoff.max_attempts if backoff.steps is None else len(backoff.steps) + 1
    return CrawlRules(crawl.fetching.agent(crawl.name), attempts, objection)


def _explain_all(where: str, names: list[str], request: Request, asked: CrawlRules) -> dict[str, Explanation]:
    """Explain the URL for each readable crawl; print the crawls that cannot be read.

    If there are many crawls, only those that may hold the URL are searched.
    """
    identities = identities_of(request.url)  # identities of requests of Scrapy spiders
    with connected(where) as connection:
        holders: dict[str, bool | SilklineError] = dict.fromkeys(names, True)
        if len(names) > FEW:
            holders = ask_crawls(connection, names, lambda layout: may_hold(layout, request, identities))
        some = [name for name, may in holders.items() if may is True]
        said = ask_crawls(
            connection,
            some,
            lambda layout: explain_page(layout, request, time.time(), asked.agent, asked.attempts, identities),
        )
    unread = {name: what for name, what in (holders | said).items() if isinstance(what, SilklineError)}
    for name, error in unread.items():
        screen.remark(f"[yellow]{safe(name)} cannot be read:[/] {safe(str(error))}")
    return {name: what for name, what in said.items() if not isinstance(what, SilklineError)}


def _explain(where: str, name: str, request: Request, asked: CrawlRules) -> Explanation:
    with SyncFrontier.open(where, crawl=name, create=False) as frontier:
        found = frontier.admin.explain(request, agent=asked.agent, attempts=asked.attempts)
        if found.state is None and (
            identities := identities_of(request.url)
        ):  # identities of requests of Scrapy spiders
            found = frontier.admin.explain(request, agent=asked.agent, attempts=asked.attempts, identities=identities)
    if found.state is None and asked.objection:
        return found.adding(f"A link to it is refused: out of scope ({asked.objection}).")
    return found


def _as_json(name: str, found: Explanation, asked: CrawlRules) -> dict[str, Any]:
    letter = found.letter
    return {
        "crawl": name,
        "state": found.state,
        "text": found.text,
        "worker": found.worker,
        "created": found.created,
        "attempts": found.lease.attempt if found.lease else letter.attempts if letter else None,
        "reason": letter.reason if letter else None,
        "out_of_scope": asked.objection,
        "history": [trial._asdict() for trial in _history(found)],
        "host": found.host._asdict(),
    }


def _history(found: Explanation) -> tuple[Any, ...]:
    if found.letter:
        return found.letter.history
    return found.lease.history if found.lease else ()


def _show(name: str, found: Explanation, asked: CrawlRules) -> None:
    screen.show(f"[bold]{name}[/]: {safe(found.text)}")
    if found.state is not None and asked.objection:
        screen.show(f"  A link to it would be out of scope now ({safe(asked.objection)}).")
    for trial in _history(found):
        screen.show(attempt_line(trial))


app = App(name="url", help="Manage URLs: list, export, explain, add, forget, drop, promote.", help_format="plaintext")
app.command(explain, name="explain", usage="Usage: silkline url explain URL [OPTIONS]")

MOST = 10_000
LONGEST_ABOUT = 200
"""Characters of a URL or a filter in an audit entry."""


@app.command(name="add", usage="Usage: silkline url add CRAWL URL... [OPTIONS]")
def add(
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(name="URL")],
    priority: Annotated[int, Parameter(validator=validators.Number(gte=-MAX_PRIORITY, lte=MAX_PRIORITY))] = 0,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Add URLs to an existing crawl and record it in the audit log. Use `enqueue` for files.

    Example:
      silkline url add books https://books.example/page/7

    Exit code: 0 all added or seen, 1 some were refused,
    2 wrong usage or no such crawl, 3 server unavailable, 130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs.
    priority
        From -1000 to 1000; higher priorities are crawled first.
    json
        Print the summary as JSON.
    """
    _check(urls, "add")
    with open_crawl(redis, crawl) as frontier:
        feeder = EntryFeeder(frontier, EnqueueSummary(crawl, created=False), priority=priority, refused_to=None)
        code = feed(feeder, EntryLines(urls, []), wait=True, json=json)
        if feeder.summary.added:
            frontier.internal.append_audit(operator(), "add", _about(urls))
    return code


def _check(urls: Sequence[str], verb: str) -> None:
    if not 1 <= len(urls) <= MOST:
        raise ConfigError(f"give between 1 and {MOST:,} URLs to {verb}")
    if verb == "add" and any(
        url.lstrip()[:1] in ("{", "[") for url in urls
    ):  # it would be in the audit log, secrets included
        raise ConfigError("url add takes URLs; to enqueue JSON objects: silkline enqueue")


def _about(urls: Sequence[str]) -> str:
    """Return the target of an audit entry."""
    return urls[0] if len(urls) == 1 else f"{len(urls)} URLs"


@app.command(name="forget", usage="Usage: silkline url forget CRAWL URL... [OPTIONS]")
def forget(
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(name="URL")],
    dry_run: DryRun = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Remove URLs from the seen filter, so that they can be crawled again.

    This applies to Scrapy spiders too. Requests that are queued or in progress
    stay. A bloom filter cannot forget.

    Example:
      silkline url forget books https://books.example/page/7

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs; they are normalized.
    json
        Print the result as JSON.
    """
    _check(urls, "forget")
    register_scrapy()
    known = [requests_of(url) for url in urls]
    with open_crawl(redis, crawl) as frontier:
        if dry_run:
            waiting = (State.READY, State.LEASED, State.DELAYED, State.DEAD)
            states = [
                frontier.admin.explain(url, identities=[name.identity for name in also]).state for url, *also in known
            ]
            seen = sum(state is not None for state in states)
            held = sum(state in waiting for state in states)
        else:
            seen, held = sum(frontier.forget(names) > 0 for names in known), 0
            if seen:
                frontier.internal.append_audit(operator(), "forget", _about(urls))
    words = f"would be forgotten; queued, in progress or dead: {held:,}" if dry_run else "forgotten"
    answer = {"crawl": crawl, "given": len(urls), "forgotten": 0 if dry_run else seen, "seen": seen}
    return print_result(f"{plural(seen, 'URL')} of {len(urls):,} {words}", answer, json=json)


ListState = Annotated[
    ListedState, Parameter(help="ready (waiting for their host), delayed (due later) or leased (in progress).")
]
ExportFormatOption = Annotated[
    ExportFormat, Parameter(name="--format", help="csv for spreadsheets, jsonl for programs.")
]


@app.command(name="ls", usage="Usage: silkline url ls [CRAWL] [OPTIONS]")
def ls(
    crawl: CrawlName,
    /,
    *,
    state: ListState = "ready",
    host: str | None = None,
    limit: Limit = 20,
    after: str = "",
    redis: Redis = None,
    json: Json = False,
) -> int:
    """List the ready requests of a crawl, or with --state the delayed or leased ones.

    Long lists are printed a page at a time.

    Ready requests are listed host by host, in the order of each queue, delayed
    ones by due time. Dead letters: `dead ls`.

    Examples:
      silkline url ls books --host shop.example
      silkline url ls books --state delayed --limit 100

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    host
        Only requests of this host.
    after
        Continue after the previous page, as printed at its end.
    json
        Print `requests`, and `after`, which is empty at the end.
    """
    with open_crawl(redis, crawl) as frontier:
        found, following = frontier.admin.requests(state, host=host, limit=limit, after=after)
    if json:
        screen.print_json({"crawl": crawl, "requests": [_request_as_json(one) for one in found], "after": following})
        return Exit.OK
    if found:
        _show_requests(found, state)
    else:
        where = f" of {safe(host)}" if host else ""
        screen.show(f"{crawl} has no {'more ' if after or following else ''}{state} requests{where}.")
    if following:
        only = f" --host {safe(host)}" if host else ""
        screen.remark(f"[dim]More: silkline url ls {crawl} --state {state}{only} --after '{safe(following)}'[/]")
    return Exit.OK


def _request_as_json(one: ListedRequest) -> dict[str, Any]:
    return exporting.request_row(one) | {"history": [trial._asdict() for trial in one.history]}


def _show_requests(found: Sequence[ListedRequest], state: ListedState) -> None:
    time_of = {"delayed": "due", "leased": "expires"}.get(state)
    table = screen.listing(
        *([time_of] if time_of else []),
        *("priority", "attempts", "handler", "enqueued", "url"),
        left=4,
        fold={"url": screen.FOLDED_URL},
        optional=("enqueued", "attempts", "priority", "handler"),
    )
    for one in found:
        times = [clock_time(one.due or one.expires or 0)] if time_of else []
        numbers = (f"{one.request.priority}", f"{one.attempts}")
        created = "" if one.created is None else clock_time(one.created)
        table.add_row(*times, *numbers, safe(one.request.handler or ""), created, safe(one.url))
    screen.show(table)


@app.command(name="export", usage="Usage: silkline url export [CRAWL] [OPTIONS]")
def export(
    crawl: CrawlName,
    /,
    *,
    state: ListState | None = None,
    host: str | None = None,
    format_: ExportFormatOption = "csv",
    redis: Redis = None,
) -> int:
    """Write all requests of a crawl that wait or are in progress to stdout.

    These are the ready, delayed and leased ones; --state selects one of the three.

    Examples:
      silkline url export books --format jsonl > requests.jsonl
      silkline url export books --state delayed > delayed.csv

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    host
        Only requests of this host.
    """
    with open_crawl(redis, crawl) as frontier:
        screen.write(exporting.heading(format_, exporting.REQUEST_FIELDS))
        for one in [state] if state else get_args(ListedState):
            for some in _pages(frontier, one, host):
                screen.write(exporting.lines(format_, map(exporting.request_row, some)))
    return Exit.OK


def _pages(frontier: SyncFrontier, state: ListedState, host: str | None) -> Iterator[list[ListedRequest]]:
    after, more = "", True
    while more:
        some, after = frontier.admin.requests(state, host=host, limit=exporting.PAGE, after=after)
        yield some
        more = bool(after)


# ── drop and promote ──

GROUP = Group("Filter", help="Only requests that match all given options.", sort_key=8)
SHOWN_URLS = 10


@Parameter(name="*", group=GROUP)
@dataclass(frozen=True, kw_only=True)
class RequestFilter:
    """The filter options. None matches all requests."""

    host: str | None = None
    """Of this host."""
    handler: str | None = None
    """For this handler."""
    contains: str | None = None
    """With this text in the URL."""

    def check(self) -> Self:
        """Raise `ConfigError` for an empty option, such as an unset shell variable: it must not match all."""
        for name, text in self.given.items():
            if not text.strip():
                raise ConfigError(f"--{name} is empty; leave it out to match all requests")
        return self

    @property
    def given(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def matches(self, one: ListedRequest) -> bool:
        return self.handler in (None, one.request.handler) and (self.contains is None or self.contains in one.url)


@app.command(name="drop", usage="Usage: silkline url drop CRAWL [URL...] [OPTIONS]")
def drop(
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(name="URL")],
    which: RequestFilter | None = None,
    state: Annotated[Literal["ready", "delayed"] | None, Parameter(group=GROUP)] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Delete waiting requests, ready or delayed. Their URLs stay seen.

    Name URLs, a filter, or both. Requests in progress are not touched. To drop
    everything that waits and end the crawl, use `crawl cancel`.

    Examples:
      silkline url drop books https://books.example/page/7
      silkline url drop books --host shop.example --contains /calendar/

    Exit code: 0, 1 a given URL is not waiting, 2 wrong usage, no such crawl or
    not confirmed, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs; they are normalized.
    state
        Only ready or only delayed requests. Default: both.
    json
        Print the result as JSON.
    """
    selection = Selection(urls, (which or RequestFilter()).check(), (state,) if state else ("ready", "delayed"))
    if not selection.urls and not selection.which.given:
        raise ConfigError(
            f"name URLs to drop, or give --host, --handler or --contains; to drop everything: silkline crawl cancel {crawl}"
        )
    with open_crawl(redis, crawl) as frontier:
        found = selection.find(frontier)
        dropped = 0
        if found and not dry_run:
            confirm(f"{plural(len(found), 'waiting request')} of {crawl} would be dropped", yes=yes)
            dropped = selection.change(frontier, found, frontier.admin.drop)
            if dropped:
                frontier.internal.append_audit(operator(), "drop", selection.words(dropped))
    return _report(crawl, selection, found, "dropped", dropped, dry_run=dry_run, json=json)


@app.command(name="promote", usage="Usage: silkline url promote CRAWL [URL...] [OPTIONS]")
def promote(
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(name="URL")],
    which: RequestFilter | None = None,
    dry_run: DryRun = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Start delayed pages now (all, or those that match).

    They move to the front of their queues; the delay of their host still applies.
    Calls of tasks, which may wait for others, only start if a URL or filter
    matches them.

    Examples:
      silkline url promote books https://books.example/page/7
      silkline url promote books --host shop.example --dry-run

    Exit code: 0, 1 a given URL is not delayed, 2 wrong usage or no such crawl,
    3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs; they are normalized.
    json
        Print the result as JSON.
    """
    which = (which or RequestFilter()).check()
    selection = Selection(urls, which, ("delayed",), only_pages=not urls and not which.given)
    with open_crawl(redis, crawl) as frontier:
        found = selection.find(frontier)
        promoted = selection.change(frontier, found, frontier.admin.promote) if found and not dry_run else 0
        if promoted:
            frontier.internal.append_audit(operator(), "promote", selection.words(promoted))
    return _report(crawl, selection, found, "promoted", promoted, dry_run=dry_run, json=json)


class FoundRequest(NamedTuple):
    """A waiting request that matches."""

    id: str
    url: str


class Selection:
    """The waiting requests that a command is about: given URLs, a filter, and states."""

    def __init__(
        self, urls: Sequence[str], which: RequestFilter, states: Sequence[ListedState], *, only_pages: bool = False
    ) -> None:
        if urls:
            _check(urls, "name")
        self.urls = {_parsed(url): url for url in urls}
        self.which = which
        self._states = states
        self._only_pages = only_pages

    def find(self, frontier: SyncFrontier) -> list[FoundRequest]:
        """Return all that match, in the order of the queues."""
        return [
            FoundRequest(one.id, one.url)
            for state in self._states
            for some in _pages(frontier, state, self.which.host)
            for one in some
            if not (self._only_pages and _is_call(one))
            and self.which.matches(one)
            and (not self.urls or _normalized(one.url) in self.urls)
        ]

    def change(self, frontier: SyncFrontier, found: Sequence[FoundRequest], change: Callable[[list[str]], int]) -> int:
        """Drop or promote what was found; return how many.

        The last of a queue come first, so that the others stay where they were listed. If workers have moved many of them
        meanwhile, the rest is searched again.
        """
        total = 0
        while found:
            ids = [one.id for one in reversed(found)]
            changed = sum(change(ids[start : start + exporting.PAGE]) for start in range(0, len(ids), exporting.PAGE))
            total += changed
            found = self.find(frontier) if 0 < changed < len(ids) else []
        return total

    def missing(self, found: Sequence[FoundRequest]) -> list[str]:
        """Return the given URLs that were not found."""
        known = {_normalized(one.url) for one in found}
        return [given for url, given in self.urls.items() if url not in known]

    def words(self, count: int) -> str:
        """Return the target of an audit entry."""
        named = [next(iter(self.urls.values()))[:LONGEST_ABOUT] if len(self.urls) == 1 else f"{len(self.urls)} URLs"]
        filtered = [f"{name} {text[:LONGEST_ABOUT]}" for name, text in self.which.given.items()]
        everything = "all delayed pages" if self._only_pages else "all delayed"
        return f"{', '.join([*(named if self.urls else ()), *filtered]) or everything}: {count}"


def _is_call(one: ListedRequest) -> bool:
    """Return whether a request is a call of a task: its host and its handler are the name of the task."""
    return one.request.handler == one.host


def _parsed(url: str) -> str:
    try:
        return parse(url).url
    except RequestError as error:
        raise ConfigError(f"{url[:200]!r} is not a URL that can be crawled: {error}") from None


def _normalized(url: str) -> str:
    try:
        return parse(url).url
    except RequestError:  # Scrapy stores URLs such as data:
        return url


def _report(
    crawl: str, selection: Selection, found: Sequence[FoundRequest], verb: str, ended: int, *, dry_run: bool, json: bool
) -> int:
    missing, some = selection.missing(found), [one.url for one in found[:SHOWN_URLS]]
    if json:
        screen.print_json(
            {"crawl": crawl, "matching": len(found), verb: ended, "dry_run": dry_run, "urls": some, "missing": missing}
        )
    elif dry_run and found:
        screen.show(f"{plural(len(found), 'request')} would be {verb}:")
        for url in some:
            screen.show(f"  {safe(url)}")
        if len(found) > len(some):
            screen.show(f"  … and {len(found) - len(some):,} more")
    elif found:
        screen.show(f"{plural(ended, 'request')} {verb}")
    elif not selection.urls:
        screen.show(f"No waiting request of {crawl} matches.")
    if not json:
        for url in missing[:SHOWN_URLS]:
            screen.remark(f"Not found among the waiting requests: {safe(url)}. Its state: silkline explain {safe(url)}")
        if len(missing) > SHOWN_URLS:
            screen.remark(f"… and {len(missing) - SHOWN_URLS:,} more URLs were not found")
    return Exit.FAILED if missing else Exit.OK
