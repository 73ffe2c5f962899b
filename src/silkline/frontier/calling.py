"""What both connections share: every call has a name, so that one that is sent twice acts once; arguments in, errors out."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from silkline.core.timing import Timing
from silkline.frontier.address import Target
from silkline.frontier.commands import Command
from silkline.frontier.faults import is_out_of_memory, translate
from silkline.frontier.script import Script
from silkline.frontier.server import Server

R = TypeVar("R")


class Slots:
    """Names for calls. A slot is used by one call at a time, in any thread; the server keeps the last reply of each."""

    def __init__(self) -> None:
        self._client = secrets.token_hex(6)
        self._free: list[int] = []
        self._numbers = itertools.count()
        self._calls = itertools.count(1)

    def take(self) -> tuple[int, tuple[str, str]]:
        try:
            number = self._free.pop()
        except IndexError:
            number = next(self._numbers)
        return number, (f"{self._client}:{number}", str(next(self._calls)))

    def give_back(self, number: int) -> None:
        """Only after a reply to each sending: one that got none may be late, and is known by what the slot keeps."""
        self._free.append(number)


class Sent(NamedTuple):
    """A command on its way, under the name of its call."""

    command: Command[Any]
    slot: int
    name: tuple[str, str]


class Sendings:
    """How often a call was sent; *again* if it was before."""

    def __init__(self, again: bool) -> None:  # noqa: FBT001
        self._number = int(again)

    def count(self, arguments: list[Any]) -> list[Any]:
        self._number += 1
        return arguments

    @property
    def only_one(self) -> bool:
        return self._number == 1


class Caller:
    """A connection but for its client. *mend* may bring a server back that is out of reach."""

    def __init__(self, target: Target, clock: Callable[[], int] | None, mend: Callable[[], None] | None) -> None:
        self.target = target
        self._mend = mend
        self.server = Server("", (), "", cluster=False)
        self._clock = clock
        self._slots = Slots()
        self._client: Any
        self.timings: dict[str, Timing] = {}
        """How long calls took, by script. Those of a stream are not counted: they are sent before others are answered."""

    def _took(self, script: str, seconds: float) -> None:
        timing = self.timings.get(script)
        if timing is None:
            timing = self.timings[script] = Timing()
        timing.note(seconds)

    def _arguments(self, command: Command[Any], call: tuple[str, str]) -> list[str | bytes]:
        """As text: hiredis makes text of numbers itself, and crashes if a signal such as Ctrl-C interrupts it there."""
        script = command.script
        prelude: list[Any] = []
        if script.takes_clock:
            prelude.append("" if self._clock is None else self._clock())
        if script.takes_call:
            prelude += command.call or call
        words = [len(command.keys), *command.keys, *prelude, *command.args]
        return [word if type(word) is str or type(word) is bytes else str(word) for word in words]

    def _evalsha(self, command: Command[Any], call: tuple[str, str]) -> list[Any]:
        return ["EVALSHA", self._sha(command.script), *self._arguments(command, call)]

    def _sha(self, script: Script) -> str:
        return script.legacy_sha if self.server.legacy else script.sha

    def _source(self, script: Script) -> str:
        return script.legacy_source if self.server.legacy else script.source

    def _answer(self, command: Command[R], error: Exception) -> R:
        if command.when_out_of_memory is not None and is_out_of_memory(error):
            return command.decode(command.when_out_of_memory)
        raise translate(error, self.target.public) from None

    def _primaries(self) -> list[tuple[str, dict[str, Any]]]:
        """Every node that holds keys: its name, and how to send it a command."""
        if self.target.kind != "cluster":
            return [(self.target.public, {})]
        return [(node.name, {"target_nodes": node}) for node in self._client.get_primaries()]
