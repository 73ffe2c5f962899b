"""A process that has opened a frontier and forks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "forking.py"
CHILDREN, REQUESTS = 4, 40


@pytest.mark.parametrize("server", ["valkey", "cluster"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_parent_and_children_have_connections_and_names_of_calls_of_their_own(servers, crawl, kind, server):
    words = [sys.executable, PROGRAM, kind, servers(server).url, crawl, str(CHILDREN), str(REQUESTS)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    everybody = told["children"]
    assert len(everybody) == CHILDREN + 1
    assert [one["added"] for one in everybody] == [REQUESTS] * len(everybody)
    assert told["accepted"] == 1 + REQUESTS * len(everybody)
    leased = [url for one in everybody for url in one["leased"]]
    assert len(set(leased)) == len(leased)
    assert told["done"] == 1 + len(leased)


FORK_IN_THE_MIDDLE = """
import os, signal
from silkline.frontier.transport.redis_errors import OUTAGES

with OUTAGES._lock:  # as if another thread were just about to log something
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        OUTAGES.failed("somewhere", OSError("away"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_does_not_wait_for_a_lock_that_a_thread_of_its_parent_held():
    subprocess.run([sys.executable, "-c", FORK_IN_THE_MIDDLE], timeout=100, check=True)
