"""The constants of `silkline plan`: bytes per queued, leased and dead request, per host, and per host with responses.
Prints each measurement next to the value that the plan uses. Run it separately; it takes about three minutes.
"""

import random
import string
import sys
from pathlib import Path
from urllib.parse import quote

from benchmarks.lab import Lab, open_lab
from benchmarks.urls import take
from silkline import Bury, Politeness, SyncFrontier
from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.hosts import StatusCounts
from silkline.ops import capacity
from silkline.ops.capacity import Workload

COUNT, FEW_HOSTS, ENDED = 200_000, 1_000, 20_000
ANSWERED = 100_000
AT_ONCE = Politeness(delay=0, concurrency=1_000_000)


def open_crawl(lab: Lab, name: str) -> SyncFrontier:
    return SyncFrontier.open(lab.url, crawl=name, capacity=10_000_000, politeness=AT_ONCE)


def urls(length: int, hosts: int) -> list[str]:
    """Return URLs of random letters, which cannot be compressed: the worst case."""
    rng, letters = random.Random(1), string.ascii_lowercase + string.digits
    return [f"https://h{n % hosts}.example/{''.join(rng.choices(letters, k=length - 1))}" for n in range(COUNT)]


def rehearse(lab: Lab) -> int:
    """Run each command once, because the server keeps memory per command; return the memory of the empty server."""
    lab.redis.flushall()
    with open_crawl(lab, "rehearsal") as frontier:
        frontier.enqueue([f"https://h{n}.example/" for n in range(2_000)])
        frontier.settle([(lease, Bury("status 503", 503)) for lease in frontier.claim(500)])
        frontier.internal.add_answers({"h1.example": StatusCounts(failed=1)})
    lab.redis.flushall()
    return lab.settled_memory()


def weigh(lab: Lab, length: int, hosts: int) -> None:
    empty = rehearse(lab)
    with open_crawl(lab, "whole") as frontier:
        given = urls(length, hosts)
        for first in range(0, COUNT, 1_000):
            frontier.enqueue(given[first : first + 1_000])
        waiting = lab.settled_memory()
        expected = capacity.weigh(
            Workload(urls=COUNT, hosts=hosts, payload=length), SeenFilter.parse("exact"), answered=0
        )
        tell(f"{length} bytes on {hosts:,} hosts, per URL", (waiting - empty) / COUNT, expected / COUNT)
        if COUNT / hosts * length > capacity.LONG_QUEUE:
            print("  (the plan assumes URLs that can be compressed, as those of a site can; these cannot)")
        leases = [lease for _ in range(ENDED // 1_000) for lease in frontier.claim(1_000, lease=3_600)]
        leased = lab.settled_memory()
        queued = length + capacity.QUEUED_BYTES  # as a queued request
        tell("  per lease", queued + (leased - waiting) / ENDED, length + capacity.LEASE_BYTES)
        frontier.settle([(lease, Bury("status 503", 503)) for lease in leases])
        dead = queued + (lab.settled_memory() - waiting) / ENDED
        tell("  per dead letter", dead, length + capacity.LETTER_BYTES)


def weigh_answers(lab: Lab) -> None:
    """Report responses of the maximum number of hosts, then of as many others: memory must not grow further."""
    empty = rehearse(lab)
    with open_crawl(lab, "answers") as frontier:
        for told, what in ((0, "per host with responses"), (ANSWERED, "  after as many other hosts")):
            for first in range(told, told + ANSWERED, 2_000):
                hosts = [f"www.some-host-{number}.example" for number in range(first, first + 2_000)]
                frontier.internal.add_answers(
                    {host: StatusCounts(status_2xx=9, status_5xx=1, last=200) for host in hosts}
                )
            tell(what, (lab.settled_memory() - empty) / ANSWERED, capacity.ANSWERS_BYTES)


def tell(what: str, measured: float, expected: float) -> None:
    print(f"{what:<45} {measured:7.1f} bytes, plan: {expected:.1f}")


def file_urls() -> list[str]:
    """Return realistic paths: the files of this Python installation, as pages of one site."""
    files = sorted(str(path.relative_to(sys.prefix)) for path in Path(sys.prefix).rglob("*.py"))
    random.Random(1).shuffle(files)
    return [f"https://code.example/{quote(path)}" for path in files]


def weigh_compression(lab: Lab, what: str, given: list[str]) -> None:
    """Measure the compressed size of payloads in a long queue."""
    payload, used = sum(len(url.partition("example")[2]) for url in given), {}
    for depth in (0, 1):
        lab.redis.config_set("list-compress-depth", depth)
        empty = rehearse(lab)
        with open_crawl(lab, "whole") as frontier:
            for first in range(0, len(given), 1_000):
                frontier.enqueue(given[first : first + 1_000])
            used[depth] = lab.settled_memory() - empty
    print(
        f"{what}: {len(given):,} of {payload / len(given):.0f} bytes, {used[0] / len(given):.1f} bytes per URL and"
        f" {used[1] / len(given):.1f} compressed; {1 - (used[0] - used[1]) / payload:.2f} of the payload is left"
    )


def main() -> None:
    with open_lab(quick=False) as lab:
        for each in (1_000, 2_000, 20_000):
            weigh_compression(lab, f"shops, {each:,} per host", take(100_000, 100_000 // each))
        weigh_compression(lab, "files, all on one host", file_urls())
        for length in (20, 60, 250):
            weigh(lab, length, FEW_HOSTS)
        weigh(lab, 60, COUNT)
        weigh_answers(lab)


if __name__ == "__main__":
    main()
