"""No module of Silkline imports another where import-linter cannot see it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import silkline

SOURCE = Path(silkline.__file__).parent
ROOT = SOURCE.parents[1]


def rings() -> list[str]:
    """The rings of import-linter in pyproject.toml, from the inside; some have several packages."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == ["silkline"]]
    return layers[::-1]


RINGS = rings()
RING_OF = {package: number for number, packages in enumerate(RINGS) for package in re.findall(r"\w+", packages)}
ALL = len(RINGS)
"""The ring of modules that stand outside the packages: they may import all."""


def in_functions(tree: ast.AST) -> Iterator[str]:
    """Imports of Silkline inside a function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("silkline"):
                    yield f"from {node.module} import"
                elif isinstance(node, ast.Import):
                    yield from (f"import {one.name}" for one in node.names if one.name.startswith("silkline"))


def outwards(package: str, tree: ast.AST) -> Iterator[str]:
    """Names of modules in outer rings that are given to a function which imports them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
            name = beginning_of(node.args[0])
            ring = RING_OF.get(name.split(".")[1], ALL) if name.startswith("silkline.") else 0
            if ring > RING_OF.get(package, ALL):
                yield name


def beginning_of(text: ast.expr) -> str:
    """A string, or the part of an f-string before its first value. Empty if it is computed in another way."""
    if isinstance(text, ast.JoinedStr) and text.values:
        text = text.values[0]
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def trees() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), ast.parse(path.read_text())


def test_no_import_hides_inside_a_function():
    assert [(str(path), found) for path, tree in trees() for found in in_functions(tree)] == []


def test_no_module_imports_an_outer_ring_by_its_name():
    assert [(str(path), found) for path, tree in trees() for found in outwards(path.parts[0], tree)] == []


def test_every_package_has_a_ring():
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} <= set(RING_OF)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    from silkline.scrapy import x",
        "async def f():\n    if True:\n        import silkline.cli.main as m",
        "class C:\n    def f(self):\n        from silkline.errors import y",
    ],
)
def test_an_import_in_a_function_is_seen(code):
    assert list(in_functions(ast.parse(code)))


def test_an_import_by_name_is_seen():
    tree = ast.parse('importlib.import_module("silkline.scrapy.dupefilter").identities_of')
    assert list(outwards("ops", tree)) == ["silkline.scrapy.dupefilter"]
    assert list(outwards("cli", tree)) == []
    assert list(outwards("tasks", ast.parse('import_module("silkline.worker.worker")'))) == ["silkline.worker.worker"]


def test_an_import_by_a_name_that_is_computed_is_seen():
    assert list(outwards("ops", ast.parse('import_module(f"silkline.cli.{command}")'))) == ["silkline.cli."]
    assert list(outwards("ops", ast.parse('import_module(f"silkline.{package}")'))) == ["silkline."]
    assert list(outwards("sinks", ast.parse('import_module(f"silkline.sinks.{kind}")'))) == []
