"""Spiders that are fed from Redis: every kind of key, many at once, slow pages, killed workers, and the end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import ExitStack

import pytest
import redis

from silkline import SyncFrontier
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.store.keys import CrawlKeys, InboxKeys
from silkline.testing import LocalSite
from silkline.testing.site.responses import SiteResponse
from tests.held import after
from tests.scrapy.conftest import both_versions
from tests.scrapy.feeding import Spiders, items, until

LINKS = "<a href=/linked/1>1</a> <a href=/linked/2>2</a>"
ONE_AT_A_TIME = {"CONCURRENT_REQUESTS": 1}


@pytest.fixture
def site():
    pages = {"/page/*": "a page", "/slow/*": SiteResponse("slow", delay=1.0), "/links": LINKS, "/linked/*": LINKS}
    with LocalSite(pages) as site:
        yield site


@pytest.fixture
def client(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def start(zygotes, valkey, tmp_path):
    """Starts spiders in a process of their own, which does not outlive the test."""
    with ExitStack() as stack:

        def start(spiders, version="newest", url=valkey.url, **settings):
            return stack.enter_context(Spiders(zygotes(version), tmp_path, url, spiders, **settings))

        start.url = valkey.url
        yield start


def start_urls(name):
    return f"{name}:start_urls"


def paths(client, name):
    return [item["url"].partition("/page/")[2] for item in items(client, f"{name}:items")]


def test_every_kind_of_key_several_spiders_in_one_process(start, client, site, crawl):
    """The spiders close by themselves when nobody has had anything to do for a second."""
    names = {
        kind: f"{crawl}-{kind}" for kind in ("set", "zset", "keys", "rules", "itself", "classic", "full", "itself-full")
    }
    urls = [site.at(f"/page/{number}") for number in range(20)]
    client.sadd(start_urls(names["set"]), *urls)
    client.zadd(start_urls(names["zset"]), {url: number for number, url in enumerate(urls)})
    client.rpush(f"{names['keys']}:late", *urls[:5])
    client.rpush(f"{names['keys']}:urgent", *urls[5:10])
    client.rpush(start_urls(names["rules"]), site.at("/links"))
    client.rpush(start_urls(names["itself"]), *urls)
    client.rpush(start_urls(names["full"]), *urls)
    client.rpush(start_urls(names["itself-full"]), *urls)
    client.rpush(start_urls(names["classic"]), *urls, "not a url")
    keys = ["%(name)s:urgent", "%(name)s:late"]
    spiders = {
        names["set"]: ("Fed", {"REDIS_START_URLS_AS_SET": True}),
        names["zset"]: ("Fed", {"REDIS_START_URLS_AS_ZSET": True, **ONE_AT_A_TIME}),
        names["keys"]: ("Fed", {"REDIS_START_URLS_KEY": keys, **ONE_AT_A_TIME}),
        names["rules"]: ("Follower", {}),
        names["itself"]: ("ReadsItself", {}),
        names["full"]: ("Fed", {"SILKLINE_CAPACITY": 3, "CONCURRENT_REQUESTS": 8}),
        names["itself-full"]: ("ReadsItself", {"SILKLINE_CAPACITY": 3, "CONCURRENT_REQUESTS": 8}),
        names["classic"]: ("Fed", {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}),
    }
    log = start(spiders, MAX_IDLE_TIME_BEFORE_CLOSE=1).finish()
    assert sorted(paths(client, names["set"]), key=int) == [str(number) for number in range(20)]
    assert paths(client, names["zset"]) == [str(number) for number in reversed(range(20))]
    assert paths(client, names["keys"]) == [*"56789", *"01234"]
    assert sorted(item["url"] for item in items(client, f"{names['rules']}:items")) == [
        site.at("/linked/1"),
        site.at("/linked/2"),
    ]
    for kind in ("itself", "full", "itself-full", "classic"):
        assert sorted(paths(client, names[kind]), key=int) == [str(number) for number in range(20)], kind
    assert "is not a request: it is not a request: not an absolute URL" in log
    assert log.count("Closing spider (finished)") == 8


@pytest.mark.parametrize("place", ["cluster", "redis-6.2", "embedded"])
def test_wherever_the_server_is(start, servers, site, crawl, tmp_path, place):
    with ExitStack() as stack:
        if place == "embedded":
            embedded = stack.enter_context(EmbeddedServer.join(tmp_path / ".silkline"))
            url = f"embedded:{tmp_path / '.silkline'}"
            client = stack.enter_context(redis.Redis.from_url(embedded.url))
        else:
            url, client = servers(place).url, stack.enter_context(servers(place).client())
        client.rpush(start_urls(crawl), *(site.at(f"/page/{number}") for number in range(40)), "not a url")
        stats = {"STATS_CLASS": "silkline.scrapy.stats.RedisStatsCollector"}
        if place == "redis-6.2":  # and without asyncio
            stats["TWISTED_REACTOR"] = "twisted.internet.selectreactor.SelectReactor"
        start({crawl: ("Fed", {})}, url=url, MAX_IDLE_TIME_BEFORE_CLOSE=1, **stats).finish()
        assert sorted(paths(client, crawl), key=int) == [str(number) for number in range(40)]
        assert client.hget(f"{crawl}:stats", "item_scraped_count") == b"40"
        inbox = InboxKeys(start_urls(crawl))
        assert [client.exists(key) for key in (inbox.key, inbox.taken, inbox.messages)] == [0, 0, 0]


def test_one_slow_page_holds_nobody_up(start, client, site, crawl):
    """A spider that waits for the end of a batch of 16 would begin at most 15 other pages before the first slow one is answered."""

    async def after_the_others(_visit):
        while len([path for path in site.visits.paths if path.startswith("/page/")]) < 150:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return "slow"

    site.routes["/slow/*"] = after_the_others
    fast = [site.at(f"/page/{number}") for number in range(150)]
    slow = [site.at(f"/slow/{number}") for number in range(10)]
    urls = [url for number, one in enumerate(slow) for url in (*fast[number * 15 : number * 15 + 15], one)]
    client.rpush(start_urls(crawl), *urls)
    start({crawl: ("Fed", {})}, CONCURRENT_REQUESTS=16, MAX_IDLE_TIME_BEFORE_CLOSE=1).finish()
    assert sorted(site.at(path) for path in site.visits.paths) == sorted(urls)


def test_a_spider_that_is_killed_while_it_reads_loses_nothing(start, client, site, crawl):
    urls = [site.at(f"/page/{number}") for number in range(400)]
    client.rpush(start_urls(crawl), *urls)
    settings = {"MAX_IDLE_TIME_BEFORE_CLOSE": 1, "CONCURRENT_REQUESTS": 8, "SILKLINE_LEASE": 2}
    inbox = InboxKeys(start_urls(crawl))
    for end in ("interrupt", "kill", "kill"):
        before = client.llen(start_urls(crawl))
        victim = start({crawl: ("Fed", {})}, **settings)
        until(lambda before=before: client.llen(start_urls(crawl)) < before, spiders=victim)
        time.sleep(random.uniform(0, 0.1))
        getattr(victim, end)()
        if end == "interrupt":
            victim.finish()
            left = [data.decode() for data in client.hvals(inbox.messages)]  # taken as it closed: they come again
            with SyncFrontier.open(start.url, crawl=crawl, create=False) as frontier:
                stored = [url for url in left if frontier.admin.explain(url).state]
            assert stored == [], "it had the time to see them through"
    assert client.llen(start_urls(crawl)) > 0, "it was to be killed while it reads"
    # One was killed between taking a message and storing it, a moment too short to be hit by chance; and time went by.
    client.hset(inbox.messages, "killed:1", site.at("/page/taken"))
    client.zadd(inbox.taken, dict.fromkeys(client.hkeys(inbox.messages), 1))
    start({crawl: ("Fed", {})}, **settings).finish()
    assert {site.at(path) for path in site.visits.paths} == {*urls, site.at("/page/taken")}
    assert {item["url"] for item in items(client, f"{crawl}:items")} == {*urls, site.at("/page/taken")}
    assert client.exists(start_urls(crawl), inbox.taken, inbox.messages) == 0


@both_versions
def test_nobody_closes_while_another_works_and_two_workers_add_up(start, client, site, crawl, version):
    may_end = threading.Event()
    site.routes |= {"/endless": after(may_end), "/shared/*": SiteResponse("a page", delay=0.1)}
    settings = {
        "CONCURRENT_REQUESTS": 4,
        "MAX_IDLE_TIME_BEFORE_CLOSE": 4,  # longer than numbers take to be written
        "SCHEDULER_PERSIST": False,
        "STATS_CLASS": "silkline.scrapy.stats.RedisStatsCollector",
        "ITEM_PIPELINES": {"tests.scrapy.spiders.fed.ByHost": 300},
    }
    pair = [start({crawl: ("Fed", {})}, version, **settings) for _ in range(2)]
    until(lambda: client.zcard(CrawlKeys(crawl).workers) == 2, spiders=pair[0])
    client.rpush(start_urls(crawl), site.at("/endless"), *(site.at(f"/shared/{number}") for number in range(40)))
    client.rpush(start_urls(crawl), site.at("/slow/1"), "not a url")
    until(lambda: client.llen(f"{crawl}:items:fast") == 40, spiders=pair[0])
    time.sleep(5)  # longer than a spider alone would wait
    assert all(one.running for one in pair), "one closed while the other waited for a page"
    may_end.set()
    until(lambda: client.hget(f"{crawl}:stats", "item_scraped_count") == b"42", spiders=pair[1])
    numbers = client.hgetall(f"{crawl}:stats")
    assert numbers[b"downloader/response_count"] == b"42"
    assert numbers[b"silkline/messages"] == b"43"
    logs = [one.finish() for one in pair]
    shares = [one.stats["item_scraped_count"] for one in pair]
    assert sum(shares) == 42
    assert min(shares) > 0
    assert client.llen(f"{crawl}:items:slow") == 1
    for log in logs:
        assert "Closing spider (finished)" in log
        assert "/silkline/" not in log, "a traceback"
    assert client.exists(f"{crawl}:stats", f"silkline:{{{crawl}}}:crawl") == 0, "the last to leave clears both"


@both_versions
def test_every_worker_crawls_the_start_urls_of_its_spider(start, client, site, crawl, version):
    settings = {"MAX_IDLE_TIME_BEFORE_CLOSE": 2, "START_URLS": [site.at("/page/start")]}
    pair = [start({crawl: ("WithStartUrls", {})}, version, **settings) for _ in range(2)]
    client.rpush(start_urls(crawl), site.at("/page/pushed"))
    for one in pair:
        one.finish()
    assert sorted(paths(client, crawl)) == ["pushed", "start", "start"]


@pytest.mark.parametrize("kind", ["Fed", "ReadsItself"])
def test_a_spider_that_is_about_to_close_takes_no_more_messages(start, client, site, crawl, kind):
    """They would go into a crawl that the last worker removes."""
    site.routes["/very-slow"] = SiteResponse("slow", delay=2.5)
    client.rpush(start_urls(crawl), site.at("/very-slow"), site.at("/page/1"))
    closing = start({crawl: (kind, {})}, CLOSESPIDER_ITEMCOUNT=1, SCHEDULER_PERSIST=False)
    until(lambda: "Closing spider (closespider_itemcount)" in closing.log, spiders=closing)
    client.rpush(start_urls(crawl), *(site.at(f"/page/{number}") for number in range(20)))
    closing.finish()
    assert client.llen(start_urls(crawl)) == 20
    assert client.llen(f"{crawl}:items") == 2


def test_workers_that_start_together_may_all_be_ordered_to_flush(start, client, site, crawl):
    with SyncFrontier.open(start.url, crawl=crawl) as frontier:
        frontier.enqueue(site.at("/page/of-yesterday"))
    client.rpush(start_urls(crawl), *(site.at(f"/page/{number}") for number in range(40)))
    settings = {"MAX_IDLE_TIME_BEFORE_CLOSE": 1, "SCHEDULER_FLUSH_ON_START": True, "SCHEDULER_PERSIST": False}
    fleet = [start({crawl: ("Fed", {})}, **settings) for _ in range(3)]
    for log in [one.finish() for one in fleet]:
        assert "Closing spider (finished)" in log
    assert sorted(paths(client, crawl), key=int) == [str(number) for number in range(40)]


def test_items_wait_for_a_server_that_is_away(start, own_server, crawl):
    server = own_server(appendonly="yes", appendfsync="always")
    killed = threading.Event()
    with LocalSite({"/page/*": after(killed, free=12)}) as site, server.client() as client:
        urls = [site.at(f"/page/{number}") for number in range(60)]
        client.rpush(start_urls(crawl), *urls)
        settings = {"CONCURRENT_REQUESTS": 8, "STATS_CLASS": "silkline.scrapy.stats.RedisStatsCollector"}
        spiders = start({crawl: ("Fed", {})}, url=server.url, MAX_IDLE_TIME_BEFORE_CLOSE=1, **settings)
        until(lambda: client.llen(f"{crawl}:items") > 8, spiders=spiders)
        server.kill()
        killed.set()
        until(lambda: "Redis is unreachable, items wait" in spiders.log, spiders=spiders)
        time.sleep(1.5)
        server.start()
        log = spiders.finish()
        assert {item["url"] for item in items(client, f"{crawl}:items")} == set(urls)
        assert int(client.hget(f"{crawl}:stats", "item_scraped_count")) >= 60
    assert "Closing spider (finished)" in log
    with SyncFrontier.open(server.url, crawl=crawl, create=False) as frontier:
        assert frontier.finished()
