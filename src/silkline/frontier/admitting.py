"""Flows that offer requests to the shards: those of a caller, and the links of pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from silkline.core.lease import Admission, Admissions, Lease, Refusal
from silkline.core.request import Request
from silkline.core.verdict import Complete, Verdict
from silkline.frontier import commands
from silkline.frontier.commands import MAX_BATCH, Command, Offer
from silkline.frontier.effects import Flow, ask_all, stream
from silkline.frontier.keys import ShardKeys
from silkline.frontier.offers import identity_member, make_offers
from silkline.frontier.plan import Plan

STREAM_BATCH = 250
"""Requests per command when many are enqueued: small enough that client and server work at the same time."""

_ANSWERS = {"a": Admission.ADDED, "s": Admission.SEEN, "f": Admission.FULL}
_REASONS = {
    "b": "the host's page budget is spent",
    "c": "the crawl is cancelled",
    "l": "the page it was found on is no longer leased to this worker",
}


def enqueue(plan: Plan, items: Sequence[object]) -> Flow[Admissions]:
    if plan.settings.shards == 1 and len(items) > STREAM_BATCH:
        return (yield from _stream_offers(plan, items))
    offers, refusals = make_offers(plan, items)
    return (yield from send_offers(plan, offers, refusals))


def _stream_offers(plan: Plan, items: Sequence[object]) -> Flow[Admissions]:
    """Many requests for the only shard: some are stored while others are still being read."""
    refusals: list[Refusal] = []
    batches: list[list[Offer]] = []

    def make() -> Iterator[Command[tuple[str, int]]]:
        for start in range(0, len(items), STREAM_BATCH):
            offers, refused = make_offers(plan, items[start : start + STREAM_BATCH], start=start)
            refusals.extend(refused)
            batches.append(offers)
            yield commands.enqueue(plan.shards[0], offers, buckets=plan.buckets.get(0, 0))

    answers = yield from stream(make())
    letters = [_take_note(plan, 0, *answer) for answer in answers]
    return _admissions(zip(batches, letters, strict=True), refusals, len(items))


def send_offers(
    plan: Plan,
    offers: list[Offer],
    refusals: list[Refusal],
    *,
    call: tuple[str, str] | None = None,
    count: int | None = None,
) -> Flow[Admissions]:
    """Send offers to their shards. Of *count* requests in all; by default there are no others.

    Under the name of a *call* they are taken in once, however often they are sent.
    """
    answered: list[tuple[Sequence[Offer], str]] = []
    for number, wave in enumerate(_waves(plan, offers)):
        name = (f"{call[0]}:{number}", call[1]) if call else None
        answers = yield from ask_all(
            commands.enqueue(keys, batch, name, plan.buckets.get(keys.number, 0)) for keys, batch in wave
        )
        for (keys, batch), answer in zip(wave, answers, strict=True):
            answered.append((batch, _take_note(plan, keys.number, *answer)))
    return _admissions(answered, refusals, len(offers) + len(refusals) if count is None else count)


def _take_note(plan: Plan, shard: int, letters: str, buckets: int) -> str:
    """Remember how many buckets the seen filter has."""
    if plan.settings.seen.kind == "exact":
        plan.buckets[shard] = buckets
    return letters


def _admissions(answered: Iterable[tuple[Sequence[Offer], str]], refusals: list[Refusal], count: int) -> Admissions:
    """Put the shards' answers and the refusals back into the order of the requests."""
    answers = [Admission.REFUSED] * count
    for batch, letters in answered:
        for offer, letter in zip(batch, letters, strict=True):
            answer = _ANSWERS.get(letter)
            if answer:
                answers[offer.position] = answer
            else:
                refusals.append(Refusal(offer.position, offer.item, _REASONS[letter]))
    return Admissions(answers, sorted(refusals, key=lambda refusal: refusal.position))


def _waves(plan: Plan, offers: Sequence[Offer]) -> list[list[tuple[ShardKeys, Sequence[Offer]]]]:
    """Batches to send: one per shard side by side, and as many waves as the fullest shard needs."""
    if plan.settings.shards == 1:
        keys = plan.shards[0]
        return [[(keys, offers[i : i + MAX_BATCH])] for i in range(0, len(offers), MAX_BATCH)]
    by_shard: dict[int, list[Offer]] = {}
    for offer in offers:
        by_shard.setdefault(offer.shard, []).append(offer)
    most = max((len(batch) for batch in by_shard.values()), default=0)
    return [
        [(plan.shards[shard], batch[i : i + MAX_BATCH]) for shard, batch in by_shard.items() if len(batch) > i]
        for i in range(0, most, MAX_BATCH)
    ]


