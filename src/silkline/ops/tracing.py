"""OpenTelemetry spans, one per attempt. Needs ``silkline[otel]`` and the option --otel.

The variables of OpenTelemetry configure the export: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_TRACES_SAMPLER``,
``OTEL_SERVICE_NAME``.
"""

from __future__ import annotations

import atexit
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode, Tracer

from silkline.core.lease import Lease
from silkline.core.verdict import Bury, RetryIn
from silkline.worker.attempt import Outcome
from silkline.worker.worker import AroundAttempt


def tracer() -> AroundAttempt:
    """Set up OpenTelemetry from its environment variables; return the hook that wraps every attempt."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(provider.shutdown)
    return observer(provider.get_tracer("silkline"))


def observer(spans: Tracer) -> AroundAttempt:
    """Return a hook that records a span per attempt: URL, attempt number and outcome."""

    async def around_attempt(lease: Lease, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        with spans.start_as_current_span("attempt", attributes=_before(lease)) as span:
            outcome = await attempt()
            for name, value in _after(outcome).items():
                span.set_attribute(name, value)
            if isinstance(outcome.verdict, Bury | RetryIn):
                span.set_status(StatusCode.ERROR, outcome.verdict.reason[:500])
            return outcome

    return around_attempt


def _before(lease: Lease) -> dict[str, Any]:
    return {
        "url.full": lease.url,
        "server.address": lease.host,
        "http.request.method": lease.request.method,
        "silkline.attempt": lease.attempt,
        "silkline.depth": lease.request.depth,
    }


def _after(outcome: Outcome) -> dict[str, Any]:
    verdict = outcome.verdict
    found: dict[str, Any] = {"silkline.verdict": type(verdict).__name__.lower(), "silkline.items": len(outcome.records)}
    if isinstance(verdict, Bury | RetryIn) and verdict.status is not None:
        found["http.response.status_code"] = verdict.status
    return found
