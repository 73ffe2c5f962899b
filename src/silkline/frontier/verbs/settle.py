"""Settle: end leases, after the links of their pages are stored. Also extend leases, and vacate the places of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, TypedDict, TypeVar

from msgspec import UNSET, structs

from silkline.core.lease import FailedAttempt, Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, NextVisit, Release, RetryIn, Strike, Suspect, Verdict
from silkline.errors import PartlyUnavailable, RequestError, StoreUnavailable
from silkline.frontier.overflow import Overflow
from silkline.frontier.store import record as codec
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.record import Offer
from silkline.frontier.transport.command import MAX_BATCH, Arg, Command, Flow, LossCheck, ask, ask_each, load
from silkline.frontier.verbs import enqueue
from silkline.frontier.verbs.enqueue import (
    Admission,
    Admissions,
    Refusal,
    Wave,
    make_offers,
    send_wave,
    spill,
    to_admissions,
)
from silkline.frontier.verbs.groups import report_all
from silkline.frontier.verbs.results import encode_result, keep_ms, memory_of_shard, result_id

FULL_AGAIN_AFTER = 5.0
"""Delay in seconds before retrying a page whose links did not fit into the queue."""
MOST_LOSSES = 5
"""How often a page is settled again because its shard has lost writes."""
MOST_READS, READ_AGAIN_AFTER = 10, 60.0
"""How often a record that cannot be read is tried, and the delay in seconds: enough to upgrade workers one by one."""


@dataclass(slots=True)
class Settlement:
    """How a batch of leases ended."""

    lost: list[Lease] = field(default_factory=list)
    """Leases that this worker no longer holds. Nothing was changed for them."""
    postponed: list[Lease] = field(default_factory=list)
    """Leases that were put back, because the crawl had no room for their links."""
    links: Admissions = field(default_factory=Admissions)
    dropped_letters: int = 0
    """Older dead letters that were dropped, because the crawl had more than its `dead_limit`."""


class Postpone(Release, frozen=True):
    """Give back a page whose links did not fit: behind the other requests of its host if there are many, else *after* seconds."""


class RetryArguments(TypedDict, total=False):
    """How `Frontier.retry` records a failed attempt, and whether its whole host waits or slows down."""

    reason: str
    status: int | None
    block_host: bool
    slow_host: bool


def as_verdicts(verdicts: Iterable[tuple[Lease, Verdict]]) -> list[tuple[Lease, Verdict]]:
    """Return the pairs as a list. Raises `RequestError` unless each is a lease and a verdict."""
    if not isinstance(verdicts, Iterable):
        raise RequestError(f"expected a list of (lease, verdict) pairs, got {verdicts!r}")
    pairs = list(verdicts)
    for lease, verdict in pairs:
        if not isinstance(lease, Lease):
            raise RequestError(f"expected a Lease that claim() returned, got {lease!r}")
        if isinstance(verdict, Complete):
            links = verdict.links
            if type(links) is not list and type(links) is not tuple and not _is_sequence(links):  # fast for most
                raise RequestError(f"links must be a list of URLs or Requests, got {links!r}")
            if verdict.result is not UNSET:
                _check_result(verdict)
        elif not isinstance(verdict, Verdict):
            raise RequestError(f"a verdict must be Complete, RetryIn, Release or Bury, got {verdict!r}")
    return pairs


def _check_result(verdict: Complete) -> None:
    encode_result(verdict.result)
    keep_ms(verdict.keep)
    if verdict.next_visit is not None:
        raise RequestError("a request that is visited again has no result: give result or next_visit, not both")


def _is_sequence(links: object) -> bool:
    return isinstance(links, Sequence) and not isinstance(links, str)


def as_leases(leases: Iterable[Lease]) -> list[Lease]:
    """Return the leases as a list. Raises `RequestError` for anything that is not a lease."""
    if not isinstance(leases, Iterable):
        raise RequestError(f"expected a list of leases, got {leases!r}")
    held = list(leases)
    for lease in held:
        if not isinstance(lease, Lease):
            raise RequestError(f"expected a Lease that claim() returned, got {lease!r}")
    return held


def settle(
    layout: CrawlLayout,
    pairs: Sequence[tuple[Lease, Verdict]],
    clock: Callable[[], float],
    overflow: Overflow | None,
    losses: Callable[[], int],
) -> Flow[Settlement]:
    """End leases. Links are stored before the page they were found on is completed.

    If a shard lost writes meanwhile (then *losses* grows), all links are offered again, also those that were known to be in
    the frontier. A shard that lost links of a page does not complete it until they are stored again.

    Raises `PartlyUnavailable` with the leases that did not end because their shard, or that of a link, cannot be reached.
    """
    outcome, unreached, before = Settlement(), UnreachableLeases(), losses()
    noted: set[int] = set()
    pairs = left = _first_verdicts(pairs, outcome)
    outcome.links, full = yield from store_links(layout, pairs, unreached)
    left = yield from _make_room(layout, unreached.without(left), full, overflow, outcome)
    for _ in range(MOST_LOSSES):
        if losses() != before:
            before = losses()
            full = yield from _offer_all_again(layout, pairs, unreached)
            left = yield from _make_room(layout, unreached.without(left), full, overflow, outcome)
        left = yield from _end(layout, left, clock, outcome, unreached, noted)
        if not left:
            if noted:
                yield from report_all(layout, noted)
            return unreached.check(outcome, len(pairs))
    raise StoreUnavailable("the server has lost writes that it had acknowledged, several times in a row")


def _first_verdicts(pairs: Sequence[tuple[Lease, Verdict]], outcome: Settlement) -> list[tuple[Lease, Verdict]]:
    """Return the first verdict on each lease. A lease with a second verdict is added to the lost ones."""
    if len({lease.wire_token for lease, _ in pairs}) == len(pairs):
        return list(pairs)
    first: dict[Lease, Verdict] = {}
    for lease, verdict in pairs:
        if lease in first:
            outcome.lost.append(lease)
        else:
            first[lease] = verdict
    return list(first.items())


def _offer_all_again(
    layout: CrawlLayout, pairs: Sequence[tuple[Lease, Verdict]], unreached: UnreachableLeases
) -> Flow[list[tuple[Lease, str | Request]]]:
    """Offer all links again, then those that were left out as known. Returns those that did not fit."""
    _, full = yield from store_links(layout, pairs, unreached)  # as before: dont_filter links are known by their name
    known = [(lease, Complete(verdict.known)) for lease, verdict in pairs if isinstance(verdict, Complete)]
    _, more = yield from store_links(layout, known, unreached)
    return full + more


def _make_room(
    layout: CrawlLayout,
    pairs: list[tuple[Lease, Verdict]],
    full: Sequence[tuple[Lease, str | Request]],
    overflow: Overflow | None,
    outcome: Settlement,
) -> Flow[list[tuple[Lease, Verdict]]]:
    """Put links that did not fit into the overflow; without one, put their pages back."""
    if full and overflow:
        yield from spill(layout, overflow, [_as_request(link, lease) for lease, link in full], outcome.links)
    elif full:
        return _postpone(pairs, {lease for lease, _ in full}, outcome)
    return pairs


def _as_request(link: object, parent: Lease) -> Request:
    request = link if isinstance(link, Request) else Request(str(link))
    return request.found_on(parent.request)


def _postpone(
    pairs: Sequence[tuple[Lease, Verdict]], crowded: set[Lease], outcome: Settlement
) -> list[tuple[Lease, Verdict]]:
    """Put pages back whose links did not fit, rather than complete them and lose the links."""
    before = set(outcome.postponed)
    outcome.postponed += [lease for lease, _ in pairs if lease in crowded and lease not in before]
    return [(lease, Postpone(FULL_AGAIN_AFTER) if lease in crowded else verdict) for lease, verdict in pairs]


def _end(
    layout: CrawlLayout,
    pairs: Sequence[tuple[Lease, Verdict]],
    clock: Callable[[], float],
    outcome: Settlement,
    unreached: UnreachableLeases,
    noted: set[int],
) -> Flow[list[tuple[Lease, Verdict]]]:
    """Settle on all shards. Returns the pairs whose shard has lost writes. Shards with notes for groups are added to *noted*."""
    left: list[tuple[Lease, Verdict]] = []
    for wave in _lease_waves(pairs):
        replies = yield from ask_each(settle_command(layout, shard, batch, clock()) for shard, batch in wave)
        for (shard, batch), ended in zip(wave, replies, strict=True):
            if isinstance(ended, StoreUnavailable):
                unreached.add(ended, (lease for lease, _ in batch))
            elif ended is None:
                left += batch
            else:
                if ended.lost:
                    outcome.lost += [lease for lease, _ in batch if lease.wire_token in ended.lost]
                outcome.dropped_letters += ended.dropped_letters
                if ended.noted:
                    noted.add(shard)
    return left


def _lease_waves(
    pairs: Sequence[tuple[Lease, Verdict]],
) -> list[list[tuple[int, list[tuple[Lease, Verdict]]]]]:
    by_shard: dict[int, list[tuple[Lease, Verdict]]] = {}
    for pair in pairs:
        by_shard.setdefault(pair[0].shard, []).append(pair)
    most = max((len(batch) for batch in by_shard.values()), default=0)
    return [
        [(shard, batch[i : i + MAX_BATCH]) for shard, batch in by_shard.items() if len(batch) > i]
        for i in range(0, most, MAX_BATCH)
    ]


def store_links(
    layout: CrawlLayout, pairs: Sequence[tuple[Lease, Verdict]], unreached: UnreachableLeases
) -> Flow[tuple[Admissions, list[tuple[Lease, str | Request]]]]:
    """Offer all links of all pages. Returns the admissions, and the links that did not fit with their pages.

    A link that several pages have is offered once. Only if it is refused for the first page, which may be lost or too deep, is it
    offered for the others: a page is not completed before its links are stored. Pages with a link whose shard is out of reach are
    added to *unreached*; such a link counts as refused, without a reason.
    """
    found = _PageLinks(pairs)
    if not found.finders:
        return Admissions(), []
    firsts = [position for position in range(len(found.finders)) if position not in found.twin_of]
    answers = yield from _offer_links(layout, found, firsts, unreached)
    refused = {refusal.position for refusal in answers.refusals}
    again = [position for position, first in found.twin_of.items() if first in refused]
    for position, first in found.twin_of.items():
        answers[position] = Admission.SEEN if answers[first] is Admission.ADDED else answers[first]
    if again:
        more = yield from _offer_links(layout, found, again, unreached)
        answers.refusals += more.refusals
        for position in again:
            answers[position] = more[position]
    return answers, [found.finders[i] for i, answer in enumerate(answers) if answer is Admission.FULL]


def _offer_links(
    layout: CrawlLayout, found: _PageLinks, positions: Sequence[int], unreached: UnreachableLeases
) -> Flow[Admissions]:
    """Offer the links at these positions. The result has a place for every link."""

    def miss(error: StoreUnavailable, offers: Sequence[Offer]) -> None:
        missed = {offer.position for offer in offers}
        missed |= {position for position, first in found.twin_of.items() if first in missed}
        unreached.add(error, (found.finders[position][0] for position in missed))

    offers, refusals = found.offers(layout, positions)
    answered: list[tuple[Sequence[Offer], str]] = []
    for wave in _link_waves(layout, found, offers):
        answered += yield from send_wave(layout, wave, miss)
    return to_admissions(answered, refusals, len(found.finders))


class _PageLinks:
    """The links of a batch of pages: each is offered once, for the first page that has it."""

    def __init__(self, pairs: Sequence[tuple[Lease, Verdict]]) -> None:
        self.finders: list[tuple[Lease, str | Request]] = []
        """Every link with its page, in order."""
        self.twin_of: dict[int, int] = {}
        """Position of a link that an earlier page also has -> position of the link on that page."""
        firsts: dict[tuple[str | int, int], int] = {}
        for lease, verdict in pairs:
            for link in verdict.links if isinstance(verdict, Complete) else ():
                here, identity = len(self.finders), _identity(link)
                first = here if identity is None else firsts.setdefault((identity, lease.request.depth), here)
                if first != here:
                    self.twin_of[here] = first
                self.finders.append((lease, link))

    def offers(self, layout: CrawlLayout, positions: Iterable[int]) -> tuple[list[Offer], list[Refusal]]:
        """Return offers for the links at these positions."""
        offers: list[Offer] = []
        refusals: list[Refusal] = []
        for position in positions:
            lease, link = self.finders[position]
            good, bad = make_offers(layout, (link,), lease, position)
            offers += good
            refusals += bad
        return offers, refusals


def _identity(link: str | Request) -> str | int | None:
    """Return a key that is equal for equal links, without parsing them; workers pass the same `Request` for the same link.

    None for a request that is stored as often as it is found.
    """
    if isinstance(link, str):
        return link
    return id(link) if isinstance(link, Request) and not link.dont_filter else None


def _is_unfiltered(offer: Offer) -> bool:
    return isinstance(offer.item, Request) and offer.item.dont_filter


def _link_waves(layout: CrawlLayout, found: _PageLinks, offers: Sequence[Offer]) -> list[Wave]:
    """Split links into batches. Those with `dont_filter` go page by page, each under a name that depends only on the page.

    So they are not stored twice when their page is settled again, with whatever other pages.
    """
    waves: list[Wave] = [
        [(keys, batch, None) for keys, batch in wave]
        for wave in enqueue.waves(layout, [offer for offer in offers if not _is_unfiltered(offer)])
    ]
    pages: dict[tuple[Lease, int], list[Offer]] = {}
    for offer in offers:
        if _is_unfiltered(offer):
            pages.setdefault((found.finders[offer.position][0], offer.shard), []).append(offer)
    named = [
        (layout.shards[shard], batch[i : i + MAX_BATCH], _name_of(lease, i, batch))
        for (lease, shard), batch in pages.items()
        for i in range(0, len(batch), MAX_BATCH)
    ]
    return waves + [named[i : i + MAX_BATCH] for i in range(0, len(named), MAX_BATCH)]


def _name_of(lease: Lease, start: int, offers: Sequence[Offer]) -> tuple[str, str]:
    name = blake2b(digest_size=12)
    name.update(f"{lease.shard} {lease.wire_token} {start} ".encode())
    for offer in offers:
        name.update(offer.record if isinstance(offer.record, bytes) else offer.record.encode())
    return f"links:{name.hexdigest()}", "1"


R = TypeVar("R")
V = TypeVar("V")


class UnreachableLeases:
    """Collects the leases that a call could not end or extend, because their shards are out of reach."""

    def __init__(self) -> None:
        self.leases: dict[Lease, None] = {}
        self._error: StoreUnavailable | None = None

    def add(self, error: StoreUnavailable, leases: Iterable[Lease]) -> None:
        self._error = self._error or error
        self.leases.update(dict.fromkeys(leases))

    def without(self, pairs: Iterable[tuple[Lease, V]]) -> list[tuple[Lease, V]]:
        """Return the pairs whose lease was reached so far."""
        return [pair for pair in pairs if pair[0] not in self.leases] if self.leases else list(pairs)

    def check(self, result: R, everything: int) -> R:
        """Return the result, or raise `PartlyUnavailable` with it if some of the leases were not reached.

        If none of *everything* was reached on a server with one node, raise the error itself.
        """
        if self._error is None:
            return result
        if len(self.leases) == everything and not self._error.one_node:
            raise self._error
        raise PartlyUnavailable(str(self._error), tuple(self.leases), result)


class ShardSettlement(NamedTuple):
    """The reply of a shard: the tokens that were not held, and how many dead letters it dropped."""

    lost: set[str]
    dropped_letters: int = 0
    noted: bool = False
    """Whether calls have ended for which groups wait."""


def settle_command(
    layout: CrawlLayout, shard: int, pairs: Sequence[tuple[Lease, Verdict]], now: float
) -> Command[ShardSettlement | None]:
    """End leases of one shard.

    Returns None if the shard has lost writes that it had acknowledged to this client; then nothing was changed.
    """
    completed: list[str] = []
    others: list[Arg] = []
    for lease, verdict in pairs:
        if not isinstance(verdict, Complete):
            others += (lease.wire_token, *_ending(layout, lease, verdict, now))
        elif verdict.next_visit is not None:
            others += (lease.wire_token, *_revisit(lease, verdict.next_visit))
        elif verdict.result is UNSET:
            completed.append(lease.wire_token)
        else:
            others += (lease.wire_token, *_completion(layout, lease, verdict))
    args = [len(completed), *completed, *others]
    return Command(load("settle"), (layout.shards[shard].ledger,), args, _unless_lost, loss_check=_SETTLED)


def _completion(layout: CrawlLayout, lease: Lease, verdict: Complete) -> tuple[Arg, ...]:
    name, room = result_id(layout, lease.request), memory_of_shard(layout)
    return "complete", keep_ms(verdict.keep), name, room, encode_result(verdict.result)


def _revisit(lease: Lease, next_visit: NextVisit) -> tuple[Arg, ...]:
    is_same = next_visit.visit is None and not lease.history and lease.created is None
    record = b"" if is_same else record_of_visit(lease.request, next_visit)
    return "revisit", max(0, round(next_visit.after * 1000)), "", "", record


def record_of_visit(request: Request, next_visit: NextVisit) -> bytes:
    """Return the record of a request for its next visit, without earlier failures; "" keeps the stored one, if it would be too large.

    It has no time: the request waits from when it is due.
    """
    if next_visit.visit is not None:
        request = structs.replace(request, visit=next_visit.visit, not_before=None)
    try:
        record = codec.encode(request, codec.address_of(request))
    except RequestError:
        return b""
    return codec.stored(codec.without_slash(record), None)


def _ending(layout: CrawlLayout, lease: Lease, verdict: Verdict, now: float) -> tuple[Arg, ...]:
    if isinstance(verdict, RetryIn):
        verb = "block" if verdict.block_host else "slow" if verdict.slow_host else "retry"
        after = max(0, round(verdict.after * 1000))
        return verb, after, "", "", _noted(lease, verdict, now)
    if isinstance(verdict, Bury):
        reason, status = one_line(verdict.reason), verdict.status
        record = _noted(lease, verdict, now)
        return "bury", result_id(layout, lease.request), reason, "" if status is None else status, record
    if isinstance(verdict, Strike):
        if not verdict.noted:
            return "strike", "", one_line(verdict.reason), "", b""
        record = _noted(lease, verdict, now)
        return "strike", result_id(layout, lease.request), one_line(verdict.reason), "", record
    if isinstance(verdict, Suspect):
        return "suspect", "", "crashed", "", ""
    assert isinstance(verdict, Release)
    return "postpone" if isinstance(verdict, Postpone) else "release", max(0, round(verdict.after * 1000)), "", "", ""


def _noted(lease: Lease, verdict: RetryIn | Bury | Strike, now: float) -> bytes:
    return with_failed_attempt(lease.request, lease.history, lease.created, verdict, now)


def with_failed_attempt(
    request: Request,
    history: tuple[FailedAttempt, ...],
    created: float | None,
    verdict: RetryIn | Bury | Strike,
    now: float,
) -> bytes:
    """Return the record of a request with one more failed attempt; "" if there is nothing to store, or it does not fit."""
    if not verdict.reason and verdict.status is None:
        return b""
    detail = verdict.detail.encode(errors="replace").decode()
    failed = FailedAttempt(now, one_line(verdict.reason), verdict.status, detail)
    try:
        record = codec.encode(request, codec.address_of(request), (*history, failed))
    except RequestError:
        return b""  # the record is kept: a lease must end even if the failed attempt cannot be recorded
    return codec.stored(codec.without_slash(record), created)


def one_line(text: str) -> str:
    """Return a reason as it is stored: one line, at most 500 characters."""
    return " ".join(str(text).encode(errors="replace").decode().split())[:500]


LOST_WRITES = b"lost writes"
_SETTLED = LossCheck(lost=lambda reply: reply == LOST_WRITES, kept=lambda reply: reply != LOST_WRITES)


def _unless_lost(reply: bytes) -> ShardSettlement | None:
    if reply == LOST_WRITES:
        return None
    ends, noted, _ = reply.partition(b"!")
    tokens, _, dropped = ends.partition(b"+")
    return ShardSettlement(tokens_of(tokens), int(dropped or 0), bool(noted))


def tokens_of(reply: bytes) -> set[str]:
    return set(reply.decode().split())


class Unreadable(NamedTuple):
    """A leased request whose record cannot be read: it is damaged, or a later version has stored it."""

    token: str
    attempt: int
    error: Exception


def set_aside(keys: ShardKeys, unreadable: Sequence[Unreadable]) -> Command[ShardSettlement | None]:
    """Postpone requests whose records could not be read: another worker may be able to.

    After `MOST_READS` attempts they are buried, with their records as they are.
    """
    args: list[Arg] = [0]
    for token, attempt, error in unreadable:
        if attempt >= MOST_READS:
            args += (token, "bury", 0, one_line(f"its record cannot be read: {error}"), "", "")
        else:
            args += (token, "retry", round(READ_AGAIN_AFTER * 1000), "", "", "")
    return Command(load("settle"), (keys.ledger,), args, _unless_lost)


def extend(layout: CrawlLayout, leases: Sequence[Lease], lease_ms: int) -> Flow[tuple[float, list[Lease]]]:
    """Extend leases. Returns their new expiry, and the leases that are lost."""
    batches = token_batches(leases)
    answers = yield from ask_each(extend_command(layout.shards[shard], tokens, lease_ms) for shard, tokens in batches)
    until = max((answer[0] for answer in answers if isinstance(answer, tuple)), default=0.0)
    return until, _lost_of(leases, batches, [answer[1] if isinstance(answer, tuple) else answer for answer in answers])


def extend_command(keys: ShardKeys, tokens: Sequence[str], lease_ms: int) -> Command[tuple[float, set[str]]]:
    def decode(reply: list[bytes]) -> tuple[float, set[str]]:
        return int(reply[0]) / 1000, tokens_of(reply[1])

    return Command(load("extend"), (keys.leases,), (lease_ms, *tokens), decode)


def vacate(layout: CrawlLayout, leases: Sequence[Lease]) -> Flow[list[Lease]]:
    """Free the places of hosts whose pages are downloaded. Returns the leases that are lost."""
    batches = token_batches(leases)
    answers = yield from ask_each(vacate_command(layout.shards[shard], tokens) for shard, tokens in batches)
    return _lost_of(leases, batches, answers)


def vacate_command(keys: ShardKeys, tokens: Sequence[str]) -> Command[set[str]]:
    return Command(load("vacate"), (keys.ledger,), tokens, tokens_of)


def hand_over(layout: CrawlLayout, pairs: Sequence[tuple[Lease, Lease]]) -> Flow[None]:
    """Let the first lease of each pair hand over its place to the second, in this order. Both are of the same host."""
    by_shard: dict[int, list[str]] = {}
    for old, new in pairs:
        by_shard.setdefault(old.shard, []).extend((old.wire_token, new.wire_token))
    most = MAX_BATCH // 2 * 2
    for shard, tokens in by_shard.items():
        for i in range(0, len(tokens), most):
            yield from ask(hand_over_command(layout.shards[shard], tokens[i : i + most]))


def hand_over_command(keys: ShardKeys, tokens: Sequence[str]) -> Command[set[str]]:
    return Command(load("hand_over"), (keys.ledger,), tokens, tokens_of)


TokenBatches = list[tuple[int, list[str]]]
"""A shard, and tokens of its leases."""


def token_batches(leases: Sequence[Lease]) -> TokenBatches:
    by_shard: dict[int, list[str]] = {}
    for lease in leases:
        by_shard.setdefault(lease.shard, []).append(lease.wire_token)
    return [
        (shard, tokens[i : i + MAX_BATCH])
        for shard, tokens in by_shard.items()
        for i in range(0, len(tokens), MAX_BATCH)
    ]


def _lost_of(
    leases: Sequence[Lease], batches: TokenBatches, answers: Sequence[set[str] | StoreUnavailable]
) -> list[Lease]:
    """Return the leases that are lost; raise `PartlyUnavailable` with them if some shards are out of reach."""
    lost: set[tuple[int, str]] = set()
    unreached = UnreachableLeases()
    for (shard, tokens), answer in zip(batches, answers, strict=True):
        if isinstance(answer, StoreUnavailable):
            mine = {(shard, token) for token in tokens}
            unreached.add(answer, (lease for lease in leases if (lease.shard, lease.wire_token) in mine))
        else:
            lost |= {(shard, token) for token in answer}
    return unreached.check([lease for lease in leases if (lease.shard, lease.wire_token) in lost], len(leases))
