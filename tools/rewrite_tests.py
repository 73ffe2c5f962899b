"""Writes the bytecode of the tests as pytest rewrites it, on all cores.

pytest rewrites the assertions of every file of tests that it imports, which takes longer than all else until the first test runs.
Every worker of xdist imports all of them, and starts at the same time. What is written here, none of them has to rewrite.

    python tools/rewrite_tests.py
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

# pytest has no public names for these; requirements.lock has its version
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, get_cache_dir, try_makedirs

TESTS = Path(__file__).resolve().parent.parent / "tests"
QUIET = SimpleNamespace(trace=lambda _: None)


def rewrite_file(file: Path) -> None:
    """Write the bytecode of a file, unless it is there and up to date."""
    cache = get_cache_dir(file)
    compiled = cache / (file.name.removesuffix(".py") + PYC_TAIL)
    if _read_pyc(file, compiled) is None and try_makedirs(cache):
        digest, code = _rewrite_test(file, None)
        _write_pyc(QUIET, code, digest, compiled)


def main() -> None:
    files = [file for pattern in ("test_*.py", "conftest.py") for file in TESTS.rglob(pattern)]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        list(processes.map(rewrite_file, files, chunksize=10))


if __name__ == "__main__":
    main()
