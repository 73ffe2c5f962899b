"""Enqueue: offer requests to the shards, which add those that they have not seen.

The flow reads requests in parts, makes an offer of each, and sends the offers in batches, one command per shard and batch.
Requests that do not fit can wait in an overflow file; `recall` brings them back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from silkline.core.lease import Lease
from silkline.core.request import Request, RequestBatch, check, host_of, identity_fingerprint, mark_of
from silkline.core.url import ParsedUrl, fingerprint, parse
from silkline.errors import RequestError, StoreUnavailable
from silkline.frontier.overflow import Overflow, OverflowBatch, OverflowCount
from silkline.frontier.store import record
from silkline.frontier.store.keys import CrawlKeys, ShardKeys
from silkline.frontier.store.layout import CrawlLayout, shard_of
from silkline.frontier.store.record import Offer, bucket_finder, member
from silkline.frontier.transport.calls import BatchNames, FailedEnqueues
from silkline.frontier.transport.command import (
    MAX_BATCH,
    Command,
    Flow,
    LossCheck,
    Resend,
    as_text,
    ask,
    ask_all,
    ask_each,
    load,
    on_disk,
    stream,
)

PART = 10_000
"""Requests of one `enqueue` that are in memory at once."""
STREAM_BATCH = 250
"""Requests per command when many are enqueued: small enough that client and server work at the same time."""
TOO_MANY_ON_DISK = "the overflow file has reached its limit of requests for this host"


class Admission(StrEnum):
    """What the frontier did with a request it was offered.

    - *ADDED*: it is stored and will be handed out.
    - *SEEN*: a request with the same fingerprint was stored before. Nothing was changed.
    - *FULL*: the crawl, or the share of the host, is at its capacity. Nothing was stored; offer it again later.
    - *REFUSED*: it cannot be stored. `Admissions.refusals` has the reason, such as a spent page budget.
    """

    ADDED = "added"
    SEEN = "seen"
    FULL = "full"
    REFUSED = "refused"


class Refusal(NamedTuple):
    """A request that was refused, by its position in the batch, and why."""

    position: int
    request: object
    reason: str


class Admissions(list[Admission]):
    """One `Admission` per offered request, in order; `refusals` holds the reasons of refused ones.

    If *spilled* is True, requests that are FULL wait on disk, and are enqueued when there is room.
    """

    def __init__(self, answers: Iterable[Admission] = (), refusals: Iterable[Refusal] = ()) -> None:
        super().__init__(answers)
        self.refusals: list[Refusal] = list(refusals)
        self.spilled = False

    def spill(self, requests: Sequence[object], refused: Collection[int]) -> None:
        """Record that the *requests* that are FULL were stored on disk, except those at the *refused* positions: they become REFUSED."""
        self.spilled = True
        places = [place for place, answer in enumerate(self) if answer is Admission.FULL]
        for position in refused:
            self[places[position]] = Admission.REFUSED
            self.refusals.append(Refusal(places[position], requests[position], TOO_MANY_ON_DISK))
        self.refusals.sort(key=lambda refusal: refusal.position)

    def tally(self) -> Counter[Admission]:
        return Counter(self)


CANCELLED = "the crawl is cancelled"
_ADMISSIONS = {"a": Admission.ADDED, "s": Admission.SEEN, "f": Admission.FULL, "h": Admission.FULL}
_REASONS = {
    "b": "the host's page budget is spent",
    "c": CANCELLED,
    "l": "the page it was found on is no longer leased to this worker",
}


def as_requests(requests: object) -> Iterable[Any]:
    """Return one request or many as an iterable. It is not read yet."""
    if isinstance(requests, str | Request):
        return [requests]
    if isinstance(requests, bytes) or not isinstance(requests, Iterable):
        raise RequestError(f"expected a URL, a Request or a list of them, got {requests!r}")
    return requests


def as_batch(requests: Iterable[str | Request] | str | Request) -> list[Any]:
    return list(as_requests(requests))


def enqueue(
    layout: CrawlLayout, items: Iterable[object], overflow: Overflow | None, repeats: FailedEnqueues
) -> Flow[Admissions]:
    """Offer requests; those that do not fit are put into the *overflow*, if there is one.

    Requests are read and sent in parts, so that only one part of them is in memory.
    """
    answers = Admissions()
    with repeats.naming() as naming:
        for part in _parts(items):
            more = yield from _enqueue_part(layout, part, naming)
            full = overflow and [item for item, answer in zip(part, more, strict=True) if answer is Admission.FULL]
            if overflow and full:
                requests = [item if isinstance(item, Request) else Request(str(item)) for item in full]
                yield from spill(layout, overflow, requests, more)
            answers.spilled = answers.spilled or more.spilled
            answers.refusals += [
                refusal._replace(position=len(answers) + refusal.position) for refusal in more.refusals
            ]
            answers += more
    return answers


def _parts(items: Iterable[object]) -> Iterator[Sequence[object]]:
    if isinstance(items, RequestBatch):
        yield from (items[start : start + PART] for start in range(0, len(items), PART))
        return
    reading = iter(items)
    while part := list(islice(reading, PART)):
        yield part


def _enqueue_part(layout: CrawlLayout, items: Sequence[object], naming: BatchNames) -> Flow[Admissions]:
    """Make offers of one part of the requests and send them."""
    if layout.settings.shards == 1 and len(items) > STREAM_BATCH:
        return (yield from _stream_offers(layout, items, naming))
    offers, refusals = make_offers(layout, items)
    return (yield from send_offers(layout, offers, refusals, naming=naming))


def _stream_offers(layout: CrawlLayout, items: Sequence[object], naming: BatchNames) -> Flow[Admissions]:
    """Send many requests to the only shard: some are stored while others are still being read."""
    refusals: list[Refusal] = []
    batches: list[list[Offer]] = []

    def make() -> Iterator[Command[Admitted]]:
        for start in range(0, len(items), STREAM_BATCH):
            offers, refused = make_offers(layout, items[start : start + STREAM_BATCH], start=start)
            refusals.extend(refused)
            batches.append(offers)
            yield enqueue_command(layout.shards[0], offers, naming.name(offers), layout.buckets.get(0, 0))

    answers = yield from stream(make())
    letters = [_remember(layout, 0, answer) for answer in answers]
    return to_admissions(zip(batches, letters, strict=True), refusals, len(items))


def make_offers(
    layout: CrawlLayout, items: Iterable[object], parent: Lease | None = None, start: int = 0
) -> tuple[list[Offer], list[Refusal]]:
    """Return offers for the valid requests and refusals for the others, each with its position, counted from *start*."""
    offers: list[Offer] = []
    refusals: list[Refusal] = []
    if isinstance(items, RequestBatch) and items.template.dont_filter and parent is None:
        return _batch_offers(layout, items, start)
    for position, item in enumerate(items, start):
        try:
            if type(item) is str and parent is None:
                offers.append(_plain_offer(layout, position, item))
            else:
                offers.append(_offer(layout, position, item, parent))
        except RequestError as error:
            refusals.append(Refusal(position, item, str(error)))
    return offers, refusals


def _plain_offer(layout: CrawlLayout, position: int, url: str) -> Offer:
    address = parse(url)
    if address.userinfo:
        return _rich_offer(layout, position, Request(url), address, None)
    settings, host = layout.settings, address.host
    seen = member(fingerprint(address, seed=settings.seed), settings.seen.kind)
    shard = shard_of(host, settings.shards) if settings.shards > 1 else 0
    return Offer(position, url, shard, seen, host, "", record.plain_without_slash(address))


def _batch_offers(layout: CrawlLayout, batch: RequestBatch, start: int) -> tuple[list[Offer], list[Refusal]]:
    """Return offers for requests that differ only in the end of their URL and their meta, and which have no fingerprint."""
    template = batch.template
    address = parse(template.url)
    encoder = record.BatchEncoder(template, address)
    first = _offer(layout, start, template, None)
    shard, host, options, item = first.shard, first.host, first.options, template
    offers: list[Offer] = []
    refusals: list[Refusal] = []
    for position, (end, meta) in enumerate(zip(batch.ends, batch.metas, strict=True), start):
        encoded = encoder.encode(end, meta)
        if encoded is not None:
            offers.append(Offer(position, item, shard, "", host, options, encoded))
            continue
        try:
            offers.append(_offer(layout, position, batch[position - start], None))
        except RequestError as error:
            refusals.append(Refusal(position, batch[position - start], str(error)))
    return offers, refusals


def _offer(layout: CrawlLayout, position: int, item: object, parent: Lease | None) -> Offer:
    request = item if isinstance(item, Request) else Request(url=item)  # type: ignore[arg-type]
    address = parse(request.url)
    check(request)
    if parent is not None:
        request = request.found_on(parent.request)
    limit = layout.settings.budget.depth
    if limit is not None and request.depth > limit:
        raise RequestError(f"depth {request.depth} is over the crawl's budget of {limit}")
    return _rich_offer(layout, position, request, address, parent)


def _rich_offer(
    layout: CrawlLayout, position: int, request: Request, address: ParsedUrl, parent: Lease | None
) -> Offer:
    settings = layout.settings
    seen = "" if request.dont_filter else member(mark_of(request, address, seed=settings.seed), settings.seen.kind)
    host = host_of(request, address)
    shard = shard_of(host, settings.shards)
    options = _options(request, parent if parent is not None and parent.shard == shard else None)
    return Offer(
        position,
        request,
        shard,
        seen,
        host,
        options,
        record.without_slash(record.encode(request, address)),
    )


def _options(request: Request, parent: Lease | None) -> str:
    """Return priority, due, flags and parent as enqueue.lua reads them; empty if all have their defaults."""
    if not request.priority and request.not_before is None and not request.dont_filter and parent is None:
        return ""
    due = 0 if request.not_before is None else math.ceil(request.not_before * 1000)
    return f"{request.priority} {due} {'d' if request.dont_filter else '-'} {parent.wire_token if parent else '-'}"


OnUnreachable = Callable[[StoreUnavailable, Sequence[Offer]], None]
"""Called with the offers that could not be sent, and the error."""


def send_offers(
    layout: CrawlLayout,
    offers: list[Offer],
    refusals: list[Refusal],
    *,
    call: tuple[str, str] | None = None,
    naming: BatchNames | None = None,
) -> Flow[Admissions]:
    """Send offers to their shards. Under the name of a *call*, a shard stores them once, however often they are sent.

    With *naming*, each batch that needs a name gets one.
    """
    answered: list[tuple[Sequence[Offer], str]] = []
    for number, wave in enumerate(waves(layout, offers)):
        name = (f"{call[0]}:{number}", call[1]) if call else None
        named: Wave = [(keys, batch, naming.name(batch) if naming else name) for keys, batch in wave]
        answered += yield from send_wave(layout, named)
    return to_admissions(answered, refusals, len(offers) + len(refusals))


Wave = Sequence[tuple[ShardKeys, Sequence[Offer], tuple[str, str] | None]]
"""Batches to send concurrently, each with its shard and the name of its call."""


def send_wave(
    layout: CrawlLayout, wave: Wave, unreachable: OnUnreachable | None = None
) -> Flow[list[tuple[Sequence[Offer], str]]]:
    """Send batches and return the shards' letters for each. If a shard is out of reach, call *unreachable*; without it, raise."""
    sent = [enqueue_command(keys, batch, name, layout.buckets.get(keys.number, 0)) for keys, batch, name in wave]
    if unreachable is None:
        answers: Sequence[Admitted | StoreUnavailable] = yield from ask_all(sent)
    else:
        answers = yield from ask_each(sent)
    answered = []
    for (keys, batch, _), answer in zip(wave, answers, strict=True):
        if not isinstance(answer, StoreUnavailable):
            answered.append((batch, _remember(layout, keys.number, answer)))
        elif unreachable is not None:
            unreachable(answer, batch)
    return answered


