"""The command line as its users have it: a process, its exit code, what it prints."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from silkline import SyncFrontier
from silkline.cli.main import run as run_command
from silkline.testing import LocalSite
from tests.cli.processes import COMMAND, Running, environment
from tests.cli.sites import write_crawl
from tests.embedded.processes import remove_when_stopped


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def workplace():
    """An empty current directory, with a path short enough for a server's socket."""
    folder = Path(tempfile.mkdtemp(prefix="silk-"))
    yield folder
    remove_when_stopped(folder)


@pytest.fixture
def silkline(workplace, forker):
    """Run the command in the workplace and wait for its end."""

    def run(*arguments, given=b"", timeout=100, handler_fails=False, **variables):
        data = given if isinstance(given, bytes) else given.encode()
        done = forker.run(
            COMMAND, *arguments, cwd=workplace, environment=environment(**variables), given=data, timeout=timeout
        )
        answer = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ("Traceback" in answer.err) == handler_fails  # only mistakes in a handler have one
        return answer

    return run


@pytest.fixture
def here(capsys, monkeypatch, workplace):
    """A command in this process: there are many, and a process each would take its time."""
    monkeypatch.chdir(workplace)
    monkeypatch.delenv("SILKLINE_REDIS", raising=False)

    def run(*arguments, given=None):
        if given is not None:
            data = given if isinstance(given, bytes) else given.encode()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        capsys.readouterr()
        return Ran(run_command([*map(str, arguments)]), *capsys.readouterr())

    return run


@pytest.fixture
def operate(valkey, here):
    """A command of operators on Valkey."""

    def run(*arguments, **options):
        return here(*arguments, "--redis", valkey.url, **options)

    return run


@pytest.fixture
def enqueue(operate, crawl):
    """``silkline enqueue`` on Valkey, into this test's crawl."""

    def run(*arguments, **options):
        return operate("enqueue", crawl, *arguments, **options)

    return run


@pytest.fixture
def frontier(valkey, crawl):
    """Opens the test's crawl, in real time."""
    opened = []

    def open_(**settings):
        opened.append(SyncFrontier.open(valkey.url, crawl=crawl, **settings))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


@pytest.fixture
def running(workplace, forker):
    """Starts the command and goes on."""
    started = []

    def start(*arguments, **variables):
        started.append(Running(*arguments, cwd=workplace, forker=forker, **variables))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def site():
    """Starts sites."""
    started = []

    def start(routes, **options):
        started.append(LocalSite(routes, **options))
        started[-1].__enter__()
        return started[-1]

    yield start
    for one in started:
        one.__exit__(None, None, None)


@pytest.fixture
def write(workplace, crawl):
    """Writes the test's crawl for a site."""

    def write_(where, code=None, **settings):
        start = where if isinstance(where, list) else [where.url]
        arguments = {} if code is None else {"code": code}
        return write_crawl(workplace / "books.py", crawl, start, **arguments, **settings)

    return write_
