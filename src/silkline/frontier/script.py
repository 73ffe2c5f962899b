"""Loads the Lua scripts: one file per verb, includes pasted in once, the header read as a contract."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from importlib.resources import files
from importlib.resources.abc import Traversable

_INCLUDE = re.compile(r'^--- @include "(\w+)"$', re.MULTILINE)
_KEY = re.compile(r"^-- KEYS\[(\d+)\] (\w+)", re.MULTILINE)
_ARGV = re.compile(r"^-- ARGV\s+(.*)$", re.MULTILINE)
_SHEBANG = re.compile(r"^#!lua[^\n]*\n")


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent, and what its header promises."""

    name: str
    source: str = field(repr=False)
    keys: tuple[str, ...]
    takes_clock: bool
    takes_call: bool
    sha: str
    legacy_source: str = field(repr=False)
    """Without the first line, which servers before Redis 7 do not know."""
    legacy_sha: str


def names() -> list[str]:
    """All verbs that have a script."""
    return sorted(path.name.removesuffix(".lua") for path in _folder().iterdir() if path.name.endswith(".lua"))


@cache
def load(name: str) -> Script:
    raw = (_folder() / f"{name}.lua").read_text()
    header = raw.partition("\nlocal ")[0]
    arguments = _ARGV.search(header)
    words = [word.strip(" .…") for word in arguments.group(1).split(",")] if arguments else []
    source = _expand(raw, set())
    legacy = _SHEBANG.sub("", source)
    return Script(
        name=name,
        source=source,
        keys=tuple(match.group(2) for match in _KEY.finditer(header)),
        takes_clock="clock" in words,
        takes_call="slot" in words and "call" in words,
        sha=sha1(source.encode(), usedforsecurity=False).hexdigest(),
        legacy_source=legacy,
        legacy_sha=sha1(legacy.encode(), usedforsecurity=False).hexdigest(),
    )


def _expand(text: str, included: set[str]) -> str:
    def paste(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in included:
            return ""
        included.add(name)
        return _expand((_folder() / "lib" / f"{name}.lua").read_text(), included)

    return _INCLUDE.sub(paste, text)


def _folder() -> Traversable:
    return files("silkline.frontier") / "scripts"