def _remember(layout: CrawlLayout, shard: int, admitted: Admitted) -> str:
    """Store how many buckets the seen filter has, and the highest priority if the shard returned it; return the letters."""
    letters, buckets, priority = admitted
    if layout.settings.seen.kind == "exact":
        layout.buckets[shard] = buckets
    if priority is not None:
        layout.set_priority(shard, priority)
    return letters


def to_admissions(answered: Iterable[tuple[Sequence[Offer], str]], refusals: list[Refusal], count: int) -> Admissions:
    """Put the shards' replies and the refusals back into the order of the requests."""
    answers = [Admission.REFUSED] * count
    for batch, letters in answered:
        for offer, letter in zip(batch, letters, strict=True):
            answer = _ADMISSIONS.get(letter)
            if answer:
                answers[offer.position] = answer
            else:
                refusals.append(Refusal(offer.position, offer.item, _REASONS[letter]))
    return Admissions(answers, sorted(refusals, key=lambda refusal: refusal.position))


def waves(layout: CrawlLayout, offers: Sequence[Offer]) -> list[list[tuple[ShardKeys, Sequence[Offer]]]]:
    """Split offers into batches: one per shard concurrently, and as many waves as the shard with the most offers needs."""
    if layout.settings.shards == 1:
        keys = layout.shards[0]
        return [[(keys, offers[i : i + MAX_BATCH])] for i in range(0, len(offers), MAX_BATCH)]
    by_shard: dict[int, list[Offer]] = {}
    for offer in offers:
        by_shard.setdefault(offer.shard, []).append(offer)
    most = max((len(batch) for batch in by_shard.values()), default=0)
    return [
        [(layout.shards[shard], batch[i : i + MAX_BATCH]) for shard, batch in by_shard.items() if len(batch) > i]
        for i in range(0, most, MAX_BATCH)
    ]


