"""Metrics in the text format of Prometheus (0.0.4). It is short enough to need no library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from silkline.core.histogram import BOUNDS, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """One value with its labels; *suffix* is for the parts of a histogram."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: list[Sample]


def gauge(name: str, help_: str, value: float, **labels: str) -> Family:
    return Family(name, "gauge", help_, [Sample(value, labels)])


def counter(name: str, help_: str, value: float, **labels: str) -> Family:
    return Family(name, "counter", help_, [Sample(value, labels)])


def histogram(name: str, help_: str, timings: Mapping[str, Histogram], label: str = "", **labels: str) -> Family:
    """Return a histogram of timings by name; *label* is the label for the name, if there are several."""
    samples: list[Sample] = []
    for key, timing in sorted(timings.items()):
        own, total = {**labels, **({label: key} if label else {})}, 0
        for bound, count in zip((*BOUNDS, math.inf), timing.counts, strict=True):
            total += count
            samples.append(Sample(total, {**own, "le": _number(bound)}, "_bucket"))
        samples += [Sample(timing.seconds, own, "_sum"), Sample(total, own, "_count")]
    return Family(name, "histogram", help_, samples)


def render(families: Iterable[Family]) -> str:
    """Render the families as text; those without samples are left out."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines += [
                f"# HELP {family.name} {_escape(family.help, quote=False)}",
                f"# TYPE {family.name} {family.kind}",
            ]
        lines += [f"{family.name}{one.suffix}{_labels(one.labels)} {_number(one.value)}" for one in family.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(text: str, *, quote: bool = True) -> str:
    """Escape a label value or a help text."""
    text = text.encode(errors="replace").decode().replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{int(value)}" if value == int(value) and abs(value) < 2**63 else repr(float(value))