def mark_seen(plan: Plan, identities: Sequence[bytes]) -> Flow[None]:
    """Mark identities as seen. One does not tell its host, and so not its shard: every shard learns of it."""
    marks = [identity_member(plan, identity) for identity in identities]
    for i in range(0, len(marks), MAX_BATCH):
        yield from ask_all(commands.mark_seen(keys, marks[i : i + MAX_BATCH]) for keys in plan.shards)


class _Found:
    """The links of a batch of pages: each is offered once, for the first page that has it."""

    def __init__(self, pairs: Sequence[tuple[Lease, Verdict]]) -> None:
        self.finders: list[tuple[Lease, str | Request]] = []
        """Every link with its page, in order."""
        self.twin_of: dict[int, int] = {}
        """Of a link that another page had first: its position, and the position of that one."""
        firsts: dict[tuple[str | int, int], int] = {}
        for lease, verdict in pairs:
            for link in verdict.links if isinstance(verdict, Complete) else ():
                here, identity = len(self.finders), _identity(link)
                first = here if identity is None else firsts.setdefault((identity, lease.request.depth), here)
                if first != here:
                    self.twin_of[here] = first
                self.finders.append((lease, link))

    def offers(self, plan: Plan, positions: Iterable[int]) -> tuple[list[Offer], list[Refusal]]:
        """Offers for some of the links; they know their positions among all."""
        offers: list[Offer] = []
        refusals: list[Refusal] = []
        for position in positions:
            lease, link = self.finders[position]
            good, bad = make_offers(plan, (link,), lease, position)
            offers += good
            refusals += bad
        return offers, refusals


def _identity(link: str | Request) -> str | int | None:
    """By which two links are known to be one without a look into them: workers make one request of the same link.

    None for one that is to be crawled as often as it is found.
    """
    if isinstance(link, str):
        return link
    return id(link) if isinstance(link, Request) and not link.dont_filter else None


def _call_of(pairs: Sequence[tuple[Lease, Verdict]], offers: Sequence[Offer]) -> tuple[str, str] | None:
    """A name for links that pass by the seen filter, so that they are not doubled when their pages are settled again."""
    links = [link for _, verdict in pairs if isinstance(verdict, Complete) for link in verdict.links]
    if not any(isinstance(link, Request) and link.dont_filter for link in links):
        return None
    name = blake2b(digest_size=12)
    for lease, _ in pairs:
        name.update(b"%d-%d " % (lease.shard, lease.token))
    for offer in offers:
        name.update(offer.record if isinstance(offer.record, bytes) else offer.record.encode())
    return f"links:{name.hexdigest()}", "1"


def store_links(
    plan: Plan, pairs: Sequence[tuple[Lease, Verdict]]
) -> Flow[tuple[Admissions, list[tuple[Lease, str | Request]]]]:
    """Offer all links of all pages; answers them, and those that found no room with the page they belong to.

    A link that several pages have is offered once. Only if it is refused for the first of them, which may be lost or too
    deep, is it offered for the others: a page is not completed before its links are stored.
    """
    found = _Found(pairs)
    if not found.finders:
        return Admissions(), []
    count = len(found.finders)
    firsts = [position for position in range(count) if position not in found.twin_of]
    offers, refusals = found.offers(plan, firsts)
    answers = yield from send_offers(plan, offers, refusals, call=_call_of(pairs, offers), count=count)
    again = [position for position, first in found.twin_of.items() if answers[first] is Admission.REFUSED]
    for position, first in found.twin_of.items():
        answers[position] = Admission.SEEN if answers[first] is Admission.ADDED else answers[first]
    if again:
        more = yield from send_offers(plan, *found.offers(plan, again), count=count)
        answers.refusals += more.refusals
        for position in again:
            answers[position] = more[position]
    return answers, [found.finders[i] for i, answer in enumerate(answers) if answer is Admission.FULL]
