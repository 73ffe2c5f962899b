"""Claim: enqueue with dedup is many times faster than scrapy-redis' scheduler, in one process."""

from benchmarks.lab import Entrant, Lab, Section, times_faster

METHOD = (
    "Distinct URLs on 1,000 hosts into an empty server, consecutive URLs on different hosts; Silkline in batches of 1,000, "
    "scrapy-redis with Scheduler.enqueue_request (it has no batches), its bare Requests built in advance. 300 other URLs are "
    "enqueued first, without timing."
)


def measure(lab: Lab) -> Section:
    """Compare all libraries that can enqueue."""
    section = Section("Enqueue with dedup", METHOD)
    few, many, rounds = (2_000, 30_000, 3) if lab.quick else (10_000, 200_000, 7)
    entrants = [
        Entrant("silkline", "benchmarks.silkline_side", many, ours=True),
        Entrant("scrapy-redis", "benchmarks.peers.scrapy_redis", few),
        Entrant("silkline, links in runs of 20 per host", "benchmarks.silkline_side", many, ours=True, clustered=True),
        Entrant("silkline, async client", "benchmarks.silkline_side", many, ours=True, option="async"),
        Entrant("scrapy-redis, with a callback", "benchmarks.peers.scrapy_redis", few, option="callback"),
        Entrant("RQ, one by one (no dedup)", "benchmarks.peers.rq", few),
        Entrant("RQ, enqueue_many (no dedup)", "benchmarks.peers.rq", few, option="bulk"),
        Entrant("SAQ", "benchmarks.peers.saq", few),
        Entrant("arq", "benchmarks.peers.arq", few),
    ]
    figures = lab.race(section, entrants, "enqueue", rounds)
    ours, theirs = figures["silkline"], figures["scrapy-redis"]
    section.claims.append(times_faster("enqueue with dedup, against scrapy-redis", ours, theirs, must=30, stretch=60))
    return section
