"""``silkline autoscale``, and runs that scale themselves."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request

import pytest

from silkline import SyncFrontier
from silkline.cli.options.monitor import read_workers
from silkline.errors import ConfigError
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process.fleet import Fleet, this_python
from tests.cli.sites import chain, wait_until
from tests.servers import free_port


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=100) as answer:
        return answer.read().decode()


def metric(port, name):
    lines = [line for line in get(port, "/metrics").splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def answers(port):
    try:
        return get(port, "/healthz") == "ok\n"
    except OSError:
        return False


def test_it_says_how_many_and_why(silkline, enqueue, valkey, crawl):
    assert enqueue("--delay", "5", *(f"https://one.example/{number}" for number in range(300))).code == 0
    answer = silkline("autoscale", crawl, "--target", "10", "--redis", valkey.url)
    assert answer.code == 0
    assert "1 worker recommended, 0 running: the rate limits of the hosts allow no more pages in parallel" in answer.out
    advice = silkline("autoscale", crawl, "--target", "10", "--json", "--redis", valkey.url).json
    assert (advice["workers"], advice["depth"], advice["useful"], advice["by_hosts"]) == (1, 300, 1, 1)
    assert silkline("autoscale", "nobody", "--redis", valkey.url).code == 2


def test_it_continues_answering_until_it_is_ordered_to_stop(running, enqueue, valkey, crawl):
    assert enqueue("https://one.example/").code == 0
    port = free_port()
    process = running("autoscale", crawl, "--serve", port, "--most", "9", "--redis", valkey.url)
    wait_until(lambda: answers(port))
    assert json.loads(get(port, "/autoscale"))["workers"] == 1
    assert metric(port, "silkline_requests") == 1
    process.process.send_signal(signal.SIGTERM)
    assert process.end() == 0


def test_a_run_grows_by_what_must_be_done_and_its_monitor_adds_its_workers_up(running, valkey, site, write, frontier):
    here = site(chain(300), latency=0.4)  # one worker alone takes 30 s
    file, port = write(here, concurrency=100), free_port()
    process = running(
        "run", file, "--redis", valkey.url, "--workers", "1..3", "--target", "10", "--concurrency", "4",
        "--metrics", port, "--log-level", "info", "--json",
    )  # fmt: skip
    wait_until(lambda: answers(port))
    crawl = frontier()
    wait_until(lambda: len([worker for worker in crawl.admin.workers() if worker.alive]) == 3)
    assert get(port, "/readyz") == "ok\n"
    wait_until(lambda: metric(port, "silkline_worker_pages_total") > 20)
    assert metric(port, "silkline_worker_in_flight") <= 12
    assert process.end() == 0
    summary = json.loads(process.out)
    assert (summary["pages"], summary["workers"], summary["dead"], summary["restarts"]) == (301, 3, 0, 0)
    assert (crawl.admin.stats().rescued, crawl.admin.workers()) == (0, [])
    assert sum(point.pages for point in crawl.admin.history()) == 301


async def test_a_fleet_shrinks_by_draining(valkey, site, write, workplace):
    here = site(chain(400), latency=0.2)
    file = str(workplace / write(here))
    crawl = load_crawl(file)
    with SyncFrontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        frontier.enqueue(crawl.listed_starts())
        command = [*this_python(), "worker", file, "--concurrency", "2", "--log-level", "warning"]
        fleet = Fleet(command, 1, environment={"SILKLINE_REDIS": valkey.url})
        running = asyncio.create_task(fleet.run())
        await asyncio.sleep(0)
        try:
            fleet.resize(3)
            await until(lambda: sum(bool(m.report and m.report.counters.pages) for m in fleet.members) == 3)
            assert len(fleet.active) == 3
            fleet.resize(1)
            assert len(fleet.active) == 1
            await until(lambda: sum(member.gone for member in fleet.members) == 2)
            pages = fleet.counters.pages
            await until(lambda: fleet.counters.pages > pages + 3)
            assert frontier.admin.stats().rescued == 0
            fleet.resize(0)
            assert len(fleet.active) == 1, "somebody always stays"
        finally:
            fleet.stop()
            await asyncio.wait_for(running, 100)
        stats = frontier.admin.stats()
    assert (stats.leased, stats.rescued, fleet.restarts) == (0, 0, 0)
    assert fleet.counters.ended == stats.done


async def until(holds):
    async with asyncio.timeout(100):
        while not holds():  # noqa: ASYNC110 - counts that come from other processes
            await asyncio.sleep(0.02)


def test_workers_are_a_number_or_two():
    assert read_workers("4") == (4, 4)
    assert read_workers("1..8") == (1, 8)
    for wrong in ("0", "8..1", "0..3", "many", "1..", "..3", "1..2000", "1...3", ""):
        with pytest.raises(ConfigError, match="--workers"):
            read_workers(wrong)


def test_a_place_that_cannot_be_listened_at_is_reported_before_anything_begins(silkline, write, valkey):
    answer = silkline("run", write(["http://127.0.0.1:1/"]), "--redis", valkey.url, "--metrics", "here")
    assert answer.code == 2
    assert "a listen address must be" in answer.err


def test_a_worker_sends_its_spans_where_opentelemetry_says(running, valkey, site, write, workplace):
    """The collector is a site that takes everything."""
    collector = site({"/*": ""})
    here = site(chain(3))
    file = write(here)
    crawl = load_crawl(str(workplace / file))
    with SyncFrontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        frontier.enqueue(crawl.listed_starts())
    process = running(
        "worker", file, "--redis", valkey.url, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url.rstrip("/")
    )
    assert process.end() == 0
    assert {visit.path for visit in collector.visits} == {"/v1/traces"}
