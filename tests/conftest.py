"""What every test shares."""

from __future__ import annotations

import gc
import itertools
import os
import signal

import pytest
from hypothesis import settings

from silkline import Frontier, SyncFrontier
from silkline.testing import Clock
from tests.forking import Forker
from tests.servers import KINDS, Server, binary
from tests.servers_matrix.topologies import Cluster

_crawls = itertools.count()

# How long an example takes depends on what else the machine does.
settings.register_profile("silkline", deadline=None)
settings.load_profile("silkline")

# A shell that starts the tests in the background has them ignore Ctrl-C; the processes that tests start must not.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def servers():
    """One server per kind for all tests of this process, started when first asked for."""
    running = {}

    def get(kind):
        if binary(kind) is None:
            pytest.skip(f"{kind} is not installed")
        if kind not in running:
            running[kind] = Server(kind).start()
        return running[kind]

    yield get
    for server in running.values():
        server.remove()


@pytest.fixture(scope="session")
def forker():
    """Starts commands quickly: `Running`, `Terminal` and the fixture `silkline` of tests/cli use it."""
    with Forker(
        "cyclopts", "rich.console", "rich.table", "silkline.worker.process.process", "silkline.frontier.sync"
    ) as forker:
        yield forker


@pytest.fixture
def valkey(servers):
    return servers("valkey")


@pytest.fixture(params=KINDS)
def any_server(request, servers):
    """Each kind of server in turn."""
    return servers(request.param)


@pytest.fixture
def own_server():
    """Starts servers that the test may kill."""
    started = []

    def start(kind="valkey", **options):
        started.append(Server(kind, **options).start())
        return started[-1]

    yield start
    for server in started:
        server.remove()


@pytest.fixture(scope="module")
def cluster():
    """Three cluster nodes for the tests of a module. A test that kills a node starts it again: what it stored is on disk."""
    with Cluster(appendonly="yes", appendfsync="always") as nodes:
        yield nodes


@pytest.fixture
def crawl():
    """A crawl's name that no other test has."""
    return f"test-{os.getpid()}-{next(_crawls)}"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def open_frontier(valkey, crawl, clock):
    """Opens frontiers on Valkey, in simulated time, and closes them at the end."""
    opened = []

    async def open_(**settings):
        arguments = {"url": valkey.url, "crawl": crawl, "clock": clock, **settings}
        opened.append(await Frontier.open(**arguments))
        return opened[-1]

    yield open_
    for frontier in opened:
        await frontier.close()


@pytest.fixture
def open_sync(valkey, crawl, clock):
    """The same for SyncFrontier."""
    opened = []

    def open_(**settings):
        arguments = {"url": valkey.url, "crawl": crawl, "clock": clock, **settings}
        opened.append(SyncFrontier.open(**arguments))
        return opened[-1]

    yield open_
    for frontier in opened:
        frontier.close()


def fail_if_skipped(report):
    """Under CI a skipped test is a failed one: a promise nobody checked is not kept."""
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and under CI nothing may be: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Of what is made here, nothing ends before the tests do: the garbage collector need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_if_skipped((yield))
