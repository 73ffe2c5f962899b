"""The worker itself: leases that are kept, sinks that fail, stopping, finishing."""

import asyncio
import gc
import logging
import time

import pytest

from silkline import Bury, Complete, Frontier, Politeness, Release, SyncFrontier, Worker
from silkline.errors import InvalidItem, SinkUnavailable, UnknownCrawl
from silkline.worker.options import WorkerOptions
from tests.worker.conftest import OPTIONS, ListSink, Run, until

NOISE = 0.15
"""Seconds by which a site in a thread of a busy machine may see one request later than the next."""


async def test_a_handler_that_blocks_keeps_its_lease_and_is_named(serve, run, new_crawl, caplog):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/slow"), site.at("/quick")])

    @crawl.handler
    def busy(page):
        if page.url.endswith("slow"):
            time.sleep(4)  # longer than the lease, and the event loop stands still
        yield {"path": page.url}

    with caplog.at_level(logging.WARNING):
        done = await run(crawl, options=WorkerOptions(concurrency=4, lease=1.5))
    assert len(done.items) == 2
    assert done.counters.lost == 0
    assert done.stats.rescued == 0
    assert "the event loop has been blocked for" in caplog.text
    assert "in busy" in caplog.text
    assert done.counters.blocked_seconds > 2


async def test_a_page_that_could_not_begin_in_time_is_given_back_and_fetched_later(serve, valkey, new_crawl):
    """While a handler keeps the event loop busy, the next page's place goes by: it takes another."""
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{n}") for n in range(3)], politeness=Politeness(delay=0.5, concurrency=8))
    claimed, blocked = asyncio.Event(), asyncio.Event()

    @crawl.handler
    async def busy(page):
        if page.url.endswith("0"):
            await claimed.wait()
            time.sleep(0.3)  # noqa: ASYNC251 - that is the point
            blocked.set()

    async def look_on(lease, attempt):
        if not lease.url.endswith("0"):
            claimed.set()
            await blocked.wait()
        return await attempt()

    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, options=OPTIONS, around_attempt=look_on)
        counters = await asyncio.wait_for(worker.run(), 100)
    assert counters.pages == 3
    assert counters.missed >= 1  # on a busy machine others too
    assert sorted(visit.path for visit in site.visits) == ["/0", "/1", "/2", "/robots.txt"]
    assert site.visits.smallest_gap(site.hosts[0]) >= 0.5 - NOISE  # a page that was late would be 0.2 s before the next


async def test_robots_txt_too_begins_in_time_or_is_left_to_the_next_claim(serve, valkey, new_crawl):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{n}") for n in range(2)], politeness=Politeness(delay=0.5, concurrency=8))
    crawl.handler(_path)

    class Slow(Frontier):
        asked = 0

        async def robots(self, url, **options):
            answer = await super().robots(url, **options)
            self.asked += answer.state == "yours"
            if self.asked == 1:
                await asyncio.sleep(0.4)  # later than the window, sooner than the host's next claim
            return answer

    async with await Slow.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        counters = await asyncio.wait_for(Worker(crawl, frontier).run(), 55)  # it would be locked for a minute
        asked = frontier.asked
    assert asked >= 2  # on a busy machine it may be late once more
    assert counters.missed >= 1
    assert counters.robots_fetched == 1
    assert sorted(visit.path for visit in site.visits) == ["/0", "/1", "/robots.txt"]
    assert site.visits.smallest_gap(site.hosts[0]) >= 0.5 - NOISE


async def test_a_slow_handler_does_not_keep_its_host_from_serving_the_next_page(serve, run, new_crawl):
    """The cap is on what the site is asked for at a time: a page that has landed leaves its place to the next."""
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{n}") for n in range(3)], politeness=Politeness(delay=0, concurrency=1))

    @crawl.handler
    async def slow(page):
        await until(lambda: len(site.visits) == 4)  # robots.txt, and all pages: no handler is through before that
        yield {"path": page.url}

    done = await run(crawl)
    assert len(done.items) == 3
    assert site.visits.greatest_concurrency(site.hosts[0]) == 1


