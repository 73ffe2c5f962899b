"""Claim: a feed moves URLs into the frontier about as fast as the frontier takes them from memory."""

from benchmarks.lab import Entrant, Lab, Section, times_faster

METHOD = (
    "One worker's feeding of 1,000,000 distinct URLs on 1,000 hosts, against Frontier.enqueue of the same URLs in memory, in batches of "
    "4,000 as feeds have them. The Redis list is on the same server. A smaller run comes first, without timing."
)


def measure(lab: Lab) -> Section:
    """Compare feeds with the frontier itself."""
    section = Section("Feeding", METHOD)
    count, rounds = (30_000, 3) if lab.quick else (1_000_000, 5)
    options = {
        "enqueue from memory": "frontier",
        "feed of a Redis list": "redis",
        "feed of a text file": "txt",
        "feed of a CSV file": "csv",
    }
    entrants = [
        Entrant(name, "benchmarks.feed_side", count, ours=True, option=option) for name, option in options.items()
    ]
    figures = lab.race(section, entrants, "enqueue", rounds)
    memory = figures["enqueue from memory"]
    for source in ("a Redis list", "a text file"):
        fed = figures[f"feed of {source}"]
        section.claims.append(
            times_faster(f"feeding {source}, of the enqueue rate", fed, memory, must=0.5, stretch=0.8)
        )
    return section
