"""What a worker cannot handle for reasons of its own goes back to the crawl, for a worker that can."""

from __future__ import annotations

import asyncio
import logging

import pytest

from silkline import FetchOptions, Frontier, Request, Scope, Worker, run
from silkline.core.lease import State
from silkline.fetch.guard import Guard
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.verbs import workers as worker_verbs
from silkline.runtime import presence
from silkline.worker import failures
from silkline.worker.process import stuck
from tests.worker.conftest import OPTIONS, until


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(presence, "EVERY", 0.05)


@pytest.fixture
async def work(valkey):
    """Starts workers on a crawl that is there."""
    started, opened = [], []

    async def start(crawl):
        opened.append(await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments))
        worker = Worker(crawl, opened[-1], options=OPTIONS)
        started.append(asyncio.create_task(worker.run()))
        return worker, started[-1], opened[-1]

    start.url = valkey.url
    yield start
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
    for frontier in opened:
        await frontier.close()


def old_file(new_crawl, site, pages=4):
    """A crawl whose pages ask for a handler that only its newer file has."""
    crawl = new_crawl([Request(site.at(f"/{number}"), handler="product_v2") for number in range(pages)])

    @crawl.handler
    def product(page):
        yield {"by": "old"}

    return crawl


async def test_a_worker_with_an_older_file_buries_nothing_and_the_newer_one_handles_all(
    serve, new_crawl, work, monkeypatch, caplog
):
    monkeypatch.setattr(failures, "FIRST_PAUSE", 0.3)
    site = await serve({"/*": "x"})
    old = old_file(new_crawl, site, pages=12)
    new = new_crawl()

    @new.handler
    def product_v2(page):
        yield {"by": "new"}

    with caplog.at_level(logging.WARNING):
        worker, task, frontier = await work(old)
        await frontier.enqueue(await old.starts())
        await until(lambda: worker.counters.given_back.total() >= 12)
        newer, done, _ = await work(new)
        await asyncio.wait_for(asyncio.gather(done, task), 100)
    stats = await frontier.admin.stats()
    assert (stats.done, stats.dead) == (12, 0)
    assert newer.counters.pages == 12
    assert caplog.text.count("cannot handle pages that need a handler named 'product_v2'") == 1
    assert "keep the old handler in the file until its pages are crawled" in caplog.text
    assert worker.counters.buried == 0


async def test_the_roster_and_explain_tell_what_pages_wait_for_and_that_no_worker_has_it(serve, new_crawl, work):
    site = await serve({"/*": "x"})
    old = old_file(new_crawl, site)
    worker, _, frontier = await work(old)
    await frontier.enqueue(await old.starts())
    await until(lambda: sum(worker.unmet_needs.waiting.values()) == 4)

    async def told():
        return [str(lack) for lack in worker_verbs.missing_capabilities(await frontier.admin.workers())]

    while await told() != ["4 pages wait for a worker with a handler named 'product_v2': no live worker has it"]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    [state] = await frontier.admin.workers()
    assert state.info["handlers"] == ["product"]
    assert state.info["trouble"] == "cannot handle pages that need a handler named 'product_v2'"
    found = await frontier.admin.explain(site.at("/1"))
    assert found.state is State.DELAYED
    assert "delayed: it was released and is due in" in found.text
    assert "It needs a handler named 'product_v2', and no live worker has one." in found.text
    await frontier.internal.join("newer", info={"handlers": ["product_v2"]})
    assert "a live worker may have it" in (await told())[0]
    assert "handler" not in (await frontier.admin.explain(site.at("/1"))).text


