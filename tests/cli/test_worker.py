"""``silkline worker``: one more process for a crawl that is there."""

from __future__ import annotations

import signal

import pytest

from silkline import SyncFrontier
from silkline.worker.crawl.loading import load_crawl
from tests.cli.sites import chain, lines_of, wait_until
from tests.servers import Server, free_port


@pytest.fixture
def begin(workplace, valkey):
    """Creates the crawl of a file, with its starts, as ``run`` does."""

    def begin_(file):
        crawl = load_crawl(str(workplace / file))
        with SyncFrontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
            frontier.enqueue(crawl.listed_starts())

    return begin_


def test_it_works_until_the_crawl_is_finished(silkline, valkey, site, write, begin, workplace):
    file = write(site(chain(5)))
    begin(file)
    answer = silkline("worker", file, "--redis", valkey.url, "-o", "items.jsonl")
    assert answer.code == 0
    assert answer.out == ""
    assert "after 6 pages and 6 items" in answer.err
    assert len(lines_of(workplace / "items.jsonl")) == 6


def test_a_crawl_that_is_not_there_is_reported_with_how_to_start_it(silkline, valkey, write, crawl):
    file = write(["http://127.0.0.1:1/"])
    answer = silkline("worker", file, "--redis", valkey.url, "--no-wait")
    assert answer.code == 2
    assert f"there is no crawl named '{crawl}' on this server" in answer.err
    assert f"To start it: silkline run {file} --redis {valkey.url}" in answer.err
    nowhere = silkline("worker", file, "--no-wait")
    assert nowhere.code == 2
    assert ".silkline has no data of an embedded server" in nowhere.err


def test_it_waits_for_a_crawl_that_is_not_there_and_ends_when_that_is_finished(silkline, running, valkey, site, write):
    file = write(site(chain(5)))
    worker = running("worker", file, "--redis", valkey.url)
    worker.wait_for(f"waiting for it. To start it: silkline start {file}")
    assert silkline("start", file, "--redis", valkey.url).code == 0
    assert worker.end() == 0
    assert "after 6 pages" in worker.err


def test_it_waits_in_the_directory_of_an_embedded_server_that_does_not_exist_yet(
    silkline, running, site, write, workplace, crawl
):
    file, port = write(site(chain(5))), free_port()
    scaling = running("autoscale", crawl, "--serve", port, "--redis", "embedded:data")
    worker = running("worker", file, "--redis", "embedded:data")
    for process in (worker, scaling):
        process.wait_for(f"the crawl '{crawl}' does not exist yet on embedded:data; waiting for it")
    assert (workplace / "data").is_dir()
    assert silkline("start", file, "--redis", "embedded:data").code == 0
    assert worker.end() == 0
    assert "after 6 pages" in worker.err
    scaling.wait_for("serving /autoscale")
    scaling.process.send_signal(signal.SIGTERM)
    assert scaling.end() == 0


def test_ordered_to_go_it_gives_back_what_it_has_not_done(running, valkey, site, write, begin, frontier):
    here = site(chain(100), latency=0.4)  # all of it would take 10 s
    file = write(here)
    begin(file)
    process = running("worker", file, "--redis", valkey.url)
    wait_until(lambda: len(here.visits) > 8)
    process.process.send_signal(signal.SIGTERM)
    assert process.end() == 0
    stats = frontier().admin.stats()
    assert stats.leased == 0
    assert 8 <= stats.done < 101
    assert f"left {stats.crawl} after {stats.done} pages" in process.err


def test_forever_it_waits_for_more(running, valkey, site, write, begin, frontier, *, workplace):
    here = site(chain(2, **{"/late": "late"}))
    file = write(here)
    begin(file)
    process = running("worker", file, "--redis", valkey.url, "--forever", "-o", "items.jsonl")
    crawl = frontier()
    wait_until(lambda: crawl.admin.stats().done == 3)
    crawl.enqueue(here.at("/late"))
    wait_until(lambda: crawl.admin.stats().done == 4)
    process.process.send_signal(signal.SIGINT)
    assert process.end() == 0
    assert len(lines_of(workplace / "items.jsonl")) == 4


def test_a_sink_that_is_down_is_waited_for(running, valkey, site, write, begin, later_server):
    file = write(site(chain(2)))
    begin(file)
    process = running("worker", file, "--redis", valkey.url, "-o", f"{later_server.tcp_url}?key=items")
    process.wait_for("it will be retried")
    later_server.start()
    assert process.end() == 0
    with later_server.client() as client:
        assert client.llen("items") == 3


@pytest.fixture
def later_server():
    """A server that has a port, but is not started yet."""
    server = Server("valkey", tcp=True)
    server.port, server.bus_port = free_port(), free_port()
    yield server
    server.remove()
