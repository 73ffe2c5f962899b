"""A client that is interrupted all the time, wherever it is just then; at last it is asked whether it still works."""

import random
import signal
import sys

from silkline import Lease, Request, SyncFrontier

TIMES = 300


class Interrupted(BaseException):
    pass


class Interrupter:
    """Raises once each time it is armed, at a moment that nobody can foresee."""

    def __init__(self):
        self.armed = False
        signal.signal(signal.SIGALRM, self._ring)

    def arm(self):
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.02))

    def _ring(self, *_):
        self.armed = False
        raise Interrupted


def ask_something(frontier, leases):
    """Questions of which each has another answer; much is sent, so that most of the time goes into that."""
    number = random.randrange(1, 1000)
    assert len(frontier.extend(leases[:number])) == number
    [host] = frontier.admin.hosts(f"h{number}.example")
    assert host.host == f"h{number}.example"
    known = [f"https://b.example/{number}/{page}" for page in range(3000)]  # several batches, sent one after the other
    assert len(frontier.enqueue([*known[:number], *known])) == number + 3000


def storm(frontier):
    one = {"request": Request("https://a.example/"), "shard": 0, "host": "a.example", "attempt": 1, "crashes": 0}
    leases = [
        Lease(wire_token=str(2**60 + number), first=0.0, expires=0.0, history=(), **one) for number in range(1000)
    ]
    interrupter = Interrupter()
    for _ in range(TIMES):
        try:
            interrupter.arm()
            while interrupter.armed:  # it is not, either, when somebody who may not raise was interrupted
                ask_something(frontier, leases)
        except Interrupted:
            pass


with SyncFrontier.open(sys.argv[1], crawl=sys.argv[2]) as frontier:
    storm(frontier)
    frontier.enqueue([Request("https://a.example/", priority=1)])
    [lease] = frontier.claim()
    frontier.complete(lease)
    stats = frontier.admin.stats()
    print(lease.url, stats.done, stats.conserved)
