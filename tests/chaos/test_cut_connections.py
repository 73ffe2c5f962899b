"""Connections cut after the server has acted and before the client knows: each verb acts once and answers as if nothing
had happened. And holes in the network, into which calls fall without a sound."""

from __future__ import annotations

import asyncio

import pytest

from silkline import Admission, Bury, Complete, Politeness, Release, Request, RetryIn
from silkline.errors import StoreUnavailable
from silkline.frontier.transport.command import load

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number}.example/" for number in range(8)]

CUTS = pytest.mark.parametrize(("times", "share"), [(1, 0), (3, 0), (1, 0.5)], ids=["once", "thrice", "mid-reply"])


@CUTS
async def test_enqueue_acts_once(subject, proxy, times, share):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    proxy.cut_replies(times, share)
    again = [Request(url, dont_filter=True) for url in URLS]
    assert await frontier.enqueue([*URLS, *again, URLS[0]]) == [Admission.ADDED] * 16 + [Admission.SEEN]
    assert proxy.cuts == times
    assert (await frontier.admin.stats()).accepted == 16


@CUTS
async def test_a_long_enqueue_acts_once(subject, proxy, times, share):
    """Long ones are streamed: many batches are under way when the connection breaks."""
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    await frontier.enqueue("https://first.example/")
    requests = [Request(f"https://h{number % 50}.example/{number}", dont_filter=True) for number in range(12_000)]
    proxy.cut_replies(times, share)
    assert await frontier.enqueue(requests) == [Admission.ADDED] * 12_000
    assert proxy.cuts == times
    stats = await frontier.admin.stats()
    assert stats.accepted == stats.ready == 12_001


@CUTS
async def test_claim_acts_once(subject, proxy, times, share):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    await frontier.enqueue(URLS)
    proxy.cut_replies(times, share)
    leases = await frontier.claim(5)
    assert proxy.cuts == times
    assert [lease.url for lease in leases] == URLS[:5]
    stats = await frontier.admin.stats()
    assert (stats.leased, stats.ready, stats.rescued) == (5, 3, 0)
    for lease in leases:
        assert (await frontier.admin.explain(lease.url)).lease.expires == lease.expires


async def test_a_packet_that_comes_late_is_known_though_others_were_sent_since(subject, proxy):
    """The call was sent again and answered; what the network kept of it arrives after the next calls."""
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    await frontier.enqueue(URLS)
    await frontier.claim(1)  # the script is known to the server now
    proxy.hold_scripts(1)
    leases = await frontier.claim(2) + await frontier.claim(2)
    assert len(leases) == 4
    assert proxy.deliver() == 1
    assert (await frontier.admin.stats()).leased == 5


async def test_links_that_pass_by_the_filter_are_stored_once_when_their_page_is_settled_again(subject, proxy):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    await frontier.enqueue(URLS[:2])
    one, two = await frontier.claim(2)
    await frontier.complete(two, ["https://x.example/"])  # the scripts are known to the server now
    verdicts = [(one, Complete([Request("https://x.example/", dont_filter=True)] * 2))]
    proxy.hold_scripts(1_000_000, load("settle").sha)
    with pytest.raises(StoreUnavailable):
        await frontier.settle(verdicts)
    proxy.hold_scripts(0)
    assert (await frontier.settle(verdicts)).links == [Admission.ADDED] * 2
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready, stats.leased) == (2, 3, 0)


@CUTS
async def test_settle_acts_once(subject, proxy, times, share):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    await frontier.enqueue(URLS)
    first, second, third, fourth, *rest = await frontier.claim(8)
    links = [Request("https://x.example/", dont_filter=True)] * 2
    proxy.cut_replies(times, share)
    verdicts = [
        (first, Complete(links)),
        (second, RetryIn(30, "an error")),
        (third, Bury("no use")),
        (fourth, Release()),
    ]
    outcome = await frontier.settle(verdicts)
    assert proxy.cuts == times
    assert not outcome.lost
    assert outcome.links == [Admission.ADDED] * 2
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert (stats.done, stats.delayed, stats.dead, stats.ready, stats.leased) == (1, 1, 1, 3, 4)
    proxy.cut_replies(times, share)
    assert await frontier.extend(rest) == []


@CUTS
async def test_revive_purge_and_forget_act_once(subject, proxy, times, share):
    frontier = await subject(url=proxy.url, politeness=AT_ONCE)
    await frontier.enqueue(URLS)
    await frontier.settle([(lease, Bury("no use")) for lease in await frontier.claim(8)])
    proxy.cut_replies(times, share)
    assert await frontier.admin.purge(host="h0.example") == 1
    proxy.cut_replies(times, share)
    assert await frontier.admin.revive() == 7
    proxy.cut_replies(times, share)
    assert await frontier.forget(URLS) == 8
    assert proxy.cuts == 3 * times
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.dead, stats.discarded, stats.seen) == (7, 0, 1, 0)
    assert stats.conserved


async def test_calls_into_a_hole_end_and_the_next_ones_work(subject, proxy):
    frontier = await subject(url=f"{proxy.url}?socket_timeout=0.2", politeness=AT_ONCE)
    await frontier.enqueue(URLS)
    [lease] = await frontier.claim(1)
    proxy.swallow()
    verbs = [
        frontier.enqueue("https://x.example/"),
        frontier.claim(1),
        frontier.complete(lease),
        frontier.admin.stats(),
    ]
    for answer in await asyncio.wait_for(asyncio.gather(*verbs, return_exceptions=True), 100):
        assert isinstance(answer, StoreUnavailable), repr(answer)
    proxy.swallow(swallow=False)
    proxy.hang_up()
    assert await frontier.enqueue("https://y.example/") == [Admission.ADDED]
    assert (await frontier.admin.stats()).conserved


async def test_a_claim_that_starts_to_wait_in_a_hole_ends(subject, proxy, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.notifier.CONFIRM_SECONDS", 0.5)
    monkeypatch.setattr("silkline.frontier.transport.notifier.READ_SECONDS", 0.2)
    monkeypatch.setattr("silkline.frontier.transport.sync.notifier.READ_SECONDS", 0.2)
    frontier = await subject(url=f"{proxy.url}?socket_timeout=0.2", politeness=AT_ONCE)
    proxy.swallow()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(frontier.claim(1, wait=0.1), 100)
    proxy.swallow(swallow=False)
    monkeypatch.undo()  # from now on it may take its time
    await frontier.enqueue(URLS[0])
    assert len(await frontier.claim(1, wait=60)) == 1
