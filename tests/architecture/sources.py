"""The source files as the tests of this folder read them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import silkline

SOURCE = Path(silkline.__file__).parent
ROOT = SOURCE.parents[1]
PYTHON = sorted(path for path in SOURCE.rglob("*.py") if "templates" not in path.parts)
"""Every module; the templates of `silkline init` are users' files."""


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path):
    return ast.parse(path.read_text())


def classes():
    """Every class, with the module that defines it."""
    for path in PYTHON:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                yield node.name, name_of(path)


def aliases():
    """Every alias of a type at the top of a module, such as ``Order = Literal["fifo", "lifo"]``, with that module."""
    for path in PYTHON:
        for node in tree_of(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if name[0].isupper() and not name.isupper():
                    yield name, name_of(path)
