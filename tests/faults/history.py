"""What the workers of a run saw, and whether it is legal.

A history is legal if no page that a worker completed was handed out again, if no verdict was accepted from a worker whose page another
one had claimed since, if no lease was handed on before it had expired or ended, and if two pages of a host began with the delay between
them. A server that has lost its last writes may hand out pages again; that is counted, and allowed only for such faults.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple


class Claim(NamedTuple):
    """One lease of a page, by the worker number *worker*."""

    at: float
    worker: int
    shard: int
    token: int
    nonce: str
    began: float
    attempt: int


class Verdict(NamedTuple):
    """A verdict that the frontier accepted: sent at *sent*, accepted before *at*."""

    at: float
    sent: float
    kind: str


class History(NamedTuple):
    """Claims by URL, accepted verdicts by lease, and the times of replies to claims by worker."""

    claims: dict[str, list[Claim]]
    verdicts: dict[tuple[str, int, str], Verdict]
    replies: dict[int, list[float]]

    @property
    def completed(self):
        return {url for (url, _, _), verdict in self.verdicts.items() if verdict.kind == "complete"}

    def held_by(self, worker):
        """Return how many pages a worker holds, as far as the logs say."""
        lasts = ((url, claims[-1]) for url, claims in self.claims.items())
        return sum(last.worker == worker and (url, last.token, last.nonce) not in self.verdicts for url, last in lasts)

    @property
    def repeated(self):
        """How often a page was completed again."""
        complete = [url for (url, _, _), verdict in self.verdicts.items() if verdict.kind == "complete"]
        return len(complete) - len(set(complete))


def read(logs):
    """Read the logs of workers, by their number."""
    claims, verdicts, replies = defaultdict(list), {}, defaultdict(list)
    for worker, path in logs.items():
        for line in path.read_text().splitlines() if path.exists() else ():
            kind, at, *words = json.loads(line)
            if kind == "reply":
                replies[worker].append(at)
            elif kind == "claim":
                url, shard, token, nonce, began, attempt = words
                claims[url].append(Claim(at, worker, shard, token, nonce, began, attempt))
            else:
                url, _, token, nonce, sent = words
                verdicts[url, token, nonce] = Verdict(at, sent, kind)
    return History(
        {url: sorted(some, key=lambda claim: claim.began) for url, some in claims.items()}, verdicts, replies
    )


def violations(history, lease, *, may_repeat=False):
    """Return what was illegal, as sentences. *lease* is how long a lease lasts unless it is extended or ended."""
    found = []
    for url, claims in history.claims.items():
        for one, other in pairwise(claims):
            verdict = history.verdicts.get((url, one.token, one.nonce))
            who = f"{url}, leased to worker {one.worker} and then to worker {other.worker}"
            if may_repeat:
                continue
            if verdict and verdict.kind == "complete":
                found.append(f"{who}: it was handed out again after it was completed")
            if verdict and verdict.sent > other.at:
                found.append(f"{who}: the verdict of the first lease was accepted after the second had begun")
            if not verdict and other.began < one.began + lease - 0.001:
                found.append(f"{who}: the first lease had {one.began + lease - other.began:.3f} s left")
        tokens = [(claim.shard, claim.token, claim.nonce) for claim in claims]
        if len(set(tokens)) < len(tokens):
            found.append(f"{url}: two leases have the same token")
    return found


def gap_violations(visits, delay, share=0.9):
    """Return the gaps between two requests to a host that were shorter than this share of the delay, in seconds, as the site saw them.

    A request may wait for a busy processor between worker and site, and the next one may not: hence the share.
    """
    by_host = defaultdict(list)
    for visit in visits:
        by_host[visit.host].append(visit.at)
    gaps = [later - earlier for times in by_host.values() for earlier, later in pairwise(sorted(times))]
    return [gap for gap in gaps if gap < delay * share]


def recoveries(history, moment, worker):
    """Return the seconds from *moment*, when a worker was lost or told to leave, until each page that it held was handed out again."""
    times = []
    for url, claims in history.claims.items():
        for one, other in pairwise(claims):
            verdict = history.verdicts.get((url, one.token, one.nonce))
            held = one.at <= moment and (verdict is None or verdict.sent >= moment)
            if one.worker == worker and held and other.at > moment:
                times.append(other.at - moment)
    return times


def first_replies(history, moment):
    """Return the seconds from *moment* until each worker got its next reply to a claim."""
    return [min(later) - moment for times in history.replies.values() if (later := [at for at in times if at > moment])]
