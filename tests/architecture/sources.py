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
