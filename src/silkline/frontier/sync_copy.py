"""A `SyncFrontier` of the same crawl for another thread of a process that has a `Frontier`."""

from __future__ import annotations

from silkline.frontier.frontier import Frontier
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.transport.sync.connection import SyncConnection


def open_sync_copy(frontier: Frontier, *, lease: float, client_name: str) -> SyncFrontier:
    """Return a `SyncFrontier` of the crawl of *frontier*, with its own connections. Close it before *frontier*.

    This sends nothing to the server: the settings of the crawl and the nodes are those that *frontier* has read. So it works while
    any node is down.
    """
    known, layout = frontier._connection, frontier.layout  # noqa: SLF001 - of the same package
    connection = SyncConnection(
        known.target_now, ensure_server=known.ensure_server, crawl=frontier.crawl, role=client_name
    )
    connection.server = known.server
    connection.set_durability(frontier.crawl, layout.settings.durability)
    copy = SyncFrontier(connection, CrawlLayout(layout.keys, layout.settings), lease, None, None)
    copy.url = frontier.url
    return copy
