"""Moving a scrapy-redis queue, and what its dupefilter has seen, into a crawl.

Every entry of the queue is offered under an identity of its own, made of the entry: an import that is run again, after it
was killed or after a copy, knows what came in already. The dupefilter's fingerprints are marked as seen, so that a link to
a page that was crawled, or that waits, is not crawled again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from scrapy.settings import Settings

from silkline.core.errors import ConfigError, RequestError
from silkline.core.lease import Admission
from silkline.core.request import MAX_PRIORITY, Request
from silkline.frontier.foreign import Entry, ForeignKeys
from silkline.frontier.sync import SyncFrontier
from silkline.scrapy.options import crawl_name
from silkline.scrapy.pickles import loads
from silkline.scrapy.requests import from_dict

SHOWN_REFUSALS = 5
MAX_REASONS = 100
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
PICKLE, JSON = b"\x80", b"{"


class Refused(msgspec.Struct, frozen=True):
    """An entry of the queue that was not taken."""

    reason: str
    entry: str
    """How it begins."""


class Summary(msgspec.Struct):
    """What became of a scrapy-redis queue."""

    spider: str
    crawl: str
    created: bool
    move: bool
    dry_run: bool
    waiting: int = 0
    """Entries of the queue when it began."""
    added: int = 0
    before: int = 0
    """Entries that were in already: of an earlier run, or twice the same in one queue."""
    refused: int = 0
    marked: int = 0
    """Fingerprints that are now seen."""
    changed: bool = False
    """While it was copied, somebody else worked on the queue."""
    seconds: float = 0.0
    interrupted: bool = False
    reasons: dict[str, int] = {}
    """How often something was refused, and why."""
    refusals: list[Refused] = []
    """The first few."""

    @property
    def done(self) -> int:
        return self.added + self.before + self.refused


class Import:
    """One run. Without a *frontier* it only reads, and counts."""

    def __init__(
        self,
        source: ForeignKeys,
        frontier: SyncFrontier | None,
        summary: Summary,
        on_step: Callable[[str, int, int], None],
    ) -> None:
        self._source = source
        self._frontier = frontier
        self._on_step = on_step
        self.summary = summary

    def run(self, requests_key: str, dupefilter_key: str) -> None:
        """Marks first: workers of the crawl may be running already."""
        self.summary.waiting = check_keys(self._source, requests_key, dupefilter_key)
        seen = self._mark(dupefilter_key)
        if self.summary.move:
            self._move(requests_key)
        else:
            self._copy(requests_key)
        if self._source.look(dupefilter_key, most=1).size != seen:
            self._mark(dupefilter_key)  # somebody went on crawling meanwhile

    # ── what was seen ────────────────────────────────────────────────────────────────────────────────────────────────
    def _mark(self, key: str) -> int:
        """Mark all of a dupefilter; answers its size when we began."""
        size, marked = None, 0
        for look in self._source.read(key):
            size = look.size if size is None else size
            if self._frontier and look.entries:
                self._frontier.mark_seen([identity_of(entry.data) for entry in look.entries])
            marked += len(look.entries)
            self._on_step(f"{marked:,} of {look.size:,} fingerprints", marked, look.size)
        self.summary.marked = size or 0
        return size or 0

    # ── what waits ───────────────────────────────────────────────────────────────────────────────────────────────────
    def _copy(self, key: str) -> None:
        sizes = set()
        for look in self._source.read(key):
            self._take_in(key, look.entries)
            sizes.add(look.size)
        self.summary.changed = len(sizes) > 1

    def _move(self, key: str) -> None:
        batch = self._source.set_aside(key)
        while batch.entries:
            refused = self._take_in(key, batch.entries)
            batch = self._source.set_aside(key, done=batch, refused=refused)

    def _take_in(self, key: str, entries: Sequence[Entry]) -> list[int]:
        """Offer entries; answers the positions of those that were refused."""
        refused: list[int] = []
        offers: list[tuple[int, Request]] = []
        for position, entry in enumerate(entries):
            try:
                offers.append((position, _named(read_request(entry), key, entry.data)))
            except RequestError as error:
                self._refuse(entry, str(error))
                refused.append(position)
        for position, reason in self._offer(offers):
            self._refuse(entries[position], reason)
            refused.append(position)
        done, waiting = self.summary.done, max(self.summary.done, self.summary.waiting)
        self._on_step(f"{done:,} of {waiting:,} requests", done, waiting)
        return sorted(refused)

    def _offer(self, offers: list[tuple[int, Request]]) -> Iterable[tuple[int, str]]:
        """Offer until all found room; answers positions and reasons of those that the crawl does not take."""
        if not self._frontier:
            self.summary.added += len(offers)
            return
        pause = FIRST_PAUSE
        while offers:
            answers = self._frontier.enqueue([request for _, request in offers])
            tally = answers.tally()
            self.summary.added += tally[Admission.ADDED]
            self.summary.before += tally[Admission.SEEN]
            for refusal in answers.refusals:
                yield offers[refusal.position][0], refusal.reason
            offers = [offer for offer, answer in zip(offers, answers, strict=True) if answer is Admission.FULL]
            if offers:
                self._on_step("the crawl is full, waiting for its workers", self.summary.done, self.summary.waiting)
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _refuse(self, entry: Entry, reason: str) -> None:
        summary = self.summary
        summary.refused += 1
        if reason in summary.reasons or len(summary.reasons) < MAX_REASONS:
            summary.reasons[reason] = summary.reasons.get(reason, 0) + 1
        if len(summary.refusals) < SHOWN_REFUSALS:
            summary.refusals.append(Refused(reason, ascii(entry.data[:80])[2:-1]))


def check_keys(source: ForeignKeys, requests_key: str, dupefilter_key: str) -> int:
    """Refuse keys that are not what they are said to be; answers how many requests wait."""
    queue, dupefilter = source.look(requests_key, most=1), source.look(dupefilter_key, most=1)
    aside = source.look(f"{requests_key}:silkline", most=1)
    if queue.kind == dupefilter.kind == aside.kind == "none":
        raise ConfigError(
            f"there is neither {requests_key!r} nor {dupefilter_key!r} on that server. Did the last worker delete them when "
            "it stopped (SCHEDULER_PERSIST is False by default), or do they have other names?"
        )
    if queue.kind not in ("list", "zset", "none"):
        raise ConfigError(f"{requests_key!r} is to be a queue, a sorted set or a list, and it is a {queue.kind}")
    if dupefilter.kind not in ("set", "none"):
        raise ConfigError(f"{dupefilter_key!r} is to be a set of fingerprints, and it is a {dupefilter.kind}")
    return queue.size + aside.size // 2


def crawl_for(requests_key: str, spider: str) -> str:
    """The crawl in which the plugin's scheduler will look, of a project with this SCHEDULER_QUEUE_KEY."""
    return crawl_name(Settings({"SCHEDULER_QUEUE_KEY": requests_key}), spider)


