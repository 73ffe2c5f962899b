"""Several processes share the rate limits: the delay of a host applies to all of them together.

Run it: python examples/polite_fleet.py
"""

from itertools import pairwise
from multiprocessing import get_context

from silkline import Complete, Politeness, SyncFrontier

CRAWL, DELAY, LEASE, WORKERS = "polite-fleet", 0.1, 10.0, 3
URLS = [f"https://{host}.example/{page}" for page in range(10) for host in ("slow", "steady", "calm")]


def work(_: int) -> list[tuple[str, float]]:
    """Run one process: claim requests that may start now, until nothing is left. Return the hosts and start times."""
    visits = []
    with SyncFrontier.open(crawl=CRAWL, lease=LEASE) as frontier:
        while not frontier.finished():
            leases = frontier.claim(5, wait=0.5)
            started = [lease.expires - LEASE for lease in leases]  # by the server's clock
            visits += [(lease.host, time) for lease, time in zip(leases, started, strict=True)]
            frontier.settle([(lease, Complete()) for lease in leases])
    return visits


def main() -> None:
    with SyncFrontier.open(crawl=CRAWL, politeness=Politeness(delay=DELAY, concurrency=1)) as frontier:
        frontier.enqueue(URLS)
        with get_context("spawn").Pool(WORKERS) as pool:
            visits = [visit for part in pool.map(work, range(WORKERS)) for visit in part]
        frontier.admin.remove()  # only for this example: it deletes the crawl
    print(f"{len(visits)} pages by {WORKERS} processes")
    for host in sorted({host for host, _ in visits}):
        starts = sorted(time for name, time in visits if name == host)
        gap = min(later - earlier for earlier, later in pairwise(starts))
        print(f"{host}: {len(starts)} pages, never less than {gap:.3f} s apart")


if __name__ == "__main__":
    main()
