"""What machines ask the dashboard."""

from __future__ import annotations

import json

from prometheus_client.parser import text_string_to_metric_families

from silkline.dashboard import app
from tests.dashboard.serving import TOKEN, Serving, Visitor


def test_metrics_of_all_crawls_are_as_prometheus_reads_them(guest, own_crawl):
    answer = guest.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    waiting = {
        (sample.labels["crawl"], sample.labels["state"]): sample.value
        for sample in families["silkline_requests"].samples
    }
    assert waiting["books", "ready"] == 37
    assert waiting[own_crawl.crawl, "dead"] == 16
    assert len(families["silkline_redis_memory_bytes"].samples) == 1
    assert answer.text.count("# TYPE silkline_requests ") == 1
    assert families["silkline_redis_up"].samples[0].value == 1


def test_metrics_want_the_token_too(stranger):
    assert stranger.get("/metrics", Accept="text/plain").status == 401
    assert stranger.get("/metrics", Accept="text/plain", Authorization=f"Bearer {TOKEN}").status == 200
    assert stranger.get("/autoscale?crawl=books", Accept="*/*").status == 401


def test_how_many_workers_are_of_use(guest):
    advice = json.loads(guest.get("/autoscale?crawl=books&target=60&most=5").text)
    assert 1 <= advice["workers"] <= 5
    assert advice["depth"] == 42
    assert guest.get("/autoscale").status == 400
    assert guest.get("/autoscale?crawl=books&target=soon").status == 400
    assert guest.get("/autoscale?crawl=nothing").status == 404


def test_ready_and_well(guest):
    assert guest.get("/healthz").text == "ok\n"
    assert guest.get("/readyz").text == "ok\n"
    with Serving(app("redis://127.0.0.1:1")) as serving:
        lost = Visitor(serving.port)
        assert lost.get("/healthz").status == 200
        assert lost.get("/readyz").status == 503
