"""The types of the public names, as a user's type checker sees them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def test_right_uses_are_accepted_and_wrong_ones_rejected():
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "right.py",
        "wrong.py",
    ]
    found = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    errors = re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", found.stdout, re.MULTILINE)
    lines = (FOLDER / "wrong.py").read_text().splitlines()
    marked = [(number, line.rpartition("  # ")[2]) for number, line in enumerate(lines, 1) if "  # " in line]
    wanted = {("wrong.py", str(number), code) for number, code in marked}
    assert set(errors) == wanted, found.stdout + found.stderr
