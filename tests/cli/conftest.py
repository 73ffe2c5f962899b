"""The command line as its users have it: a process, its exit code, what it prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from silkline import SyncFrontier
from tests.embedded.processes import wait_until_stopped

COMMAND = Path(sys.executable).with_name("silkline")


def environment(**changes):
    """As on a plain terminal, whatever this one has set."""
    unwanted = ("SILKLINE_REDIS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")
    return {name: value for name, value in os.environ.items() if name not in unwanted} | changes


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
    wait_until_stopped(folder / ".silkline")
    shutil.rmtree(folder)


@pytest.fixture
def silkline(workplace):
    """Run the command in the workplace and wait for its end."""

    def run(*arguments, given=None, timeout=60, **variables):
        done = subprocess.run(
            [COMMAND, *map(str, arguments)],
            input=given if given is None or isinstance(given, bytes) else given.encode(),
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            cwd=workplace,
            env=environment(**variables),
            timeout=timeout,
            check=False,
        )
        answer = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in answer.err
        return answer

    return run


@pytest.fixture
def enqueue(silkline, valkey, crawl):
    """``silkline enqueue`` on Valkey, into this test's crawl."""

    def run(*arguments, **options):
        return silkline("enqueue", crawl, "--redis", valkey.url, *arguments, **options)

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
