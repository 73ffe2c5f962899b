"""``silkline url``: one URL, or a few: explain, forget, add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter, validators

from silkline.cli import screen
from silkline.cli.enqueue import feed
from silkline.cli.exits import Exit
from silkline.cli.explain import explain
from silkline.cli.intake import Intake, Summary
from silkline.cli.lines import Lines
from silkline.cli.operating import DryRun, open_crawl, operator
from silkline.cli.server import Json, Redis
from silkline.core.errors import ConfigError
from silkline.core.lease import State
from silkline.core.request import MAX_PRIORITY
from silkline.operate.names import names_of
from silkline.operate.numbers import plural

app = App(name="url", help="Single URLs: explain, forget, add.", help_format="plaintext")
app.command(explain, name="explain", usage="Usage: silkline url explain URL [OPTIONS]")

MOST = 10_000


@app.command(name="add", usage="Usage: silkline url add CRAWL URL... [OPTIONS]")
def add(
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(name="URL")],
    priority: Annotated[int, Parameter(validator=validators.Number(gte=-MAX_PRIORITY, lte=MAX_PRIORITY))] = 0,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Put URLs into a crawl that is there, by hand: it is noted who did it. `enqueue` takes in files.

    Example:
      silkline url add books https://books.example/page/7

    Exit code: 0 all are in, 1 some were refused, 2 wrong usage or no such crawl,
    3 server unavailable, 130 interrupted.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs.
    priority
        From -1000 to 1000; higher goes first.
    json
        Print the summary as JSON.
    """
    _check(urls, "add")
    with open_crawl(redis, crawl) as frontier:
        intake = Intake(frontier, Summary(crawl, created=False), priority=priority, refused_to=None)
        code = feed(intake, frontier, Lines(urls, []), wait=True, json=json)
        if intake.summary.added:
            frontier.note_act(operator(), "add", _about(urls))
    return code


def _check(urls: Sequence[str], verb: str) -> None:
    if not 1 <= len(urls) <= MOST:
        raise ConfigError(f"give from 1 to {MOST:,} URLs to {verb}")


def _about(urls: Sequence[str]) -> str:
    """For the audit."""
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
    """Forget that URLs were seen, so that they can be enqueued and crawled again; by a spider of Scrapy, too.

    What waits or is under way stays where it is. A bloom filter cannot forget.

    Example:
      silkline url forget books https://books.example/page/7

    Exit code: 0, 2 wrong usage or no such crawl, 3 server unavailable.

    Parameters
    ----------
    crawl
        Name of the crawl.
    urls
        The URLs, spelled in any way.
    json
        Print what was done as JSON.
    """
    _check(urls, "forget")
    known = [names_of(url) for url in urls]
    with open_crawl(redis, crawl) as frontier:
        if dry_run:
            waiting = (State.READY, State.LEASED, State.DELAYED, State.DEAD)
            states = [frontier.explain(url, identities=[name.identity for name in also]).state for url, *also in known]
            seen = sum(state is not None for state in states)
            held = sum(state in waiting for state in states)
        else:
            seen, held = sum(frontier.forget(names) > 0 for names in known), 0
            if seen:
                frontier.note_act(operator(), "forget", _about(urls))
    if json:
        screen.tell_json({"crawl": crawl, "given": len(urls), "forgotten": 0 if dry_run else seen, "seen": seen})
    elif dry_run:
        screen.show(
            f"{plural(seen, 'URL')} of {len(urls):,} would be forgotten; {held:,} of them still wait or are dead"
        )
    else:
        screen.show(f"{plural(seen, 'URL')} of {len(urls):,} forgotten")
    return Exit.OK
