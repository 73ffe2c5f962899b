"""Imports a queue of scrapy-redis and its dupefilter into a crawl.

Each entry of the queue gets an identity that is made from its bytes, so a repeated import skips the entries that the crawl
already has. The fingerprints of the dupefilter are marked as seen, so that links to pages that were crawled or wait are not
crawled again; those of refused requests are left out, so that links to them are still crawled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
from scrapy.settings import Settings

from silkline.core.request import Request
from silkline.errors import ConfigError, RequestError
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.user_keys.import_source import ImportSource, SourceEntry
from silkline.frontier.verbs.enqueue import Admission
from silkline.scrapy.convert.requests import check_storable
from silkline.scrapy.convert.settings import crawl_name
from silkline.scrapy.migrate.entries import fingerprints_of, is_filtered, read_entry

MAX_SHOWN_REFUSALS = 5
MAX_REASONS = 100
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0


class RefusedEntry(msgspec.Struct, frozen=True):
    """An entry of the queue that was not imported."""

    reason: str
    entry: str
    """The first bytes of the entry, as ASCII."""


class ImportSummary(msgspec.Struct):
    """The result of an import."""

    spider: str
    crawl: str
    created: bool
    move: bool
    dry_run: bool
    waiting: int = 0
    """Entries in the queue when the import started."""
    added: int = 0
    before: int = 0
    """Entries that the crawl already had, from an earlier import or because the queue has them twice."""
    refused: int = 0
    refused_before: int = 0
    """Entries that earlier imports with ``move`` have refused, and that still exist."""
    marked: int = 0
    """Fingerprints that were marked as seen."""
    unmarked: int = 0
    """Fingerprints of refused requests, which were not marked."""
    unfound: int = 0
    """Refused requests whose fingerprints are not in the dupefilter, so that another fingerprint of theirs may have been marked."""
    changed: bool = False
    """Whether another process changed the queue during the import."""
    seconds: float = 0.0
    interrupted: bool = False
    reasons: dict[str, int] = {}
    """How many entries were refused, by reason."""
    refusals: list[RefusedEntry] = []
    """The first refused entries."""

    @property
    def done(self) -> int:
        return self.added + self.before + self.refused


class QueueImport:
    """One import. Without a *frontier* it is a dry run: it only reads and counts."""

    def __init__(
        self,
        source: ImportSource,
        frontier: SyncFrontier | None,
        summary: ImportSummary,
        on_step: Callable[[str, int, int], None],
    ) -> None:
        self._source = source
        self._frontier = frontier
        self._on_step = on_step
        self._refused_marks: set[bytes] = set()
        self._refused: list[set[bytes]] = []
        """The possible fingerprints of each refused request that passed the dupefilter."""
        self.summary = summary

    def run(self, requests_key: str, dupefilter_key: str) -> None:
        """Mark the dupefilter, then import the queue: workers of the crawl may be running already."""
        self.summary.waiting = check_keys(self._source, requests_key, dupefilter_key)
        self._refused_marks = self._find_refused(requests_key)
        seen = self._mark(dupefilter_key)
        if self.summary.move:
            self._move(requests_key)
        else:
            self._copy(requests_key)
        if self._source.look(dupefilter_key, most=1).size != seen:
            self._mark(dupefilter_key)  # a worker of scrapy-redis has changed it meanwhile

    def _find_refused(self, key: str) -> set[bytes]:
        """Return the fingerprints of the requests that will be refused, or were refused by an earlier import."""
        found: set[bytes] = set()
        aside = f"{key}:silkline:refused"
        self.summary.refused_before = self._source.look(aside, most=1).size
        for name in (key, f"{key}:silkline", aside):
            checked = 0
            for look in self._source.read(name):
                for entry in look.entries:
                    if not _is_importable(entry):
                        marks = fingerprints_of(entry.data)
                        found |= marks
                        if is_filtered(entry.data):
                            self._refused.append(marks)
                checked += len(look.entries)
                self._on_step(f"{checked:,} of {look.size:,} requests checked", checked, look.size)
        return found

    # ── the dupefilter ───────────────────────────────────────────────────────────────────────────────────────────────
    def _mark(self, key: str) -> int:
        """Mark all fingerprints of a dupefilter, and return its size at the start."""
        size, read, left = None, 0, set()
        for look in self._source.read(key):
            size = look.size if size is None else size
            marks = [entry.data for entry in look.entries]
            left.update(self._refused_marks.intersection(marks))
            if self._frontier and marks:
                self._frontier.mark_seen([identity_of(mark) for mark in marks if mark not in left])
            read += len(marks)
            self._on_step(f"{read:,} of {look.size:,} fingerprints", read, look.size)
        self.summary.unmarked = len(left)
        self.summary.unfound = sum(marks.isdisjoint(left) for marks in self._refused) if size else 0
        self.summary.marked = (size or 0) - len(left)
        return size or 0

    # ── the queue ────────────────────────────────────────────────────────────────────────────────────────────────────
    def _copy(self, key: str) -> None:
        sizes = set()
        for look in self._source.read(key):
            self._import_entries(key, look.entries)
            sizes.add(look.size)
        self.summary.changed = len(sizes) > 1

    def _move(self, key: str) -> None:
        batch = self._source.set_aside(key)
        while batch.entries:
            refused = self._import_entries(key, batch.entries)
            batch = self._source.set_aside(key, done=batch, refused=refused)

    def _import_entries(self, key: str, entries: Sequence[SourceEntry]) -> list[int]:
        """Enqueue entries, and return the positions of those that were refused."""
        refused: list[int] = []
        offers: list[tuple[int, Request]] = []
        for position, entry in enumerate(entries):
            try:
                offers.append((position, _with_import_identity(read_entry(entry.data, entry.score), key, entry.data)))
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
        """Enqueue requests until the crawl has had room for all. Yields positions and reasons of refused requests."""
        if not self._frontier:
            self.summary.added += len(offers)
            return
        pause = FIRST_PAUSE
        while offers:
            admissions = self._frontier.enqueue([request for _, request in offers])
            tally = admissions.tally()
            self.summary.added += tally[Admission.ADDED]
            self.summary.before += tally[Admission.SEEN]
            for refusal in admissions.refusals:
                yield offers[refusal.position][0], refusal.reason
            offers = [offer for offer, admission in zip(offers, admissions, strict=True) if admission is Admission.FULL]
            if offers:
                self._on_step("the crawl is full, waiting for its workers", self.summary.done, self.summary.waiting)
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _refuse(self, entry: SourceEntry, reason: str) -> None:
        summary = self.summary
        summary.refused += 1
        if reason in summary.reasons or len(summary.reasons) < MAX_REASONS:
            summary.reasons[reason] = summary.reasons.get(reason, 0) + 1
        if len(summary.refusals) < MAX_SHOWN_REFUSALS:
            summary.refusals.append(RefusedEntry(reason, ascii(entry.data[:80])[2:-1]))


def check_keys(source: ImportSource, requests_key: str, dupefilter_key: str) -> int:
    """Return the number of waiting requests. Raises `ConfigError` if the keys do not exist or have another type."""
    queue, dupefilter = source.look(requests_key, most=1), source.look(dupefilter_key, most=1)
    aside = source.look(f"{requests_key}:silkline", most=1)
    if queue.kind == dupefilter.kind == aside.kind == "none":
        raise ConfigError(
            f"the server has neither {requests_key!r} nor {dupefilter_key!r}. Check their names. If SCHEDULER_PERSIST is "
            "False, which is the default, the last worker of scrapy-redis has deleted them"
        )
    if queue.kind not in ("list", "zset", "none"):
        raise ConfigError(f"{requests_key!r} must be a sorted set or a list, but it is a {queue.kind}")
    if dupefilter.kind not in ("set", "none"):
        raise ConfigError(f"{dupefilter_key!r} must be a set of fingerprints, but it is a {dupefilter.kind}")
    return queue.size + aside.size // 2


def crawl_for(requests_key: str, spider: str) -> str:
    """Return the name of the crawl that the plugin uses for a project with this SCHEDULER_QUEUE_KEY."""
    return crawl_name(Settings({"SCHEDULER_QUEUE_KEY": requests_key}), spider)


def _is_importable(entry: SourceEntry) -> bool:
    try:
        check_storable(read_entry(entry.data, entry.score))
    except RequestError:
        return False
    return True


def _with_import_identity(request: Request, key: str, data: bytes) -> Request:
    """Return the request with an identity made from its entry, so that it is imported once even with dont_filter."""
    identity = b"scrapy-redis\0" + key.encode() + b"\0" + data
    meta = {**request.meta, "d": True} if request.dont_filter else request.meta
    return msgspec.structs.replace(request, identity=identity, dont_filter=False, meta=meta)


def identity_of(fingerprint: bytes) -> bytes:
    """Return the identity of a request with this fingerprint, as the scheduler makes it."""
    return fingerprint
