"""TaskSpec: a registered function with its limits, and how a call of it becomes a request.

The request of a call has the name of the task as its host, so delay and concurrency of that host are the rate and concurrency of the
task, for all workers together. Its path is the id of the call, its meta are the arguments, and its handler is the task.
"""

from __future__ import annotations

import inspect
import math
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from silkline.core.lease import Lease
from silkline.core.politeness import MAX_CONCURRENCY
from silkline.core.request import MAX_PRIORITY, MAX_SLOT, Request, RequestBatch, is_time
from silkline.core.retries import Backoff, Retries
from silkline.core.url import is_host
from silkline.errors import ConfigError, RequestError
from silkline.frontier.locks.locks import interval_of
from silkline.frontier.verbs.hosts import HostArguments
from silkline.frontier.verbs.results import keep_ms
from silkline.tasks.arguments import Arguments
from silkline.tasks.cron import Cron

_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")
ID_BYTES, ID_LENGTH = 9, 12
"""Random bytes of an id, and its characters."""
UNIQUE = "="
"""Before the key of a unique call, where other calls have a random id."""
LONGEST_KEY = 200
MOST_AFTER = 1000
"""Calls for which one call can wait: each is searched. A group has no limit."""
DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 300.0, 7 * 86_400.0
LONGEST_EVERY = 366 * 86_400
MOST_PER_SECOND = 100_000
CATCH_UP = 20.0
"""Milliseconds: starts that were late by this time are made up for, so that the rate is reached and a claim takes several of them."""

TaskKind = Literal["async", "thread", "process"]
"""Where a task runs: on the event loop, in a thread, or in a process."""


class CallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When and how a call is run, and after which others."""

    at: float | None = None
    delay: float | None = None
    priority: int = 0
    unique: str | None = None
    expires: float | None = None
    after: tuple[Any, ...] = ()
    """Handles of calls that must have ended before; groups, too, for their callbacks."""
    group: Any = None
    """The `CallGroup` that it joins."""
    allow_failure: bool = False

    def __post_init__(self) -> None:
        if self.at is not None and self.delay is not None:
            raise RequestError("at and delay cannot be used together")
        if not all(time is None or is_time(time) for time in (self.delay, self.at, self.expires)):
            raise RequestError("at and expires must be unix times, and delay must be at least 0 seconds")
        if type(self.priority) is not int or not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise RequestError(f"priority is an integer from -{MAX_PRIORITY} to {MAX_PRIORITY}, got {self.priority!r}")
        if self.unique is not None and not _is_key(self.unique):
            raise RequestError(f"unique is a string of at most {LONGEST_KEY} characters, got {self.unique!r:.250}")
        if type(self.allow_failure) is not bool:
            raise RequestError(f"allow_failure must be True or False, got {self.allow_failure!r:.100}")
        if self.group is not None and not hasattr(self.group, "offer"):
            raise RequestError(f"group must be what group() of a task returns, got {self.group!r:.100}")
        if len(self.after) > MOST_AFTER:
            raise RequestError(f"after takes at most {MOST_AFTER} handles, got {len(self.after)}; use a group for more")

    def urls_after(self, queue: str) -> list[str]:
        """Return the URLs of the calls that must have ended before. Raises `RequestError` for what is not a call of this queue."""
        for handle in self.after:
            if not hasattr(handle, "url") or not hasattr(handle, "queue"):
                raise RequestError(f"after takes handles of calls, got {handle!r:.100}")
            if handle.queue != queue:
                raise RequestError(f"{handle.url} is a call of {handle.queue!r}, and cannot be waited for in {queue!r}")
        return list(dict.fromkeys(handle.url for handle in self.after))

    @property
    def not_before(self) -> float | None:
        return self.at if self.delay is None else time.time() + self.delay

    def new_id(self) -> str:
        if self.unique is not None:
            return UNIQUE + quote(self.unique, safe="")
        return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """Return ids for calls that have no *unique* key."""
    tokens = urlsafe_b64encode(secrets.token_bytes(ID_BYTES * count)).decode()
    ids = [tokens[start : start + ID_LENGTH] for start in range(0, len(tokens), ID_LENGTH)]
    return ["_" + id_[1:] if id_[0] == "-" else id_ for id_ in ids]  # a command would take -x for an option


def _is_key(unique: object) -> bool:
    if not isinstance(unique, str) or not 0 < len(unique) <= LONGEST_KEY:
        return False
    try:
        return bool(unique.encode())
    except UnicodeEncodeError:  # half of a character
        return False


class TaskSpec:
    """A task: its name, its function and its limits."""

    def __init__(  # noqa: PLR0913 - the settings of a task
        self,
        function: Callable[..., Any],
        name: str | None,
        *,
        queue: str,
        concurrency: int | None,
        rate: float | str | None,
        retries: Retries | Backoff | Sequence[float] | None,
        max_attempts: int | None,
        timeout: float,
        cpu: bool,
        keep: float,
        every: float | timedelta | None,
        cron: str | None,
        tz: str | None,
    ) -> None:
        self.function = function
        self.queue = queue
        """The name that its application had when the task was registered."""
        self.name = _checked_name(function, name)
        self._origin = f"https://{self.name}/"
        self.arguments = Arguments(function, self.name)
        self.kind: TaskKind = _kind_of(function, self.name, cpu=cpu)
        self.retries = _retries_of(retries, max_attempts)
        if not is_time(timeout) or not 0 < timeout <= LONGEST_TIMEOUT:
            raise ConfigError(f"timeout must be from 0 to {LONGEST_TIMEOUT:.0f} seconds, got {timeout!r}")
        self.timeout = float(timeout)
        self.keep = keep
        if keep != 0:
            keep_ms(keep)
        if concurrency is not None and (type(concurrency) is not int or not 1 <= concurrency <= MAX_CONCURRENCY):
            raise ConfigError(f"concurrency must be an integer from 1 to {MAX_CONCURRENCY}, got {concurrency!r}")
        delay, burst = _pace_of(rate)
        self.limits: HostArguments = {
            "delay": delay, "concurrency": concurrency or MAX_CONCURRENCY, "burst": burst,
        }  # fmt: skip
        """The politeness of the host of its calls."""
        if every is not None and cron is not None:
            raise ConfigError("every and cron cannot be used together: register the function a second time with name=…")
        if tz is not None and cron is None:
            raise ConfigError("tz is the time zone of a cron line; there is none")
        self.cron = None if cron is None else Cron(cron, "UTC" if tz is None else tz)
        """When a recurring task is called; None for others, and for those with *every*."""
        self.every = _whole_seconds(every)
        """Seconds between two ticks of a recurring task; None for others."""

    @property
    def schedule(self) -> str:
        """When a recurring task is called, as it is stored; empty for others."""
        if self.cron is not None:
            return f"cron {self.cron}"
        return "" if self.every is None else f"every {self.every}"

    def next_tick(self, now: float) -> int:
        """Return the unix time of the first tick of a recurring task after *now*."""
        if self.cron is not None:
            return self.cron.next(now)
        assert self.every is not None
        return (int(now) // self.every + 1) * self.every

    def check(self) -> None:
        """Raise `ConfigError` if the hints cannot be used, or if a recurring task needs arguments."""
        self.arguments.check()
        if self.schedule:
            try:
                self.arguments.pack((), {})
            except RequestError as error:
                raise ConfigError(f"a recurring task is called without arguments, but {error}") from None

    def request(self, args: Sequence[Any], kwargs: dict[str, Any], options: CallOptions) -> Request:
        """Return a call as a request. Raises `RequestError` if an argument is wrong."""
        return Request(
            self._origin + options.new_id(),
            meta=self.arguments.pack(args, kwargs),
            priority=options.priority,
            handler=self.name,
            dont_filter=options.unique is None,
            not_before=options.not_before,
            expires=options.expires,
        )

    def requests(self, calls: Sequence[Mapping[str, Any]], options: CallOptions) -> RequestBatch:
        """Return many calls as requests. Raises `RequestError` if an argument is wrong, with the position of its call."""
        template = Request(
            self._origin,
            priority=options.priority,
            handler=self.name,
            dont_filter=True,
            not_before=options.not_before,
            expires=options.expires,
        )
        return RequestBatch(template, new_ids(len(calls)), self.arguments.pack_all(calls))

    def url(self, call: str) -> str:
        """Return the URL of a call, given its id."""
        return self._origin + call

    def is_call(self, lease: Lease) -> bool:
        """Return whether a request with the handler of this task is a call of it, and not a page that names it."""
        return lease.host == self.name and lease.url.startswith(self._origin)


def _checked_name(function: Callable[..., Any], name: str | None) -> str:
    called = getattr(function, "__name__", "") if name is None else name
    if not isinstance(called, str):
        raise ConfigError(f"the name of a task is a string, got {called!r:.100}")
    if not callable(function) or called == "<lambda>" or not called:
        raise ConfigError(f"a task must be a function with a name, got {function!r}")
    if not _NAME.fullmatch(called) or len(called) > MAX_SLOT or not is_host(called):
        raise ConfigError(
            f"a task name may contain lowercase letters, digits, dots, dashes and underscores, got {called[:100]!r}; "
            "give it another one: @app.task(name=…)"
        )
    return called


def _kind_of(function: Callable[..., Any], name: str, *, cpu: bool) -> TaskKind:
    plain = inspect.unwrap(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise ConfigError(f"the task {name!r} is a generator; a task returns its result")
    is_async = inspect.iscoroutinefunction(plain)
    if cpu and is_async:
        raise ConfigError(f"the task {name!r} is async and cannot have cpu=True: write it as a plain function")
    return "process" if cpu else "async" if is_async else "thread"


def _pace_of(rate: float | str | None) -> tuple[float, int]:
    """Return the delay of a rate in seconds, rounded up to a microsecond, and its burst."""
    if rate is None:
        return 0.0, 1
    interval = interval_of(rate)
    if interval < 1000 / MOST_PER_SECOND:
        raise ConfigError(f"rate must be at most {MOST_PER_SECOND} per second, got {rate!r}; leave it out for no limit")
    return math.ceil(round(interval * 1000, 6)) / 1_000_000, 1 + int(CATCH_UP / interval)


def _whole_seconds(every: float | timedelta | None) -> int | None:
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    if seconds is None:
        return None
    if not is_time(seconds) or seconds != int(seconds) or not 1 <= seconds <= LONGEST_EVERY:
        raise ConfigError(f"every must be whole seconds from 1 to {LONGEST_EVERY}, got {every!r}")
    return int(seconds)


def _retries_of(retries: Retries | Backoff | Sequence[float] | None, max_attempts: int | None) -> Retries:
    """Return the retries of a task: without any, a call that fails is buried at once."""
    if retries is not None and max_attempts is not None:
        raise ConfigError("retries and max_attempts cannot be used together: the length of retries limits the attempts")
    if max_attempts is not None and (type(max_attempts) is not int or max_attempts < 1):
        raise ConfigError(f"max_attempts must be at least 1, got {max_attempts!r}")
    if retries is None or retries in ([], ()):
        backoff = Backoff(max_attempts=max_attempts or 1)
    else:
        backoff = Retries.of(retries).backoff
    attempts = backoff.max_attempts if backoff.steps is None else len(backoff.steps) + 1
    return Retries(backoff=backoff, handler_attempts=attempts, pause_after=None)
