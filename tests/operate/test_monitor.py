"""What machines may ask: metrics that Prometheus can read, whether a worker is well, and how many are wanted."""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from silkline import Bury, Frontier, Worker
from silkline.core.histogram import Histogram
from silkline.core.proxy_health import ProxyCounts, ProxyReport
from silkline.errors import ConfigError
from silkline.ops.autoscale import ScalingTarget
from silkline.ops.http_server import HttpServer, ListenAddress
from silkline.ops.monitor import Monitor
from silkline.ops.notices import NoticeKind
from silkline.ops.prometheus import Family, Sample, histogram, render
from silkline.runtime.presence import installed_version
from silkline.worker import worker as worker_module
from silkline.worker.options import WorkerOptions

ANYWHERE = ListenAddress("127.0.0.1", 0)


def read(text):
    """Values by name and labels, as Prometheus understands them."""
    families = list(text_string_to_metric_families(text))
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


async def test_the_health_of_proxies_has_few_series_however_many_there_are(new_crawl, open_crawl, get):
    frontier = await open_crawl(new_crawl(["https://a.example/"]))
    me = ("crawl", frontier.crawl)
    async with Monitor(ANYWHERE, frontier) as monitor:
        assert "silkline_prox" not in (await get(monitor.port, "/metrics")).text, "for a crawl without proxies"
    worked = [
        ProxyReport(f"http://{number}.example:80", "worked", counts=ProxyCounts(9, 1, 3, 1800)) for number in range(300)
    ]
    failed = [ProxyReport(f"http://dead-{number}.example:80", "failed", "refused") for number in range(40)]
    await frontier.internal.share_proxies("w", 0, (60.0, 60.0), [*worked, *failed])
    async with Monitor(ANYWHERE, frontier) as monitor:
        text = (await get(monitor.port, "/metrics")).text
    values = {name: value for name, value in read(text).items() if name[0].startswith("silkline_prox")}
    assert values == {
        ("silkline_proxies", me, ("state", "ready")): 300,
        ("silkline_proxies", me, ("state", "resting")): 40,
        ("silkline_proxies", me, ("state", "unknown")): 0,
        ("silkline_proxy_failed_ratio", me): 0.1,
        ("silkline_proxy_blocked_ratio", me): pytest.approx(1 / 3),
        ("silkline_proxy_seconds", me): pytest.approx(0.2),
    }


async def test_a_worker_reports_all_that_it_did_and_how_its_crawl_stands(site, new_crawl, open_crawl, get):
    crawl = new_crawl([site.url, site.at("/bad")])
    frontier = await open_crawl(crawl)
    worker = Worker(crawl, frontier, options=WorkerOptions(concurrency=4))
    async with Monitor(ANYWHERE, frontier, worker) as monitor:
        await worker.run()
        assert await frontier.enqueue([site.at("/1"), *(site.at(f"/more/{n}", 0) for n in range(3))])
        [lease] = await frontier.claim()
        await frontier.settle([(lease, Bury("no"))])
        await frontier.settle([(lease, Bury("no"))])
        answer = await get(monitor.port, "/metrics")
    assert answer.status == 200
    assert answer.type == "text/plain; version=0.0.4; charset=utf-8"
    values, me = read(answer.text), ("crawl", crawl.name)
    assert values["silkline_requests", me, ("state", "done")] == 21
    assert values["silkline_requests", me, ("state", "ready")] == 2
    assert values["silkline_requests", me, ("state", "dead")] == 2
    assert values["silkline_late_tokens_total", me] == 1
    assert values["silkline_duplicates_total", me] >= 1
    assert values["silkline_turned_away_total", me] == 0
    assert (values["silkline_dead_limit", me], values["silkline_dead_dropped_total", me]) == (250_000, 0)
    assert values["silkline_leases_expired_total", me] == 0
    assert values["silkline_oldest_eligible_seconds", me] >= 0
    assert values["silkline_wait_seconds_count", me] == values["silkline_wait_seconds_bucket", me, ("le", "+Inf")] >= 21
    assert values["silkline_ready_requests", me, ("priority", "0")] == 2
    assert (values["silkline_results", me], values["silkline_result_bytes", me]) == (0, 0)
    assert values["silkline_useful_concurrency", me] == 2
    assert values["silkline_worker_pages_total", me] == 21
    assert values["silkline_fetch_responses_total", ("class", "2xx"), me] == 21
    assert values["silkline_fetch_responses_total", ("class", "4xx"), me] == 1
    assert values["silkline_errors_total", me, ("kind", "status 404")] == 1
    assert (
        values["silkline_fetch_seconds_count", me] == values["silkline_fetch_seconds_bucket", me, ("le", "+Inf")] == 22
    )
    assert values["silkline_script_seconds_count", ("script", "claim")] >= 5
    assert values["silkline_host_backlog", me, ("host", site.hosts[0])] == 2
    assert values["silkline_redis_memory_bytes",] > 100_000
    assert values["silkline_redis_up",] == 1
    assert values["silkline_redis_evicted_keys_total",] == 0
    assert values["silkline_redis_clients",] >= 1
    assert values["silkline_full", me, ("reason", "capacity")] == values["silkline_full", me, ("reason", "memory")] == 0
    assert values["silkline_seconds_until_full", me] == values["silkline_seconds_until_out_of_memory", me] == math.inf
    assert values["silkline_expected_skips", me] < 1e-9
    assert values["silkline_build_info", ("version", installed_version())] == 1
    assert values["silkline_worker_stalled", me] == 0
    assert values["silkline_worker_known_total", me] >= 15


