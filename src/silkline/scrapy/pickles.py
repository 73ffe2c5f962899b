"""Reads pickles of plain data, and of nothing else. Python's own unpickler, which runs what it is told, is not used.

A pickle is a small program for a stack machine. This machine knows only the instructions that make numbers, texts, bytes,
lists, tuples, sets and dicts; it has none that finds a class or calls anything. An instruction it does not know ends the
reading. What is built is measured before it is handed out, because a few bytes can describe a value without end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from silkline.core.errors import RequestError

MAX_BYTES = 1024 * 1024
"""Of a pickle, and of all texts and bytes in the value that it describes, repeated ones counted as often as they occur."""
MAX_PARTS = 50_000
"""Values in the value, repeated ones counted as often as they occur."""
MAX_DEPTH = 50
MAX_INT, MIN_INT = 2**64 - 1, -(2**63)

_MARK = object()
_NAMES = {
    "c": "names a class or function (GLOBAL)",
    "\x93": "names a class or function (STACK_GLOBAL)",
    "R": "calls a function (REDUCE)",
    "b": "sets the state of an object (BUILD)",
    "i": "makes an object (INST)",
    "o": "makes an object (OBJ)",
    "\x81": "makes an object (NEWOBJ)",
    "\x92": "makes an object (NEWOBJ_EX)",
    "P": "refers to an object elsewhere (PERSID)",
    "Q": "refers to an object elsewhere (BINPERSID)",
    "\x82": "names a class (EXT1)",
    "\x83": "names a class (EXT2)",
    "\x84": "names a class (EXT4)",
}


class UnsafePickle(RequestError):
    """A pickle that is more than plain data, or damaged. It was not run."""


def loads(data: bytes) -> Any:
    """The value that a pickle of protocol 2 or later describes, if it is plain data."""
    if len(data) > MAX_BYTES:
        raise UnsafePickle(f"a pickle of {len(data):,} bytes; up to {MAX_BYTES:,} are read")
    try:
        value = _Machine(data).run()
    except UnsafePickle:
        raise
    except (IndexError, struct.error):
        raise UnsafePickle("the pickle is damaged or cut off") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnsafePickle(f"the pickle is damaged: {error}") from None
    _Scale().weigh(value, 0)
    return value


class _Machine:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        if self._data[0] != 0x80 or not 2 <= self._data[1] <= 5:
            raise UnsafePickle("not a pickle of protocol 2 to 5")
        self._at = 2
        while (opcode := self._data[self._at]) != 0x2E:  # "." is STOP
            self._at += 1
            step = _STEPS.get(opcode)
            if step is None:
                what = _NAMES.get(chr(opcode), f"has the unknown instruction {opcode:#04x}")
                raise UnsafePickle(f"the pickle {what}; only plain data is read")
            step(self)
        value = self.pop()
        if self._stack:
            raise UnsafePickle("the pickle is damaged: values are left over")
        return value

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self._at + count > len(self._data):
            raise UnsafePickle("the pickle is damaged or cut off")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise UnsafePickle("the pickle is damaged: a value is missing")
        return value

    def pop_to_mark(self) -> list[Any]:
        start = len(self._stack) - 1
        while self._stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise UnsafePickle("the pickle is damaged: a mark is missing")
        values = self._stack[start + 1 :]
        del self._stack[start:]
        return values

    def top(self, kind: type) -> Any:
        value = self._stack[-1]
        if type(value) is not kind:
            raise UnsafePickle(f"the pickle is damaged: {kind.__name__} expected")
        return value

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self.push(self._memo[index])

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        target.update(zip(_hashable(items[::2]), items[1::2], strict=True))

    def whole_number(self, size: int) -> None:
        """LONG1 and LONG4: so many bytes."""
        number = self.number(size, signed=True)
        if not MIN_INT <= number <= MAX_INT:
            raise UnsafePickle("the pickle has a number of more than 64 bits")
        self.push(number)

    def text(self, size: int) -> None:
        self.push(self.take(self.number(size)).decode("utf-8", "surrogatepass"))

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(values)))

    def end_frozen(self) -> None:
        self.push(frozenset(_hashable(self.pop_to_mark())))

    def skip_frame(self) -> None:
        """How much follows: nobody here needs to know."""
        self.take(8)

    def memoize(self) -> None:
        self.put(len(self._memo))

    def set_one(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def append_one(self) -> None:
        value = self.pop()
        self.top(list).append(value)

    def append_all(self) -> None:
        values = self.pop_to_mark()
        self.top(list).extend(values)

    def add_all(self) -> None:
        values = self.pop_to_mark()
        self.top(set).update(_hashable(values))


def _hashable(keys: list[Any]) -> list[Any]:
    """Only single values: to hash a tuple of tuples of … can take for ever, or all of the stack."""
    for key in keys:
        if not isinstance(key, str | bytes | int | float | None):
            raise UnsafePickle(f"the pickle has a {type(key).__name__} as a key, or in a set")
    return keys


_STEPS: dict[int, Callable[[_Machine], None]] = {
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),  # noqa: FBT003 - the value itself
    0x89: lambda m: m.push(False),  # noqa: FBT003
    ord("J"): lambda m: m.push(m.number(4, signed=True)),
    ord("K"): lambda m: m.push(m.number(1)),
    ord("M"): lambda m: m.push(m.number(2)),
    0x8A: lambda m: m.whole_number(m.number(1)),
    0x8B: lambda m: m.whole_number(m.number(4, signed=True)),
    ord("G"): lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    0x8C: lambda m: m.text(1),
    ord("X"): lambda m: m.text(4),
    0x8D: lambda m: m.text(8),
    ord("C"): lambda m: m.push(m.take(m.number(1))),
    ord("B"): lambda m: m.push(m.take(m.number(4))),
    0x8E: lambda m: m.push(m.take(m.number(8))),
    ord("("): lambda m: m.push(_MARK),
    ord(")"): lambda m: m.push(()),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("t"): lambda m: m.push(tuple(m.pop_to_mark())),
    ord("]"): lambda m: m.push([]),
    ord("a"): _Machine.append_one,
    ord("e"): _Machine.append_all,
    ord("l"): lambda m: m.push(m.pop_to_mark()),
    ord("}"): lambda m: m.push({}),
    ord("s"): _Machine.set_one,
    ord("u"): lambda m: m.set_items(m.pop_to_mark()),
    0x8F: lambda m: m.push(set()),
    0x90: _Machine.add_all,
    0x91: _Machine.end_frozen,
    0x94: _Machine.memoize,
    ord("q"): lambda m: m.put(m.number(1)),
    ord("r"): lambda m: m.put(m.number(4)),
    ord("h"): lambda m: m.get(m.number(1)),
    ord("j"): lambda m: m.get(m.number(4)),
    0x95: _Machine.skip_frame,
}


class _Scale:
    """Measures a value as it would be written out: what occurs twice counts twice, and a loop never ends."""

    def __init__(self) -> None:
        self._parts = self._bytes = 0

    def weigh(self, value: Any, depth: int) -> None:
        self._parts += 1
        if isinstance(value, str | bytes):
            self._bytes += len(value)
        if self._parts > MAX_PARTS or self._bytes > MAX_BYTES:
            raise UnsafePickle("the pickle describes a value that is far larger than itself")
        if depth > MAX_DEPTH:
            raise UnsafePickle(f"the pickle describes a value that is more than {MAX_DEPTH} levels deep, or endless")
        if isinstance(value, dict):
            for key, one in value.items():
                self.weigh(key, depth + 1)
                self.weigh(one, depth + 1)
        elif isinstance(value, list | tuple | set | frozenset):
            for one in value:
                self.weigh(one, depth + 1)
