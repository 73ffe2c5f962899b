"""What operators are given to start with: a Grafana dashboard that asks for metrics that exist, and manifests that are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from silkline import Frontier
from silkline.cli.main import app
from silkline.frontier.verbs.history import Counts, HandlerCounts
from silkline.ops.autoscale import Advice
from silkline.ops.crawl_metrics import crawl_families
from silkline.ops.prometheus import Family, Sample
from silkline.ops.worker_metrics import worker_families
from silkline.runtime.counters import Counters

EXAMPLES = Path(__file__).parents[2] / "examples"
DASHBOARD = json.loads((EXAMPLES / "grafana" / "silkline.json").read_text())
MANIFESTS = [
    document for path in sorted((EXAMPLES / "k8s").glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
]
KUBERNETES = "1.33.0"
SCALED_OBJECT = {  # keda.sh/docs, concepts/scaling-deployments and scalers/metrics-api
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["scaleTargetRef", "triggers"],
            "properties": {
                "scaleTargetRef": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                    "properties": {
                        name: {"type": "string"} for name in ("name", "kind", "apiVersion", "envSourceContainerName")
                    },
                },
                "pollingInterval": {"type": "integer", "minimum": 1},
                "cooldownPeriod": {"type": "integer", "minimum": 0},
                "initialCooldownPeriod": {"type": "integer", "minimum": 0},
                "idleReplicaCount": {"type": "integer", "minimum": 0},
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "fallback": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["failureThreshold", "replicas"],
                    "properties": {
                        "failureThreshold": {"type": "integer"},
                        "replicas": {"type": "integer"},
                        "behavior": {"type": "string"},
                    },
                },
                "advanced": {"type": "object"},
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["type", "metadata"],
                        "properties": {
                            "type": {"const": "metrics-api"},
                            "name": {"type": "string"},
                            "metricType": {"enum": ["AverageValue", "Value"]},
                            "useCachedMetrics": {"type": "boolean"},
                            "authenticationRef": {"type": "object"},
                            "metadata": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["url", "valueLocation", "targetValue"],
                                "properties": {
                                    name: {"type": "string"}
                                    for name in (
                                        "url",
                                        "valueLocation",
                                        "targetValue",
                                        "activationTargetValue",
                                        "format",
                                        "unsafeSsl",
                                        "authMode",
                                        "method",
                                        "keyParamName",
                                    )
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


def named(manifest):
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


@pytest.fixture(params=MANIFESTS, ids=named)
def manifest(request):
    return request.param


def test_every_manifest_is_as_its_schema_has_it(manifest):
    if manifest["kind"] == "ScaledObject":
        jsonschema.validate(manifest, SCALED_OBJECT)
    else:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_wrong_manifest_is_refused():
    """So that the test above is worth something."""
    deployment = next(one for one in MANIFESTS if one["kind"] == "Deployment")
    broken = json.loads(json.dumps(deployment))
    broken["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)
    scaled = next(one for one in MANIFESTS if one["kind"] == "ScaledObject")
    for change in ({"minReplicas": 1}, {"triggers": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**scaled, "spec": {**scaled["spec"], **change}}, SCALED_OBJECT)


def find(kind, name):
    return next(one for one in MANIFESTS if (one["kind"], one["metadata"]["name"]) == (kind, name))


def container(manifest):
    [only] = manifest["spec"]["template"]["spec"]["containers"]
    return only


def test_the_manifests_fit_together():
    workers, autoscale, scaled = (
        find("Deployment", "books-workers"), find("Deployment", "books-autoscale"), find("ScaledObject", "books-workers")
    )  # fmt: skip
    for deployment in (workers, autoscale):
        assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
        arguments = container(deployment)["args"]
        assert f"0.0.0.0:{container(deployment)['ports'][0]['containerPort']}" in arguments
        app.parse_args(arguments, exit_on_error=False, print_error=False)  # the command line takes them
    assert scaled["spec"]["scaleTargetRef"]["name"] == workers["metadata"]["name"]
    [trigger] = scaled["spec"]["triggers"]
    service = find("Service", "books-autoscale")
    assert trigger["metadata"]["valueLocation"] in Advice.__struct_fields__
    assert trigger["metadata"]["targetValue"] == "1"
    port = service["spec"]["ports"][0]["port"]
    assert trigger["metadata"]["url"] == f"http://books-autoscale.default.svc.cluster.local:{port}/autoscale"
    assert "replicas" not in workers["spec"], "the ScaledObject sets them"
    assert scaled["spec"]["maxReplicaCount"] == int(arguments[arguments.index("--most") + 1])


def test_the_job_starts_the_crawl_of_the_workers():
    start, workers = container(find("Job", "books-start")), container(find("Deployment", "books-workers"))
    app.parse_args(start["args"], exit_on_error=False, print_error=False)
    assert start["args"][1] == workers["args"][1]
    assert start["args"][-1] == workers["args"][-1], "items of one crawl are stored in one place"
    assert start["env"] == workers["env"]


def test_workers_have_the_time_to_drain():
    worker = find("Deployment", "books-workers")["spec"]["template"]["spec"]
    [only] = worker["containers"]
    pause = int(re.search(r"sleep (\d+)", " ".join(only["lifecycle"]["preStop"]["exec"]["command"]))[1])
    assert 20 < pause < worker["terminationGracePeriodSeconds"]
    assert {only[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")} == {
        "/healthz",
        "/readyz",
    }


def test_the_server_never_evicts_and_writes_to_disk():
    lines = find("ConfigMap", "silkline-redis")["data"]["valkey.conf"].splitlines()
    assert {"maxmemory-policy noeviction", "appendonly yes"} <= set(lines)


def counters():
    """One that has something to tell of everything."""
    full = Counters()
    full.fetched("h.example", 200, 1, 0.1)
    full.errors["timeout"] += 1
    full.scripts["claim"] = full.latency
    return full


async def names(valkey_url, crawl):
    """All names that a worker's monitor serves, as Prometheus stores them."""

    class Subject:
        in_flight, stall, hung = 0, None, False

    Subject.counters = counters()
    async with await Frontier.open(valkey_url, crawl=crawl) as frontier:
        await frontier.enqueue("https://h.example/")
        parse = HandlerCounts(pages=1)
        parse.timing.note(0.1)
        await frontier.internal.add_history(Counts(), None, {"parse": parse.numbers})
        families = [*await crawl_families(frontier), *worker_families(crawl, Subject())]
    families += [Family(f"silkline_redis_{name}", "gauge", "", [Sample(0)]) for name in OF_A_LIMIT]
    return {family.name + one.suffix for family in families for one in family.samples}


OF_A_LIMIT = ("memory_limit_bytes", "headroom_bytes", "up")
"""Told where the server has a limit; and by the monitor itself (tests/operate)."""


async def test_the_dashboard_asks_only_for_metrics_that_exist(valkey, crawl):
    served = await names(valkey.url, crawl)
    asked = set()
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            found = set(re.findall(r"\bsilkline_\w+", target["expr"]))
            assert found, target["expr"]
            asked |= found
    assert asked <= served, asked - served
    assert len(asked) > 20


def test_the_panels_of_the_dashboard_do_not_overlap():
    cells = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells
        assert at["x"] + at["w"] <= 24
        cells |= mine
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