def read_request(entry: Entry) -> Request:
    """The request of an entry; RequestError if it is none, or if it is more than plain data."""
    fields = _read_fields(entry.data)
    if not isinstance(fields, dict) or not isinstance(fields.get("url"), str):
        raise RequestError("not a request of Scrapy: it has no url")
    try:
        return _with_priority(from_dict(fields), entry.score)
    except RequestError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RequestError(f"not a request of Scrapy: {error}") from None


def _with_priority(request: Request, score: float | None) -> Request:
    """A sorted set's score is the priority, negated. A list has its own order: what its requests say does not count."""
    exact = request.meta.get("p", request.priority)
    served = 0 if score is None else max(-MAX_PRIORITY, min(-score, MAX_PRIORITY))
    if served == exact:
        return request
    return msgspec.structs.replace(request, priority=round(served), meta={**request.meta, "p": exact})


def _read_fields(data: bytes) -> Any:
    if data[:1] == PICKLE:
        return loads(data)
    if data[:1] != JSON:
        raise RequestError("neither a pickle nor JSON")
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"not valid JSON: {error}") from None
    return _with_bytes(fields)


def _with_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has no bytes: what is bytes in Scrapy came as text."""
    body, headers = fields.get("body"), fields.get("headers")
    if isinstance(body, str):
        fields["body"] = body.encode()
    if isinstance(headers, dict):
        fields["headers"] = {
            name.encode(): [_bytes(value) for value in (values if isinstance(values, list) else [values])]
            for name, values in headers.items()
        }
    return fields


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _named(request: Request, key: str, data: bytes) -> Request:
    """The request under an identity of its own, by which it comes in once, even if Scrapy is not to filter it."""
    identity = b"scrapy-redis\0" + key.encode() + b"\0" + data
    meta = {**request.meta, "d": True} if request.dont_filter else request.meta
    return msgspec.structs.replace(request, identity=identity, dont_filter=False, meta=meta)


def identity_of(fingerprint: bytes) -> bytes:
    """The identity of a dupefilter's member, as the scheduler makes it of a request."""
    return fingerprint