def enqueue_command(
    keys: ShardKeys, offers: Sequence[Offer], call: tuple[str, str] | None = None, buckets: int = 0
) -> Command[Admitted]:
    """Offer requests. *buckets* is the last number of buckets that the shard returned.

    Returns a letter for each request, the number of buckets, and the highest priority that may be claimed now, None if unknown.
    """
    find = bucket_finder(buckets)
    packed = "".join([_pack(offer, find) for offer in offers]).encode("latin-1")
    full = [b"f" * len(offers), buckets, 0]
    args = ("", buckets, packed)
    return Command(load("enqueue"), (keys.ledger,), args, _admitted, full, call, loss_check=_ENQUEUED, resend=_RESEND)


Admitted = tuple[str, int, int | None]
"""What `enqueue_command` returns."""


class _TwoBytes(dict[int, str]):
    """Numbers as the scripts read them, made when they are first used."""

    def __missing__(self, number: int) -> str:
        text = self[number] = number.to_bytes(2, "little").decode("latin-1")
        return text


_TWO_BYTES = _TwoBytes()


def _pack(offer: Offer, find: Callable[[str], str]) -> str:
    """Pack an offer as enqueue.lua reads it. A byte is written as the character with the same number."""
    member, host, options, record = offer.member, offer.host, offer.options, offer.record
    if isinstance(record, bytes):
        record = record.decode("latin-1")
    bucket, size = find(member) if member else "", len(record)
    sizes = _TWO_BYTES[len(host)], _TWO_BYTES[size & 0xFFFF], "\0\0" if size < 0x10000 else "\1\0"
    return (
        f"{chr(len(member))}{member}{chr(len(bucket))}{bucket}{sizes[0]}{host}"
        f"{chr(len(options))}{options}{sizes[1]}{sizes[2]}{record}"
    )