async def test_a_page_that_somebody_else_has_by_now_is_let_go(serve, valkey, new_crawl):
    """Whoever lost its lease stores nothing more of it: its successor does."""
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @crawl.handler
    async def parse(page):
        begun.set()
        await go_on.wait()
        yield {"by": "the first"}

    done = Run(crawl, valkey.url)
    running = asyncio.create_task(done.go(options=WorkerOptions(concurrency=4, lease=1.0)))
    await begun.wait()
    with SyncFrontier.open(valkey.url, crawl=crawl.name, create=False) as thief:
        (lease,) = done.worker.held
        thief.settle([(lease, Complete())])  # as if it had been rescued and done
    await asyncio.wait_for(running, 100)
    assert done.items == []
    assert done.counters.lost == 1


async def test_a_sink_that_is_down_stops_the_claims_and_loses_nothing(serve, valkey, new_crawl, caplog):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{i}") for i in range(40)])
    crawl.handler(_path)
    done = Run(crawl, valkey.url)
    done.sink.failures = [
        SinkUnavailable("the disk is full"),
        OSError("still full"),
        SinkUnavailable("the disk is full"),
    ]
    with caplog.at_level(logging.WARNING):
        await done.go(options=WorkerOptions(concurrency=2))
    assert len(done.items) == len({item["path"] for item in done.items}) == 40
    assert "items cannot be stored: the disk is full" in caplog.text
    assert "stored again after" in caplog.text
    assert done.worker.trouble is None


def _path(page):
    yield {"path": page.url}


class Picky(ListSink):
    """Fails on items of pages that are called bad."""

    def __init__(self, error, bad="bad"):
        super().__init__()
        self.error, self.bad = error, bad

    async def write(self, records):
        if any(self.bad in record.url for record in records):
            raise self.error
        await super().write(records)


@pytest.mark.parametrize("error", [InvalidItem("too long a title"), KeyError("title")])
async def test_an_item_that_a_sink_cannot_store_takes_no_other_page_with_it(error, serve, run, new_crawl):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/bad"), *(site.at(f"/{n}") for n in range(40))], retries=[0.01])
    crawl.handler(_path)
    picky, other = Picky(error), ListSink()
    done = await run(crawl, sinks=[picky, other])
    assert {item["path"] for item in picky.items} == {site.at(f"/{n}") for n in range(40)}
    assert {item["path"] for item in other.items} > {item["path"] for item in picky.items}
    assert done.stats.done == 40
    (letter,) = done.dead
    assert letter.url == site.at("/bad")
    assert letter.reason.startswith("storing: ")
    assert "title" in letter.reason
    assert "in write" in letter.history[-1].detail


async def test_a_sink_that_fails_on_page_after_page_is_at_fault_itself(serve, valkey, new_crawl):
    """Then nothing more is fetched for it, and nothing is buried."""
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{n}") for n in range(40)])
    crawl.handler(_path)
    done = Run(crawl, valkey.url)
    sink = Picky(AttributeError("no connection"), bad="/")
    running = asyncio.create_task(done.go(sinks=[sink], options=WorkerOptions(concurrency=2)))
    await until(lambda: done.worker and done.worker.trouble)
    assert done.worker.trouble == "Picky failed: AttributeError: no connection"
    sink.bad = "nothing"
    await running
    assert {item["path"] for item in sink.items} == {site.at(f"/{n}") for n in range(40)}
    assert done.dead == []


async def test_nothing_is_completed_before_its_items_are_stored(serve, valkey, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)
    crawl.handler(_path)

    class Watching:
        stats = None

        async def write(self, records):
            async with await Frontier.open(valkey.url, crawl=crawl.name, create=False) as frontier:
                self.stats = await frontier.admin.stats()

        async def close(self):
            pass

    sink = Watching()
    done = await Run(crawl, valkey.url).go(sinks=[sink])
    assert (sink.stats.done, sink.stats.leased) == (0, 1)
    assert done.stats.done == 1


