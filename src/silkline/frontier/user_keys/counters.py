"""Counters in a hash of the user, shared by many processes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable
from typing import Literal, NamedTuple

from silkline.frontier.store.keys import InboxKeys
from silkline.frontier.transport.command import Command, load

CounterVerb = Literal["add", "most", "least", "set", "clear"]


class CounterChange(NamedTuple):
    """A change of one counter."""

    verb: CounterVerb
    name: str = ""
    value: str | int | float = ""


class Counter:
    """Makes idempotent commands that change the counters of one hash. Send them one after the other."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._slot = secrets.token_hex(6)
        self._calls = itertools.count(1)

    def count(self, changes: Iterable[CounterChange]) -> Command[None]:
        """Return a command that makes the changes in this order, atomically. It can be sent again until it gets a reply."""
        return add_counters(self.key, changes, (self._slot, str(next(self._calls))))


def add_counters(key: str, changes: Iterable[CounterChange], call: tuple[str, str]) -> Command[None]:
    args = [InboxKeys(key).root, *(part for change in changes for part in change)]
    return Command(load("add_counters"), (key,), args, lambda _: None, call=call)
