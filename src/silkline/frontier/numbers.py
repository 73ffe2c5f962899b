"""Numbers in a hash of the user's own, to which many processes add."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable
from typing import Literal, NamedTuple

from silkline.frontier.commands import Command
from silkline.frontier.keys import InboxKeys
from silkline.frontier.script import load

Verb = Literal["add", "most", "least", "set", "clear"]


class Change(NamedTuple):
    """What is to happen to one of them."""

    verb: Verb
    name: str = ""
    value: str | int | float = ""


class Counter:
    """Makes commands that change the numbers of one hash, each of which acts once. To be sent one after the other."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._slot = secrets.token_hex(6)
        self._calls = itertools.count(1)

    def count(self, changes: Iterable[Change]) -> Command[None]:
        """Change numbers, at once and in this order. The command may be sent again until it is answered."""
        return count(self.key, changes, (self._slot, str(next(self._calls))))


def count(key: str, changes: Iterable[Change], call: tuple[str, str]) -> Command[None]:
    args = [InboxKeys(key).root, *(part for change in changes for part in change)]
    return Command(load("count"), (key,), args, lambda _: None, call=call)
