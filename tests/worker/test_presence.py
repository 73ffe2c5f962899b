"""A worker tells that it is there and what it does, and does what it is ordered."""

import asyncio

import pytest

from silkline import Frontier, Worker
from silkline.core.errors import SilklineError, SinkUnavailable, StoreUnavailable
from silkline.testing.site import Answer
from silkline.worker import presence
from silkline.worker import worker as worker_module
from silkline.worker.pace import Pace
from tests.worker.conftest import PACE, ListSink, until


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(presence, "EVERY", 0.05)


@pytest.fixture
async def started(valkey, new_crawl):
    """Starts a worker on a crawl of some pages that are slow until they are let go."""
    tasks, frontiers = [], []

    async def start(site, *, pages=20, pace=PACE, sinks=(), url=valkey.url, **options):
        crawl = new_crawl([site.at(f"/{number}") for number in range(pages)])

        @crawl.handler
        def parse(page):
            yield {"url": page.url}

        frontier = await Frontier.open(url, crawl=crawl.name, **crawl.wishes)
        frontiers.append(frontier)
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, sinks=list(sinks), pace=pace, **options)
        tasks.append(asyncio.create_task(worker.run()))
        return worker, frontier, tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for frontier in frontiers:
        await frontier.close()


async def told(frontier):
    return (await frontier.workers())[0].info


async def eventually(holds):
    while not await holds():  # noqa: ASYNC110 - somebody else changes it
        await asyncio.sleep(0.02)


async def test_it_is_in_the_roster_with_what_it_has_under_way_until_it_leaves(serve, started):
    site = await serve({"/*": "x"}, latency=0.3)
    worker, frontier, task = await started(site, pages=12, pace=Pace(concurrency=4))

    async def busy():
        workers = await frontier.workers()
        return bool(workers) and workers[0].info["in_flight"] == 4 and len(workers[0].info["urls"]) == 4

    await asyncio.wait_for(eventually(busy), 20)
    info = await told(frontier)
    assert info["concurrency"] == 4
    assert info["memory"] > 10_000_000
    assert info["state"] == "working"
    assert info["trouble"] == ""
    assert all(url.startswith(site.url) for url in info["urls"])
    await asyncio.wait_for(task, 30)
    assert await frontier.workers() == []
    points = await frontier.history()
    assert sum(point.pages for point in points) == sum(point.ended for point in points) == 12
    assert sum(point.status_2xx for point in points) == sum(point.fetched for point in points) == 12
    assert sum(point.bytes for point in points) == worker.tally.bytes
    assert sum(point.busy_ms for point in points) >= 12 * 300
    assert sum(point.up_to_500ms + point.up_to_1s for point in points) == 12
    last = [point.levels for point in points if point.levels][-1]
    assert (last.done, last.depth) == (12, 0)


async def test_ordered_to_be_quiet_it_claims_nothing_more_and_stays_until_it_may_work_again(serve, started):
    site = await serve({"/*": "x"}, latency=0.02)
    worker, frontier, task = await started(site, pages=400, pace=Pace(concurrency=2))
    await until(lambda: worker.tally.pages > 5)
    [state] = await frontier.workers()
    assert await frontier.order(state.name, "quiet")
    await until(lambda: worker.doing == "quiet" and worker.in_flight == 0)
    pages = worker.tally.pages
    await asyncio.sleep(0.3)
    assert worker.tally.pages == pages < 400
    assert worker.stall is None
    assert (await told(frontier))["state"] == "quiet"
    assert (await frontier.stats()).leased == 0
    await frontier.order(state.name, "work")
    await until(lambda: worker.tally.pages > pages + 5)
    await frontier.order(state.name, "stop")
    await asyncio.wait_for(task, 20)
    stats = await frontier.stats()
    assert (stats.leased, stats.rescued) == (0, 0)
    assert stats.ready > 0
    assert await frontier.workers() == []


