"""Commands, and flows that yield them.

A `Script` changes or reads the state of a shard. A `Command` is a script with its keys and arguments, and a function that reads
the reply. A flow is a generator that yields commands and receives the results. It does no I/O itself: `drive` runs it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Generic, NamedTuple, TypeVar

from silkline.errors import StoreUnavailable
from silkline.frontier.transport.scanning import ScanPosition

R = TypeVar("R")
Arg = str | bytes | int | float

MAX_BATCH = 1000
"""Requests or leases per script call, so that no call keeps the server busy for a long time."""

_INCLUDE = re.compile(r'^--- @include "(\w+)"$', re.MULTILINE)
_NEST = re.compile(r"^--- @nest$", re.MULTILINE)
_KEY = re.compile(r"^-- KEYS\[(\d+)\] (\w+)", re.MULTILINE)
_ARGV = re.compile(r"^-- ARGV\s+(.*)$", re.MULTILINE)
_SHEBANG = re.compile(r"^#!lua[^\n]*\n")
_COMMENT = re.compile(r"--[^\n]*")
_LEDGER_FIELDS = re.compile(
    r"(?<=^local LEDGER_FIELDS = \{\n).*?(?=^\}\nlocal FIRST_COUNTER = (\d+))", re.MULTILINE | re.DOTALL
)
_FIRST_COUNTER = re.compile(r"(?<=^local FIRST_COUNTER = )\d+", re.MULTILINE)
_FIELD = re.compile(r'"(\w+)"')
_NAME = re.compile(r"\w+")
_FUNCTION = re.compile(r"^local function (\w+)\([^\n]*\n", re.MULTILINE)
MENTIONS_OF_KEY = 2
"""How often the line of a key has its name."""
_KEY_LINE = re.compile(r'^  (\w+) = root \.\. ":\w+",\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent, and the contract in its header."""

    name: str
    source: str = field(repr=False)
    keys: tuple[str, ...]
    takes_clock: bool
    takes_call: bool
    takes_acknowledged: bool
    sha: str
    legacy_source: str = field(repr=False)
    """The script without its first line, for servers before Redis 7."""
    legacy_sha: str


def script_names() -> list[str]:
    """Return the names of all scripts."""
    return sorted(_files())


@cache
def load(name: str) -> Script:
    """Read a script with its includes, each pasted once, and the contract in its header."""
    raw = _files()[name].read_text()
    header = raw.partition("\nlocal ")[0]
    arguments = _ARGV.search(header)
    words = [word.strip(" .…") for word in arguments.group(1).split(",")] if arguments else []
    source = assemble(raw)
    legacy = _SHEBANG.sub("", source)
    return Script(
        name=name,
        source=source,
        keys=tuple(match.group(2) for match in _KEY.finditer(header)),
        takes_clock="clock" in words,
        takes_call="slot" in words and "call" in words,
        takes_acknowledged="relied" in words,
        sha=sha1(source.encode(), usedforsecurity=False).hexdigest(),
        legacy_source=legacy,
        legacy_sha=sha1(legacy.encode(), usedforsecurity=False).hexdigest(),
    )


def assemble(raw: str) -> str:
    """Return a script with its includes, as it is sent."""
    return _nest(_prune(_expand(raw, set())))


