"""The options that say what a process tells of itself to machines."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

from cyclopts import Parameter

from silkline.core.errors import ConfigError
from silkline.frontier.frontier import Frontier
from silkline.metrics.http import Place
from silkline.operate.monitor import Monitor
from silkline.operate.worker_metrics import Subject
from silkline.worker.process import Company
from silkline.worker.worker import Observe

Metrics = Annotated[str | None, Parameter(name="--metrics", show_default=False)]
Otel = Annotated[bool, Parameter(name="--otel", negative=(), show_default=False)]
Workers = Annotated[str, Parameter(name="--workers")]

MOST_WORKERS = 1000


def company(metrics: str | None, *, otel: bool) -> Company:
    """Whom a worker has beside it."""
    observe = _tracer() if otel else None
    if metrics is None:
        return Company(observe)
    place = Place.parse(metrics)

    def beside(frontier: Frontier, subject: Subject) -> Monitor:
        return Monitor(place, frontier, subject)

    return Company(observe, beside)


def _tracer() -> Observe:
    """From a module that needs what may not be installed."""
    try:
        tracing = import_module("silkline.operate.tracing")
    except ImportError as error:
        raise ConfigError(f"--otel needs OpenTelemetry ({error}): pip install 'silkline[otel]'") from None
    observe: Observe = tracing.tracer()
    return observe


def read_workers(text: str) -> tuple[int, int]:
    """The least and the most of ``4`` or ``1..8``."""
    least, dots, most = text.partition("..")
    numbers = [word for word in ((least, most) if dots else (least, least)) if word.isdecimal()]
    if len(numbers) != 2 or not 1 <= int(numbers[0]) <= int(numbers[1]) <= MOST_WORKERS:
        raise ConfigError(f"--workers is a number from 1 to {MOST_WORKERS}, or two as in 1..8, got {text!r}")
    return int(numbers[0]), int(numbers[1])
