"""Check that the tests notice a missing guard: ``python tools/mutate_scripts.py [--count N] [--seed N] [--only NAME …]``.

A guard is a line ``if … then return … end`` of a Lua script. The tool removes one guard at a time from a copy of the source and runs
the tests of the script, then those of all scripts, then those of the frontier, until one fails. A guard without which every test passes
is printed, and the exit code is 1, unless `EQUIVALENT` says why nothing can change without it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SCRIPTS = Path("silkline/frontier/scripts")
GUARD = re.compile(r"^ *if .+ then return\b.* end$")
TIMEOUT = 600
EQUIVALENT: dict[str, str] = {}
"""Guards, as ``file: line``, without which nothing changes, and why: they only save time."""


class Guard(NamedTuple):
    """A line of a script."""

    file: Path
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text.strip()}"


def guards() -> list[Guard]:
    """Return all guards of all scripts."""
    found = []
    for file in sorted((ROOT / "src" / SCRIPTS).rglob("*.lua")):
        for number, line in enumerate(file.read_text().splitlines()):
            if GUARD.match(line):
                found.append(Guard(file.relative_to(ROOT / "src" / SCRIPTS), number, line))
    return found


def suites(guard: Guard) -> list[list[str]]:
    """Return what to run, the tests most likely to fail first."""
    own = ROOT / "tests" / "scripts" / f"test_{guard.file.stem}.py"
    first = [[str(own.relative_to(ROOT))]] if own.exists() else []
    return [*first, ["tests/scripts"], ["tests/contract"]]


def survives(guard: Guard, copy: Path) -> bool:
    """Return whether all tests pass without the guard."""
    file = copy / SCRIPTS / guard.file
    before = file.read_text()
    lines = before.splitlines()
    del lines[guard.number]
    file.write_text("\n".join([*lines, ""]))
    try:
        return all(_pass(suite, copy) for suite in suites(guard))
    finally:
        file.write_text(before)


def _pass(suite: list[str], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", *suite]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False  # a test that never ends has noticed it
    report = done.stdout.decode(errors="replace")
    if done.returncode and " failed" not in report and " error" not in report:
        raise RuntimeError(report[-2000:])
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Check that the tests notice a missing guard of a Lua script.")
    parser.add_argument("--count", type=int, help="only this many guards, chosen at random")
    parser.add_argument("--seed", type=int, default=1, help="the seed of that choice")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only guards of these files, such as claim")
    asked = parser.parse_args()
    chosen = [guard for guard in guards() if not asked.only or guard.file.stem in asked.only]
    if asked.count is not None and asked.count < len(chosen):
        chosen = random.Random(asked.seed).sample(chosen, asked.count)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="silk-mutate-") as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src" / "silkline", copy / "silkline", ignore=shutil.ignore_patterns("__pycache__"))
        for guard in chosen:
            began = time.monotonic()
            alive = survives(guard, copy)
            known = EQUIVALENT.get(str(guard))
            word = "noticed" if not alive else f"not noticed, but {known}" if known else "NOT NOTICED"
            missed += alive and not known
            print(f"{word} ({time.monotonic() - began:.0f} s): {guard}", flush=True)
    print(f"{len(chosen)} guards, {missed} that no test notices")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
