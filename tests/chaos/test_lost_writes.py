"""Servers that come back without their last writes: after a restart, or as a replica that was behind."""

from __future__ import annotations

import asyncio
import time

import pytest

from silkline import Budget, Complete, Politeness, Request
from silkline.errors import LeaseLost, StoreUnavailable
from tests.chaos.subject import crawl_all

AT_ONCE = Politeness(delay=0, concurrency=1000)
LINKS = [f"https://b.example/{number}" for number in range(5)]


def after_first(frontier, script, act):
    """Let *act* happen once, between the answer to the first call of *script* and whatever comes next."""
    connection = getattr(frontier, "frontier", frontier)._connection
    call, done = connection._call, []

    def happen(sent):
        if sent.command.script.name == script and not done:
            done.append(sent)
            act()

    async def call_async(sent, **options):
        answer = await call(sent, **options)
        happen(sent)
        return answer

    def call_sync(sent, **options):
        answer = call(sent, **options)
        happen(sent)
        return answer

    connection._call = call_async if asyncio.iscoroutinefunction(call) else call_sync
    return done


def refuse_enqueues(frontier):
    """Enqueues find the server out of reach, until the list that is returned is empty."""
    connection = getattr(frontier, "frontier", frontier)._connection
    send, refuse = connection._send, ["enqueue"]

    async def send_async(sent, **options):
        if sent.command.script.name in refuse:
            raise StoreUnavailable("out of reach")
        return await send(sent, **options)

    def send_sync(sent, **options):
        if sent.command.script.name in refuse:
            raise StoreUnavailable("out of reach")
        return send(sent, **options)

    connection._send = send_async if asyncio.iscoroutinefunction(send) else send_sync
    return refuse


def keep(server, root):
    """The keys of a shard as they are now; what is returned puts them back, and nothing else."""
    with server.client() as client:
        kept = {name: (max(client.pttl(name), 0), client.dump(name)) for name in client.keys(f"{root}:*")}

    def put_back():
        with server.client() as client:
            client.delete(*client.keys(f"{root}:*"))
            for name, (ttl, value) in kept.items():
                client.restore(name, ttl, value)

    return put_back


async def test_a_stale_completion_completes_no_other_page_even_if_the_clock_is_behind(own_server, subject, clock):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, clock=clock, lease=60)
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    server.snapshot()
    [stale] = await frontier.claim(1)
    server.roll_back()
    other = await subject(url=server.url, clock=clock, lease=60)
    await other.enqueue(Request("https://a.example/0", priority=1))
    [first] = await other.claim(1)  # at the same time as before, so the number is the same
    assert first.token == stale.token
    assert first != stale
    with pytest.raises(LeaseLost):
        await frontier.complete(stale)
    assert await frontier.extend([stale]) == [stale]
    assert await frontier.vacate([stale]) == [stale]
    assert (await frontier.admin.stats()).done == 0
    await other.complete(first)
    assert (await frontier.admin.stats()).done == 1


async def test_links_that_the_server_lost_before_their_page_was_completed_are_stored_again(own_server, subject, caplog):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, lease=60)
    await frontier.enqueue("https://a.example/")
    [lease] = await frontier.claim(1)
    server.snapshot()
    rolled_back = after_first(frontier, "enqueue", server.roll_back)
    await frontier.complete(lease, [*LINKS, Request("https://c.example/", dont_filter=True)])
    assert rolled_back
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready) == (1, 6)
    assert stats.losses == 1
    assert abs(stats.lost_at - time.time()) < 60
    assert caplog.text.count("the server lost its last writes") == 1
    assert sorted(await crawl_all(frontier)) == [*LINKS, "https://c.example/"]


async def test_links_that_are_known_are_offered_if_the_server_lost_writes_meanwhile(own_server, subject):
    """As a worker does: it leaves out what it has seen the frontier take."""
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, lease=60)
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    first, second = await frontier.claim(2)
    server.snapshot()
    await frontier.complete(first, LINKS)
    server.roll_back()
    await frontier.settle([(second, Complete(known=LINKS))])
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready, stats.leased) == (1, 5, 1)
    await frontier.complete(first, LINKS)
    assert (await frontier.admin.stats()).ready == 5


async def test_nobody_takes_a_restart_without_a_loss_for_one(own_server, subject):
    server = own_server(appendonly="yes", appendfsync="always")
    frontier = await subject(url=server.url, politeness=AT_ONCE, lease=60)
    await frontier.enqueue([f"https://a.example/{number}" for number in range(4)])
    for lease in await frontier.claim(4):
        server.kill()
        server.start()
        await frontier.complete(lease, LINKS)
    stats = await frontier.admin.stats()
    assert (stats.done, stats.ready, stats.losses, stats.lost_at) == (4, 5, 0, None)


