"""The alert rules for Prometheus ask for metrics and labels that a real crawl serves, and propose commands that exist.

promtool is no part of the project, so the test reads the few parts of PromQL that the rules use itself.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from silkline import Crawl, Frontier, Politeness, SyncFrontier, Worker
from silkline.cli.main import app
from silkline.dashboard import app as dashboard
from silkline.frontier.store.keys import CrawlKeys
from silkline.ops.http_server import ListenAddress
from silkline.ops.monitor import Monitor
from silkline.testing import LocalSite, SiteResponse
from silkline.worker.crawl.crawl import FetchOptions
from tests.dashboard.serving import Serving
from tests.servers import Server

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "prometheus" / "alerts.yml"
RULES = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]
NAMES = [rule["alert"] for rule in RULES]
SELECTOR = re.compile(r"(silkline_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
KNOWN = {"absent", "min", "max", "sum", "by", "on", "and", "rate", "increase", "delta", "histogram_quantile"}
"""The functions and keywords of PromQL that the rules use."""
SCRAPED = {"instance"}
"""Labels that Prometheus itself adds."""


@pytest.fixture(scope="module")
def served():
    """All samples of a worker's monitor and of a dashboard, for a crawl that was really run."""

    async def crawl_and_scrape(url):
        routes = {"/": "<a href=/1></a><a href=/gone></a>", "/1": "x", "/gone": SiteResponse(status=404)}
        async with LocalSite(routes) as site:
            crawl = Crawl("alerts", site.url, politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

            @crawl.handler
            def parse(page):
                yield page.follow(page.css("a"))

            async with await Frontier.open(url, crawl=crawl.name, **crawl.arguments) as frontier:
                await frontier.enqueue(await crawl.starts())
                worker = Worker(crawl, frontier)
                async with Monitor(ListenAddress("127.0.0.1", 0), frontier, worker) as monitor:
                    await worker.run()
                    return await asyncio.to_thread(read, f"http://127.0.0.1:{monitor.port}/metrics")

    server = Server("cluster").start()
    try:
        with server.client() as client:
            client.config_set("maxmemory", "1gb")
            SyncFrontier.open(server.url, crawl="later").close()
            client.hset(CrawlKeys("later").shard(0).ledger, "schema", 99)
        samples = asyncio.run(crawl_and_scrape(server.url))
        with Serving(dashboard(server.url)) as serving:
            samples += read(f"{serving.address}/metrics")
    finally:
        server.remove()
    return samples


def read(url):
    with urlopen(url, timeout=100) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [sample for family in families for sample in family.samples]


def labels_of(served, metric):
    return {label for sample in served if sample.name == metric for label in sample.labels}


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_it_asks_for_metrics_and_labels_that_exist(served, rule):
    found = SELECTOR.findall(rule["expr"])
    assert found
    for metric, matchers in found:
        samples = [sample for sample in served if sample.name == metric]
        assert samples, metric
        for label, how, value in MATCHER.findall(matchers):
            values = {sample.labels.get(label) for sample in samples}
            wanted = {value} if how == "=" else set(value.split("|"))
            assert wanted & values, (metric, label, value, values)
        assert re.sub(MATCHER, "", matchers).strip(" ,") == "", "a matcher that this test does not read"


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_it_groups_by_labels_of_its_metrics_and_its_text_names_only_those(served, rule):
    grouped = [re.split(r",\s*", names) for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])]
    for metric, _ in SELECTOR.findall(rule["expr"]):
        for names in grouped:
            assert set(names) <= labels_of(served, metric) | SCRAPED, metric
    told = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert told <= {name for names in grouped for name in names}


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_its_expression_is_well_formed(rule):
    expression = re.sub(r'"[^"]*"', '""', rule["expr"])
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)
    words = set(re.findall(r"\b[a-z_]+\b(?=\s*\()", expression)) | set(re.findall(r"\b(?:and|or|unless)\b", expression))
    assert words <= KNOWN, words - KNOWN
    assert all(re.fullmatch(r"\d+[mh]", span) for span in re.findall(r"\[([^\]]*)\]", expression))
    for name in re.findall(r"(?:rate|increase)\((silkline_\w+)", expression):
        assert name.endswith(("_total", "_bucket")), f"{name} is no counter"
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_it_names_commands_that_exist(rule):
    commands = re.findall(r"`silkline ([^`]*)`", rule["annotations"]["action"])
    assert commands
    for command in commands:
        words = re.sub(r"\{\{ \$labels\.crawl \}\}", "books", command).split()
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_each_rule_has_a_name_of_its_own_and_a_line_in_the_guide():
    assert len(set(NAMES)) == len(NAMES)
    guide = (ROOT / "docs" / "how-to" / "metrics.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in guide] == []
