"""Claim: claiming and completing is many times faster than scrapy-redis' next_request and RQ's burst worker."""

from benchmarks.lab import Entrant, Lab, Section, times_faster

METHOD = (
    "URLs on 1,000 hosts, enqueued without timing and then processed until none is left. Silkline: claim(100), lease.url "
    "of each, settle as complete; 8 at a time per host, no delay, with fencing tokens and host accounting. scrapy-redis: "
    "Scheduler.next_request, which has no acknowledgement. The task queues run a job that does nothing."
)


def measure(lab: Lab) -> Section:
    """Compare all libraries that hand out work."""
    section = Section("Claim and complete", METHOD)
    jobs, few, many, rounds = (500, 2_000, 20_000, 3) if lab.quick else (1_500, 10_000, 100_000, 7)
    entrants = [
        Entrant("silkline", "benchmarks.silkline_side", many, ours=True),
        Entrant("scrapy-redis (no ack)", "benchmarks.peers.scrapy_redis", few),
        Entrant("RQ", "benchmarks.peers.rq", jobs),
        Entrant("silkline, async client", "benchmarks.silkline_side", many, ours=True, option="async"),
        Entrant("SAQ", "benchmarks.peers.saq", jobs),
        Entrant("arq", "benchmarks.peers.arq", jobs),
    ]
    figures = lab.race(section, entrants, "process", rounds)
    ours, scrapy, rq = (figures[name] for name in ("silkline", "scrapy-redis (no ack)", "RQ"))
    section.claims += [
        times_faster("claim + complete, against scrapy-redis", ours, scrapy, must=8, stretch=12),
        times_faster("claim + complete, against RQ's burst worker", ours, rq, must=100, stretch=200),
    ]
    return section
