"""``silkline explain`` and ``silkline url``, for every state and reason."""

from __future__ import annotations

import re
import time

import pytest

from silkline import Budget, Politeness, Request, SyncFrontier
from silkline.cli.options.operator import operator
from silkline.scrapy.dupefilter import identities_of

FAST = Politeness(delay=0, concurrency=100)
URL = "https://a.example/x"


@pytest.fixture
def explain(operate, crawl):
    def run(url=URL, *arguments):
        answer = operate("explain", url, "--crawl", crawl, *arguments)
        assert answer.code == 0, answer.err
        return answer.out

    return run


def test_every_state_is_reported_in_sentences(explain, frontier, crawl):
    crawling = frontier(politeness=FAST, lease=600)
    assert explain().startswith(f"{crawl}: never seen: it was not enqueued")
    crawling.enqueue([*[f"https://a.example/{number}" for number in range(36)], URL])
    crawling.enqueue([f"https://a.example/after-{number}" for number in range(775)])
    assert "ready: number 37 of 812 on its host, at priority 0. The host is open and waits for a worker." in explain()
    leases = crawling.claim(37)
    [mine] = [lease for lease in leases if lease.url == URL]
    assert "leased: attempt 1 is in progress; the lease expires at " in explain()
    crawling.internal.join("worker-3", info={"urls": [URL]})
    assert "leased by worker worker-3: attempt 1" in explain()
    crawling.retry(mine, after=40, reason="status 503", status=503)
    told = explain()
    assert re.search(r"delayed: retry, attempt 2 is due in \d\d s, at ", told)
    assert ", after status 503." in told
    assert "  status 503\n" in told
    crawling.enqueue("https://b.example/")
    [dead] = [lease for lease in crawling.claim(900) if lease.host == "b.example"]
    crawling.bury(dead, "status 410", 410)
    assert "dead since " in (told := explain("https://b.example/"))
    assert " after 1 attempt: status 410." in told
    crawling.complete(leases[0])
    assert "done: it was seen and is no longer stored" in explain(leases[0].url)
    crawling.enqueue(Request("https://c.example/", not_before=time.time() + 3600))
    assert "it has a not_before time and is due in 60 min" in explain("https://c.example/")


def test_a_request_is_found_in_the_queue_of_its_download_slot(explain, operate, frontier, crawl):
    frontier(politeness=FAST).enqueue(Request(URL, download_slot="proxy-1"))
    assert "ready: number 1 of 1 on its host" in explain(URL, "--slot", "proxy-1")
    wrong = operate("explain", URL, "--crawl", crawl, "--slot", "Proxy 1")
    assert wrong.code == 2
    assert "download_slot must be written as a host" in wrong.err


def test_what_holds_the_host_back_is_reported(explain, operate, frontier, crawl):
    crawling = frontier(politeness=Politeness(delay=500, concurrency=1), lease=600)
    crawling.keep_robots(URL, b"User-agent: *\nDisallow: /private\n", crawl_delay=900)
    crawling.enqueue(["https://a.example/1", URL])
    [lease] = crawling.claim()
    assert "The host is at its concurrency limit of 1." in explain()
    crawling.complete(lease)
    assert "because robots.txt asks for a Crawl-delay of 900 s." in explain()
    crawling.admin.set_host("a.example", delay=700)
    assert "because of its delay of 700 s." in explain()
    crawling.admin.set_host("a.example", block_until=time.time() + 5000)
    assert "because it is blocked." in explain()
    assert operate("host", "pause", crawl, "a.example").code == 0
    assert "The host is paused (by " in explain()
    assert operate("crawl", "pause", crawl).code == 0
    assert "The crawl is paused (by " in explain()


def test_what_is_refused_is_reported(explain, operate, frontier, crawl, workplace):
    crawling = frontier(politeness=FAST, budget=Budget(pages_per_host=1))
    crawling.keep_robots(URL, b"# ours\nUser-agent: *\nDisallow: /private\n")
    crawling.enqueue(URL)
    crawling.complete(crawling.claim()[0])
    told = explain("https://a.example/private/7")
    assert "It would be refused: the host's budget of 1 pages is spent." in told
    assert f"robots.txt forbids it for {crawl} (line 3: Disallow: /private)." in told
    (workplace / "books.py").write_text(
        "from silkline import Crawl, Backoff\n"
        f"crawl = Crawl({crawl!r}, start=['https://a.example/'], retries=Backoff(max_attempts=7))\n"
        "crawl.handler(print)\n"
    )
    answer = operate("explain", "https://elsewhere.example/", "--file", "books.py")
    assert answer.code == 0, answer.err
    told = answer.out
    assert "A link to it is refused: out of scope (another " in told
    crawling.enqueue("https://b.example/")
    crawling.retry(crawling.claim()[0], after=99, reason="reset")
    assert "attempt 2 of 7 is due in" in operate("explain", "https://b.example/", "--file", "books.py").out
    crawling.admin.cancel()
    assert "It would be refused: the crawl is cancelled." in explain("https://d.example/")


def test_without_a_name_all_crawls_are_searched(operate, frontier, crawl, valkey):
    frontier().enqueue(URL)
    with SyncFrontier.open(valkey.url, crawl=f"{crawl}-2") as second:
        second.enqueue("https://a.example/second")
        assert operate("explain", "https://a.example/second").out.startswith(f"{crawl}-2: ready")
        found = operate("explain", "https://a.example/second", "--json").json["crawls"]
        assert [(one["crawl"], one["state"]) for one in found] == [(f"{crawl}-2", "ready")]
        second.admin.remove()


