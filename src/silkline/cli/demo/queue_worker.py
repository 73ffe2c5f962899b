"""A worker of the demo: claims, pretends to fetch, notes what it did in a file of its own, completes.

Its journal is what the proof is made of. A line is written when a request is handed out (``+``, with the server's time)
and when its work is done (``=``), before it is completed: as a real worker stores its items first.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import BinaryIO

from silkline.core.lease import Lease
from silkline.core.verdict import Complete
from silkline.frontier.sync import SyncFrontier

LEASE = 5.0
CLAIM = 64
FETCH_SECONDS = 0.02
"""How long a page takes, for all of a batch at once."""


def main(url: str, crawl: str, journal: str) -> None:
    """Work until nothing is left, or until SIGTERM; what is claimed by then is still completed."""
    told_to_go = Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_go.set())
    with (
        SyncFrontier.open(url, crawl=crawl, create=False, lease=LEASE) as frontier,
        Path(journal).open("ab", 0) as file,
    ):
        while not told_to_go.is_set():
            leases = frontier.claim(CLAIM, wait=0.5)
            if leases:
                _work(frontier, leases, file)
            elif frontier.finished():
                return


def _work(frontier: SyncFrontier, leases: Sequence[Lease], journal: BinaryIO) -> None:
    _note(journal, "+", leases)
    time.sleep(FETCH_SECONDS)
    _note(journal, "=", leases)
    frontier.settle([(lease, Complete()) for lease in leases])


def _note(journal: BinaryIO, mark: str, leases: Sequence[Lease]) -> None:
    """One write for all: a kill leaves whole lines."""
    lines = (f"{mark} {round((lease.expires - LEASE) * 1000)} {lease.url}\n" for lease in leases)
    journal.write("".join(lines).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
