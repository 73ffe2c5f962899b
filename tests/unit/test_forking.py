"""A program that is forked is like one that a shell has started."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.forking import Forker

PROGRAM = """
import os, sys, time
import helper
print(helper.NAME, __name__, sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ.get("WORD"))
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[1]) if int(sys.argv[1]) < 9 else "too much")
"""


@pytest.fixture(scope="module")
def forker():
    with Forker("json") as forker:
        yield forker


@pytest.fixture
def program(tmp_path):
    (tmp_path / "helper.py").write_text("NAME = 'helper'")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def test_it_has_its_own_arguments_input_environment_directory_and_exit_code(forker, program, tmp_path):
    done = forker.run(program, 3, 0, cwd=tmp_path, environment={"WORD": "said"}, given=b"given")
    assert done.returncode == 3
    assert done.stdout.decode() == f"helper __main__ ['3', '0'] given {tmp_path} said\n"
    assert done.stderr == b""
    again = forker.run(program, 9, 0, cwd=tmp_path, environment={})
    assert (again.returncode, again.stderr) == (1, b"too much\n")
    assert again.stdout.endswith(b" None\n")


def test_an_error_has_its_traceback(forker, program, tmp_path):
    done = forker.run(program, "x", 0, cwd=tmp_path)
    assert done.returncode == 1
    assert b"Traceback" in done.stderr
    assert b"ValueError: invalid literal" in done.stderr


def test_one_that_does_not_end_is_killed_and_the_next_one_runs(forker, program, tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        forker.run(program, 0, 600, cwd=tmp_path, timeout=0.5)
    assert forker.run(program, 0, 0, cwd=tmp_path).returncode == 0


TALKER = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("here")
for line in sys.stdin:
    print(line.strip(), "said")
"""


def test_one_that_runs_for_long_is_talked_to_and_ends_when_its_input_does_or_by_a_signal(forker, tmp_path):
    (tmp_path / "talker.py").write_text(TALKER)
    codes = []
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        (ours_in, given), (said, ours_out) = os.pipe(), os.pipe()
        environment = {"PYTHONUNBUFFERED": "1"}
        files = (ours_in, ours_out, ours_out)
        process = forker.start(tmp_path / "talker.py", cwd=tmp_path, files=files, environment=environment)
        for file in (ours_in, ours_out):
            os.close(file)
        with os.fdopen(given, "w") as stdin, os.fdopen(said) as stdout:
            assert stdout.readline() == "here\n"
            print("a word", file=stdin, flush=True)
            assert stdout.readline() == "a word said\n"
            assert process.poll() is None
            if number:
                process.send_signal(number)
        codes.append(process.wait(100))
        assert process.poll() == codes[-1]
    assert codes == [0, 7, -signal.SIGKILL]
