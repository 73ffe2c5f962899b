"""The types of the public names, as a user's type checker sees them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyright
import pytest
from playwright._impl._driver import compute_driver_executable

from tests.docs.pages import ROOT, programs

FOLDER = Path(__file__).parent


@pytest.fixture
def readme(tmp_path):
    """The crawl of the README as a file."""
    (source, _), *_ = programs(ROOT / "README.md")
    assert "crawl = Crawl(" in source
    file = tmp_path / "books.py"
    file.write_text(source)
    return file


def test_right_uses_are_accepted_and_wrong_ones_rejected(readme):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "right.py",
        "wrong.py",
        readme,
    ]
    found = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    errors = re.findall(r"^(?:.*/)?(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", found.stdout, re.MULTILINE)
    lines = (FOLDER / "wrong.py").read_text().splitlines()
    marked = [(number, line.rpartition("  # ")[2]) for number, line in enumerate(lines, 1) if "  # " in line]
    wanted = {("wrong.py", str(number), code) for number, code in marked}
    assert set(errors) == wanted, found.stdout + found.stderr


def test_editors_accept_the_crawl_of_the_readme(readme):
    """With pyright, as in VS Code. It is a program for Node, which is part of playwright."""
    node, _ = compute_driver_executable()
    program = Path(pyright.__file__).parent / "dist" / "index.js"
    command = [node, program, "--pythonpath", sys.executable, readme]
    found = subprocess.run(command, cwd=readme.parent, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "0 errors, 0 warnings" in found.stdout
