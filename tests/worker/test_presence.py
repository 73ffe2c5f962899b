"""A worker tells that it is there and what it does, and does what it is ordered."""

import asyncio
import logging

import pytest

from silkline import Frontier, Worker
from silkline.errors import DamagedCrawl, SilklineError, SinkUnavailable, StoreUnavailable
from silkline.frontier.verbs.history import HISTOGRAM
from silkline.runtime import presence
from silkline.worker import worker as worker_module
from silkline.worker.options import WorkerOptions
from tests.worker.conftest import OPTIONS, ListSink, until


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(presence, "EVERY", 0.05)


@pytest.fixture
async def started(valkey, new_crawl):
    """Starts a worker on a crawl of some pages that are slow until they are let go."""
    tasks, frontiers = [], []

    async def start(site, *, pages=20, options=OPTIONS, sinks=(), url=valkey.url, forever=False):
        crawl = new_crawl([site.at(f"/{number}") for number in range(pages)])

        @crawl.handler
        def parse(page):
            yield {"url": page.url}

        frontier = await Frontier.open(url, crawl=crawl.name, **crawl.arguments)
        frontiers.append(frontier)
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, sinks=list(sinks), options=options, forever=forever)
        tasks.append(asyncio.create_task(worker.run()))
        return worker, frontier, tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for frontier in frontiers:
        await frontier.close()


async def told(frontier):
    return (await frontier.admin.workers())[0].info


async def eventually(holds):
    while not await holds():  # noqa: ASYNC110 - somebody else changes it
        await asyncio.sleep(0.02)


async def test_it_is_in_the_roster_with_what_it_has_in_progress_until_it_leaves(serve, started):
    let_go = asyncio.Event()

    async def slow(_visit):
        await let_go.wait()
        return "x"

    site = await serve({"/robots.txt": "User-agent: *", "/*": slow}, latency=0.3)
    worker, frontier, task = await started(site, pages=12, options=WorkerOptions(concurrency=4))

    async def busy():
        workers = await frontier.admin.workers()
        return bool(workers) and workers[0].info["in_flight"] == 4 and len(workers[0].info["urls"]) == 4

    await asyncio.wait_for(eventually(busy), 100)
    info = await told(frontier)
    let_go.set()
    assert info["concurrency"] == 4
    assert info["memory"] > 10_000_000
    assert info["state"] == "working"
    assert info["trouble"] == ""
    assert all(url.startswith(site.url) for url in info["urls"])
    await asyncio.wait_for(task, 100)
    assert await frontier.admin.workers() == []
    points = await frontier.admin.history()
    assert sum(point.pages for point in points) == sum(point.ended for point in points) == 12
    assert sum(point.status_2xx for point in points) == sum(point.fetched for point in points) == 12
    assert sum(point.bytes for point in points) == worker.counters.bytes
    assert sum(point.busy_ms for point in points) >= 12 * 300
    assert sum(getattr(point, name) for point in points for name in HISTOGRAM) == 12
    assert sum(point.up_to_100ms + point.up_to_250ms for point in points) == 0
    last = [point.levels for point in points if point.levels][-1]
    assert (last.done, last.depth) == (12, 0)
    assert last.server_memory > 100_000


async def test_ordered_to_be_quiet_it_claims_nothing_more_and_stays_until_it_may_work_again(serve, started):
    site = await serve({"/*": "x"}, latency=0.1)  # all of it would take 20 s
    worker, frontier, task = await started(site, pages=400, options=WorkerOptions(concurrency=2))
    await until(lambda: worker.counters.pages > 5)
    [state] = await frontier.admin.workers()
    assert await frontier.admin.order(state.name, "quiet")
    await until(lambda: worker.doing == "quiet")

    async def nothing_left():  # a claim that was sent before is worked off, and what came of it is stored
        idle = (await told(frontier))["state"] == "quiet" and worker.in_flight == 0
        return idle and (await frontier.admin.stats()).leased == 0

    await asyncio.wait_for(eventually(nothing_left), 100)
    pages = worker.counters.pages
    await asyncio.sleep(0.3)
    assert worker.counters.pages == pages < 400
    assert worker.stall is None
    assert (await frontier.admin.stats()).leased == 0
    await frontier.admin.order(state.name, "work")
    await until(lambda: worker.counters.pages > pages + 5)
    await frontier.admin.order(state.name, "stop")
    await asyncio.wait_for(task, 100)
    stats = await frontier.admin.stats()
    assert (stats.leased, stats.rescued) == (0, 0)
    assert stats.ready > 0
    assert await frontier.admin.workers() == []


async def test_a_quiet_worker_leaves_when_the_crawl_is_finished(serve, started):
    site = await serve({"/*": "x"}, latency=0.05)
    worker, frontier, task = await started(site, pages=100, options=WorkerOptions(concurrency=1))
    await until(lambda: worker.counters.pages)
    [state] = await frontier.admin.workers()
    await frontier.admin.order(state.name, "quiet")
    await until(lambda: worker.doing == "quiet" and not worker.in_flight)
    assert not task.done()
    await frontier.admin.cancel()
    await asyncio.wait_for(task, 100)