async def test_a_cluster_that_serves_not_all_slots_is_reported(own_server, crawl, get):
    server = own_server("cluster")
    async with await Frontier.open(server.url, crawl=crawl) as frontier, Monitor(ANYWHERE, frontier) as monitor:
        assert read((await get(monitor.port, "/metrics")).text)["silkline_redis_cluster_ok",] == 1
        with server.client() as client:
            client.execute_command("CLUSTER DELSLOTS", 0)
            deadline = time.monotonic() + 100
            while client.execute_command("CLUSTER INFO")["cluster_state"] == "ok":
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
        assert read((await get(monitor.port, "/metrics")).text)["silkline_redis_cluster_ok",] == 0


async def test_each_kind_of_notice_is_a_series_that_is_0_again_when_the_crawl_recovers(new_crawl, open_crawl, get):
    crawl = new_crawl(["https://h.example/"])
    frontier = await open_crawl(crawl)
    async with Monitor(ANYWHERE, frontier) as monitor:
        for worker, raised in ((None, {"idle"}), ("w-1", set())):
            if worker:
                await frontier.internal.join(worker)
            monitor._look_at = 0
            values = read((await get(monitor.port, "/metrics")).text)
            notices = {
                dict(key[1:])["kind"]: value for key, value in values.items() if key[0] == "silkline_crawl_notice"
            }
            assert notices == {kind: kind in raised for kind in get_args(NoticeKind)}


async def test_only_a_few_hosts_have_values_of_their_own(new_crawl, open_crawl, get):
    crawl = new_crawl([f"https://h{number}.example/{page}" for number in range(50) for page in range(number + 1)])
    frontier = await open_crawl(crawl)
    async with Monitor(ANYWHERE, frontier) as monitor:
        values = read((await get(monitor.port, "/metrics")).text)
    backlogs = {dict(key[1:])["host"]: value for key, value in values.items() if key[0] == "silkline_host_backlog"}
    assert backlogs == {f"h{number}.example": number + 1 for number in range(40, 50)}


async def test_a_worker_that_reports_no_state_counts_as_working(new_crawl, open_crawl, get):
    crawl = new_crawl(["https://h.example/"])
    frontier = await open_crawl(crawl)
    await frontier.internal.join("bare")
    await frontier.internal.join("quiet", info={"state": "quiet"})
    await frontier.internal.join("odd", info={"state": ["?"]})
    async with Monitor(ANYWHERE, frontier) as monitor:
        values = read((await get(monitor.port, "/metrics")).text)
    counts = {
        state: values["silkline_workers", ("crawl", crawl.name), ("state", state)] for state in ("working", "quiet")
    }
    assert counts == {"working": 2, "quiet": 1}


async def test_the_server_is_not_asked_for_every_scrape(new_crawl, open_crawl, get, monkeypatch):
    frontier = await open_crawl(new_crawl(["https://h.example/"]))
    for number in range(7):
        await frontier.internal.join(f"w{number}", info={"state": "working"})
    timings = frontier.internal.timings
    async with Monitor(ANYWHERE, frontier) as monitor:
        before = time.monotonic()
        first = await get(monitor.port, "/metrics")
        after = time.monotonic()
        assert (await get(monitor.port, "/metrics")).text == first.text
        assert timings["demand"].count == 1
        assert before + 7 <= monitor._look_at <= after + 7, "the more workers, the more seldom each looks"
        monitor._look_at = 0
        await get(monitor.port, "/metrics")
        assert timings["demand"].count == 2