def enqueue_again(command: Command[Any]) -> Command[Any]:
    """Return the command for a shard that has lost these requests, whether the pages that link to them are still leased or not.

    Requests with `dont_filter` are left out: the server cannot know whether they were lost.
    """
    args = ("again", *command.args[1:])
    full = command.when_out_of_memory
    return Command(command.script, command.keys, args, _admitted, full, loss_check=_ENQUEUED, resend=_RESEND)


def has_room(admitted: Admitted) -> bool:
    """Return whether there was room for all requests, given the result of `enqueue_command`."""
    letters = admitted[0]
    return "f" not in letters and "h" not in letters


def _admitted(reply: list[Any]) -> Admitted:
    return reply[0].decode(), reply[1], reply[3] if len(reply) > 3 else None


_ENQUEUED = LossCheck(lost=lambda reply: bool(reply[2]), kept=lambda _: True)
_RESEND = Resend(enqueue_again, has_room)


def spill(layout: CrawlLayout, overflow: Overflow, requests: list[Request], answers: Admissions) -> Flow[None]:
    """Store the requests that are FULL in the overflow. Requests of hosts that have too many there are refused."""
    refused = yield from on_disk(partial(overflow.put, layout.overflow_name, requests))
    answers.spill(requests, refused or ())
    yield from _report_overflow(layout, overflow)


def _report_overflow(layout: CrawlLayout, overflow: Overflow) -> Flow[int]:
    """Store how many requests wait on this disk, so that no client takes the crawl for finished. Returns the number."""
    tally = yield from on_disk(partial(overflow.tally, layout.overflow_name))
    if tally.version:  # it has been used
        yield from ask(note_overflow(layout.keys, overflow.name, tally))
    return tally.requests


class Tick(NamedTuple):
    """What the frontier did with a tick of a recurring task: a cancelled crawl refuses it."""

    admission: Admission
    newest: float
    """The unix time of the newest tick of the schedule; 0 if there is none."""
    now: float
    """The unix time by the server's clock."""


def tick(layout: CrawlLayout, request: Request, schedule: str) -> Flow[Tick]:
    """Enqueue a tick, whose time is its *not_before*, unless this or a later one of its schedule was enqueued.

    Without a *not_before*, nothing is enqueued.
    """
    address = parse(request.url)
    check(request)
    at = 0 if request.not_before is None else math.ceil(request.not_before * 1000)
    args = (address.host, schedule, at, record.without_slash(record.encode(request, address)))
    word, newest, now = yield from ask(tick_command(layout.shard_of(address.host), args))
    return Tick(Admission(word), newest / 1000, now / 1000)


