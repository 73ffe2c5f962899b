"""Watched: keeping a history and answering for metrics takes next to nothing of the time that claims and completions have."""

from statistics import median

from benchmarks.lab import Claim, Entrant, Lab, Section
from benchmarks.silkline_side import WORKERS
from silkline.worker.presence import EVERY

METHOD = (
    "What twenty workers tell in five seconds into roster and history, with the answers of as many hosts as each may tell of (100), and what one scrape of "
    "the metrics asks, one after the other on a crawl of 100,000 URLs that wait. Client and server both count: so much of every "
    "second is not there for claims and completions, if one core does it all. (A race with and without shows less than its noise.)"
)


def measure(lab: Lab) -> Section:
    """Time the telling alone, and say what share of a second it takes."""
    section = Section("What is told while others claim", METHOD)
    count, rounds = (20_000, 2) if lab.quick else (100_000, 7)
    told = Entrant("one worker tells", "benchmarks.silkline_side", count, ours=True, option="tell")
    figure = lab.race(section, [told], "process", rounds)[told.name]
    shares = tuple(100 * WORKERS / EVERY / per_second for per_second in figure.rounds)
    name = "share of the time for history and metrics, 20 workers"
    section.claims.append(Claim(name, "%", median(shares), 3.0, 1.0, rounds=shares))
    return section
