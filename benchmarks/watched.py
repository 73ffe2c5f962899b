"""Claim: reporting a history and serving metrics takes a negligible share of the time for claims and completions."""

from statistics import median

from benchmarks.lab import Claim, Entrant, Lab, Section
from benchmarks.silkline_side import WORKERS
from silkline.runtime.presence import EVERY

METHOD = (
    "What twenty workers report in five seconds (status, history, and the responses of 100 hosts each) and one scrape of the "
    "metrics reads, one after the other, on a crawl of 100,000 queued URLs. The time of client and server counts: on a single "
    "core, this share of every second is not available for claims and completions. (A comparison of claims with and without "
    "the reports shows less than its noise.)"
)


def measure(lab: Lab) -> Section:
    """Time the reports alone, and compute their share of a second."""
    section = Section("Reports of workers and metrics", METHOD)
    count, rounds = (20_000, 2) if lab.quick else (100_000, 7)
    told = Entrant("one worker tells", "benchmarks.silkline_side", count, ours=True, option="tell")
    figure = lab.race(section, [told], "process", rounds)[told.name]
    shares = tuple(100 * WORKERS / EVERY / per_second for per_second in figure.rounds)
    name = "share of the time for history and metrics, 20 workers"
    section.claims.append(Claim(name, "%", median(shares), 3.0, 1.0, rounds=shares))
    return section
