"""Leases as the scripts hand them out and take them back: claim, extend, vacate and settle. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from silkline.core.errors import RequestError
from silkline.core.lease import Lease, Trial
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier import codec
from silkline.frontier.commands import Arg, Command
from silkline.frontier.keys import ShardKeys
from silkline.frontier.script import load

VACATED = b"\x1f"
"""An entry begins with it when its page has landed (entries.lua has the same)."""


class Terms(NamedTuple):
    """On which terms requests are claimed."""

    lease_ms: int
    slack_ms: int = 0
    """How late the claimer may begin: so much more is left between the starts of a host that has a delay."""


class Claimed(NamedTuple):
    """A shard's answer to a claim."""

    leases: list[Lease]
    look_in: float | None
    """Seconds until it is worth asking again; None when only the bell can tell."""
    starved: int
    unreadable: list[tuple[int, Exception]]
    """Tokens of records that could not be read, and why."""


def claim(keys: ShardKeys, wanted: int, terms: Terms) -> Command[Claimed]:
    def decode(reply: list[bytes]) -> Claimed:
        expires = (int(reply[0]) + terms.lease_ms) / 1000
        leases, unreadable = [], []
        for i in range(3, len(reply), 2):
            token = int(reply[i])
            try:
                leases.append(read_lease(reply[i + 1], keys.number, token, expires))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one record, the others must be answered
                unreadable.append((token, error))
        look_in = int(reply[1]) / 1000 if reply[1] else None
        return Claimed(leases, look_in, int(reply[2]), unreadable)

    return Command(load("claim"), (keys.root,), (wanted, terms.lease_ms, terms.slack_ms), decode)


def read_lease(entry: bytes, shard: int, token: int, expires: float) -> Lease:
    host_, priority, attempts, crashes, first, record = entry.split(b"\n", 5)
    host = host_.removeprefix(VACATED).decode()
    request, history = codec.decode(record, host, int(priority))
    return Lease(
        request=request,
        shard=shard,
        token=token,
        host=host,
        attempt=int(attempts),
        crashes=int(crashes),
        first=int(first) / 1000,
        expires=expires,
        history=history,
    )


def settle(keys: ShardKeys, pairs: Sequence[tuple[Lease, Verdict]], now: float) -> Command[set[int]]:
    """End leases of one shard; the reply is the set of tokens that were not held."""
    completed = [lease.token for lease, verdict in pairs if isinstance(verdict, Complete)]
    args: list[Arg] = [len(completed), *completed]
    for lease, verdict in pairs:
        if not isinstance(verdict, Complete):
            args += (lease.token, *_ending(lease, verdict, now))
    return Command(load("settle"), (keys.root,), args, _tokens)


def release_tokens(keys: ShardKeys, tokens: Sequence[int]) -> Command[set[int]]:
    """Give back leases whose records could not be read."""
    args: list[Arg] = [0]
    for token in tokens:
        args += (token, "release", 0, "", "", "")
    return Command(load("settle"), (keys.root,), args, _tokens)


def _ending(lease: Lease, verdict: Verdict, now: float) -> tuple[Arg, ...]:
    if isinstance(verdict, RetryIn):
        verb = "block" if verdict.block_host else "slow" if verdict.slow_host else "retry"
        after = max(0, round(verdict.after * 1000))
        return verb, after, "", "", with_trial(lease.request, lease.history, verdict, now)
    if isinstance(verdict, Bury):
        reason, status = one_line(verdict.reason), verdict.status
        record = with_trial(lease.request, lease.history, verdict, now)
        return "bury", 0, reason, "" if status is None else status, record
    assert isinstance(verdict, Release)
    return "release", max(0, round(verdict.after * 1000)), "", "", ""


def with_trial(request: Request, history: tuple[Trial, ...], verdict: RetryIn | Bury, now: float) -> str | bytes:
    """The record of a request with one trial more; "" if nothing is to be noted of it, or cannot be."""
    if not verdict.reason and verdict.status is None:
        return ""
    detail = verdict.detail.encode(errors="replace").decode()
    trial = Trial(now, one_line(verdict.reason), verdict.status, detail)
    try:
        return codec.encode(request, codec.address_of(request), (*history, trial))
    except RequestError:
        return ""  # the record stays as it is: a lease must end, whatever is wrong with what is noted of it


def one_line(text: str) -> str:
    """As a reason is kept."""
    return " ".join(str(text).encode(errors="replace").decode().split())[:500]


def extend(keys: ShardKeys, tokens: Sequence[int], lease_ms: int) -> Command[tuple[float, set[int]]]:
    def decode(reply: list[bytes]) -> tuple[float, set[int]]:
        return int(reply[0]) / 1000, _tokens(reply[1])

    return Command(load("extend"), (keys.root,), (lease_ms, *tokens), decode)


def vacate(keys: ShardKeys, tokens: Sequence[int]) -> Command[set[int]]:
    return Command(load("vacate"), (keys.root,), tokens, _tokens)


def _tokens(reply: bytes) -> set[int]:
    return {int(token) for token in reply.split()}