async def test_what_another_shard_lost_is_sent_to_it_again(own_server, subject):
    """The page and its links are on different nodes: the page is done, and then the links are lost."""
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, shards=2, lease=60)
    layout = getattr(frontier, "frontier", frontier).layout
    hosts = [f"h{number}.example" for number in range(20)]
    here = next(host for host in hosts if layout.shard_of(host).number == 0)
    there = next(host for host in hosts if layout.shard_of(host).number == 1)
    links = [f"https://{there}/{number}" for number in range(5)]
    await frontier.enqueue(f"https://{here}/")
    [lease] = await frontier.claim(1)
    put_back = keep(server, layout.shards[1].root)
    await frontier.complete(lease, links)
    put_back()
    assert (await frontier.admin.stats()).ready == 0
    await frontier.claim(1)  # the next word with that shard
    assert sorted(await crawl_all(frontier)) == links
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.losses == 1


async def test_a_producer_sends_again_what_the_server_lost(own_server, subject):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE)
    urls = [f"https://h{number % 7}.example/{number}" for number in range(3000)]
    await frontier.enqueue(urls[:1000])
    server.snapshot()
    await frontier.enqueue(urls[1000:2000])
    server.roll_back()
    await frontier.enqueue(urls[2000:])
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.accepted, stats.losses) == (3000, 3000, 1)


async def test_a_producer_of_many_small_batches_sends_all_of_them_again(own_server, subject):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE)
    urls = [f"https://h{number % 7}.example/{number}" for number in range(1500)]
    server.snapshot()
    for url in urls[1:]:
        await frontier.enqueue(url)
    server.roll_back()
    await frontier.enqueue(urls[0])
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.accepted, stats.losses) == (1500, 1500, 1)


async def test_a_batch_with_requests_that_pass_by_the_filter_is_noticed_when_it_is_lost(own_server, subject):
    """Such a batch has a name that the same enqueue would use again, if it had failed."""
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE)
    await frontier.enqueue("https://a.example/")
    server.snapshot()
    await frontier.enqueue([*LINKS, Request("https://c.example/", dont_filter=True)])
    server.roll_back()
    await frontier.claim(1)
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.leased, stats.losses) == (5, 1, 1)


async def test_what_was_lost_and_finds_no_room_is_sent_again_until_it_does(own_server, subject, caplog, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.calls.FULL_AGAIN_AFTER", 600)
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, capacity=10, lease=60)
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    server.snapshot()
    await frontier.enqueue(LINKS)
    server.roll_back()
    other = await subject(url=server.url, create=False)
    await other.enqueue([f"https://c.example/{number}" for number in range(8)])  # now it is full
    leases = await frontier.claim(1)
    assert caplog.text.count("keep this process running") == 1
    leases += await frontier.claim(9)
    assert len(leases) == 10
    await frontier.settle([(lease, Complete()) for lease in leases])
    assert not await frontier.finished()  # at the latest when nothing else is left
    assert sorted(await crawl_all(frontier)) == LINKS
    stats = await frontier.admin.stats()
    assert (stats.accepted, stats.losses) == (15, 1)


async def test_leases_reach_their_caller_though_what_was_lost_cannot_be_sent_again_yet(own_server, subject):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, lease=60)
    await frontier.enqueue("https://a.example/")
    server.snapshot()
    await frontier.enqueue(LINKS)
    server.roll_back()
    refuse = refuse_enqueues(frontier)
    [lease] = await frontier.claim(1)
    refuse.clear()
    await frontier.complete(lease)
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.done) == (5, 1)


async def test_a_crawl_whose_budget_is_spent_is_finished_though_what_was_lost_finds_no_room(
    own_server, subject, caplog
):
    server = own_server()
    frontier = await subject(url=server.url, politeness=AT_ONCE, capacity=10, budget=Budget(pages=1), lease=60)
    await frontier.enqueue([f"https://a.example/{number}" for number in range(5)])
    server.snapshot()
    await frontier.enqueue(LINKS)
    server.roll_back()
    other = await subject(url=server.url, create=False)
    await other.enqueue([f"https://c.example/{number}" for number in range(8)])
    [lease] = await frontier.claim(1)
    await frontier.complete(lease)
    assert await frontier.finished()
    await frontier.close()
    assert "were not stored again" in caplog.text
