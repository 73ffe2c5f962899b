"""Every Python block of the docs is a whole program, and prints what the page says.

The programs of a page run one after the other in one empty directory, each in a process of its own, as a reader would
run them. A block with tests in it is run by pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name_of, programs
from tests.embedded.processes import remove_when_stopped
from tests.forking import Forker

PYTEST = ["-m", "pytest", "-q", "-p", "no:valkey", "-o", "asyncio_default_fixture_loop_scope=function"]
WITH_PROGRAMS = [page for page in PAGES if programs(page)]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "SILKLINE_REDIS"}


@pytest.fixture(scope="module")
def forker():
    modules = ("silkline", "silkline.sinks", "silkline.testing")
    with Forker(*modules, flags=["-W", "error"], environment=ENVIRONMENT) as forker:
        yield forker


@pytest.fixture
def run(forker):
    """Runs a program; answers what it printed."""
    folder = Path(tempfile.mkdtemp(prefix="silk-"))

    def run_(source):
        with_tests = "def test_" in source
        program = folder / ("test_page.py" if with_tests else "program.py")
        program.write_text(source)
        if with_tests:
            command = [sys.executable, *PYTEST, program.name]
            done = subprocess.run(command, capture_output=True, cwd=folder, env=ENVIRONMENT, timeout=100, check=False)
        else:
            done = forker.run(program.name, cwd=folder)
        printed, errors = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == 0, f"{source}\n{printed}\n{errors}"
        assert [line for line in errors.splitlines() if "start windows in a row" not in line] == []  # a busy machine
        return printed

    yield run_
    remove_when_stopped(folder)


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_the_programs_of_a_page_do_what_it_says(page, run):
    for source, promised in programs(page):
        printed = run(source)
        if promised is not None:
            assert printed == promised, source


def test_the_pages_that_teach_have_programs():
    teach = {"README.md", "docs/tutorial/first-crawl.md", "docs/tutorial/first-queue.md", "docs/index.md"}
    how_to = {name_of(page) for page in PAGES if page.parent.name == "how-to"} - {
        "docs/how-to/deploy.md",
        "docs/how-to/secure-redis.md",
        "docs/how-to/scrapy.md",
    }
    assert teach | how_to <= {name_of(page) for page in WITH_PROGRAMS}
