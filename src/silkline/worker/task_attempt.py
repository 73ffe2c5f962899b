"""One attempt at one call of a task, from its stored arguments to the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial

import msgspec

from silkline.core.lease import Lease
from silkline.core.retries import Retries, RetryLater
from silkline.core.verdict import Bury, Complete, Release, Strike, Verdict
from silkline.errors import LocalFailure, RequestError, StoreUnavailable
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.results import encode_result
from silkline.frontier.verbs.workers import PACKAGE
from silkline.runtime.counters import Counters, of_handler
from silkline.tasks.progress import ProgressSender, reporting_to
from silkline.tasks.running import NoPlace, ProcessDied, ResultRefused, TaskRunner, TimedOut
from silkline.tasks.spec import TaskSpec
from silkline.worker.attempt import TASK, Outcome, log_page
from silkline.worker.crawl.handlers import code_of
from silkline.worker.failures import Failures, UnmetNeeds, was_cancelled

NO_PLACE_PAUSE = 1.0
"""Seconds for which a call waits that was given back because all processes of this worker are busy."""


class TaskContext:
    """What all calls of a worker share."""

    def __init__(self, frontier: Frontier, counters: Counters, unmet_needs: UnmetNeeds, runner: TaskRunner) -> None:
        self.frontier = frontier
        self.counters = counters
        self.unmet_needs = unmet_needs
        self.runner = runner
        self.rng = random.Random()
        self._failures: dict[str, Failures] = {}

    def failures(self, spec: TaskSpec) -> Failures:
        """Return what decides about calls of a task that have failed."""
        return self._failures.setdefault(spec.name, Failures(spec.retries, self.counters))

    async def close(self) -> None:
        """End the processes."""
        await self.runner.close()


class TaskAttempt:
    """One try at one leased call."""

    def __init__(self, lease: Lease, spec: TaskSpec, context: TaskContext) -> None:
        self._lease = lease
        self._spec = spec
        self._context = context
        self._counts = of_handler(context.counters.handlers, spec.name)
        self.elsewhere = 0.0
        """CPU seconds outside of the event loop that count for its host: a thread or a process does not block others."""

    def log(self, verdict: Verdict) -> None:
        """Log how the attempt ended."""
        log_page(self._lease, verdict, self._spec.name, what=TASK)

    async def run(self) -> Outcome:
        """Run the call and return its outcome. Every error becomes a verdict; only a cancellation of this attempt is raised."""
        return Outcome(self._lease, await self._run())

    async def _run(self) -> Verdict:
        spec = self._spec
        if not spec.is_call(self._lease):
            return Bury(f"{self._lease.url} is not a call of the task {spec.name!r}, which it names")
        try:
            arguments = spec.arguments.unpack(self._lease.request.meta)
        except RequestError as error:
            return Bury(f"wrong arguments: {error}")
        self._context.unmet_needs.handled()
        began = time.perf_counter()
        sender = ProgressSender(partial(self._context.frontier.internal.report_progress, self._lease))
        try:
            with reporting_to(sender.report):
                value = await self._context.runner.run(spec, arguments)
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            await sender.finish()
            return self._failed(error)
        finally:
            sender.stop()
            self._counts.timing.note(time.perf_counter() - began)
        await sender.finish()
        return self._complete(value)

    def _complete(self, value: object) -> Verdict:
        verdict = Complete()
        if self._spec.keep:
            try:
                text = encode_result(value)
            except RequestError as error:
                return Bury(f"task {self._spec.name}: {error}")
            verdict = Complete(result=msgspec.Raw(text), keep=self._spec.keep)
        self._context.counters.pages += 1
        self._counts.pages += 1
        return verdict

    def _failed(self, error: BaseException) -> Verdict:
        """Return the verdict on a call that raised an exception."""
        verdict = self._give_back(error) or self._limited(error)
        if verdict:
            return verdict
        self._counts.exceptions += 1
        failures = self._context.failures(self._spec)
        return failures.task_failed(self._lease, self._spec.name, error, code_of(self._spec.function))

    def _give_back(self, error: BaseException) -> Verdict | None:
        """Return the verdict on a call that this worker cannot run now; None if the call is at fault."""
        if isinstance(error, ModuleNotFoundError):
            advice = "Install the package where this worker runs"
            return self._context.unmet_needs.give_back(self._lease, f"{PACKAGE}{error.name}", advice)
        return Release(NO_PLACE_PAUSE) if isinstance(error, NoPlace | LocalFailure | StoreUnavailable) else None

    def _limited(self, error: BaseException) -> Verdict | None:
        """Return the verdict on a call that exceeded a limit, or asked for a retry; None if it raised another exception."""
        match error:
            case RetryLater():
                return self._retry_later(error)
            case ResultRefused():
                return Bury(f"task {self._spec.name}: {error}")
            case ProcessDied():
                return Strike(f"task {self._spec.name}: {error}")
            case TimedOut():
                reason = f"task {self._spec.name}: {error}"
                self._context.counters.errors["task timeout"] += 1
                return self._retries.backoff.decide(attempt=self._lease.attempt, reason=reason, rng=self._context.rng)
        return None

    def _retry_later(self, later: RetryLater) -> Verdict:
        verdict = self._retries.backoff.decide(attempt=self._lease.attempt, reason=later.why, rng=self._context.rng)
        if later.after is None or isinstance(verdict, Bury):
            return verdict
        return msgspec.structs.replace(verdict, after=later.after)

    @property
    def _retries(self) -> Retries:
        return self._spec.retries.for_request(self._lease.request)
