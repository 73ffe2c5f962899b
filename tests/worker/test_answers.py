"""What hosts answer is told along with the history."""

import asyncio

import pytest

from silkline import Frontier, Worker
from silkline.fetch.limits import Limits
from silkline.frontier.verbs.hosts import StatusCounts
from silkline.runtime import presence
from silkline.testing.site import Raw, redirect
from silkline.worker.crawl.crawl import FetchOptions
from tests.worker.conftest import OPTIONS


@pytest.fixture
def told(valkey):
    """What is kept of some hosts, without the time."""

    async def ask(crawl, *hosts):
        async with await Frontier.open(valkey.url, crawl=crawl.name, create=False) as frontier:
            return [_timeless(host.answers) for host in await frontier.admin.hosts(*hosts)]

    return ask


def _timeless(answers):
    if answers:
        assert answers.updated > 1_700_000_000
        assert answers.cpu > 0
        answers.updated = answers.cpu = 0.0
    return answers


def nothing(_page):
    """A handler that gives nothing."""


async def reset(wire, _visit):
    wire.reset()


async def test_each_host_has_its_mix(serve, new_crawl, run, told):
    never = asyncio.Event()

    async def silent(_wire, _visit):
        await never.wait()

    routes = {
        "//b.localhost/gone": 404,
        "//b.localhost/broken": 500,
        "//b.localhost/moved": redirect("/here"),
        "//b.localhost/here": "x",
        "//c.localhost/silent": Raw(silent),
        "//c.localhost/reset": Raw(reset),
    }
    site = await serve(routes)
    site.routes["//a.localhost/*"] = "x"
    starts = [site.at(f"/{number}", "a.localhost") for number in range(7)]
    starts += [site.at(path, "b.localhost") for path in ("/gone", "/broken", "/moved")]
    starts += [site.at(path, "c.localhost") for path in ("/silent", "/reset")]
    fetching = FetchOptions(allow_private=True, limits=Limits(timeout=4))
    crawl = new_crawl(starts, retries=[0.01], fetching=fetching)

    @crawl.handler
    def parse(page):
        yield {"url": page.url}

    await run(crawl)
    a, b, c, d = await told(crawl, *(f"{name}.localhost:{site.port}" for name in "abcd"))
    assert a == StatusCounts(status_2xx=7, last=200)
    assert (b.status_2xx, b.status_3xx, b.status_4xx, b.status_5xx, b.failed) == (1, 1, 1, 2, 0)
    assert c == StatusCounts(failed=4, last=None), "each was tried twice"
    assert d is None


async def test_a_host_whose_robots_txt_cannot_be_had_is_reported_while_the_worker_runs(
    serve, new_crawl, told, valkey, monkeypatch
):
    monkeypatch.setattr(presence, "EVERY", 0.05)
    site = await serve({"/*": "x"}, robots=503)
    crawl = new_crawl([site.at("/1")])
    crawl.handler(nothing)
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue(await crawl.starts())
        worker = Worker(crawl, frontier, options=OPTIONS)
        task = asyncio.create_task(worker.run())
        async with asyncio.timeout(100):
            while (await told(crawl, *site.hosts))[0] is None:  # noqa: ASYNC110 - the worker tells when it tells
                await asyncio.sleep(0.02)
        worker.stop()
        await task
    assert await told(crawl, *site.hosts) == [StatusCounts(status_5xx=1, last=503)]
