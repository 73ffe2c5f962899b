"""Options for metrics, tracing and the number of workers."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

from cyclopts import Parameter

from silkline.errors import ConfigError
from silkline.frontier.frontier import Frontier
from silkline.ops.http_server import ListenAddress
from silkline.ops.monitor import Monitor
from silkline.ops.worker_metrics import MetricsSource
from silkline.worker.process.process import Hooks
from silkline.worker.worker import AroundAttempt

Metrics = Annotated[str | None, Parameter(name="--metrics", show_default=False)]
Otel = Annotated[bool, Parameter(name="--otel", negative=(), show_default=False)]
WorkersOption = Annotated[str, Parameter(name="--workers")]

MOST_PROCESSES = 1000


def hooks(metrics: str | None, *, otel: bool) -> Hooks:
    """Return the hooks for metrics and tracing of a worker."""
    around_attempt = _tracer() if otel else None
    if metrics is None:
        return Hooks(around_attempt)
    place = ListenAddress.parse(metrics)

    def alongside(frontier: Frontier, subject: MetricsSource) -> Monitor:
        return Monitor(place, frontier, subject)

    return Hooks(around_attempt, alongside)


def _tracer() -> AroundAttempt:
    """Load the tracer; OpenTelemetry is an optional dependency."""
    try:
        tracing = import_module("silkline.ops.tracing")
    except ImportError as error:
        raise ConfigError(f"--otel needs OpenTelemetry ({error}): pip install 'silkline[otel]'") from None
    around_attempt: AroundAttempt = tracing.tracer()
    return around_attempt


def read_workers(text: str) -> tuple[int, int]:
    """Parse ``4`` or ``1..8``; return the minimum and the maximum."""
    least, dots, most = text.partition("..")
    numbers = [word for word in ((least, most) if dots else (least, least)) if word.isdecimal()]
    if len(numbers) != 2 or not 1 <= int(numbers[0]) <= int(numbers[1]) <= MOST_PROCESSES:
        raise ConfigError(
            f"--workers must be a number from 1 to {MOST_PROCESSES}, or a range such as 1..8, got {text!r}"
        )
    return int(numbers[0]), int(numbers[1])