async def test_ready_is_red_when_the_claim_loop_stalls_though_the_server_answers(
    site, new_crawl, open_crawl, get, monkeypatch
):
    crawl = new_crawl([site.at("/20")])
    frontier = await open_crawl(crawl)
    worker = Worker(crawl, frontier, forever=True)
    running = asyncio.create_task(worker.run())
    async with Monitor(ANYWHERE, frontier, worker) as monitor:
        while worker.counters.pages < 1:  # noqa: ASYNC110 - a count in a worker
            await asyncio.sleep(0.01)
        assert [(await get(monitor.port, path)).status for path in ("/healthz", "/readyz")] == [200, 200]

        hangs = asyncio.Event()

        async def hang(*_, **__):
            hangs.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(frontier, "claim", hang)
        await hangs.wait()  # the claim before it has been answered
        monkeypatch.setattr(worker_module, "STALLED", 0.2)
        while not worker.stall:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        answer = await get(monitor.port, "/readyz")
        assert answer.status == 503
        assert "no reply to a claim for" in answer.text
        assert (await get(monitor.port, "/healthz")).status == 200, "it may yet come round"
        assert read((await get(monitor.port, "/metrics")).text)["silkline_worker_stalled", ("crawl", crawl.name)] == 1
        monkeypatch.setattr(worker_module, "HUNG", 0.2)
        answer = await get(monitor.port, "/healthz")
        assert (answer.status, "stuck" in answer.text) == (503, True)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_ready_is_red_when_the_server_is_gone_and_metrics_still_tell(own_server, site, new_crawl, get):
    server = own_server()
    crawl = new_crawl([site.at("/20")])
    async with await Frontier.open(server.url, crawl=crawl.name) as frontier, Monitor(ANYWHERE, frontier) as monitor:
        assert (await get(monitor.port, "/readyz")).status == 200
        assert read((await get(monitor.port, "/metrics")).text)["silkline_redis_up",] == 1
        server.stop()
        monitor._look_at = 0
        answers = await asyncio.gather(get(monitor.port, "/readyz"), get(monitor.port, "/metrics"))
        assert [answer.status for answer in answers] == [503, 200]
        assert read(answers[1].text)["silkline_redis_up",] == 0


async def test_it_says_how_many_workers_are_wanted(new_crawl, open_crawl, get):
    crawl = new_crawl([f"https://h{number}.example/{page}" for number in range(40) for page in range(200)])
    frontier = await open_crawl(crawl)
    async with Monitor(ANYWHERE, frontier, target=ScalingTarget(drain=60, most=20)) as monitor:
        advice = json.loads((await get(monitor.port, "/autoscale")).text)
        assert advice["workers"] == advice["by_depth"] == 3
        assert (advice["depth"], advice["useful"], advice["by_hosts"]) == (8000, 320, 5)
        assert json.loads((await get(monitor.port, "/autoscale?target=10")).text)["workers"] == 5
        assert json.loads((await get(monitor.port, "/autoscale?target=10&most=2")).text)["workers"] == 2
        wrong = await get(monitor.port, "/autoscale?target=soon")
        assert (wrong.status, "number of seconds" in wrong.text) == (400, True)


async def test_other_questions_are_answered_politely(get):
    async def fail(_):
        raise RuntimeError

    async with HttpServer(ANYWHERE, {"/broken": fail}) as server:
        assert (await get(server.port, "/nothing")).status == 404
        assert (await get(server.port, "/broken", "POST")).status == 405
        assert (await get(server.port, "/broken")).status == 500
        assert (await get(server.port, "/nothing", "HEAD")).text == ""
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET " + b"x" * 100_000)
        assert await reader.read() == b""
        writer.close()


def test_a_place_is_a_port_or_host_and_port():
    assert ListenAddress.parse("9090") == ("127.0.0.1", 9090)
    assert ListenAddress.parse("0.0.0.0:80") == ("0.0.0.0", 80)
    assert ListenAddress.parse("[::]:80") == ("::", 80)
    for wrong in ("", "x", "host:", "1:99999", "-1"):
        with pytest.raises(ConfigError):
            ListenAddress.parse(wrong)


async def test_a_place_that_is_taken_is_reported():
    async with HttpServer(ANYWHERE, {}) as server:
        with pytest.raises(ConfigError, match="cannot listen at"):
            await HttpServer(ListenAddress("127.0.0.1", server.port), {}).__aenter__()


def test_whatever_a_label_holds_it_is_read_back():
    evil = 'a"b\\c\nd}{#é\x00'
    timing = Histogram()
    for seconds in (0.0004, 0.3, 99):
        timing.note(seconds)
    families = [Family("x_total", "counter", 'help "with"\nlines \\', [Sample(2**53, {"host": evil})])]
    families.append(histogram("y_seconds", "y", {"one": timing}, "script"))
    values = read(render(families))
    assert values["x_total", ("host", evil)] == 2**53
    assert values["y_seconds_bucket", ("le", "0.001"), ("script", "one")] == 1
    assert values["y_seconds_bucket", ("le", "0.5"), ("script", "one")] == 2
    assert values["y_seconds_count", ("script", "one")] == 3
    assert values["y_seconds_sum", ("script", "one")] == pytest.approx(99.3004)
