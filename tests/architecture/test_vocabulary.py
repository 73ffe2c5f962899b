"""Plain words: in the source, in what people read, and in names.

Each number is how often a word still occurs. It may only fall; at 0 the word is banned for good. A function returns, raises or
stores; a server replies; the actor is a worker, a client, a user or an operator.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache

import pytest

from tests.architecture.sources import PYTHON, ROOT, SOURCE, tree_of

SOURCES = [
    path
    for path in sorted(SOURCE.rglob("*"))
    if path.suffix in {".py", ".lua", ".html", ".md"} and "static" not in path.parts
]
DOCS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "examples").rglob("*.py")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "adr"),
]
"""The decisions in ``docs/adr`` are history, and not rewritten."""

PROSE = {
    "nobody": (0, 0, 41),
    "somebody": (0, 0, 10),
    "whoever": (0, 1, 7),
    "anybody": (0, 0, 0),
    "anew": (0, 0, 0),
    "of late": (0, 0, 0),
    "under way": (0, 0, 0),
    "so many": (0, 0, 0),
    "so often": (0, 0, 0),
    "how manieth": (0, 0, 0),
    "told": (0, 0, 0),
    "tells": (0, 0, 0),
    "answers": (202, 7, 24),
    "ours": (0, 0, 5),
    "of its own": (1, 0, 14),
    "is to": (1, 0, 0),
    "are to": (0, 0, 2),
    "of use": (0, 0, 0),
    "heard": (0, 0, 0),
    "as ever": (0, 0, 0),
    "at work": (0, 0, 0),
    "for ever": (0, 0, 0),
    "go on": (0, 0, 0),
    "goes on": (0, 0, 0),
    "looked at": (0, 0, 0),
    "looks at": (3, 0, 0),
    "mended": (0, 0, 0),
    "unawares": (0, 0, 0),
    "(?:colou|neighbou|honou|behaviou|favou)r\\w*": (0, 0, 0),
    "licen[c]e|\\w+(?:ogni|ari|ali|tim|nim|gani|chron|dom)is(?:e|ed|es|ing)": (0, 0, 0),
}
"""Words: how often they may occur in the source, in the docs, and in the names of tests. Spelling is American, except that
*cancelled* is spelled as in Python."""

NAMES = {
    "act": 1,
    "acts": 0,
    "bell": 0,
    "calm": 0,
    "company": 0,
    "course": 0,
    "door": 0,
    "facts": 0,
    "familiar": 0,
    "foreign": 0,
    "grave": 0,
    "graves": 0,
    "hops": 0,
    "house": 0,
    "keeper": 0,
    "landing": 0,
    "landings": 0,
    "lookout": 0,
    "nobody": 0,
    "outlet": 0,
    "overseeing": 0,
    "somebody": 0,
    "stand": 0,
    "tell": 0,
    "told": 0,
    "tracks": 0,
    "vigil": 0,
    "wish": 0,
    "wishes": 0,
}
"""Words in the names of classes, functions, arguments and modules: how many different names may still have them."""


def test_sizes_have_binary_units():
    """Users compare them with those that Silkline prints, which are KiB, MiB and GiB."""
    wrong = re.compile(r"[0-9] ?[kKMGT]B\b|\bper [KMG]B\b")
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}" for path in (*SOURCES, *DOCS) for hit in wrong.finditer(path.read_text())
    ]
    assert found == []


def count(word, paths):
    return sum(count_in(word, text_of(path)) for path in paths)


def count_in(word, text):
    return len(re.findall(rf"\b(?:{word})\b", text, re.IGNORECASE))


def text_of(path):
    """The text of a file; without the code spans of a page, which are names."""
    text = path.read_text()
    return re.sub(r"`[^`\n]+`", "", text) if path.suffix == ".md" else text


@cache
def names_of_tests():
    """The names of all tests, as words."""
    trees = (tree_of(path) for path in sorted((ROOT / "tests").rglob("test_*.py")))
    functions = (
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return "\n".join(one.name.replace("_", " ") for one in functions if one.name.startswith("test_"))


@pytest.mark.parametrize("word", PROSE)
def test_a_word_that_is_not_plain_becomes_rarer(word):
    source, docs, tests = PROSE[word]
    assert count(word, SOURCES) <= source, f"{word!r} in src"
    assert count(word, DOCS) <= docs, f"{word!r} in the docs"
    assert count_in(word, names_of_tests()) <= tests, f"{word!r} in the names of tests"


def names():
    """Every name that the source defines."""
    for path in PYTHON:
        yield path.stem
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name
            elif isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
    yield from (path.stem for path in SOURCE.rglob("*.lua"))


def words_of(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_use_the_words_of_the_field():
    found = Counter(word for name in set(names()) for word in words_of(name) & set(NAMES))
    assert {word: found[word] for word in NAMES if found[word] > NAMES[word]} == {}
