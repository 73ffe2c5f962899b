"""Dead letters as the scripts keep them: listed, revived and purged, a part of a shard at a time. No I/O here."""

from __future__ import annotations

from typing import Any, NamedTuple

from silkline.core.lease import Trial
from silkline.core.request import Request
from silkline.frontier.commands import Command
from silkline.frontier.filters import DeadFilter
from silkline.frontier.keys import ShardKeys
from silkline.frontier.leasing import read_lease
from silkline.frontier.script import load


class DeadLetter(NamedTuple):
    """A request that was given up."""

    id: str
    request: Request
    reason: str
    status: int | None
    attempts: int
    crashes: int
    first: float
    last: float
    history: tuple[Trial, ...]
    host: str

    @property
    def url(self) -> str:
        return self.request.url


def dead(keys: ShardKeys, chosen: DeadFilter, skip: int, most: int) -> Command[tuple[int, list[DeadLetter]]]:
    def decode(reply: list[Any]) -> tuple[int, list[DeadLetter]]:
        letters = [
            read_letter(keys.number, reply[i].decode(), float(reply[i + 1]) / 1000, reply[i + 2])
            for i in range(1, len(reply), 3)
        ]
        return int(reply[0]), letters

    return Command(load("dead"), (keys.root,), (skip, most, *chosen.arguments()), decode)


def read_letter(shard: int, token: str, buried: float, letter: bytes) -> DeadLetter:
    reason, status, entry = letter.split(b"\n", 2)
    lease = read_lease(entry, shard, int(token), buried)
    return DeadLetter(
        id=f"{shard}-{token}",
        request=lease.request,
        reason=reason.decode(),
        status=int(status) if status else None,
        attempts=lease.attempt,
        crashes=lease.crashes,
        first=lease.first,
        last=buried,
        history=lease.history,
        host=lease.host,
    )


def revive(keys: ShardKeys, chosen: DeadFilter, skip: int, most: int, *, purge: bool) -> Command[tuple[int, int]]:
    def decode(reply: bytes) -> tuple[int, int]:
        looked, ended = reply.split()
        return int(looked), int(ended)

    args = (skip, most, *chosen.arguments(), "purge" if purge else "revive")
    return Command(load("revive"), (keys.root,), args, decode)