def _expand(text: str, included: set[str]) -> str:
    def paste(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in included:
            return ""
        included.add(name)
        return _expand((_folder() / "lib" / f"{name}.lua").read_text(), included)

    return _INCLUDE.sub(paste, text)


def _nest(source: str) -> str:
    """Put what follows ``--- @nest`` into a function.

    Each time a script runs, Lua creates its functions. To connect one with a local variable of the same block, Lua goes through
    all variables that are in use and were declared later; with one of an outer function, it does not. So this halves the time that
    long scripts take to begin.
    """
    nested, count = _NEST.subn("return (function()", source)
    return nested + "end)()\n" * count


def _prune(source: str) -> str:
    """Remove what a script includes and does not use: functions, keys, and fields of the ledger. Each takes time in every call.

    A function that is a `local function` at the beginning of a line, a key or a field is used if its name is somewhere else in the code.
    """
    pieces = _pieces(source)
    names = Counter[str]()
    for _, text in pieces:
        names.update(_words(text))
    while unused := {text for name, text in pieces if name and names[name] == _words(text)[name]}:
        for text in unused:
            names.subtract(_words(text))
        pieces = [piece for piece in pieces if piece[1] not in unused]
    source = "".join(text for _, text in pieces)
    if "pairs(key)" not in source and 'key["' not in source:  # else the names are not in the code
        source = _KEY_LINE.sub(lambda line: line[0] if names[line[1]] > MENTIONS_OF_KEY else "", source)
    listed = _LEDGER_FIELDS.search(source)
    if not listed or "pairs(ledger)" in source:
        return source
    fields, first = _FIELD.findall(listed[0]), int(listed[1]) - 1
    settings, counters = ([name for name in some if names[name] > 1] for some in (fields[:first], fields[first:]))
    narrowed = '  "' + '", "'.join((*settings, *counters)) + '",\n'
    source = source[: listed.start()] + narrowed + source[listed.end() :]
    return _FIRST_COUNTER.sub(str(len(settings) + 1), source, count=1)


def _pieces(source: str) -> list[tuple[str, str]]:
    """Split a script into its functions, each with its name, and what is between them, without a name."""
    pieces, end = list[tuple[str, str]](), 0
    for start in _FUNCTION.finditer(source):
        if start.start() < end:  # the first one that is included inside a function stays with it
            continue
        close = (
            start.end() if start[0].endswith(" end\n") else source.index("\nend\n", start.end() - 1) + len("\nend\n")
        )
        pieces += [("", source[end : start.start()]), (start[1], source[start.start() : close])]
        end = close
    return [*pieces, ("", source[end:])]


@cache
def _words(text: str) -> Counter[str]:
    """Count the words of a piece, which many scripts may have, without its comments."""
    return Counter(_NAME.findall(_COMMENT.sub("", text)))


def load_all() -> None:
    """Read all scripts now, so that a process that runs out of file descriptors later has them."""
    for name in script_names():
        load(name)


@cache
def _files() -> dict[str, Traversable]:
    """Return the file of each script, by the name of the script. A folder is a topic; `lib` holds the includes."""
    topics = [folder for folder in _folder().iterdir() if folder.is_dir() and folder.name != "lib"]
    return {file.name.removesuffix(".lua"): file for topic in topics for file in topic.iterdir()}


def _folder() -> Traversable:
    return files("silkline.frontier") / "scripts"


class LossCheck(NamedTuple):
    """How the reply to a command shows that the shard has lost writes (see `calls`)."""

    lost: Callable[[Any], bool]
    """Whether the shard does not know a call that the command has named."""
    kept: Callable[[Any], bool]
    """Whether the shard has stored the name of this call."""


class Resend(NamedTuple):
    """How to send a command again to a shard that has lost it."""

    command: Callable[[Command[Any]], Command[Any]]
    """Returns the command to send instead of the lost one."""
    is_stored: Callable[[Any], bool]
    """Whether the shard had room for all of it, by what the second command returned."""


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One frontier operation: what to send, and how to read the reply.

    The client puts the clock and the call's number before *args* where the script's header asks for them.
    """

    script: Script
    keys: tuple[str, ...]
    args: Sequence[Arg]
    decode: Callable[[Any], R]
    when_out_of_memory: Any = None
    """The reply to assume when the server refuses to store more; None raises."""
    call: tuple[str, str] | None = None
    """The name (slot and number) under which it takes effect once, also if another client sends it; None for a new name."""
    waits: bool = True
    """Whether it waits for a shard that a cluster is moving to another node; else `ShardMigrating` is raised at once."""
    loss_check: LossCheck | None = None
    """Only of commands that name the last calls that the shard has acknowledged."""
    resend: Resend | None = None
    """How to send it again if the shard loses it; None if it is not sent again."""


def as_text(reply: bytes) -> str:
    """Decode a reply that is one word."""
    return reply.decode()


@dataclass(frozen=True, slots=True)
class Disk(Generic[R]):
    """A function that reads or writes a disk. Async code runs it in a thread."""

    run: Callable[[], R]


@dataclass(frozen=True, slots=True)
class Stream(Generic[R]):
    """Commands for one shard, in order: the next is encoded while the server runs the one before."""

    commands: Iterator[Command[R]]


@dataclass(frozen=True, slots=True)
class Each(Generic[R]):
    """Commands for different shards, at once. For a shard that cannot be reached, the result is the error."""

    commands: tuple[Command[R], ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Some keys that match, and where to continue (None at the end); None if the user may not scan.

    A name may occur several times.
    """

    match: str
    position: ScanPosition


Effect = Command[Any] | tuple[Command[Any], ...] | Stream[Any] | Each[Any] | Disk[Any] | Scan
Flow = Generator[Effect, Any, R]


def ask(command: Command[R]) -> Flow[R]:
    """Send one command."""
    result: R = yield command
    return result


def ask_all(commands: Iterable[Command[R]]) -> Flow[list[R]]:
    """Send commands to different shards at once."""
    results: list[R] = yield tuple(commands)
    return results


def ask_each(commands: Iterable[Command[R]]) -> Flow[list[R | StoreUnavailable]]:
    """Send commands to different shards at once. For a shard that cannot be reached, the result is the error."""
    results: list[R | StoreUnavailable] = yield Each(tuple(commands))
    return results


def stream(commands: Iterator[Command[R]]) -> Flow[list[R]]:
    """Send commands to one shard, without waiting for each reply."""
    results: list[R] = yield Stream(commands)
    return results


def on_disk(run: Callable[[], R]) -> Flow[R]:
    """Run a function that reads or writes a disk."""
    result: R = yield Disk(run)
    return result
