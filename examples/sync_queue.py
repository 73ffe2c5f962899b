"""A plain loop with retries: SyncFrontier, and a Backoff that decides when to retry and when to give up.

Run it: python examples/sync_queue.py
"""

import random

from silkline import Backoff, Bury, Complete, Lease, Politeness, RetryIn, SyncFrontier

BACKOFF = Backoff(steps=(0.05, 0.1))  # after the third failure the request is buried
RNG = random.Random()
PAGES = [f"https://shop.example/item/{number}" for number in range(8)]


def fetch(url: str, attempt: int) -> None:
    """Pretend to fetch: item 3 fails once, item 5 always."""
    if url.endswith("/3") and attempt == 1:
        raise TimeoutError("timed out")
    if url.endswith("/5"):
        raise ConnectionError("connection refused")


def attempt(lease: Lease) -> Complete | RetryIn | Bury:
    try:
        fetch(lease.url, lease.attempt)
    except OSError as error:
        verdict = BACKOFF.decide(attempt=lease.attempt, reason=str(error), rng=RNG)
        print(f"{lease.url}: {error}; {'giving up' if isinstance(verdict, Bury) else 'trying again'}")
        return verdict
    return Complete()


def main() -> None:
    with SyncFrontier.open(crawl="sync-queue", politeness=Politeness(delay=0)) as frontier:
        frontier.enqueue(PAGES)
        while not frontier.finished():
            leases = frontier.claim(4, wait=1.0)
            frontier.settle([(lease, attempt(lease)) for lease in leases])  # several verdicts in one call
        stats = frontier.admin.stats()
        print(f"{stats.done} done, {stats.dead} dead")
        for letter in frontier.admin.dead():
            print(f"dead: {letter.request.url}: {letter.reason}")
        frontier.admin.remove()  # only for this example: it deletes the crawl


if __name__ == "__main__":
    main()