def tick_command(keys: ShardKeys, args: tuple[str, str, int, str | bytes]) -> Command[tuple[str, int, int]]:
    """Enqueue the tick of a host and a schedule; returns the word of the script, the newest tick and the server's time, in ms."""

    def decode(reply: list[bytes]) -> tuple[str, int, int]:
        return reply[0].decode(), int(reply[1]), int(reply[2])

    return Command(load("tick"), (keys.ledger,), args, decode, [b"full", b"0", b"0"])


def recall(layout: CrawlLayout, overflow: Overflow) -> Flow[tuple[int, bool]]:
    """Bring requests back from the disk, as far as there is room.

    Returns how many came back, and whether to try again at once.
    """
    rows = yield from on_disk(partial(overflow.take, layout.overflow_name, MAX_BATCH))
    full = (yield from _offer_again(layout, overflow, rows)) if rows else []
    left = yield from _report_overflow(layout, overflow)  # also a change whose process died before it reported it
    returned = len(rows) - len(full)
    return returned, left > 0 and bool(rows) and 2 * returned >= len(rows)


def _offer_again(layout: CrawlLayout, overflow: Overflow, rows: OverflowBatch) -> Flow[list[int]]:
    """Move rows from the disk to the shards; return those that did not fit.

    If this process dies in between, the same batch is offered again. The seen filter then recognizes its requests; those with
    `dont_filter` are recognized by the name of their batch.
    """
    unfiltered = any(request.dont_filter for _, request in rows)
    call = (f"{overflow.name}:{rows.batch}", "1") if unfiltered else None
    answers = yield from send_offers(layout, *make_offers(layout, [request for _, request in rows]), call=call)
    full = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is Admission.FULL]
    done = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is not Admission.FULL]
    yield from on_disk(partial(overflow.settle, done, full))
    return full


NOTHING_WAITS = OverflowCount(0, 0)


class OverflowTotals(NamedTuple):
    """How many requests all stores outside Redis hold, and have refused."""

    requests: int
    refused: int


def note_overflow(keys: CrawlKeys, store: str = "", tally: OverflowCount = NOTHING_WAITS) -> Command[OverflowTotals]:
    """Store how many requests a store outside Redis holds; return what all of them hold."""

    def decode(reply: list[bytes]) -> OverflowTotals:
        return OverflowTotals(sum(map(int, reply[2::2])), int(reply[0]))

    return Command(load("note_overflow"), (keys.settings,), (store, *tally), decode)


def mark_seen(layout: CrawlLayout, identities: Sequence[bytes]) -> Flow[None]:
    """Mark identities as seen on every shard: an identity does not contain its host, and so not its shard."""
    marks = [identity_member(layout, identity) for identity in identities]
    for i in range(0, len(marks), MAX_BATCH):
        yield from ask_all(mark_seen_command(keys, marks[i : i + MAX_BATCH]) for keys in layout.shards)


def mark_seen_command(keys: ShardKeys, members: Sequence[str]) -> Command[str]:
    return Command(load("mark_seen"), (keys.ledger,), members, as_text)


def forget(layout: CrawlLayout, items: Sequence[str | Request]) -> Flow[int]:
    """Remove requests from the seen filter; return how many were in it."""
    by_shard: dict[ShardKeys, list[str]] = {}
    for item in items:
        request = item if isinstance(item, Request) else Request(item)
        address = parse(request.url)
        by_shard.setdefault(layout.shard_of(host_of(request, address)), []).append(member_of(layout, request, address))
    batches = [
        forget_command(keys, members[i : i + MAX_BATCH])
        for keys, members in by_shard.items()
        for i in range(0, len(members), MAX_BATCH)
    ]
    return sum((yield from ask_all(batches)))


def forget_command(keys: ShardKeys, members: Sequence[str]) -> Command[int]:
    return Command(load("forget"), (keys.ledger,), members, int)


def member_of(layout: CrawlLayout, request: Request, address: ParsedUrl) -> str:
    mark = mark_of(request, address, seed=layout.settings.seed)
    return member(mark, layout.settings.seen.kind)


def identity_member(layout: CrawlLayout, identity: bytes) -> str:
    """Return how the seen filter stores a `Request.identity`."""
    return member(identity_fingerprint(identity, seed=layout.settings.seed), layout.settings.seen.kind)
