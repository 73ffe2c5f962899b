"""What a server holds, asked without naming a crawl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from silkline.core.errors import SilklineError, StoreUnavailable
from silkline.frontier import commands, inspection
from silkline.frontier.address import read_url
from silkline.frontier.connection import SyncConnection
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.inspection import Stats
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.plan import Plan
from silkline.frontier.server import check_server
from silkline.frontier.settings import Settings
from silkline.frontier.sync import drive
from silkline.frontier.wishes import embedded_in


@contextmanager
def visit(url: str | None = None) -> Iterator[SyncConnection]:
    """A connection to the server at *url*, or to the embedded one, for as long as the block lasts."""
    embedded = EmbeddedServer.join(directory) if (directory := embedded_in(url)) else None
    try:
        connection = SyncConnection(read_url(embedded.url if embedded else str(url)))
        try:
            connection.start()
            check_server(connection.server, connection.target.public)
            yield connection
        finally:
            connection.close()
    finally:
        if embedded:
            embedded.leave()


def list_crawls(url: str | None = None) -> dict[str, Stats | SilklineError]:
    """All crawls of a server in numbers, by name; of one that this version cannot read, the error."""
    found: dict[str, Stats | SilklineError] = {}
    with visit(url) as connection:
        for name in connection.call(commands.register("")):
            try:
                stats = _count(connection, CrawlKeys(name))
            except StoreUnavailable:
                raise
            except SilklineError as error:
                found[name] = error
            else:
                if stats:
                    found[name] = stats
    return found


def _count(connection: SyncConnection, keys: CrawlKeys) -> Stats | None:
    """None for a crawl that is listed but no longer there."""
    stored = connection.call(commands.read_settings(keys))
    return drive(connection, inspection.stats(Plan(keys, Settings.decode(stored)))) if stored else None
