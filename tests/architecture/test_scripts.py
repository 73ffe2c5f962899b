"""A script is found where its caller is."""

from __future__ import annotations

import ast

from tests.architecture.sources import PYTHON, SOURCE, name_of, tree_of

SCRIPTS = SOURCE / "frontier" / "scripts"
FOLDERS = {path.stem: path.parent.name for path in SCRIPTS.glob("*/*.lua") if path.parent.name != "lib"}


def loads():
    """Each script that a module loads by its name."""
    for path in PYTHON:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "load" and node.args:
                name = getattr(node.args[0], "value", None)
                if name in FOLDERS:
                    yield path, name


def test_the_folder_of_a_script_has_the_name_of_its_caller():
    """The module that sends it, or the package of that module."""
    elsewhere = {
        name: (FOLDERS[name], name_of(path))
        for path, name in loads()
        if FOLDERS[name] not in {path.stem, path.parent.name}
    }
    assert elsewhere == {}


def test_every_script_has_one_caller():
    callers = {}
    for path, name in loads():
        callers.setdefault(name, set()).add(name_of(path))
    assert {name: sorted(paths) for name, paths in callers.items() if len(paths) > 1} == {}
    assert set(FOLDERS) - set(callers) == set()