async def test_while_redis_is_away_a_worker_logs_one_warning_and_one_line_when_it_is_back(
    serve, started, own_server, monkeypatch, caplog
):
    failed, beat = [], presence.Presence.beat

    async def counted(self):
        try:
            await beat(self)
        except SilklineError as error:
            failed.append(error)
            raise

    def said(words):
        return [record for record in caplog.records if words in record.getMessage()]

    monkeypatch.setattr(presence.Presence, "beat", counted)
    server = own_server(appendonly="yes", appendfsync="always")
    site = await serve({"/*": "x"})
    _worker, frontier, _task = await started(site, pages=1, forever=True, url=server.url)
    await asyncio.wait_for(eventually(frontier.admin.workers), 100)
    await asyncio.to_thread(server.kill)
    await until(lambda: len(failed) >= 3)
    assert not said("replies again")
    await asyncio.to_thread(server.start)  # the event loop runs on
    await until(lambda: said("replies again"))
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 2, told
    assert "cannot be reached" in told[0]
    assert "Workers wait for it; nothing is lost" in told[0]


async def test_one_that_must_be_taken_for_lost_reports_nothing(serve, started):
    site = await serve({"/*": "x"})
    worker, frontier, _task = await started(site, pages=1, forever=True)
    mute = presence.Presence(worker, frontier, "mute", lambda: {"scrapy": "2.19"})
    mute.silent = True
    mute.start()

    async def beats_of(name):
        return [state.beat for state in await frontier.admin.workers() if (state.name == "mute") is (name == "mute")]

    seen = set()
    while len(seen) < 4:  # the worker itself has told four times, and as often the other one could have
        seen.update(await beats_of("worker"))
    assert await beats_of("mute") == []
    mute.silent = False
    await asyncio.wait_for(eventually(lambda: beats_of("mute")), 100)
    assert [state.info["scrapy"] for state in await frontier.admin.workers() if state.name == "mute"] == ["2.19"]
    await mute.leave()
    assert await beats_of("mute") == []


async def test_a_sink_that_fails_stalls_the_claim_loop_and_says_so(serve, started):
    sink = ListSink()
    sink.failures = [SinkUnavailable("the disk is full")] * 3
    site = await serve({"/*": "x"})
    worker, _frontier, task = await started(site, sinks=[sink])
    await until(lambda: worker.stall)
    assert "the disk is full" in worker.stall
    await asyncio.wait_for(task, 100)
    assert len(sink.items) == 20


def rounds_of(worker):
    """Holds when the claim loop has gone round some times: silence is counted from the last one."""
    looked = set()

    def holds():
        looked.add(worker._looked)
        return len(looked) > 4

    return holds


async def test_a_claim_that_is_never_answered_is_a_stall(serve, started, monkeypatch):
    monkeypatch.setattr(worker_module, "SHORTEST_WAIT", 0.05)
    site = await serve({"/*": "x"})
    worker, frontier, _task = await started(site, pages=1, forever=True)
    await until(lambda: worker.counters.pages == 1)
    await until(rounds_of(worker))
    assert worker.stall is None, "an empty answer is an answer"
    hangs, never = asyncio.Event(), asyncio.Event()

    async def hang(*_, **__):
        hangs.set()
        await never.wait()

    monkeypatch.setattr(frontier, "claim", hang)
    await hangs.wait()  # the claim before it has been answered
    monkeypatch.setattr(worker_module, "STALLED", 0.3)
    await until(lambda: worker.stall)
    assert "no reply to a claim for" in worker.stall
    assert (await frontier.admin.stats()).done == 1, "and the server answers all the while"


async def test_a_worker_whose_places_are_taken_is_busy_and_not_stalled(serve, started, monkeypatch):
    """However long its page takes: the loop goes round, and would claim if it could."""
    monkeypatch.setattr(worker_module, "CLAIM_WAIT", 0.05)
    let_go = asyncio.Event()

    async def slow(_visit):
        await let_go.wait()
        return "x"

    site = await serve({"/robots.txt": "User-agent: *", "/*": slow})
    worker, _frontier, task = await started(site, pages=1, options=WorkerOptions(concurrency=1))
    await until(lambda: site.visits.to(path="/0"))
    await until(rounds_of(worker))
    assert (worker.in_flight, worker.stall) == (1, None)
    let_go.set()
    await asyncio.wait_for(task, 100)


async def test_a_server_that_refuses_claims_is_reported(serve, started, monkeypatch):
    site = await serve({"/*": "x"})
    worker, frontier, _task = await started(site, pages=1, forever=True)

    async def refuse(*_, **__):
        raise StoreUnavailable("the server is loading")

    monkeypatch.setattr(frontier, "claim", refuse)
    await until(lambda: worker.stall)
    assert worker.stall == "the server is loading"


@pytest.mark.parametrize(("lost", "forever"), [("settings", False), ("settings", True), ("ledger", False)])
async def test_a_worker_stops_when_a_key_of_its_crawl_is_lost_and_names_the_command_to_run(
    serve, started, valkey, lost, forever
):
    """A worker that runs forever does not ask whether the crawl is finished: only its beats read the settings."""
    site = await serve({"/*": "x"}, latency=0.1)
    worker, frontier, task = await started(site, pages=400, options=WorkerOptions(concurrency=2), forever=forever)
    await asyncio.wait_for(eventually(frontier.admin.workers), 100)
    key = frontier.layout.keys.settings if lost == "settings" else frontier.layout.shards[0].ledger
    with valkey.client() as client:
        client.delete(key)
        with pytest.raises(
            DamagedCrawl, match=f"{lost}.* missing on this server.*silkline fsck {frontier.crawl} --repair"
        ):
            await asyncio.wait_for(task, 100)
        assert not client.hexists(key, "settings"), "nobody wrote it anew"
    assert worker.counters.ended < 400