async def test_a_quiet_worker_leaves_when_the_crawl_is_finished(serve, started):
    site = await serve({"/*": "x"}, latency=0.05)
    worker, frontier, task = await started(site, pages=100, pace=Pace(concurrency=1))
    await until(lambda: worker.tally.pages)
    [state] = await frontier.workers()
    await frontier.order(state.name, "quiet")
    await until(lambda: worker.doing == "quiet" and not worker.in_flight)
    assert not task.done()
    await frontier.cancel()
    await asyncio.wait_for(task, 10)


async def test_it_says_once_that_the_crawl_does_not_hear_it_and_when_it_does_again(
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
    await asyncio.wait_for(eventually(frontier.workers), 20)
    server.kill()
    await until(lambda: len(failed) >= 3)
    assert [record.levelname for record in said("cannot be told how this worker does")] == ["WARNING"]
    assert not said("is told again")
    server.start()
    await until(lambda: said("the crawl is told again how this worker does"))
    assert len(said("cannot be told how this worker does")) == 1


async def test_one_that_is_to_be_taken_for_lost_tells_nothing(serve, started):
    site = await serve({"/*": "x"})
    worker, frontier, _task = await started(site, pages=1, forever=True)
    mute = presence.Presence(worker, frontier, "mute", {"scrapy": "2.19"})
    mute.silent = True
    mute.start()

    async def beats_of(name):
        return [state.beat for state in await frontier.workers() if (state.name == "mute") is (name == "mute")]

    seen = set()
    while len(seen) < 4:  # the worker itself has told four times, and as often the other one could have
        seen.update(await beats_of("worker"))
    assert await beats_of("mute") == []
    mute.silent = False
    await asyncio.wait_for(eventually(lambda: beats_of("mute")), 20)
    assert [state.info["scrapy"] for state in await frontier.workers() if state.name == "mute"] == ["2.19"]
    await mute.leave()
    assert await beats_of("mute") == []


async def test_a_sink_that_fails_stalls_the_claim_loop_and_says_so(serve, started):
    sink = ListSink()
    sink.failures = [SinkUnavailable("the disk is full")] * 3
    site = await serve({"/*": "x"})
    worker, _frontier, task = await started(site, sinks=[sink])
    await until(lambda: worker.stall)
    assert "the disk is full" in worker.stall
    await asyncio.wait_for(task, 30)
    assert len(sink.items) == 20


async def test_a_claim_that_is_never_answered_is_a_stall(serve, started, monkeypatch):
    monkeypatch.setattr(worker_module, "STALLED", 0.3)
    monkeypatch.setattr(worker_module, "SHORTEST_WAIT", 0.05)
    site = await serve({"/*": "x"})
    worker, frontier, _task = await started(site, pages=1, forever=True)
    await until(lambda: worker.tally.pages == 1)
    await asyncio.sleep(0.5)
    assert worker.stall is None, "an empty answer is an answer"
    never = asyncio.Event()

    async def hang(*_, **__):
        await never.wait()

    monkeypatch.setattr(frontier, "claim", hang)
    await until(lambda: worker.stall)
    assert "no claim was answered for" in worker.stall
    assert (await frontier.stats()).done == 1, "and the server answers all the while"


async def test_a_worker_whose_places_are_taken_is_busy_and_not_stalled(serve, started, monkeypatch):
    """However long its page takes: the loop goes round, and would claim if it could."""
    monkeypatch.setattr(worker_module, "STALLED", 1.0)
    monkeypatch.setattr(worker_module, "CLAIM_WAIT", 0.05)
    site = await serve({"/robots.txt": "User-agent: *", "/*": Answer("x", delay=2.0)})
    worker, _frontier, task = await started(site, pages=1, pace=Pace(concurrency=1))
    while not task.done():
        assert worker.stall is None
        await asyncio.sleep(0.01)
    assert worker.tally.latency.seconds > worker_module.STALLED


async def test_a_server_that_refuses_claims_is_told(serve, started, monkeypatch):
    site = await serve({"/*": "x"})
    worker, frontier, _task = await started(site, pages=1, forever=True)

    async def refuse(*_, **__):
        raise StoreUnavailable("the server is loading")

    monkeypatch.setattr(frontier, "claim", refuse)
    await until(lambda: worker.stall)
    assert worker.stall == "the server is loading"