async def test_stop_ends_what_is_in_progress_and_gives_back_the_rest(serve, valkey, new_crawl):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{i}") for i in range(8)])
    begun, go_on = asyncio.Event(), asyncio.Event()
    started = []

    @crawl.handler
    async def parse(page):
        started.append(page.url)
        if len(started) == 4:
            begun.set()
        if len(started) > 2:
            await go_on.wait()
        yield {"path": page.url}

    done = Run(crawl, valkey.url)
    running = asyncio.create_task(done.go(options=WorkerOptions(concurrency=4, drain=0.5)))
    await begun.wait()
    done.worker.stop()
    await asyncio.wait_for(running, 100)
    assert done.stats.done == len(done.items) < 8
    assert done.stats.leased == 0
    assert done.stats.pending == 8 - done.stats.done
    again = Run(crawl, valkey.url)
    go_on.set()
    await again.go()
    assert len(again.items) == 8 - len(done.items)
    assert again.stats.done == 8


async def test_a_sink_that_stays_down_does_not_keep_a_worker_from_stopping(serve, valkey, new_crawl):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at(f"/{i}") for i in range(4)])
    crawl.handler(_path)
    done = Run(crawl, valkey.url)
    tried = asyncio.Event()

    class Down:
        async def write(self, records):
            tried.set()
            raise SinkUnavailable("no")

        async def close(self):
            pass

    running = asyncio.create_task(done.go(options=WorkerOptions(concurrency=4, drain=0.5, lease=5), sinks=[Down()]))
    await tried.wait()
    done.worker.stop()
    await asyncio.wait_for(running, 100)
    assert done.stats.done == 0
    assert done.stats.leased + done.stats.pending == 4


async def test_a_crawl_that_is_removed_ends_its_workers(serve, valkey, new_crawl):
    site = await serve({"/*": lambda visit: f"<a href=/{len(site.visits)}>x</a>"}, latency=0.02)
    crawl = new_crawl(site.url)

    @crawl.handler
    def endless(page):
        yield page.follow(page.css("a"))

    running = asyncio.create_task(Run(crawl, valkey.url).go())
    await until(lambda: len(site.visits) >= 5)
    async with await Frontier.open(valkey.url, crawl=crawl.name, create=False) as frontier:
        await frontier.admin.remove()
    with pytest.raises(UnknownCrawl):
        await asyncio.wait_for(running, 100)


async def test_an_attempt_that_takes_too_long_is_given_up(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01])

    @crawl.handler
    async def parse(page):
        await asyncio.sleep(60)

    done = await run(crawl, options=WorkerOptions(concurrency=2, attempt_limit=0.3))
    assert "took longer than 0.3 s" in done.dead[0].reason


async def test_links_known_to_the_frontier_are_not_offered_again(serve, run, new_crawl):
    site = await serve({"/*": "".join(f"<a href=/{i}>x</a>" for i in range(20))})
    crawl = new_crawl(site.at("/0"))

    @crawl.handler
    def parse(page):
        yield page.follow(page.css("a"))

    done = await run(crawl)
    assert done.stats.done == 20
    assert done.counters.links == 19


async def test_a_worker_leaves_nothing_behind_that_would_complain_later(serve, run, new_crawl, caplog):
    gc.collect()  # what others left is not ours
    caplog.clear()
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url)
    crawl.handler(_path)
    await run(crawl)
    await asyncio.sleep(0)  # what was cancelled last takes note of it
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


async def test_a_page_ends_also_when_he_who_looks_on_fails(serve, valkey, new_crawl):
    site = await serve({"/": "x"})
    crawl = new_crawl(site.url, retries=[0.01])
    crawl.handler(_path)

    async def around_attempt(lease, attempt):
        raise LookupError("no glasses")

    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        await Worker(crawl, frontier, around_attempt=around_attempt).run()
        (letter,) = await frontier.admin.dead()
    assert (
        letter.reason
        == f"the attempt: LookupError (test_worker.py:{around_attempt.__code__.co_firstlineno + 1}): no glasses"
    )


