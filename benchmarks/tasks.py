"""Tasks: running and enqueueing typed tasks is many times faster than RQ, SAQ and arq, and a waiting call takes a tenth of the memory."""

from benchmarks.lab import Claim, Entrant, Figure, Lab, Section, times_faster
from benchmarks.memory import weigh_peer

METHOD = (
    "Calls of an async task that does nothing, with a URL as its argument, or with two small ones. Running: one worker process until the "
    "queue is empty, results kept. Enqueueing: 1,000 calls at a time for Silkline and RQ (enqueue_many), 50 concurrent calls for SAQ and arq, "
    "which have no bulk method. SAQ and arq deduplicate by job id. Bytes: the server's memory per waiting call."
)
OURS = "benchmarks.silkline_tasks_side"


def fastest(figures: list[Figure]) -> Figure:
    """Return the figure with the highest median."""
    return max(figures, key=lambda figure: figure.median)


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
        ],
        "enqueue",
        rounds,
    )
    weigh_peer(lab, section, Entrant("silkline, two arguments", OURS, many, ours=True, option="two"))
    ours = section.figures[-1].median
    weigh_peer(lab, section, Entrant("RQ, one argument", "benchmarks.peers.rq", peers, option="bulk"))
    rq = section.figures[-1].median
    mine, worker, *others = run.values()
    bulk, *all_bulk = enqueue.values()
    section.claims += [
        times_faster("run tasks that do nothing, against RQ's burst worker", mine, worker, must=20, stretch=40),
        times_faster(
            "run tasks that do nothing, against the best of SAQ and arq", mine, fastest(others), must=5, stretch=10
        ),
        times_faster("enqueue_many, against the best of RQ, SAQ and arq", bulk, fastest(all_bulk), must=5, stretch=10),
        Claim("bytes of a waiting call with two arguments, of RQ's with one", "×", ours / rq, 0.1, 0.05),
    ]
    return section
