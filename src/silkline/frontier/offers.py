"""From what a caller hands in to an `Offer` that can be sent, or the reason why it is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable

from silkline.core.errors import RequestError
from silkline.core.lease import Lease, Refusal
from silkline.core.request import Request, check, fingerprint, identity_fingerprint, mark_of
from silkline.core.url import Address, parse
from silkline.frontier import codec
from silkline.frontier.commands import Offer
from silkline.frontier.plan import Plan
from silkline.frontier.seen import member
from silkline.frontier.shards import shard_of


def make_offers(
    plan: Plan, items: Iterable[object], parent: Lease | None = None, start: int = 0
) -> tuple[list[Offer], list[Refusal]]:
    """Offers for the good ones, refusals for the others; each knows its position, counted from *start*."""
    offers: list[Offer] = []
    refusals: list[Refusal] = []
    for position, item in enumerate(items, start):
        try:
            if type(item) is str and parent is None:
                offers.append(_plain_offer(plan, position, item))
            else:
                offers.append(_offer(plan, position, item, parent))
        except RequestError as error:
            refusals.append(Refusal(position, item, str(error)))
    return offers, refusals


def _plain_offer(plan: Plan, position: int, url: str) -> Offer:
    address = parse(url)
    if address.userinfo:
        return _rich_offer(plan, position, Request(url), address, None)
    settings, host = plan.settings, address.host
    seen = member(fingerprint(address, seed=settings.seed), settings.seen.kind)
    shard = shard_of(host, settings.shards) if settings.shards > 1 else 0
    return Offer(position, url, shard, seen, host, "", codec.plain_record(address))


def _offer(plan: Plan, position: int, item: object, parent: Lease | None) -> Offer:
    request = item if isinstance(item, Request) else Request(url=item)  # type: ignore[arg-type]
    address = parse(request.url)
    check(request)
    if parent is not None:
        request = request.found_on(parent.request)
    limit = plan.settings.budget.depth
    if limit is not None and request.depth > limit:
        raise RequestError(f"depth {request.depth} is over the crawl's budget of {limit}")
    return _rich_offer(plan, position, request, address, parent)


def _rich_offer(plan: Plan, position: int, request: Request, address: Address, parent: Lease | None) -> Offer:
    settings = plan.settings
    mark = mark_of(request, address, seed=settings.seed)
    shard = shard_of(address.host, settings.shards)
    options = _options(request, parent if parent is not None and parent.shard == shard else None)
    return Offer(
        position,
        request,
        shard,
        member(mark, settings.seen.kind),
        address.host,
        options,
        codec.encode(request, address),
    )


def identity_member(plan: Plan, identity: bytes) -> str:
    """How the seen filter knows a `Request.identity`."""
    return member(identity_fingerprint(identity, seed=plan.settings.seed), plan.settings.seen.kind)


def _options(request: Request, parent: Lease | None) -> str:
    """See enqueue.lua: priority, due, flags, parent; empty when all are the default."""
    if not request.priority and request.not_before is None and not request.dont_filter and parent is None:
        return ""
    due = 0 if request.not_before is None else math.ceil(request.not_before * 1000)
    return f"{request.priority} {due} {'d' if request.dont_filter else '-'} {parent.token if parent else '-'}"
