"""``silkline explain``: why a page is not crawled, or where it is."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.operating import safe
from silkline.cli.server import Json, Redis, existing
from silkline.core.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.core.url import parse
from silkline.frontier.crawls import crawl_names
from silkline.frontier.sentences import Explanation, clock_time
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.unreadable import NOT_AS_STORED, unreadable
from silkline.operate.names import identities_of
from silkline.worker.crawl import Crawl
from silkline.worker.loading import load_crawl


class Asked(NamedTuple):
    """What is known of the crawl's own rules: from its file, if it was named."""

    agent: str | None = None
    attempts: int | None = None
    objection: str | None = None


def explain(
    url: Annotated[str, Parameter(name="URL")],
    /,
    *,
    crawl: str | None = None,
    file: str | None = None,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Say where a URL stands and why it is not crawled yet.

    Looks in all crawls of the server, or in the one that is named.

    Examples:
      silkline explain https://books.example/page/7
      silkline explain https://books.example/page/7 --file books.py

    Exit code: 0, 2 wrong usage, no URL or no such crawl, 3 server unavailable.

    Parameters
    ----------
    url
        The URL, spelled in any way.
    crawl
        Name of the crawl.
    file
        The crawl's Python file: then its scope, its user agent and its number of attempts are known too.
    json
        Print everything as JSON.
    """
    parse(url)  # refuses what is none
    defined = load_crawl(file) if file else None
    asked = _ask_file(defined, url) if defined else Asked()
    where = existing(redis)
    names = [crawl or defined.name] if crawl or defined else crawl_names(where)  # type: ignore[union-attr]
    if not names:
        raise ConfigError("there are no crawls on this server yet")
    found = (
        _explain_all(where, names, url, asked) if len(names) > 1 else {names[0]: _explain(where, names[0], url, asked)}
    )
    known = {name: one for name, one in found.items() if one.state is not None} or found
    if json:
        screen.tell_json({"url": url, "crawls": [_as_json(name, one, asked) for name, one in known.items()]})
    else:
        for name, one in known.items():
            _show(name, one, asked)
    return Exit.OK


def _ask_file(crawl: Crawl, url: str) -> Asked:
    """What the crawl's own rules say. Its starts stand for the page on which the link would be found."""
    address = parse(url)
    objections = [crawl.scope.objection(address, parse(start.url), 1) for start in crawl.listed_starts()]
    objection = objections[0] if objections and None not in objections else None
    backoff = crawl.retries.backoff
    attempts = backoff.max_attempts if backoff.steps is None else len(backoff.steps) + 1
    return Asked(crawl.fetching.agent(crawl.name), attempts, objection)


def _explain_all(where: str, names: list[str], url: str, asked: Asked) -> dict[str, Explanation]:
    """What each crawl says that can be read; the others are told of, and hide nothing."""
    found = {}
    for name in names:
        try:
            found[name] = _explain(where, name, url, asked)
        except StoreUnavailable:
            raise
        except (SilklineError, *NOT_AS_STORED) as error:
            screen.remark(f"[yellow]{safe(name)} cannot be read:[/] {safe(str(unreadable(name, error)))}")
    return found


def _explain(where: str, name: str, url: str, asked: Asked) -> Explanation:
    with SyncFrontier.open(where, crawl=name, create=False) as frontier:
        found = frontier.explain(url, agent=asked.agent, attempts=asked.attempts)
        if found.state is None and (identities := identities_of(url)):  # by which spiders of Scrapy know it
            found = frontier.explain(url, agent=asked.agent, attempts=asked.attempts, identities=identities)
    if found.state is None and asked.objection:
        return found.adding(f"A link to it is refused: out of scope ({asked.objection}).")
    return found


def _as_json(name: str, found: Explanation, asked: Asked) -> dict[str, Any]:
    letter = found.letter
    return {
        "crawl": name,
        "state": found.state,
        "text": found.text,
        "worker": found.worker,
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


def _show(name: str, found: Explanation, asked: Asked) -> None:
    screen.show(f"[bold]{name}[/]: {safe(found.text)}")
    if found.state is not None and asked.objection:
        screen.show(f"  A link to it would be out of scope now ({safe(asked.objection)}).")
    for trial in _history(found):
        status = f" (status {trial.status})" if trial.status is not None else ""
        screen.show(f"  {clock_time(trial.time)}  {safe(trial.reason)}{status}")
