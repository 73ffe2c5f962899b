"""The constants of `silkline plan`: bytes per request that waits, is leased or dead, and per host. Run it by itself."""

import random
import string

from benchmarks.lab import Lab, open_lab
from silkline import Bury, Politeness, SyncFrontier

COUNT, FEW_HOSTS, ENDED = 200_000, 1_000, 20_000
AT_ONCE = Politeness(delay=0, concurrency=1_000_000)


def open_crawl(lab: Lab, name: str) -> SyncFrontier:
    return SyncFrontier.open(lab.url, crawl=name, capacity=10_000_000, politeness=AT_ONCE)


def urls(length: int, hosts: int) -> list[str]:
    """Of random letters, so that nothing can be compressed: the worst case."""
    rng, letters = random.Random(1), string.ascii_lowercase + string.digits
    return [f"https://h{n % hosts}.example/{''.join(rng.choices(letters, k=length - 1))}" for n in range(COUNT)]


def rehearse(lab: Lab) -> int:
    """A server keeps something of every command it has ever run; answers what it weighs empty."""
    lab.redis.flushall()
    with open_crawl(lab, "rehearsal") as frontier:
        frontier.enqueue([f"https://h{n}.example/" for n in range(2_000)])
        frontier.settle([(lease, Bury("status 503", 503)) for lease in frontier.claim(500)])
    lab.redis.flushall()
    return lab.settled_memory()


def weigh(lab: Lab, length: int, hosts: int) -> None:
    empty = rehearse(lab)
    with open_crawl(lab, "whole") as frontier:
        given = urls(length, hosts)
        for first in range(0, COUNT, 1_000):
            frontier.enqueue(given[first : first + 1_000])
        waiting = lab.settled_memory()
        print(f"{length} bytes on {hosts:,} hosts: {(waiting - empty) / COUNT:.1f} bytes per URL")
        leases = [lease for _ in range(ENDED // 1_000) for lease in frontier.claim(1_000, lease=3_600)]
        leased = lab.settled_memory()
        frontier.settle([(lease, Bury("status 503", 503)) for lease in leases])
        print(
            f"  {(leased - waiting) / ENDED:.0f} more per lease, {(lab.settled_memory() - waiting) / ENDED:.0f} more per dead letter"
        )


def main() -> None:
    with open_lab(quick=False) as lab:
        for length in (20, 60, 250):
            weigh(lab, length, FEW_HOSTS)
        weigh(lab, 60, COUNT)


if __name__ == "__main__":
    main()
