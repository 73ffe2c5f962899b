"""One server with crawls in every state, and dashboards that look at it."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from silkline import Politeness, SilklineError, SyncFrontier
from silkline.core.verdict import Bury, Complete, RetryIn
from silkline.dashboard import app
from silkline.frontier.verbs.history import Counts, HandlerCounts, Levels
from silkline.frontier.verbs.hosts import StatusCounts
from tests.dashboard.hostile import fill as fill_with_hostile_texts
from tests.dashboard.serving import TOKEN, Serving, Visitor, patient
from tests.servers import Server


@pytest.fixture(scope="session")
def store():
    """A server that only the dashboard's tests use, with a crawl to look at."""
    server = Server("valkey").start()
    fill(server.url)
    yield server
    server.remove()


def fill(url):
    """The crawl "books": something waits, is under way, delayed, done and dead; hosts of every kind; one worker."""
    with SyncFrontier.open(url, crawl="books", politeness=Politeness(delay=0, concurrency=3)) as frontier:
        for host in ("shop", "library", "slow", "blocked", "paused"):
            frontier.enqueue([f"https://{host}.example/page/{number}" for number in range(9)])
        frontier.enqueue("https://shop.example/page/1")
        leases = frontier.claim(8, lease=36_000)
        verdicts = [
            Complete(),
            Bury("HTTP 404", 404),
            Bury("HTTP 503", 503),
            RetryIn(36_000, reason="connection reset"),
        ]
        frontier.settle([(lease, verdicts[place]) for place, lease in enumerate(leases[:4])])
        frontier.admin.set_host("slow.example", delay=30)
        frontier.admin.set_host("blocked.example", block_until=time.time() + 10 * 86_400)
        frontier.admin.pause("paused.example")
        frontier.internal.append_audit("jonas@ops", "pause", "paused.example")
        frontier.keep_robots("https://library.example/", b"User-agent: *\nDisallow: /cellar\n", crawl_delay=5)
        info = {"version": "9.9.9", "memory": 150 * 2**20, "state": "working", "urls": [leases[5].url], "rate": 2.5}
        frontier.internal.join("crawler-1:77", info={**info, "in_flight": 1, "pages": 1234}, expires=36_000)
        levels = Levels(ready=40, delayed=1, leased=4, done=1, dead=2, discarded=0, overflow=0)
        frontier.internal.add_answers(
            {
                "shop.example": StatusCounts(status_2xx=97, status_5xx=3, last=200),
                "library.example": StatusCounts(
                    status_2xx=60, status_3xx=2, status_4xx=30, status_5xx=6, failed=2, last=429
                ),
                "gone.example": StatusCounts(failed=6),
            }
        )
        frontier.internal.add_history(
            Counts(pages=30, errors=3, fetched=33, status_2xx=30, fetch_ms=6600, bytes=9_000),
            levels,
            {"product": handled([0.004, 0.02, 2], pages=28, items=28_000, failures=3, exceptions=1, dead=2)}
            | {"listing": handled([0.02], pages=2)},
        )


def handled(seconds, **counts):
    """What workers report of a handler."""
    made = HandlerCounts(**counts)
    for one in seconds:
        made.timing.note(one)
    return made.numbers


@pytest.fixture(scope="session")
def hostile(store):
    """The ids of the dead letters of a crawl of the web at its worst."""
    return fill_with_hostile_texts(store.url, "hostile")


@pytest.fixture(scope="session")
def open_dashboard(store):
    """Without a token: all may look."""
    with Serving(patient(app(store.url))) as serving:
        yield serving


@pytest.fixture(scope="session")
def locked_dashboard(store):
    with Serving(patient(app(store.url, token=TOKEN))) as serving:
        yield serving


@pytest.fixture
def guest(open_dashboard):
    return Visitor(open_dashboard.port)


@pytest.fixture
def stranger(locked_dashboard):
    return Visitor(locked_dashboard.port)


@pytest.fixture
def operator(locked_dashboard):
    """Somebody who has signed in."""
    visitor = Visitor(locked_dashboard.port)
    assert visitor.sign_in().status == 303
    return visitor


@pytest.fixture
def own_crawl(store, crawl):
    """A crawl that the test may change, with some dead letters."""
    with SyncFrontier.open(store.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=50)) as frontier:
        frontier.enqueue([f"https://{host}.example/{number}" for host in "ab" for number in range(10)])
        leases = frontier.claim(16)
        for place, lease in enumerate(leases):
            frontier.bury(lease, *(("HTTP 503", 503) if place % 2 else ("HTTP 404", 404)))
        yield frontier
        with suppress(SilklineError):  # the test may have removed it
            frontier.admin.remove()
