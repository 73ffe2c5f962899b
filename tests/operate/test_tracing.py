"""A span per attempt."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from silkline import Worker
from silkline.ops.tracing import observer


async def test_every_attempt_is_a_span_that_says_what_came_of_it(site, new_crawl, open_crawl):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    crawl = new_crawl([site.at("/20"), site.at("/bad")])
    crawl.fetching = type(crawl.fetching)(allow_private=True, obey_robots=False)
    frontier = await open_crawl(crawl)
    await Worker(crawl, frontier, around_attempt=observer(provider.get_tracer("test"))).run()
    good, bad = sorted(exporter.get_finished_spans(), key=lambda span: span.attributes["url.full"])
    assert good.attributes["url.full"] == site.at("/20")
    assert good.attributes["silkline.verdict"] == "complete"
    assert (good.attributes["silkline.items"], good.attributes["silkline.attempt"]) == (1, 1)
    assert good.status.status_code is StatusCode.UNSET
    assert bad.attributes["silkline.verdict"] == "bury"
    assert bad.attributes["http.response.status_code"] == 404
    assert bad.status.status_code is StatusCode.ERROR
    assert "404" in bad.status.description
