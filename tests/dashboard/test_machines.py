"""What machines ask the dashboard."""

from __future__ import annotations

import json

from prometheus_client.parser import text_string_to_metric_families

from silkline.dashboard import app
from silkline.frontier.verbs.history import Counts, HandlerCounts
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
    pages = {tuple(sample.labels.values()): sample.value for sample in families["silkline_handler_pages"].samples}
    assert (pages["books", "product"], pages["books", "listing"]) == (28, 2)
    timed = [one for one in families["silkline_handler_seconds"].samples if one.labels["handler"] == "product"]
    assert [one.value for one in timed if one.name.endswith(("_count", "_sum"))] == [2.024, 3]


def test_few_handlers_have_time_series_of_their_own(guest, own_crawl):
    news = {f"handler{number}": HandlerCounts(pages=100 - number).numbers for number in range(30)}
    own_crawl.internal.add_history(Counts(), None, news)
    text = guest.get(f"/metrics?crawl={own_crawl.crawl}").text
    [pages] = [one for one in text_string_to_metric_families(text) if one.name == "silkline_handler_pages"]
    assert len(pages.samples) == 21
    assert [(one.labels["handler"], one.value) for one in pages.samples][-1] == ("(others)", sum(range(71, 81)))


def test_metrics_want_the_token_too(stranger):
    assert stranger.get("/metrics", Accept="text/plain").status == 401
    assert stranger.get("/metrics", Accept="text/plain", Authorization=f"Bearer {TOKEN}").status == 200
    assert stranger.get("/autoscale?crawl=books", Accept="*/*").status == 401


def test_how_many_workers_are_useful(guest):
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
