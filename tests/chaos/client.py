"""A client in a process of its own, which does what it is told, line by line, and dies where it is told to.

Run by the tests as ``python client.py JSON``, the settings of its `SyncFrontier`. Every line in is a JSON object with the
verb under ``do``; every line out is the answer. ``die`` arms a bomb: it goes off at the given step of the next verb. Every
command to Redis and every access to the disk has two steps, one before it and one after it.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from silkline import Complete, LeaseLost, Release, Request, RetryIn, SyncFrontier
from silkline.frontier.overflow import SqliteOverflow


class Bomb:
    def __init__(self):
        self.left = None

    def step(self):
        if self.left is None:
            return
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def around(self, call):
        return self.before(self.after(call))

    def before(self, call):
        def stepped(*arguments, **options):
            self.step()
            return call(*arguments, **options)

        return stepped

    def after(self, call):
        def stepped(*arguments, **options):
            answer = call(*arguments, **options)
            self.step()
            return answer

        return stepped


class Client:
    def __init__(self, overflow=None, **settings):
        self.bomb = Bomb()
        self.leases = {}
        store = SqliteOverflow(overflow) if overflow else None
        self.frontier = SyncFrontier.open(overflow=store, **settings)
        connection = self.frontier._connection
        connection._call = self.bomb.around(connection._call)
        connection._evalsha = self.bomb.before(connection._evalsha)  # of commands that are sent together
        connection._read = self.bomb.after(connection._read)
        for name in ("put", "take", "settle", "tally"):
            if store:
                setattr(store, name, self.bomb.around(getattr(store, name)))

    def die(self, step):
        self.bomb.left = step
        return "armed"

    def claim(self, n=1, wait=0.0):
        leases = self.frontier.claim(n, wait=wait)
        self.leases |= {lease.token: lease for lease in leases}
        return [[lease.token, lease.url, lease.expires] for lease in leases]

    def enqueue(self, urls):
        return self.frontier.enqueue([request(url) for url in urls])

    def settle(self, tokens, links=(), ending="complete"):
        verdict = {
            "complete": Complete([request(url) for url in links]),
            "release": Release(),
            "retry": RetryIn(0, "an error"),
        }[ending]
        if len(tokens) > 1:
            return [lease.url for lease in self.frontier.settle([(self.leases[t], verdict) for t in tokens]).lost]
        try:
            self.frontier._settle_one(self.leases[tokens[0]], verdict)
        except LeaseLost:
            return "lost"
        return "settled"


def request(url):
    """A URL, or one that passes by the filter when it starts with an exclamation mark."""
    return Request(url[1:], dont_filter=True) if url.startswith("!") else Request(url)


if __name__ == "__main__":
    client = Client(**json.loads(sys.argv[1]))
    print(json.dumps("here"), flush=True)
    while line := sys.stdin.readline():
        words = json.loads(line)
        print(json.dumps(getattr(client, words.pop("do"))(**words)), flush=True)
        client.bomb.left = None if words.keys() != {"step"} else client.bomb.left
