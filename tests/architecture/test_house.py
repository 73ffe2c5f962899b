"""The rules of the source tree that a machine can check. The rings are import-linter's, in `make check`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from tests.architecture.sources import PYTHON, SOURCE, aliases, classes, name_of

MODULES = 15
"""Modules that a folder may have, besides ``__init__``."""

SYNC = ("frontier/transport/sync/", "frontier/sync")
"""Generated from the async source, with the same names."""


def test_lua_lives_in_lua_files():
    assert [path for path in PYTHON if "redis.call" in path.read_text()] == []


def test_no_module_is_called_after_nothing():
    found = [path for path in PYTHON if path.stem in {"utils", "util", "common", "helpers", "misc"}]
    assert found == [SOURCE / "scrapy" / "utils.py"]  # whose name is that of scrapy-redis


def test_nothing_is_pickled():
    assert [path for path in PYTHON if re.search(r"^\s*(import|from) pickle\b", path.read_text(), re.MULTILINE)] == []


def test_a_folder_has_at_most_fifteen_modules():
    folders = Counter(name_of(path.parent) for path in PYTHON if path.name != "__init__.py")
    assert {folder: modules for folder, modules in folders.items() if modules > MODULES} == {}


def test_no_class_name_means_two_things():
    """Neither the name of a class nor that of an alias, such as ``Order = Literal[…]``."""
    modules = defaultdict(set)
    for name, module in [*classes(), *aliases()]:
        if not name.startswith("_") and not module.startswith(SYNC):
            modules[name].add(module)
    assert {name: sorted(where) for name, where in modules.items() if len(where) > 1} == {}
