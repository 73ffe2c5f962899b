"""Results: a small value that a completed request leaves to who waits for it, and the progress of a call of a task."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from silkline.core.lease import Lease
from silkline.core.request import Request, host_of
from silkline.core.url import fingerprint, parse
from silkline.errors import RequestError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Command, Flow, as_text, ask, load

MAX_RESULT_BYTES = 64 * 1024
KEEP_PROGRESS = 3600.0
"""Seconds for which the progress of a call is kept."""
LONGEST_NOTE = 200
RESULTS_MEMORY = 64 * 1024 * 1024
"""Bytes of the server's memory for the results of a crawl, about; each shard has its part."""
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25
"""Seconds between two reads of a result that a caller waits for, if it is not notified. The pause doubles."""
FIRST_CHECK, LONGEST_CHECK = 0.25, 2.0
"""The same if it is notified: a notification may get lost."""
AWAITED_LONGER, LONGEST_AWAITED = 1.0, 3600.0
"""Seconds for which a shard notes a caller longer than it waits, and the most for which it does."""
_encoder = msgspec.json.Encoder()


class Result(NamedTuple):
    """The result of a completed request."""

    value: Any
    completed: float
    """Unix time at which the request was completed, on the crawl's clock."""


def encode_result(value: object) -> bytes:
    """Return a result as it is stored. Raises `RequestError` if it is too large, or cannot be written as JSON."""
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError(f"the result cannot be stored as JSON: {error}") from None
    if len(text) > MAX_RESULT_BYTES:
        raise RequestError(
            f"the result takes {len(text)} bytes, the cap is {MAX_RESULT_BYTES}: store it in a sink or a database, and return its key"
        )
    return text


def one_request(request: object) -> Request:
    """Return a URL or a request as a request. Raises `RequestError` for anything else."""
    if not isinstance(request, str | Request):
        raise RequestError(f"expected a URL or a Request, got {request!r:.200}")
    return request if isinstance(request, Request) else Request(request)


def result_id(layout: CrawlLayout, request: Request) -> str:
    """Return the name under which the result of a request is stored. It depends on method, URL, body and download_slot."""
    address = parse(request.url)
    mark, queue = (
        fingerprint(address, request.method, request.body, seed=layout.settings.seed),
        host_of(request, address),
    )
    return f"{mark:016x}" if queue == address.host else f"{mark:016x} {queue}"


def memory_of_shard(layout: CrawlLayout) -> int:
    """Return how many bytes the results of one shard may take."""
    return RESULTS_MEMORY // layout.settings.shards


def keep_ms(seconds: float) -> int:
    return milliseconds("keep", seconds)


def result(layout: CrawlLayout, request: Request) -> Flow[Result | None]:
    """Read the result of a request; None if it is not completed, had no result, or its result has expired."""
    keys = layout.shard_of(host_of(request, parse(request.url)))
    return (yield from ask(result_command(keys, result_id(layout, request))))


def result_command(keys: ShardKeys, name: str) -> Command[Result | None]:
    return Command(load("result"), (keys.ledger,), (name,), _read_result)


def await_result(layout: CrawlLayout, request: Request, channel: str, wait: float) -> Flow[Result | None]:
    """Read the result of a request. If there is none, the end of the request is published on *channel*, within *wait* seconds."""
    keys = layout.shard_of(host_of(request, parse(request.url)))
    return (yield from ask(await_command(keys, result_id(layout, request), channel, wait)))


def await_command(keys: ShardKeys, name: str, channel: str, wait: float) -> Command[Result | None]:
    milliseconds = round(min(wait + AWAITED_LONGER, LONGEST_AWAITED) * 1000)
    return Command(load("await_result"), (keys.ledger,), (name, channel, milliseconds), _read_result)


class CallProgress(NamedTuple):
    """How far a call of a task is."""

    done: float
    """From 0 to 1."""
    note: str
    reported: float
    """Unix time, on the crawl's clock."""


def report_progress(layout: CrawlLayout, lease: Lease, done: float, note: str) -> Flow[bool]:
    """Store the progress of a leased request; False if the lease is lost."""
    keys = layout.shards[lease.shard]
    args = (
        lease.wire_token,
        progress_id(layout, lease.request),
        keep_ms(KEEP_PROGRESS),
        memory_of_shard(layout),
        msgspec.json.encode((done, note)),
    )
    stored = Command(load("progress"), (keys.ledger,), args, lambda reply: as_text(reply) == "stored", b"lost")
    return (yield from ask(stored))


def progress_id(layout: CrawlLayout, request: Request) -> str:
    """Return the name under which the progress of a request is stored beside the results."""
    return f"p:{result_id(layout, request)}"


def progress(layout: CrawlLayout, request: Request) -> Flow[CallProgress | None]:
    """Read the progress of a request; None if none was reported recently."""
    keys = layout.shard_of(host_of(request, parse(request.url)))
    stored = yield from ask(result_command(keys, progress_id(layout, request)))
    return read_progress(stored)


def read_progress(stored: Result | None) -> CallProgress | None:
    """Return a progress, given how it is stored."""
    if stored is None:
        return None
    done, note = stored.value
    return CallProgress(done, note, stored.completed)


def _read_result(reply: list[bytes] | None) -> Result | None:
    return Result(msgspec.json.decode(reply[1]), int(reply[0]) / 1000) if reply else None


class Ended(NamedTuple):
    """A message about a request that has ended."""

    result: Result | None
    """None if it is too long for a message, or if there is none."""
    dead: bool = False
    """Whether the request has become a dead letter."""


def read_message(message: bytes) -> Ended:
    completed, _, value = message.partition(b"\n")
    if completed.isdigit():
        return Ended(_read_result([completed, value]))
    return Ended(None, dead=not completed)
