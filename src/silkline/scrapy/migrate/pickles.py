"""Reads pickled requests without Python's `pickle` module. ADR 34 explains why.

A pickle is a program for a stack machine. This reader has the opcodes that make numbers, strings, bytes, lists, tuples, sets and
dicts. It can create the dates, decimals and collections in `_MAKERS`, and no other object: an instance of any other class becomes a
`StoredObject`, which only has the name of the class and the fields. Nothing is imported and no function of a pickle is called; the
spider that takes the request looks the class up among those it has loaded. The reader raises `UnsafePickle` for everything else.
Keys and members of sets must be single values, because the hash of nested tuples can take forever. The size of the result is
checked, because a few bytes can describe a huge or endless value.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from silkline.errors import RequestError
from silkline.scrapy.convert.classes import PLAIN_BASES, PYDANTIC_STATE, StoredObject

MAX_BYTES = 1024 * 1024
"""The maximum size of a pickle, and of all strings and bytes in its value, each counted as often as it occurs."""
MAX_PARTS = 50_000
"""The maximum number of values in its value, each counted as often as it occurs."""
MAX_DEPTH = 50
MAX_INT_BYTES = 17
"""A UUID is a number of 128 bits, and a sign."""
MAX_DIGITS = 1000
MAX_PATH = 200

_MARK = object()
_NAMES = {
    "i": "makes an object (INST)",
    "o": "makes an object (OBJ)",
    "\x92": "makes an object with named arguments (NEWOBJ_EX)",
    "P": "refers to an object elsewhere (PERSID)",
    "Q": "refers to an object elsewhere (BINPERSID)",
    "\x82": "names a class (EXT1)",
    "\x83": "names a class (EXT2)",
    "\x84": "names a class (EXT4)",
}
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_KNOWN_ENUMS = frozenset(("http.HTTPStatus", "http.HTTPMethod"))
_KNOWN_TUPLES = frozenset(("urllib.parse.SplitResult", "urllib.parse.ParseResult"))


class UnsafePickle(RequestError):
    """A pickle that is not plain data, or damaged. Nothing in it was run."""


def loads(data: bytes) -> Any:
    """Return the value of a pickle of protocol 2 to 5. Raises `UnsafePickle` if it is not plain data."""
    if len(data) > MAX_BYTES:
        raise UnsafePickle(f"the pickle has {len(data):,} bytes; the maximum is {MAX_BYTES:,}")
    try:
        value = _PlainReader(data).run()
        _SizeCheck().check(value, 0)
        return _finished(value)
    except UnsafePickle:
        raise
    except (IndexError, struct.error):
        raise UnsafePickle("the pickle is damaged or cut off") from None
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
        raise UnsafePickle(f"the pickle is damaged: {error}") from None


def read_plain_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of a pickled request that are plain data, also of one that `loads` refuses; empty if it is damaged."""
    try:
        fields = _PlainReader(data, lenient=True).run() if len(data) <= MAX_BYTES else None
    except (UnsafePickle, IndexError, struct.error, TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        return {}
    if type(fields) is not dict:
        return {}
    return {name: value for name, value in fields.items() if type(name) is str and type(value) in (str, bytes, bool)}


class _ClassName:
    """A class or function that a pickle names. It is not looked up."""

    def __init__(self, module: Any, name: Any) -> None:
        path = f"{module}.{name}"
        if not (isinstance(module, str) and isinstance(name, str) and len(path) <= MAX_PATH and _PATH.fullmatch(path)):
            raise UnsafePickle("the pickle names a class that cannot exist")
        self.path = path
        self.from_stdlib = module.partition(".")[0] in sys.stdlib_module_names
        """Whether it is part of Python, not of the project or a library."""


class _Instance:
    """An object of a class that a pickle names, before its state is known."""

    def __init__(self, kind: str, path: str, content: Any = None) -> None:
        self.kind = kind
        self.path = path
        self.content = content
        self.state: Any = None


def _finished(value: Any) -> Any:
    """Return *value* with a `StoredObject` in place of every instance."""
    if type(value) is _Instance:
        return _stored(value)
    if type(value) is _ClassName:
        raise UnsafePickle(f"the pickle names {value.path}, which is not a value")
    if isinstance(value, dict):
        for key in value:
            value[key] = _finished(value[key])
    elif isinstance(value, list | deque):
        for place, one in enumerate(value):
            value[place] = _finished(one)
    elif type(value) is tuple:
        return tuple(_finished(one) for one in value)
    return value


def _stored(instance: _Instance) -> Any:
    state = _finished(instance.state)
    if instance.path == "uuid.UUID":
        return UUID(int=state["int"])
    if instance.kind == "o":
        return StoredObject("o", instance.path, _fields(state, instance.path))
    content = _finished(instance.content)
    if state is not None:
        if instance.kind != "n" or len(content) != 1 or type(content[0]) not in PLAIN_BASES:
            raise UnsafePickle(f"the pickle has a {instance.path} with values and attributes")
        return StoredObject("b", instance.path, [content[0], _fields(state, instance.path)])
    return StoredObject(instance.kind, instance.path, content)


def _fields(state: Any, path: str) -> Any:
    """Return the state of an object as `convert.classes` stores it."""
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        state = {**(state[0] or {}), **state[1]}  # an object with slots
    if isinstance(state, list | tuple):
        return list(state)
    if state is None or not all(isinstance(name, str) for name in state):
        raise UnsafePickle(f"the pickle has a {path} without fields")
    if state.keys() == {"_values"}:
        return state["_values"]  # a scrapy.Item
    if "__pydantic_fields_set__" in state:
        return {letter: state[name] for letter, name in PYDANTIC_STATE.items() if state.get(name)}
    return {name: None if name == "_attrs_cached_hash" else value for name, value in state.items()}


class _PlainReader:
    def __init__(self, data: bytes, *, lenient: bool = False) -> None:
        self._data = data
        self._lenient = lenient
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._created = 0

    def run(self) -> Any:
        if self._data[0] != 0x80 or not 2 <= self._data[1] <= 5:
            raise UnsafePickle("not a pickle of protocol 2 to 5")
        self._at = 2
        while (opcode := self._data[self._at]) != 0x2E:  # "." is STOP
            self._at += 1
            step = _STEPS.get(opcode)
            if step is None:
                what = _NAMES.get(chr(opcode), f"has the unknown opcode {opcode:#04x}")
                raise UnsafePickle(f"the pickle {what}; only plain data can be imported")
            step(self)
        value = self.pop()
        if self._stack:
            raise UnsafePickle("the pickle is damaged: values are left over")
        return value

    def take(self, count: int) -> bytes:
        """Return the next *count* bytes."""
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

    def top(self, *kinds: type) -> Any:
        value = self._stack[-1]
        if type(value) not in kinds:
            raise UnsafePickle(f"the pickle is damaged: {kinds[0].__name__} expected")
        return value

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self.push(self._memo[index])

    def refuse(self, reason: str) -> None:
        """Raise `UnsafePickle`, unless only the plain fields are wanted."""
        if not self._lenient:
            raise UnsafePickle(reason)

    def named_class(self) -> None:
        """GLOBAL: the module and the name, each on a line. Protocol 2 has names of Python 2."""
        if self._data[1] < 3:
            raise UnsafePickle(
                "the pickle names a class or function (GLOBAL); only plain data can be read in protocol 2"
            )
        module, name = (self.line() for _ in range(2))
        self.push(_ClassName(module, name))

    def line(self) -> str:
        end = self._data.index(b"\n", self._at)
        return self.take(end + 1 - self._at)[:-1].decode()

    def class_on_stack(self) -> None:
        """STACK_GLOBAL: as GLOBAL, from the stack."""
        name, module = self.pop(), self.pop()
        self.push(_ClassName(module, name))

    def pop_call(self) -> tuple[_ClassName, tuple[Any, ...]]:
        arguments, function = self.pop(), self.pop()
        if type(function) is not _ClassName or type(arguments) is not tuple:
            raise UnsafePickle("the pickle is damaged: a class and a tuple expected")
        return function, arguments

    def new_object(self) -> None:
        """NEWOBJ: an instance, with the values of a named tuple. BUILD adds the attributes."""
        cls, values = self.pop_call()
        if cls.from_stdlib and cls.path not in ("uuid.UUID", *_KNOWN_TUPLES):
            self.refuse(f"the pickle makes a {cls.path} (NEWOBJ); only plain data and items can be imported")
        self.push(_Instance("n", cls.path, list(values)) if values else _Instance("o", cls.path))

    def build(self) -> None:
        state, instance = self.pop(), self._stack[-1]
        if type(instance) is not _Instance or instance.state is not None:
            raise UnsafePickle("the pickle sets the state of an object that it did not make (BUILD)")
        instance.state = state

    def call(self) -> None:
        """REDUCE: create a value of `_MAKERS`, or the member of an enum. Nothing else is called."""
        function, arguments = self.pop_call()
        if function.path == "builtins.getattr" and [getattr(one, "path", one) for one in arguments] == _UNPICKLE_ZONE:
            self.push(_ClassName("zoneinfo", "ZoneInfo._unpickle"))
            return
        if member := _member(function.path, arguments):
            self.push(member)
            return
        maker = _MAKERS.get(function.path)
        if maker:
            self._created += sum(len(one) for one in arguments if isinstance(one, dict))
            if self._created > MAX_PARTS:
                raise UnsafePickle("the pickle describes a value that is too large")
            self.push(maker(*arguments))
        elif len(arguments) == 1 and (not function.from_stdlib or function.path in _KNOWN_ENUMS):
            self.push(_Instance("e", function.path, arguments[0]))
        else:
            self.refuse(f"the pickle calls {function.path} (REDUCE); only plain data and items can be imported")
            self.push(_Instance("o", function.path))

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict, OrderedDict, defaultdict)
        target.update(zip(_hashable(items[::2]), items[1::2], strict=True))

    def whole_number(self, size: int) -> None:
        """LONG1 and LONG4: a number of *size* bytes."""
        if size > MAX_INT_BYTES:
            raise UnsafePickle("the pickle has a number of more than 128 bits")
        self.push(self.number(size, signed=True))

    def text(self, size: int) -> None:
        self.push(self.take(self.number(size)).decode("utf-8", "surrogatepass"))

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(values)))

    def end_frozen(self) -> None:
        self.push(frozenset(_hashable(self.pop_to_mark())))

    def skip_frame(self) -> None:
        """FRAME: its size is only a hint for readers of files."""
        self.take(8)

    def memoize(self) -> None:
        self.put(len(self._memo))

    def set_one(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def append_one(self) -> None:
        value = self.pop()
        self.top(list, deque).append(value)

    def append_all(self) -> None:
        values = self.pop_to_mark()
        self.top(list, deque).extend(values)

    def add_all(self) -> None:
        values = self.pop_to_mark()
        self.top(set).update(_hashable(values))


def _hashable(keys: list[Any]) -> list[Any]:
    """Return *keys* if all are single values: the hash of nested tuples can take forever, or overflow the C stack."""
    for key in keys:
        if not isinstance(key, str | bytes | int | float | None):
            raise UnsafePickle(f"the pickle has a {type(key).__name__} as a key, or in a set")
    return keys


def _member(function: str, arguments: tuple[Any, ...]) -> _Instance | None:
    """Return the member of an enum that is pickled by its name, as Python 3.11.0 to 3.11.3 do, or a union of flags."""
    if len(arguments) != 2:
        return None
    first, second = arguments
    if function == "builtins.getattr" and type(first) is _ClassName and type(second) is str:
        return None if first.from_stdlib and first.path not in _KNOWN_ENUMS else _Instance("a", first.path, [second])
    if function == "_operator.or_" and all(type(one) is _Instance and one.kind == "a" for one in arguments):
        same = first.path == second.path and len(first.content) + len(second.content) <= MAX_DEPTH
        return _Instance("a", first.path, [*first.content, *second.content]) if same else None
    return None


def _moment(kind: type[Any]) -> Callable[..., Any]:
    """Return the maker of a date or time, which is pickled as a few bytes and a time zone."""

    def make(packed: Any, zone: Any = None) -> Any:
        if type(packed) is not bytes or not (zone is None or type(zone) in (timezone, ZoneInfo)):
            raise UnsafePickle(f"the pickle has a {kind.__name__} that cannot be imported")
        return kind(packed) if zone is None else kind(packed, zone)

    return make


def _decimal(digits: Any) -> Decimal:
    if type(digits) is not str or len(digits) > MAX_DIGITS:
        raise UnsafePickle(f"the pickle has a Decimal of more than {MAX_DIGITS:,} digits, or a damaged one")
    return Decimal(digits)


def _default_dict(factory: Any = None) -> defaultdict[Any, Any]:
    path = getattr(factory, "path", None)
    if factory is not None and path not in _FACTORIES:
        raise UnsafePickle(f"the pickle has a defaultdict that calls {path}")
    return defaultdict(_FACTORIES[path] if path else None)


def _ordered_dict() -> OrderedDict[Any, Any]:
    return OrderedDict()


def _counter(counts: Any) -> Counter[Any]:
    if type(counts) is not dict:
        raise UnsafePickle("the pickle has a damaged Counter")
    return Counter(counts)


def _deque(content: Any = (), maxlen: Any = None) -> deque[Any]:
    if content != () or not (maxlen is None or type(maxlen) is int):
        raise UnsafePickle("the pickle has a damaged deque")
    return deque(maxlen=maxlen)


def _numbers(kind: type[Any]) -> Callable[..., Any]:
    def make(*parts: Any) -> Any:
        if not all(type(part) in (int, float) for part in parts):
            raise UnsafePickle(f"the pickle has a damaged {kind.__name__}")
        return kind(*parts)

    return make


def _zone(offset: Any, name: Any = None) -> timezone:
    if type(offset) is not timedelta or not (name is None or type(name) is str):
        raise UnsafePickle("the pickle has a damaged timezone")
    return timezone(offset) if name is None else timezone(offset, name)


def _named_zone(key: Any, _from_cache: Any = True) -> ZoneInfo:  # noqa: FBT002 - an argument in a pickle
    if type(key) is not str or len(key) > MAX_PATH:
        raise UnsafePickle("the pickle has a damaged time zone")
    return ZoneInfo(key)


def _byte_array(content: Any = b"") -> bytearray:
    if type(content) is not bytes:
        raise UnsafePickle("the pickle has a damaged bytearray")
    return bytearray(content)


_FACTORIES: dict[str, type[Any]] = {
    f"builtins.{kind.__name__}": kind for kind in (list, dict, set, int, float, str, bool, tuple)
}
_MAKERS: dict[str, Callable[..., Any]] = {
    "datetime.date": _moment(date),
    "datetime.datetime": _moment(datetime),
    "datetime.time": _moment(time),
    "datetime.timedelta": _numbers(timedelta),
    "datetime.timezone": _zone,
    "zoneinfo.ZoneInfo._unpickle": _named_zone,
    "decimal.Decimal": _decimal,
    "builtins.complex": _numbers(complex),
    "builtins.bytearray": _byte_array,
    "collections.OrderedDict": _ordered_dict,
    "collections.defaultdict": _default_dict,
    "collections.Counter": _counter,
    "collections.deque": _deque,
}
"""What a pickle may call, with checked arguments."""
_UNPICKLE_ZONE = ["zoneinfo.ZoneInfo", "_unpickle"]

_STEPS: dict[int, Callable[[_PlainReader], None]] = {
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
    ord("a"): _PlainReader.append_one,
    ord("e"): _PlainReader.append_all,
    ord("l"): lambda m: m.push(m.pop_to_mark()),
    ord("}"): lambda m: m.push({}),
    ord("s"): _PlainReader.set_one,
    ord("u"): lambda m: m.set_items(m.pop_to_mark()),
    0x8F: lambda m: m.push(set()),
    0x90: _PlainReader.add_all,
    0x91: _PlainReader.end_frozen,
    0x94: _PlainReader.memoize,
    ord("q"): lambda m: m.put(m.number(1)),
    ord("r"): lambda m: m.put(m.number(4)),
    ord("h"): lambda m: m.get(m.number(1)),
    ord("j"): lambda m: m.get(m.number(4)),
    0x95: _PlainReader.skip_frame,
    0x96: lambda m: m.push(bytearray(m.take(m.number(8)))),
    ord("c"): _PlainReader.named_class,
    0x93: _PlainReader.class_on_stack,
    0x81: _PlainReader.new_object,
    ord("b"): _PlainReader.build,
    ord("R"): _PlainReader.call,
}


class _SizeCheck:
    """Raises `UnsafePickle` for a value that is too large or too deep. A value that occurs twice counts twice."""

    def __init__(self) -> None:
        self._parts = self._bytes = 0

    def check(self, value: Any, depth: int) -> None:
        self._parts += 1
        if isinstance(value, str | bytes | bytearray):
            self._bytes += len(value)
        if self._parts > MAX_PARTS or self._bytes > MAX_BYTES:
            raise UnsafePickle("the pickle describes a value that is too large")
        if depth > MAX_DEPTH:
            raise UnsafePickle(
                f"the pickle describes a value that is more than {MAX_DEPTH} levels deep, or contains itself"
            )
        if isinstance(value, dict):
            for key, one in value.items():
                self.check(key, depth + 1)
                self.check(one, depth + 1)
        elif isinstance(value, list | tuple | set | frozenset | deque):
            for one in value:
                self.check(one, depth + 1)
        elif type(value) is _Instance:
            self.check(value.content, depth + 1)
            self.check(value.state, depth + 1)