async def test_a_page_that_is_given_back_waits_longer_each_time_and_costs_no_attempt(
    serve, new_crawl, work, monkeypatch
):
    monkeypatch.setattr(failures, "FIRST_PAUSE", 0.05)
    site = await serve({"/*": "x"})
    old = old_file(new_crawl, site, pages=1)
    pauses = []
    give_back = failures.UnmetNeeds.give_back

    def noted(self, lease, *about):
        verdict = give_back(self, lease, *about)
        pauses.append((lease.attempt, verdict.after))
        return verdict

    monkeypatch.setattr(failures.UnmetNeeds, "give_back", noted)
    _, _, frontier = await work(old)
    await frontier.enqueue(await old.starts())
    await until(lambda: len(pauses) == 5)
    assert [attempt for attempt, _ in pauses] == [1] * 5
    longer = [after for _, after in pauses]
    assert longer == sorted(longer)
    assert longer[-1] > 4 * longer[0]
    assert len(site.visits) == 0


async def test_a_package_that_a_worker_lacks_is_no_fault_of_the_page(serve, new_crawl, work, caplog):
    site = await serve({"/*": "x"})
    crawl = new_crawl(site.url)

    @crawl.handler
    def page(page):
        import nowhere_to_be_found  # noqa: F401, PLC0415

    worker, _, frontier = await work(crawl)
    await frontier.enqueue(await crawl.starts())
    await until(lambda: worker.unmet_needs.waiting)
    assert worker.unmet_needs.waiting == {"package:nowhere_to_be_found": 1}
    assert "Install the package where this worker runs" in caplog.text
    assert (await frontier.admin.stats()).dead == 0


async def test_names_out_of_the_queue_fill_neither_the_log_nor_the_roster(serve, new_crawl, work, caplog):
    site = await serve({"/*": "x"})
    crawl = new_crawl([Request(site.at(f"/{n}"), handler=f"{n}\x1b[31m" + "ö" * 2000) for n in range(40)])

    @crawl.handler
    def product(page):
        yield {}

    worker, _, frontier = await work(crawl)
    await frontier.enqueue(await crawl.starts())
    await until(lambda: sum(worker.unmet_needs.waiting.values()) == 40)
    assert len(worker.unmet_needs.waiting) == failures.MOST_NEEDS + 1
    assert caplog.text.count("cannot handle pages") == failures.MOST_NEEDS + 1
    assert "\x1b" not in caplog.text
    assert max(map(len, caplog.text.splitlines())) < 600
    while not worker_verbs.missing_capabilities(await frontier.admin.workers()):  # noqa: ASYNC110 - it fits into what a worker may tell of itself
        await asyncio.sleep(0.02)


