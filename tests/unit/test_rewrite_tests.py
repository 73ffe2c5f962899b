"""The files of tests are rewritten before the workers of pytest-xdist start: each of them finds the bytecode."""

from __future__ import annotations

import subprocess
import sys

from tools.rewrite_tests import rewrite_file


def test_pytest_finds_the_bytecode_of_a_rewritten_file_until_it_changes(tmp_path):
    (tmp_path / "pytest.ini").touch()
    file = tmp_path / "test_sum.py"
    file.write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    rewrite_file(file)
    assert f"found cached rewritten pyc for {file}" in log_of_a_run(tmp_path)
    file.write_text("def test_sum():\n    assert 1 + 1 == 4\n")
    assert f"rewriting {file!r}" in log_of_a_run(tmp_path)


def log_of_a_run(folder):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:valkey", "--debug=log", "test_sum.py"]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=100)
    assert "assert (1 + 1) == " in done.stdout, done.stdout
    return (folder / "log").read_text()
