"""Claims: burying at the limit of dead letters takes at most 1.3 times as long as below it; bytes per dead letter.

Run it separately; it takes a minute. Two crawls with equally many letters, one of them at its limit, are buried into in turn. The
times are those of the settle script inside the server; of many calls, the fastest tenth counts, because other load only adds to them.
"""

import itertools
from collections.abc import Iterator
from statistics import quantiles

from benchmarks.lab import Lab, open_lab
from silkline import Bury, Politeness, SyncFrontier
from silkline.core.lease import Lease

LETTERS = 10_000
ROUNDS = {1: 1_000, 32: 300, 500: 40}
"""Settle calls per crawl, by the number of requests that each buries."""
MUST = 1.3
FAILED = Bury("status 404", 404)
RAISED = Bury(
    "callback parse: KeyError (shop.py:214): 'price'",
    detail="Traceback (most recent call last):\n" + '  File "/srv/shop/spiders/shop.py", line 214, in parse\n' * 24,
)
KINDS = {"a failed response": FAILED, "an exception with its traceback": RAISED}


def open_crawl(lab: Lab, name: str, limit: int) -> SyncFrontier:
    return SyncFrontier.open(
        lab.url, crawl=name, dead_limit=limit, capacity=50_000_000, politeness=Politeness(delay=0, concurrency=500)
    )


def claim(frontier: SyncFrontier, numbers: Iterator[int], wanted: int) -> list[Lease]:
    urls = [f"https://h{n % 1_000}.example/catalogue/product-{n}" for n in itertools.islice(numbers, wanted)]
    frontier.enqueue(urls)
    return frontier.claim(wanted)


def bury(lab: Lab, frontier: SyncFrontier, numbers: Iterator[int], verdict: Bury, wanted: int) -> float:
    """Bury some requests; return the microseconds of the script."""
    leases = claim(frontier, numbers, wanted)
    before = lab.redis.info("commandstats")["cmdstat_evalsha"]["usec"]
    frontier.settle([(lease, verdict) for lease in leases])
    return float(lab.redis.info("commandstats")["cmdstat_evalsha"]["usec"] - before)


def measure_time(lab: Lab, verdict: Bury) -> dict[int, tuple[float, ...]]:
    """Return the microseconds per request below and at the limit, by the number of requests of a call."""
    lab.redis.flushall()
    numbers = itertools.count()
    with open_crawl(lab, "below", LETTERS * 10) as below, open_crawl(lab, "full", LETTERS) as full:
        for frontier in (below, full):
            for _ in range(LETTERS // 500):
                bury(lab, frontier, numbers, verdict, 500)
        found = {}
        for wanted, rounds in ROUNDS.items():
            pairs = [[bury(lab, one, numbers, verdict, wanted) for one in (below, full)] for _ in range(rounds)]
            found[wanted] = tuple(quantiles(times, n=10)[0] / wanted for times in zip(*pairs, strict=True))
        assert full.admin.stats().dead == LETTERS
        assert full.admin.stats().dead_dropped == sum(wanted * rounds for wanted, rounds in ROUNDS.items())
    return found


def measure_memory(lab: Lab, verdict: Bury) -> float:
    """Return the bytes per letter that a purge frees: the seen filter keeps the URL of a letter."""
    lab.redis.flushall()
    with open_crawl(lab, "memory", 0) as frontier:
        numbers = itertools.count()
        for _ in range(LETTERS // 500):
            bury(lab, frontier, numbers, verdict, 500)
        full = lab.settled_memory()
        frontier.admin.purge()
        return (full - lab.settled_memory()) / LETTERS


def main() -> None:
    with open_lab(quick=False) as lab:
        for kind, verdict in KINDS.items():
            print(f"{kind}: {measure_memory(lab, verdict):,.0f} bytes")
            for wanted, (below, full) in measure_time(lab, verdict).items():
                ratio = full / below
                print(f"  {wanted:>3} per call: {below:.1f} µs below the limit, {full:.1f} µs at it, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
