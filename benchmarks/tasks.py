"""Tasks: typed tasks run and are enqueued many times faster than those of RQ, SAQ, arq and taskiq, and a call returns sooner.

A waiting call takes a tenth of the memory.
"""

from benchmarks.lab import Claim, Entrant, Figure, Lab, Section, progress, times_faster
from benchmarks.memory import weigh_peer

METHOD = (
    "Calls of an async task that does nothing, with a URL as its argument, or with two small ones. Running: one worker process until the "
    "queue is empty, results kept. Enqueueing: 1,000 calls at a time for Silkline and RQ (enqueue_many), 50 concurrent calls for SAQ, arq "
    "and taskiq, which have no bulk method. SAQ and arq deduplicate by job id. Bytes: the server's memory per waiting call. Round trip: "
    "one call after the other, each waits for the result of the one before, with an idle worker in another process. The peers and "
    "their callers look for jobs and results every millisecond; their defaults are 0.2 to 0.5 s."
)
OURS = "benchmarks.silkline_tasks_side"
PEERS = ("SAQ", "arq", "taskiq", "RQ")


def fastest(figures: list[Figure]) -> Figure:
    """Return the figure with the highest median."""
    return max(figures, key=lambda figure: figure.median)


def round_trips(lab: Lab, section: Section, calls: int, rounds: int) -> list[Figure]:
    """Measure milliseconds from enqueueing a call to its result, all sides in turn."""
    entrants = [Entrant("silkline, round trip", OURS, calls, ours=True)]
    entrants += [Entrant(f"{name}, round trip", f"benchmarks.peers.{name.lower()}", calls) for name in PEERS]
    figures = [section.figure(entrant.name, "ms") for entrant in entrants]
    for number in range(rounds):
        for entrant, figure in zip(entrants, figures, strict=True):
            progress(f"round {number + 1} of {rounds}: {entrant.name}")
            line = lab.run_side(entrant, "call")
            figure.rounds.append(1000 * line["seconds"] / line["count"])
            figure.cpu.append(1e6 * line["cpu"] / line["count"])
            section.versions |= line["versions"]
    return figures


def round_trip_claim(ours: Figure, *peers: Figure) -> Claim:
    """Return the claim about the best peer; RQ, the last one, is context."""
    best = min(peers[:-1], key=lambda figure: figure.median)
    ratios = tuple(mine / other for mine, other in zip(ours.rounds, best.rounds, strict=True))
    name = "time from enqueueing a call to its result, of the best of SAQ, arq and taskiq"
    return Claim(name, "×", ours.median / best.median, 0.5, 0.35, rounds=ratios)


def measure(lab: Lab) -> Section:
    """Compare all task queues."""
    section = Section("Tasks", METHOD)
    jobs, many, peers, rounds = (500, 10_000, 5_000, 3) if lab.quick else (1_500, 50_000, 20_000, 7)
    run = lab.race(
        section,
        [
            Entrant("silkline, run", OURS, many, ours=True),
            Entrant("RQ, run", "benchmarks.peers.rq", jobs),
            Entrant("SAQ, run", "benchmarks.peers.saq", jobs),
            Entrant("arq, run", "benchmarks.peers.arq", jobs),
            Entrant("taskiq, run", "benchmarks.peers.taskiq", jobs),
        ],
        "process",
        rounds,
    )
    enqueue = lab.race(
        section,
        [
            Entrant("silkline, enqueue_many", OURS, many, ours=True),
            Entrant("RQ, enqueue_many", "benchmarks.peers.rq", peers, option="bulk"),
            Entrant("SAQ, enqueue", "benchmarks.peers.saq", peers),
            Entrant("arq, enqueue", "benchmarks.peers.arq", peers),
            Entrant("taskiq, enqueue", "benchmarks.peers.taskiq", peers),
        ],
        "enqueue",
        rounds,
    )
    trips = round_trips(lab, section, 100 if lab.quick else 300, rounds)
    weigh_peer(lab, section, Entrant("silkline, two arguments", OURS, many, ours=True, option="two"))
    ours = section.figures[-1].median
    weigh_peer(lab, section, Entrant("RQ, one argument", "benchmarks.peers.rq", peers, option="bulk"))
    rq = section.figures[-1].median
    mine, worker, *others = run.values()
    bulk, *all_bulk = enqueue.values()
    section.claims += [
        times_faster("run tasks that do nothing, against RQ's burst worker", mine, worker, must=20, stretch=40),
        times_faster(
            "run tasks that do nothing, against the best of SAQ, arq and taskiq",
            mine,
            fastest(others),
            must=5,
            stretch=10,
        ),
        times_faster(
            "enqueue_many, against the best of RQ, SAQ, arq and taskiq", bulk, fastest(all_bulk), must=5, stretch=10
        ),
        round_trip_claim(*trips),
        Claim("bytes of a waiting call with two arguments, of RQ's with one", "×", ours / rq, 0.1, 0.05),
    ]
    return section
