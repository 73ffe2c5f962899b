"""The house rules that a machine can check. The rings are import-linter's, in `make check`."""

from __future__ import annotations

from pathlib import Path

import silkline

SOURCE = Path(silkline.__file__).parent
PYTHON = sorted(SOURCE.rglob("*.py"))


def test_the_front_door_is_counted():
    assert sorted(silkline.__all__) == [
        "Admission", "Backoff", "Budget", "Bury", "Complete", "Crawl", "Drop", "Fetching", "Frontier", "Lease", "LeaseLost",
        "Page", "Politeness", "Release", "Request", "Retries", "RetryIn", "RetryLater", "Scope", "SilklineError",
        "SyncFrontier", "Worker", "run",
    ]  # fmt: skip
    assert len(silkline.__all__) <= 24  # each of them stands in a crawl's file, or beside `Frontier`
    for name in silkline.__all__:
        assert hasattr(silkline, name)


def test_lua_lives_in_lua_files():
    assert [path for path in PYTHON if "redis.call" in path.read_text()] == []


def test_no_room_is_called_after_nothing():
    found = [path for path in PYTHON if path.stem in {"utils", "util", "common", "helpers", "misc"}]
    assert found == [SOURCE / "scrapy" / "utils.py"]  # whose name is that of scrapy-redis


def test_nothing_is_pickled():
    assert [path for path in PYTHON if "import pickle" in path.read_text()] == []


def test_no_import_hides_inside_a_function():
    hidden = [
        (path.name, line.strip())
        for path in PYTHON
        for line in path.read_text().splitlines()
        if line.startswith(("    import ", "        import ", "        from ")) and " import " in f" {line}"
        if "silkline" in line
    ]
    assert hidden == []
