"""``silkline import scrapy-redis``: what a scrapy-redis project has left to do goes on in a crawl."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import threading
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import scrapy
from scrapy.http import FormRequest, JsonRequest

from silkline import Complete, Politeness, SyncFrontier
from silkline.frontier.user_keys.import_source import ImportSource
from silkline.scrapy.convert.requests import to_core, to_scrapy
from silkline.scrapy.dupefilter import RFPDupeFilter
from silkline.scrapy.migrate.importing import ImportSummary, QueueImport
from tests.forking import Forker

AT_ONCE = Politeness(delay=0, concurrency=1000)


class Shop(scrapy.Spider):
    name = "shop"

    def parse(self, response): ...

    def parse_item(self, response): ...

    def failed(self, failure): ...


SPIDER = Shop()


class Project:
    """What scrapy-redis 0.9 leaves on the server, written as it writes it."""

    def __init__(self, client, name):
        self.client = client
        self.name = name

    @property
    def queue(self):
        return f"{self.name}:requests"

    def push(self, *requests, dumps=lambda fields: pickle.dumps(fields, protocol=-1)):
        """PriorityQueue.push."""
        for request in requests:
            self.client.zadd(self.queue, {dumps(request.to_dict(spider=SPIDER)): -request.priority})

    def push_list(self, *requests):
        """FifoQueue.push."""
        for request in requests:
            self.client.lpush(self.queue, pickle.dumps(request.to_dict(spider=SPIDER), protocol=-1))

    def see(self, *identities):
        self.client.sadd(f"{self.name}:dupefilter", *identities)

    def waiting(self):
        kind = self.client.type(self.queue)
        return self.client.zcard(self.queue) if kind == b"zset" else self.client.llen(self.queue)


@pytest.fixture
def project(valkey, crawl):
    with valkey.client() as client:
        yield Project(client, crawl)


@pytest.fixture(scope="module")
def forker():
    """Importing Scrapy takes a second."""
    with Forker("silkline.scrapy.migrate.importing", "cyclopts", "rich.progress") as forker:
        yield forker


@pytest.fixture
def import_(silkline, valkey, crawl):
    def run(*arguments, **options):
        return silkline("import", "scrapy-redis", "--spider", crawl, "--redis", valkey.url, *arguments, **options)

    return run


def pages(count, start=0):
    return [scrapy.Request(f"http://a.example/{number}") for number in range(start, start + count)]


def drained(frontier):
    """All that waits, in the order in which it comes."""
    requests = []
    while leases := frontier.claim(1000):
        requests += [lease.request for lease in leases]
        frontier.settle([(lease, Complete()) for lease in leases])
    return requests


def claimed(frontier):
    """The same as Scrapy gets it."""
    return [to_scrapy(request, SPIDER) for request in drained(frontier)]


def sha(text):
    return hashlib.sha1(text.encode()).hexdigest()


def test_requests_come_over_whole_and_in_their_order(import_, project, frontier):
    requests = [
        scrapy.Request("http://a.example/plain?b=1&a=2#part"),
        scrapy.Request(
            "http://a.example/rich",
            callback=SPIDER.parse_item,
            errback=SPIDER.failed,
            method="PUT",
            headers={"Accept": ["a/b", "c/d"], "X-Bytes": b"\xff"},
            body=b"\x00\xff",
            cookies={"a": "b"},
            meta={"depth": 3, "pair": (1, 2.5), "nested": {"list": [None, True, {"x"}]}, "blob": b"\x00"},
            cb_kwargs={"page": 2},
            flags=["checked"],
            priority=7,
            dont_filter=True,
        ),
        FormRequest("http://a.example/form", formdata={"q": "x"}, priority=-3),
        JsonRequest("http://a.example/json", data={"q": [1]}, priority=5000),
        scrapy.Request("http://a.example/cookies", cookies=[{"name": "a", "value": "b", "path": "/x"}], priority=-9999),
    ]
    project.push(*requests)
    project.see(sha("plain"), sha("form"))
    answer = import_("--delay", 0, "--concurrency", 100)
    assert answer.code == 0, answer.err
    assert "5 requests added, 0 imported before, 0 refused, 2 fingerprints seen" in answer.out
    assert f"redis-cli UNLINK {project.queue} {project.name}:dupefilter" in answer.err
    got = claimed(frontier())
    assert [request.priority for request in got] == [5000, 7, 0, -3, -9999]
    by_url = {request.url: request for request in got}
    for request in requests:
        assert type(by_url[request.url]) is type(request)
        assert by_url[request.url].to_dict(spider=SPIDER) == request.to_dict(spider=SPIDER)
    assert project.waiting() == 5, "it was copied"


def test_what_the_dupefilter_has_seen_is_seen(import_, project, frontier):
    project.see(*(sha(f"page {number}") for number in range(2500)))
    assert import_().code == 0
    crawl = frontier()
    assert crawl.admin.stats().seen == 2500
    assert crawl.admin.stats().accepted == 0


@pytest.mark.parametrize("move", [False, True])
def test_a_list_keeps_its_order_whatever_the_priorities(import_, project, frontier, move):
    project.push_list(*(request.replace(priority=number % 3) for number, request in enumerate(pages(1200))))
    answer = import_("--delay", 0, "--concurrency", 1000, *(["--move"] if move else []))
    assert answer.code == 0
    got = claimed(frontier())
    assert [request.url for request in got] == [request.url for request in pages(1200)]
    assert [request.priority for request in got] == [number % 3 for number in range(1200)]
    assert project.waiting() == (0 if move else 1200)


def test_run_again_it_adds_what_is_new_and_nothing_twice(import_, project, frontier):
    project.push(*pages(5), scrapy.Request("http://a.example/always", dont_filter=True))
    assert import_("--json").json["added"] == 6
    crawl = frontier()
    assert crawl.admin.stats().ready == 6
    project.push(*pages(2, start=5))
    again = import_("--json").json
    assert (again["added"], again["before"], again["created"]) == (2, 6, False)
    moved = import_("--move", "--json").json
    assert (moved["added"], moved["before"]) == (0, 8)
    assert project.waiting() == 0
    assert crawl.admin.stats().accepted == 8


def test_a_dry_run_changes_nothing(import_, project, valkey):
    project.push(*pages(3))
    project.client.zadd(project.queue, {b"nonsense": 0})

    def kept():  # what is remembered of calls expires by itself
        return {key for key in project.client.keys("*") if b":once:" not in key}

    before = kept()
    answer = import_("--dry-run", "--move")
    assert answer.code == 1
    assert "3 requests would be added" in answer.out
    assert "1: neither a pickle nor JSON" in answer.err
    assert kept() == before


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_what_is_refused_is_counted_kept_and_never_run(import_, project, frontier, tmp_path):
    marker = tmp_path / "ran"
    good, trap = pages(1)[0], Trap(marker)
    bad = [
        pickle.dumps(trap, -1),
        pickle.dumps({"url": "http://a.example/", "meta": {"x": trap}}, -1),
        pickle.dumps({"no": "url"}, -1),
        pickle.dumps({"url": 5}, -1),
        pickle.dumps({"url": "ftp://a.example/"}, -1),
        pickle.dumps({"url": "http://a.example/", "priority": "high"}, -1),
        pickle.dumps({"url": "http://a.example/", "headers": 5}, -1),
        pickle.dumps({"url": "http://a.example/", "body": "text"}, -1),
        pickle.dumps({"url": "http://a.example/", "meta": [1]}, -1),
        pickle.dumps({"url": "http://a.example/", "callback": 7}, -1),
        pickle.dumps({"url": "http://a.example/" + "x" * 70_000}, -1),
        pickle.dumps([1, 2], -1),
        b"http://a.example/plain",
        b"",
        b'{"url": ',
        b"[]",
    ]
    project.push(good)
    for number, one in enumerate(bad):
        project.client.zadd(project.queue, {one: number})
    copied = import_("--json", "--delay", 0).json
    assert (copied["added"], copied["refused"], sum(copied["reasons"].values())) == (1, len(bad), len(bad))
    reason = "the pickle calls posix.system (REDUCE); only plain data and items can be imported"
    assert copied["reasons"][reason] == 2
    assert len(copied["refusals"]) == 5
    answer = import_("--move")
    assert answer.code == 1
    assert f"{project.queue}:silkline:refused" in answer.err
    assert sorted(project.client.lrange(f"{project.queue}:silkline:refused", 0, -1)) == sorted(bad)
    assert not project.client.exists(project.queue, f"{project.queue}:silkline")
    assert [request.url for request in claimed(frontier())] == [good.url]
    assert not marker.exists()


class Listing(scrapy.Item):
    name = scrapy.Field()
    found = scrapy.Field()


def test_items_in_meta_come_over(import_, project, frontier):
    listing = Listing(name="Lamp", found=[datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50")])
    project.push(scrapy.Request("http://a.example/1", meta={"item": listing}, cb_kwargs={"of": listing}))
    answer = import_("--delay", 0)
    assert answer.code == 0
    assert "UNLINK" in answer.err
    [got] = claimed(frontier())
    assert got.meta["item"] == got.cb_kwargs["of"] == listing
    assert type(got.meta["item"]) is Listing


@pytest.mark.parametrize("move", [(), ("--move",)], ids=["copy", "move"])
def test_what_is_refused_is_not_marked_as_seen(import_, project, frontier, move):
    theirs = RFPDupeFilter()
    good, *bad = pages(5)
    bad[0].meta["where"] = Path("x")
    bad[1].meta["where"] = [{"deep": {(1, 2): Path("y")}}]  # nothing of this one can be read
    bad[2] = scrapy.Request("http://a.example/post", method="POST", body=b"x" * 70_000)
    bad[3] = scrapy.Request("http://a.example/post", method="POST", body=b"y", meta={"where": Path("z")})
    project.push(good, *bad)
    project.see(*(theirs.request_fingerprint(request) for request in (good, *bad)))
    answer = import_("--json", "--delay", 0, *move)
    assert (answer.code, answer.json["refused"], answer.json["unmarked"], answer.json["marked"]) == (1, 4, 3, 2)
    with frontier() as crawl:
        offered = [to_core(request, SPIDER, theirs.request_fingerprint(request).encode()) for request in pages(5)]
        assert [str(one) for one in crawl.enqueue(offered)] == ["seen", "added", "seen", "added", "added"]
    again = import_(*move)
    assert "UNLINK" not in again.err
    assert "Keep the data of scrapy-redis: 4 requests could not be imported" in " ".join(again.err.split())


def test_a_dupefilter_with_the_projects_own_fingerprints_is_reported(import_, project):
    """The fingerprint of a refused request cannot be found in it, so that it is marked like all others."""
    bad, start = pages(2)
    bad.meta["where"] = start.meta["where"] = Path("x")
    project.push(bad, start.replace(dont_filter=True))
    for dry in ((), ("--dry-run",)):
        assert import_("--json", *dry).json["unfound"] == 0, "the dupefilter is empty"
    project.see("own fingerprint", "another")
    answer = import_("--json", "--delay", 0)
    assert (answer.json["refused"], answer.json["unfound"], answer.json["marked"]) == (2, 1, 2)
    said = " ".join(import_().err.split())
    assert f"Not in {project.name}:dupefilter: 1 refused request, looked up by the fingerprints" in said
    project.see(RFPDupeFilter().request_fingerprint(bad))
    assert import_("--json").json["unfound"] == 0
    assert "looked up by" not in import_().err


def test_queues_of_json_are_read(import_, project, frontier):
    def dumps(fields):
        return json.dumps(fields, default=lambda value: value.decode()).encode()

    request = scrapy.Request("http://a.example/", meta={"depth": 2}, callback=SPIDER.parse, priority=2, body="x")
    fields = request.to_dict(spider=SPIDER) | {"headers": {"Accept": ["a/b"], "Referer": "http://b.example/"}}
    project.client.zadd(project.queue, {dumps(fields): -2})
    assert import_("--delay", 0).code == 0
    [got] = claimed(frontier())
    assert got.callback == SPIDER.parse
    assert (got.body, got.priority, got.meta["depth"]) == (b"x", 2, 2)
    assert got.headers.to_unicode_dict() == {"Accept": "a/b", "Referer": "http://b.example/"}


def test_keys_and_servers_may_be_others(silkline, own_server, valkey, crawl, frontier):
    old = own_server()
    with old.client() as client:
        project = Project(client, "old")
        project.push(*pages(2))
        client.rename("old:requests", "q:shop:waiting")
        client.sadd("q:shop:done", sha("x"))
    keys = ("--requests-key", "q:%(spider)s:waiting", "--dupefilter-key", "q:%(spider)s:done")
    answer = silkline("import", "scrapy-redis", "--spider", "shop", "--from", old.url, "--redis", valkey.url,
                      "--crawl", crawl, *keys, "--json")  # fmt: skip
    assert answer.code == 0, answer.err
    assert (answer.json["crawl"], answer.json["added"], answer.json["marked"]) == (crawl, 2, 1)
    assert frontier().admin.stats().ready == 2


def test_the_crawl_is_the_one_in_which_the_plugin_looks(silkline, valkey, crawl):
    with valkey.client() as client:
        project = Project(client, f"{crawl}:of shop")
        project.push(*pages(1))
    answer = silkline("import", "scrapy-redis", "--spider", "shop", "--redis", valkey.url,
                      "--requests-key", f"{crawl}:of %(spider)s:requests", "--json")  # fmt: skip
    assert answer.json["crawl"].startswith(f"{crawl}-of-shop-"), "a crawl's name has no spaces or colons"


@pytest.mark.parametrize("wrong", ["nothing", "queue", "dupefilter"])
def test_keys_that_are_something_else_are_reported(import_, project, wrong):
    if wrong == "queue":
        project.client.set(project.queue, "x")
    elif wrong == "dupefilter":
        project.client.lpush(f"{project.name}:dupefilter", "x")
    answer = import_()
    assert answer.code == 2
    expected = {"nothing": "SCHEDULER_PERSIST", "queue": "it is a string", "dupefilter": "it is a list"}[wrong]
    assert expected in answer.err
    assert answer.out == ""


@pytest.mark.parametrize("kind", ["zset", "list"])
def test_workers_of_scrapy_redis_may_continue_while_it_moves(project, valkey, crawl, kind):
    """Each request is theirs or ours, and none is both or neither."""
    count = 6000
    batch = [pickle.dumps(request.to_dict(spider=SPIDER), -1) for request in pages(count)]
    with project.client.pipeline() as pipe:
        for data in batch:
            pipe.zadd(project.queue, {data: 0}) if kind == "zset" else pipe.lpush(project.queue, data)
        pipe.execute()
    theirs, moved = [], threading.Event()

    def work():
        with valkey.client() as client:
            while not moved.is_set():
                if kind == "zset":  # as PriorityQueue.pop does
                    with client.pipeline() as pipe:
                        popped, _ = pipe.zrange(project.queue, 0, 0).zremrangebyrank(project.queue, 0, 0).execute()
                else:
                    popped = [client.rpop(project.queue)]
                theirs.extend(pickle.loads(data)["url"] for data in popped if data)

    worker = threading.Thread(target=work)
    with (
        ImportSource.open(valkey.url) as source,
        SyncFrontier.open(valkey.url, crawl=crawl, politeness=AT_ONCE) as ours,
    ):
        worker.start()
        summary = ImportSummary(crawl, crawl, created=True, move=True, dry_run=False)
        QueueImport(source, ours, summary, lambda *_: None).run(project.queue, f"{crawl}:dupefilter")
        moved.set()
        worker.join()
        mine = [request.url for request in drained(ours)]
    assert theirs
    assert mine
    assert sorted(theirs + mine) == sorted(request.url for request in pages(count))


@pytest.mark.parametrize("move", [True, False])
def test_killed_at_any_moment_and_run_again_it_loses_and_doubles_nothing(
    running, import_, project, frontier, valkey, move
):
    count = 2000
    some = [scrapy.Request(f"http://a.example/{number}", dont_filter=number % 2 == 0) for number in range(count)]
    with project.client.pipeline() as pipe:
        for request in some:
            pipe.zadd(project.queue, {pickle.dumps(request.to_dict(spider=SPIDER), -1): 0})
        pipe.execute()
    crawl = frontier(politeness=AT_ONCE)
    arguments = ["import", "scrapy-redis", "--spider", project.name, "--redis", valkey.url]
    kills = 0
    for share in (0.2, 0.6):
        process = running(*arguments, *(["--move"] if move else []))
        while process.process.poll() is None:
            if crawl.admin.stats().accepted >= count * share:
                process.process.send_signal(signal.SIGKILL)
                kills += 1
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(0.01)
    assert kills
    assert import_(*(["--move"] if move else [])).code == 0
    urls = [request.url for request in drained(crawl)]
    assert sorted(urls) == sorted(request.url for request in some)
