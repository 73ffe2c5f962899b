"""Every verb once on every kind of server. A cluster refuses scripts that reach into another slot, so this proves there
are none."""

from __future__ import annotations

import time

from silkline import Admission, Budget, Bury, Complete, Frontier, Politeness, Release, Request, RetryIn
from silkline.frontier.sync_copy import open_sync_copy
from silkline.frontier.verbs.history import Counts
from silkline.frontier.verbs.hosts import StatusCounts
from tests.chaos.subject import crawl_all

AT_ONCE = Politeness(delay=0, concurrency=1000)
URLS = [f"https://h{number}.example/{number}" for number in range(30)]


async def test_every_verb(any_server, crawl, tmp_path):
    settings = {"politeness": AT_ONCE, "shards": 5, "budget": Budget(pages=1000, depth=9)}
    frontier = await Frontier.open(any_server.url, crawl=crawl, overflow=tmp_path / "overflow", lease=30, **settings)
    async with frontier:
        await every_verb(frontier)


async def check_marks(frontier):
    await frontier.mark_seen([b"an identity"])
    assert await frontier.enqueue(Request("https://h1.example/", identity=b"an identity")) == [Admission.SEEN]


async def every_verb(frontier):
    await check_marks(frontier)
    assert await frontier.enqueue(URLS) == [Admission.ADDED] * 30
    rich = Request("https://h1.example/form", "POST", {"A": "b"}, b"body", {"n": 1}, priority=5, handler="form")
    later = Request("https://h2.example/later", not_before=time.time() + 3600)
    assert await frontier.enqueue([rich, later, URLS[0]]) == [Admission.ADDED] * 2 + [Admission.SEEN]
    leases = []
    while len(leases) < 31:
        leases += await frontier.claim(40, wait=1)
    [form] = [lease for lease in leases if lease.url == rich.url]
    assert form.request == rich
    assert await frontier.extend(leases) == []
    links = [f"https://n{number}.example/" for number in range(10)]
    verdicts = [
        Complete(links),
        RetryIn(0.001, "an error", 500),
        RetryIn(0, "an error", 429),
        Bury("no use", 404),
        Release(),
    ]
    outcome = await frontier.settle(list(zip(leases[:5], verdicts, strict=True)))
    assert not outcome.lost
    assert outcome.links == [Admission.ADDED] * 10
    assert (await frontier.settle([(leases[0], Complete())])).lost == [leases[0]]
    [letter] = await frontier.admin.dead(reason="no USE", status=404)
    assert letter.request.url == leases[3].url
    assert (await frontier.admin.explain(leases[3].url)).state == "dead"
    assert await frontier.admin.revive(id=letter.id) == 1
    await frontier.bury(leases[5], "no use")
    assert await frontier.admin.purge() == 1
    assert await frontier.forget(leases[5].url) == 1
    assert await frontier.enqueue(leases[5].url) == [Admission.ADDED]
    await frontier.retry(leases[6], after=0.001, block_host=True)
    state = await frontier.admin.set_host("h3.example", delay=0.5, concurrency=3, burst=2)
    assert (state.delay, state.concurrency, state.burst) == (0.5, 3, 2)
    await frontier.admin.set_host("h3.example", delay=None, concurrency=None, burst=None, block_until=None)
    await frontier.retry(leases[7], after=0.001, slow_host=True)
    assert (await frontier.robots("https://h3.example/x")).state == "yours"
    assert await frontier.keep_robots("https://h3.example/", b"User-agent: *\nDisallow: /x", crawl_delay=0.5)
    assert (await frontier.robots("https://h3.example/y")).text == b"User-agent: *\nDisallow: /x"
    await roster_and_inbox(frontier)
    await frontier.admin.pause("h4.example")
    await frontier.admin.resume("h4.example")
    await frontier.admin.pause()
    assert await frontier.claim(5) == []
    await frontier.admin.resume()
    assert len(await frontier.admin.hosts(limit=1000)) > 10
    for state in ("leased", "ready", "delayed"):
        url = {"leased": leases[10].url, "ready": links[0], "delayed": later.url}[state]
        assert (await frontier.admin.explain(url)).state == state
    for lease in leases[8:]:
        await frontier.complete(lease)
    assert await frontier.admin.cancel("h2.example") >= 1
    await crawl_all(frontier)
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert stats.accepted == stats.done + stats.discarded
    assert await frontier.admin.cancel() == 0
    assert await frontier.enqueue("https://h1.example/x") == [Admission.REFUSED]


async def roster_and_inbox(frontier):
    assert await frontier.internal.join("one", info={"pid": 1}) == 0
    assert await frontier.internal.join("two") == 1
    assert {worker.name for worker in await frontier.admin.workers()} == {"one", "two"}
    assert await frontier.admin.order("one", "quiet")
    assert await frontier.internal.ordered("one") == "quiet"
    assert await frontier.internal.leave("one") == 1
    await frontier.internal.add_history(Counts(pages=3))
    assert sum(point.pages for point in await frontier.admin.history(since=60)) == 3
    await frontier.internal.add_answers({"told.example": StatusCounts(status_2xx=3, last=200)})
    assert (await frontier.admin.hosts("told.example"))[0].answers.total == 3
    assert (await frontier.admin.demand()).open_hosts >= 0
    assert (await frontier.internal.memory()).used > 0
    inbox = frontier.inbox("silkline:messages")
    assert await inbox.take(5) == []
    assert await inbox.waiting() == 0
    assert await frontier.internal.add_dead([(Request("https://bad.example/"), "not JSON")])
    assert await frontier.admin.purge(host="bad.example") == 1


async def test_links_that_find_no_room_wait_on_disk(any_server, crawl, tmp_path):
    settings = {"politeness": AT_ONCE, "shards": 3, "capacity": 6}
    async with await Frontier.open(any_server.url, crawl=crawl, overflow=tmp_path / "o", **settings) as frontier:
        await frontier.enqueue(URLS[0])
        done = await crawl_all(frontier, {URLS[0]: URLS[1:12]})
        assert sorted(done) == sorted(URLS[:12])


async def test_a_copy_for_another_thread_sends_scripts_that_the_server_knows(any_server, crawl):
    """It asks the server for nothing: the version is that which the frontier has read."""
    async with await Frontier.open(any_server.url, crawl=crawl, politeness=AT_ONCE) as frontier:
        await frontier.enqueue(URLS[0])
        [lease] = await frontier.claim()
        with any_server.client() as client:
            client.script_flush()
        with open_sync_copy(frontier, lease=60, client_name="copy") as copy:
            assert copy.extend([lease]) == []
