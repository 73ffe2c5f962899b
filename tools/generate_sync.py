"""Generates the sync modules from the async ones: `Frontier` becomes `SyncFrontier`, and so does what it is made of.

Keywords such as `await` are dropped, and a class that changes by that gets the prefix ``Sync``. Definitions that would be the same
are imported from the async module. What differs in more than keywords, the primitives of threads and tasks, is written by hand under the
same names: single definitions in `BY_HAND`, whole modules in `TWINS`.

    python tools/generate_sync.py           writes the modules
    python tools/generate_sync.py --check   fails if a module is not what would be written
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = "silkline.frontier"

GENERATED = {
    f"{PACKAGE}.frontier": f"{PACKAGE}.sync",
    f"{PACKAGE}.admin": f"{PACKAGE}.sync_admin",
    f"{PACKAGE}.internal": f"{PACKAGE}.sync_internal",
    f"{PACKAGE}.session": f"{PACKAGE}.sync_session",
    f"{PACKAGE}.transport.connection": f"{PACKAGE}.transport.sync.connection",
    f"{PACKAGE}.transport.nodes": f"{PACKAGE}.transport.sync.nodes",
    f"{PACKAGE}.transport.notifier": f"{PACKAGE}.transport.sync.notifier",
    f"{PACKAGE}.user_keys.inbox": f"{PACKAGE}.user_keys.sync_inbox",
    f"{PACKAGE}.locks.locks": f"{PACKAGE}.locks.sync_locks",
    "silkline.tasks.groups": "silkline.tasks.sync_groups",
    "silkline.tasks.calls": "silkline.tasks.sync_calls",
}
"""Async modules, and what is made of them."""
BY_HAND = f"{PACKAGE}.transport.sync.concurrency"
"""What this module defines is imported from it instead of being generated."""
TWINS = {
    f"{PACKAGE}.locks.waiting": f"{PACKAGE}.locks.sync_waiting",
}
"""Async modules, and those with the same names for plain code that are written by hand."""
NAMES = {
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "asynccontextmanager": "contextmanager",
    "close_async": "close_sync",
    "node_client_async": "node_client_sync",
    "open_async": "open_sync",
}
AWAITABLE = re.compile(r"\bAwaitable\[((?:[^\[\]]|\[[^\[\]]*\])*)\]")
WORDS = {"async with": "with", "await resize": "resize", "async code": "plain code"}
"""Replaced in docstrings and comments."""
HEADER = "# Generated from {source} by tools/generate_sync.py. Do not edit: change that module and run `make sync`.\n"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a module, with the comments before it and the docstring after it."""

    node: ast.stmt
    text: str

    @property
    def names(self) -> list[str]:
        """What it defines; nothing if each module needs its own."""
        node = self.node
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return [node.name]
        if isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar("):
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        return []


def path_of(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


def statements(text: str) -> list[Statement]:
    """The top level of a module, from the first line to the last."""
    nodes = [node for i, node in enumerate(ast.parse(text).body) if i == 0 or not isinstance(node, ast.Expr)]
    lines, start, found = text.splitlines(keepends=True), 0, []
    for node in nodes:
        end = _end(node, lines)
        found.append(Statement(node, "".join(lines[start:end])))
        start = end
    return found


def _end(node: ast.stmt, lines: list[str]) -> int:
    """The number of the last line of a statement; a docstring may follow a constant."""
    end = node.end_lineno or 0
    while isinstance(node, (ast.Assign, ast.AnnAssign)) and end < len(lines) and lines[end].startswith('"""'):
        end += 1
        while not lines[end - 1].rstrip().endswith('"""'):
            end += 1
    return end


def tokens(text: str) -> Iterator[tuple[tokenize.TokenInfo, int, int]]:
    """The tokens of a text, and where they begin and end in it."""
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    for token in tokenize.generate_tokens(StringIO(text).readline):
        yield token, offsets[token.start[0] - 1] + token.start[1], offsets[token.end[0] - 1] + token.end[1]


def own_names(text: str) -> set[str]:
    """Names that a text uses, but for attributes."""
    found, before = set(), ""
    for token, _, _ in tokens(text):
        if token.type == tokenize.NAME and before != ".":
            found.add(token.string)
        before = token.string
    return found


def convert(text: str, renamed: dict[str, str]) -> str:
    """A statement for plain code."""
    text = AWAITABLE.sub(r"\1", text)
    result, position, dropping = "", 0, False
    for token, start, end in tokens(text):
        if dropping:  # the keyword, and the space after it
            position, dropping = start, False
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            result, dropping = result + text[position:start], True
        elif token.type == tokenize.NAME:
            result, position = result + text[position:start] + renamed.get(token.string, token.string), end
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            result, position = result + text[position:start] + convert_words(token.string, renamed), end
    return result + text[position:]


def convert_words(text: str, renamed: dict[str, str]) -> str:
    """A docstring or comment, with the classes in backticks renamed."""
    for old, new in WORDS.items():
        text = text.replace(old, new)
    return re.sub(r'(`|""")([A-Za-z]+)\b', lambda match: match[1] + renamed.get(match[2], match[2]), text)


def definitions(module: str) -> set[str]:
    """The names that a module defines."""
    return {name for one in statements(path_of(module).read_text()) for name in one.names}


class Generator:
    """Knows which definitions of the async modules change."""

    def __init__(self) -> None:
        self._modules = {module: statements(path_of(module).read_text()) for module in GENERATED}
        self._by_hand = definitions(BY_HAND)
        self._changed = {module: self._written_by_hand(module) for module in GENERATED}
        self._twin_names = {module: definitions(twin) for module, twin in TWINS.items()}
        twins = {name for module in TWINS for name in definitions(module)}.union(*self._changed.values())
        self._renamed = {**NAMES, **{name: sync_name(name) for name in twins if "async" in name.lower()}}
        while self._look():
            pass

    def _written_by_hand(self, module: str) -> set[str]:
        names = {name for one in self._modules[module] for name in one.names}
        return {name for name in names if name in self._by_hand or sync_name(name) in self._by_hand}

    def _look(self) -> bool:
        """Find definitions that change because others do."""
        known = sum(map(len, self._changed.values()))
        for module, body in self._modules.items():
            used = {"async", "await", *self._renamed} | self._foreign(module) | self._changed[module]
            for one in body:
                if one.names and used & own_names(one.text):
                    self._changed[module] |= set(one.names)
                    if isinstance(one.node, ast.ClassDef):
                        self._renamed[one.node.name] = sync_name(one.node.name)
        return sum(map(len, self._changed.values())) > known

    def _foreign(self, module: str) -> set[str]:
        """Names that the module imports, and that are others for plain code."""
        return {
            alias.name
            for one in self._modules[module]
            if isinstance(one.node, ast.ImportFrom)
            for alias in one.node.names
            if self._home(one.node.module or "", alias.name) != one.node.module
        }

    def _home(self, module: str, name: str) -> str:
        """The module from which plain code imports a name."""
        if module in TWINS:
            return TWINS[module] if self._renamed.get(name, name) in self._twin_names[module] else module
        if name not in self._changed.get(module, ()):
            return module
        return BY_HAND if self._renamed.get(name, name) in self._by_hand else GENERATED[module]

    def generate(self, module: str) -> str:
        """The text of the sync module."""
        shared, written, parts = [], [], [HEADER.format(source=path_of(module).name)]
        for one in self._modules[module]:
            if isinstance(one.node, ast.ImportFrom) and one.node.module != "__future__":
                parts.append(self._import(one.node))
            elif one.names and not self._changed[module] & set(one.names):
                shared += one.names
            elif by_hand := [name for name in one.names if self._home(module, name) == BY_HAND]:
                written += [self._renamed.get(name, name) for name in by_hand]
            else:
                parts.append(convert(one.text, self._renamed))
            if isinstance(one.node, ast.ImportFrom) and one.node.module == "__future__":
                parts.append("<shared>")
        imported = f"from {module} import {', '.join(shared)}\n" if shared else ""
        imported += f"from {BY_HAND} import {', '.join(written)}\n" if written else ""
        return tidy("".join(parts).replace("<shared>", "\n" + imported), path_of(GENERATED[module]))

    def _import(self, node: ast.ImportFrom) -> str:
        lines = ""
        for alias in node.names:
            name = self._renamed.get(alias.name, alias.name) + (f" as {alias.asname}" if alias.asname else "")
            lines += f"from {self._home(node.module or '', alias.name)} import {name}\n"
        return lines


def sync_name(name: str) -> str:
    return name.replace("async", "sync") if "async" in name else "Sync" + name.removeprefix("Async")


def tidy(text: str, path: Path) -> str:
    """Remove unused imports, sort the others, and format."""
    ruff = [Path(sys.executable).with_name("ruff")]
    checked = [*ruff, "check", "--fix", "--exit-zero", "--quiet", "--select=I,F401,F811,RUF022"]
    for command in (checked, [*ruff, "format", "--quiet"]):
        ran = subprocess.run(
            [*command, f"--stdin-filename={path}", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = ran.stdout
    return text


def main(*, check: bool) -> int:
    generator, differing = Generator(), 0
    for module, target in GENERATED.items():
        path, text = path_of(target), generator.generate(module)
        if check and (not path.exists() or path.read_text() != text):
            print(f"{path.relative_to(ROOT)} is not what its async module makes of it: run `make sync`")
            differing += 1
        elif not check:
            path.write_text(text)
    return differing


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
