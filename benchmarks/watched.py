"""Watched: keeping a history and answering for metrics costs claim and complete next to nothing."""

from statistics import median

from benchmarks.lab import Claim, Entrant, Lab, Section

METHOD = (
    "As in claim and complete, by the async client. Watched: in the same process a fleet of twenty workers is told to roster and "
    "history every five seconds, with the answers of 300 hosts each, and the metrics of the crawl are asked for as often."
)


def measure(lab: Lab) -> Section:
    """Race the same side with and without company, turn by turn."""
    section = Section("Claim and complete while others look", METHOD)
    count, rounds = (20_000, 3) if lab.quick else (200_000, 15)
    entrants = [
        Entrant("alone", "benchmarks.silkline_side", count, ours=True, option="async"),
        Entrant("watched", "benchmarks.silkline_side", count, ours=True, option="watched"),
    ]
    figures = lab.race(section, entrants, "process", rounds)
    pairs = tuple(
        alone / watched for alone, watched in zip(figures["alone"].rounds, figures["watched"].rounds, strict=True)
    )
    cost = median(pairs)
    section.claims.append(Claim("claim + complete while watched, times as slow", "×", cost, 1.03, 1.01, rounds=pairs))
    return section