def test_a_run_alone_ends_when_only_pages_are_left_that_it_cannot_handle(valkey, new_crawl, monkeypatch, caplog):
    """It would wait for ever: nobody else is there."""
    from silkline.testing import LocalSite  # noqa: PLC0415

    monkeypatch.setattr(stuck, "PATIENCE", 0.5)
    monkeypatch.setattr(stuck, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(stuck, "ROSTER_EVERY", 0.05)
    with LocalSite({"/*": "x"}) as site:
        crawl = new_crawl([site.at("/old"), Request(site.at("/new"), handler="product_v2")])

        @crawl.handler
        def product(page):
            yield {"by": "old"}

        summary = run(crawl, redis=valkey.url)
    assert not summary.finished
    assert (summary.done, summary.dead, summary.delayed) == (1, 0, 1)
    assert summary.waits_for == ["1 page waits for a worker with a handler named 'product_v2': no live worker has it"]
    assert summary.given_back == {"a handler named 'product_v2'": summary.given_back["a handler named 'product_v2'"]}
    assert "the run ends although the crawl is not finished" in caplog.text


@pytest.mark.parametrize("robots", [True, False])
async def test_a_private_address_that_only_this_worker_refuses_goes_back(robots, serve, new_crawl, work):
    site = await serve({"/*": "x"})
    crawl = new_crawl([site.at("/1")], fetching=FetchOptions(allow_private=False, obey_robots=robots))

    @crawl.handler
    def page(page):
        yield {}

    async with await Frontier.open(work.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.admin.set_run_options(RunOptions(allow_private=True))
        await frontier.enqueue(await crawl.starts())
    worker, _, frontier = await work(crawl)
    await until(lambda: worker.unmet_needs.waiting == {"private": 1})
    assert (await frontier.admin.stats()).dead == 0


def refusing(new_crawl, *start):
    """A crawl that does not allow private addresses, and follows links anywhere."""
    crawl = new_crawl(start, fetching=FetchOptions(), scope=Scope(stay="anywhere"))

    @crawl.handler
    def page(page):
        yield {"url": page.url}

    return crawl


async def test_a_private_start_url_waits_until_an_operator_allows_it(serve, new_crawl, work, monkeypatch, caplog):
    monkeypatch.setattr(failures, "FIRST_PAUSE", 0.05)
    site = await serve({"/*": "x"})
    crawl = refusing(new_crawl, site.at("/1"), site.at("/2"))
    worker, task, frontier = await work(crawl)
    await frontier.enqueue(await crawl.starts())
    await until(lambda: worker.counters.given_back.total() >= 2)
    assert (await frontier.admin.stats()).dead == 0
    assert caplog.text.count(f"silkline crawl set {crawl.name} --allow-private") == 1
    assert "FetchOptions(allow_private=True)" in caplog.text
    await frontier.admin.set_run_options(RunOptions(allow_private=True))
    await asyncio.wait_for(task, 100)
    assert sorted(site.visits.paths) == ["/1", "/2", "/robots.txt"]


async def test_a_private_start_url_is_buried_with_a_warning_once_an_operator_has_refused_it(
    serve, new_crawl, work, monkeypatch, caplog
):
    monkeypatch.setattr(failures, "FIRST_PAUSE", 0.05)
    site = await serve({"/*": "x"})
    crawl = refusing(new_crawl, site.at("/1"), site.at("/2"))
    worker, task, frontier = await work(crawl)
    await frontier.enqueue(await crawl.starts())
    await until(lambda: worker.counters.given_back.total() >= 2)
    await frontier.admin.set_run_options(RunOptions(allow_private=False))
    await asyncio.wait_for(task, 100)
    assert (await frontier.admin.stats()).dead == 2
    assert caplog.text.count("became a dead letter: 127.0.0.1 is a loopback address; start with --allow-private") == 1
    assert f"silkline dead revive {crawl.name} --reason forbidden_address" in caplog.text
    assert len(site.visits) == 0


@pytest.mark.parametrize("found", [{"depth": 1}, {"redirects": ("https://shop.example/",)}])
async def test_a_private_address_that_a_site_leads_to_is_buried(found, serve, new_crawl, work, caplog):
    """Else any site could keep the crawl from finishing."""
    site = await serve({"/*": "x"})
    crawl = refusing(new_crawl, site.at("/1"))
    _, task, frontier = await work(crawl)
    await frontier.enqueue([Request(site.at("/1"), **found)])
    await asyncio.wait_for(task, 100)
    [letter] = await frontier.admin.dead()
    assert letter.reason.startswith("forbidden_address: ")
    assert caplog.text.count("buried") == 0


async def test_a_name_with_a_private_address_is_buried_with_a_warning(new_crawl, work, caplog):
    """Abandoned domains often have one, and must not keep a crawl of many start URLs from finishing."""
    crawl = refusing(new_crawl, "http://intranet.example/")

    class Intranet:
        async def resolve(self, host):
            return ["10.0.0.5"]

        async def close(self):
            pass

    crawl.fetching = FetchOptions(fetcher=lambda _: WreqFetcher(guard=Guard(resolver=Intranet())), obey_robots=False)
    _, task, frontier = await work(crawl)
    await frontier.enqueue(await crawl.starts())
    await asyncio.wait_for(task, 100)
    assert (await frontier.admin.stats()).dead == 1
    assert (
        "http://intranet.example/ became a dead letter: intranet.example has the private address 10.0.0.5; start"
        in caplog.text
    )