def test_of_few_crawls_each_reports_that_it_has_never_seen_a_page(here, own_server):
    url = own_server().url
    for name in ("one", "two"):
        SyncFrontier.open(url, crawl=name).close()
    assert here("url", "explain", "https://nowhere.example/", "--redis", url).out.count("never seen") == 2


def test_of_many_crawls_only_those_are_asked_that_can_hold_the_page(here, own_server):
    server = own_server()
    crawls = [SyncFrontier.open(server.url, crawl=f"crawl-{number:02}", politeness=FAST) for number in range(14)]
    for crawl in crawls[:12]:
        crawl.enqueue("https://b.example/")
    crawls[3].enqueue(URL)
    crawls[4].enqueue(URL)
    [crawls[4].complete(lease) for lease in crawls[4].claim(5)]
    crawls[5].enqueue(Request(URL, dont_filter=True))  # no filter knows it
    crawls[6].enqueue(Request(URL, dont_filter=True, not_before=time.time() + 3600))
    crawls[7].enqueue(Request(URL, dont_filter=True))
    [crawls[7].bury(lease, "status 410") for lease in crawls[7].claim(5) if lease.url == URL]
    told = here("explain", URL, "--redis", server.url, "--json").json["crawls"]
    states = {one["crawl"]: one["state"] for one in told}
    assert states == {
        "crawl-03": "ready",
        "crawl-04": "done",
        "crawl-05": "ready",
        "crawl-06": "delayed",
        "crawl-07": "dead",
    }
    with server.client() as client:
        client.delete("silkline:{crawl-08:0}:ledger")
    answer = here("explain", "https://nowhere.example/", "--redis", server.url)
    assert answer.out.startswith("None of the 14 crawls has seen this URL.")
    assert "crawl-08 cannot be read:" in answer.err
    for crawl in crawls:
        crawl.close()


def test_a_crawl_that_cannot_be_read_hides_none_of_the_others(operate, frontier, crawl, valkey):
    frontier().enqueue(URL)
    with valkey.client() as client:
        client.sadd("silkline:crawls", f"{crawl}-later")
        client.hset(f"silkline:{{{crawl}-later}}:crawl", "settings", '{"schema": 999}')
    try:
        answer = operate("explain", URL)
        assert (answer.code, f"{crawl}: ready" in answer.out) == (0, True)
        assert f"{crawl}-later cannot be read:" in answer.err
        assert "schema 999" in answer.err
        assert operate("explain", URL, "--crawl", f"{crawl}-later").code == 2
    finally:
        with valkey.client() as client:
            client.srem("silkline:crawls", f"{crawl}-later")


def test_urls_are_forgotten_and_added(operate, frontier, crawl):
    crawling = frontier(politeness=FAST)
    assert operate("url", "add", crawl, URL).code == 0
    assert "0 added, 1 seen" in operate("url", "add", crawl, URL).out
    dry = operate("url", "forget", crawl, URL, "https://b.example/", "--dry-run")
    assert "1 URL of 2 would be forgotten; queued, in progress or dead: 1" in dry.out
    crawling.complete(crawling.claim()[0])
    assert operate("url", "forget", crawl, URL, "--json").json["forgotten"] == 1
    assert "2 added" in operate("url", "add", crawl, URL, "https://b.example/", "--priority", "7").out
    noted = [(act.by, act.what, act.about) for act in crawling.admin.audit()]
    assert noted == [(operator(), "add", "2 URLs"), (operator(), "forget", URL), (operator(), "add", URL)]
    assert crawling.claim(2)[0].request.priority == 7
    assert operate("url", "add", f"{crawl}-new", URL).code == 2, "a name that is mistyped makes no crawl"
    refused = operate("url", "add", crawl, '{"url": "https://a.example/", "auth": ["me", "pw"]}')
    assert (refused.code, "silkline enqueue" in refused.err) == (2, True), "the audit log would have the password"


@pytest.mark.parametrize(
    "wrong",
    [
        ("explain",),
        ("explain", "nonsense"),
        ("explain", "ftp://a.example/"),
        ("explain", URL, "--crawl", "no-such-crawl"),
        ("explain", URL, "--file", "missing.py"),
        ("url", "forget", "CRAWL"),
        ("url", "forget", "CRAWL", "nonsense"),
        ("url", "add", "CRAWL"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_code_2(operate, frontier, crawl, wrong):
    frontier()
    answer = operate(*(crawl if word == "CRAWL" else word for word in wrong))
    assert answer.code == 2
    assert answer.err.startswith("error: ")


@pytest.mark.parametrize("number", [0, 1])
def test_what_a_spider_has_done_is_known_by_scrapys_fingerprints(explain, frontier, number):
    crawling = frontier(politeness=FAST)
    crawling.enqueue(Request(URL, identity=identities_of(URL)[number]))
    assert "ready: number 1 of 1" in explain()
    crawling.complete(crawling.claim(1)[0])
    assert "done: it was seen" in explain()
    assert "never seen" in explain("https://a.example/other")


@pytest.mark.parametrize("number", [0, 1])
def test_what_a_spider_has_done_is_forgotten(operate, explain, frontier, crawl, number):
    crawling = frontier(politeness=FAST)
    crawling.enqueue([Request(URL, identity=identities_of(URL)[number]), "https://b.example/"])
    for lease in crawling.claim(2):
        crawling.complete(lease)
    urls = (URL, "https://b.example/", "https://c.example/")
    assert (
        "2 URLs of 3 would be forgotten; queued, in progress or dead: 0"
        in operate("url", "forget", crawl, *urls, "--dry-run").out
    )
    assert operate("url", "forget", crawl, *urls, "not a URL").code == 2
    assert "done" in explain(), "what cannot be read is told before anything is forgotten"
    assert operate("url", "forget", crawl, *urls, "--json").json["forgotten"] == 2
    assert "never seen" in explain()
