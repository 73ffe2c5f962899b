"""``silkline url``: one URL, or a few: explain, forget, add."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.enqueue import enqueue
from silkline.cli.exits import Exit
from silkline.cli.explain import explain
from silkline.cli.operating import DryRun, open_crawl, operator, plural
from silkline.cli.server import Json, Redis
from silkline.core.errors import ConfigError
from silkline.core.lease import State

app = App(name="url", help="Single URLs: explain, forget, add.", help_format="plaintext")
app.command(explain, name="explain", usage="Usage: silkline url explain URL [OPTIONS]")
app.command(enqueue, name="add", usage="Usage: silkline url add CRAWL URL... [OPTIONS]")

MOST = 10_000


@app.command(name="forget", usage="Usage: silkline url forget CRAWL URL... [OPTIONS]")
def forget(
    crawl: str,
    /,
    *urls: Annotated[str, Parameter(name="URL")],
    dry_run: DryRun = False,
    redis: Redis = None,
    json: Json = False,
) -> int:
    """Forget that URLs were seen, so that they can be enqueued and crawled again.

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
    if not 1 <= len(urls) <= MOST:
        raise ConfigError(f"give from 1 to {MOST:,} URLs to forget")
    with open_crawl(redis, crawl) as frontier:
        if dry_run:
            waiting = (State.READY, State.LEASED, State.DELAYED, State.DEAD)
            states = [frontier.explain(url).state for url in urls]
            seen = sum(state is not None for state in states)
            held = sum(state in waiting for state in states)
        else:
            seen, held = frontier.forget(urls), 0
            if seen:
                frontier.note_act(operator(), "forget", urls[0] if len(urls) == 1 else f"{len(urls)} URLs")
    if json:
        screen.tell_json({"crawl": crawl, "given": len(urls), "forgotten": 0 if dry_run else seen, "seen": seen})
    elif dry_run:
        screen.show(
            f"{plural(seen, 'URL')} of {len(urls):,} would be forgotten; {held:,} of them still wait or are dead"
        )
    else:
        screen.show(f"{plural(seen, 'URL')} of {len(urls):,} forgotten")
    return Exit.OK
