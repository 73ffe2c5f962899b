"""Tasks: typed tasks run and are enqueued many times faster than those of RQ, SAQ, arq and taskiq, and a call returns sooner.

A waiting call takes a tenth of the memory.
"""

from collections.abc import Sequence

from benchmarks.lab import Claim, Entrant, Figure, Lab, Section, progress, times_faster
from benchmarks.memory import weigh_peer
from benchmarks.sides import POLLED

METHOD = (
    "Calls of an async task that does nothing, with a URL as its argument, or with two small ones. Running: one worker process until the "
    "queue is empty, results kept. Enqueueing: 1,000 calls at a time for Silkline and RQ (enqueue_many), 50 concurrent calls for SAQ, arq "
    "and taskiq, which have no bulk method. SAQ and arq deduplicate by job id. Bytes: the server's memory per waiting call. Round trip: "
    "one call after the other, each waits for the result of the one before, with an idle worker in another process. SAQ, arq and taskiq look "
    "for jobs and results now and then: every 0.2 to 0.5 s, as their documentation says, and in rows of their own (polled) every "
    "millisecond."
)
OURS = "benchmarks.silkline_tasks_side"
PEERS = ("SAQ", "arq", "taskiq")
COMPARED = ("SAQ", "arq")
"""The peers of the claims about round trips; taskiq and RQ are context."""
SLOW_CALLS, SLOW_ROUNDS = 5, 3
"""Calls that take half a second each, and in how many rounds they are measured."""


def best(figures: Sequence[Figure], *, lowest: bool = False) -> Figure:
    """Return the figure with the highest median, or the lowest."""
    return (min if lowest else max)(figures, key=lambda figure: figure.median)


def round_trips(lab: Lab, section: Section, calls: int, rounds: int) -> list[Claim]:
    """Measure milliseconds from enqueueing a call to its result, all sides in turn."""
    ours = Entrant("silkline, round trip", OURS, calls, ours=True)
    rq = Entrant("RQ, round trip", "benchmarks.peers.rq", calls)
    modules = {name: f"benchmarks.peers.{name.lower()}" for name in PEERS}
    polled = [Entrant(f"{name}, round trip, polled", module, calls, option=POLLED) for name, module in modules.items()]
    default = [Entrant(f"{name}, round trip, defaults", module, SLOW_CALLS) for name, module in modules.items()]
    figures = {entrant.name: section.figure(entrant.name, "ms") for entrant in (ours, rq, *polled, *default)}
    for number in range(rounds):
        for entrant in (ours, rq, *polled, *(default if number < SLOW_ROUNDS else ())):
            progress(f"round {number + 1} of {rounds}: {entrant.name}")
            line = lab.run_side(entrant, "call")
            figures[entrant.name].rounds.append(1000 * line["seconds"] / line["count"])
            figures[entrant.name].cpu.append(1e6 * line["cpu"] / line["count"])
            section.versions |= line["versions"]
    mine = figures[ours.name]
    of_users, of_polled = (
        [figures[one.name] for one in some if one.name.startswith(COMPARED)] for some in (default, polled)
    )
    return [
        round_trip_claim("of the best of SAQ and arq with their defaults", mine, of_users),
        round_trip_claim("of the best of SAQ and arq, polled every millisecond", mine, of_polled),
    ]


def round_trip_claim(peers: str, mine: Figure, theirs: Sequence[Figure]) -> Claim:
    """Return the claim about the best peer."""
    other = best(theirs, lowest=True)
    ratios = tuple(one / another for one, another in zip(mine.rounds, other.rounds, strict=False))
    name = f"time from enqueueing a call to its result, {peers}"
    return Claim(name, "×", mine.median / other.median, 0.5, 0.35, rounds=ratios)


def measure(lab: Lab) -> Section:
    """Compare all task queues."""
    section = Section("Tasks", METHOD)
    jobs, many, peers, rounds = (500, 10_000, 2_000, 3) if lab.quick else (1_500, 50_000, 10_000, 7)
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
    weigh_peer(lab, section, Entrant("RQ, two arguments", "benchmarks.peers.rq", peers, option="two"))
    rq = section.figures[-1].median
    mine, worker, *others = run.values()
    bulk, *all_bulk = enqueue.values()
    section.claims += [
        times_faster("run tasks that do nothing, against RQ's burst worker", mine, worker, must=20, stretch=40),
        times_faster(
            "run tasks that do nothing, against the best of SAQ, arq and taskiq", mine, best(others), must=5, stretch=10
        ),
        times_faster(
            "enqueue_many, against the best of RQ, SAQ, arq and taskiq", bulk, best(all_bulk), must=5, stretch=10
        ),
        *trips,
        Claim("bytes of a waiting call with two arguments, of RQ's", "×", ours / rq, 0.1, 0.05),
    ]
    return section