class Faulty(Frontier):
    """Cannot send some verdicts on pages that are called bad."""

    unsendable = ()

    async def settle(self, pairs):
        if any(lease.url.endswith("bad") and isinstance(verdict, self.unsendable) for lease, verdict in pairs):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return await super().settle(pairs)


UNSENT = (
    "the result of the page could not be stored: UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud800' "
    "in position 0: surrogates not allowed"
)


@pytest.mark.parametrize(
    ("unsendable", "ended"),
    [
        ((Complete,), lambda stats: stats.dead and stats.done == 40),
        ((Complete, Bury), lambda stats: stats.delayed and stats.done == 40),
        ((Complete, Bury, Release), lambda stats: stats.rescued and stats.done == 40),
    ],
)
async def test_a_page_that_cannot_be_settled_takes_no_other_with_it(
    unsendable, ended, serve, valkey, new_crawl, monkeypatch
):
    """It is buried; if that cannot be told, it is given back; if not even that, its lease runs out."""
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/bad"), *(site.at(f"/{n}") for n in range(40))])
    crawl.handler(_path)
    monkeypatch.setattr(Faulty, "unsendable", unsendable)
    async with await Faulty.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, options=WorkerOptions(concurrency=8, lease=1.0))
        running = asyncio.create_task(worker.run())
        while not ended(stats := await frontier.admin.stats()) and not running.done():  # noqa: ASYNC110 - a server's counts
            await asyncio.sleep(0.01)
        worker.stop()
        await running
        dead = await frontier.admin.dead()
    assert stats.done == 40
    assert [letter.reason for letter in dead] == ([UNSENT] if unsendable == (Complete,) else [])


def _tree(pages):
    """A site whose every page links to three others, until there are so many."""
    return {
        f"/{n}": "".join(f"<a href=/{m}>{m}</a>" for m in range(3 * n + 1, 3 * n + 4) if m < pages)
        for n in range(pages)
    }


async def test_a_full_crawl_without_an_overflow_says_that_it_does_not_move(serve, valkey, new_crawl, caplog):
    site = await serve(_tree(60))
    crawl = new_crawl(site.at("/0"), capacity=5)
    crawl.handler(_follow)
    done = Run(crawl, valkey.url)
    with caplog.at_level(logging.WARNING):
        running = asyncio.create_task(done.go())
        await until(lambda: done.worker and done.worker.counters.postponed)
        done.worker.stop()
        await running
    assert "the crawl is full, and this worker has no overflow" in caplog.text
    assert "--overflow PATH" in caplog.text
    assert done.stats.full


def _follow(page):
    yield page.follow(page.css("a"))


async def test_a_worker_can_wait_for_more(serve, valkey, new_crawl):
    site = await serve({"/*": "x"})
    crawl = new_crawl(site.at("/1"))
    crawl.handler(_path)
    done = Run(crawl, valkey.url)
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        worker = Worker(crawl, frontier, sinks=[done.sink], forever=True)
        running = asyncio.create_task(worker.run())
        await frontier.enqueue(site.at("/1"))
        await until(lambda: len(done.items) == 1)
        await frontier.enqueue(site.at("/2"))
        await until(lambda: len(done.items) == 2)
        worker.stop()
        await asyncio.wait_for(running, 100)


async def test_a_crawl_of_one_page_at_a_time_does_not_wait_between_two_pages_or_at_its_end(
    serve, run, new_crawl, monkeypatch
):
    """A claim that waits is interrupted when the last page is settled, also if the claim before it was full."""
    for name in ("SHORTEST_WAIT", "CLAIM_WAIT"):
        monkeypatch.setattr(f"silkline.worker.worker.{name}", 600.0)
    site = await serve({"/0": "x", "/1": "x"})
    crawl = new_crawl(site.at("/0"), politeness=Politeness(delay=0, concurrency=1))

    @crawl.handler
    async def page(page):
        yield page.follow("/1")

    done = await asyncio.wait_for(run(crawl, options=WorkerOptions(concurrency=1)), 60)
    assert done.stats.done == 2
