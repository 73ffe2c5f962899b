"""``silkline url ls`` and ``silkline url export``: requests that wait or are in progress."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import Counter

import pytest

from silkline import Politeness, Request


@pytest.fixture
def queue(frontier):
    crawl = frontier(politeness=Politeness(delay=0, concurrency=100))
    crawl.enqueue([Request(f"https://a.example/{number}", handler="product") for number in range(30)])
    crawl.enqueue([f"https://b.example/{number}" for number in range(3)])
    crawl.enqueue([Request(f"https://late.example/{n}", not_before=4_000_000_000 + n, priority=5) for n in range(4)])
    return crawl


def urls(answer):
    return [one["url"] for one in answer.json["requests"]]


def test_waiting_requests_are_listed_a_page_at_a_time(operate, queue, crawl):
    answer = operate("url", "ls", crawl, "--host", "a.example")
    assert answer.code == 0
    assert answer.out.split()[:5] == ["priority", "attempts", "handler", "enqueued", "url"]
    rows = [line.split() for line in answer.out.splitlines()[1:3]]
    assert {row[5] for row in rows} == {"UTC"}, "the end of the time at which they were enqueued"
    assert [row[:3] + row[6:] for row in rows] == [
        ["0", "0", "product", "https://a.example/0"],
        ["0", "0", "product", "https://a.example/1"],
    ]
    assert f"More: silkline url ls {crawl} --state ready --host a.example --after '" in answer.err
    after = answer.err.split("--after '")[1].split("'")[0]
    rest = operate("url", "ls", crawl, "--host", "a.example", "--after", after)
    assert len(rest.out.splitlines()) == 1 + 10
    assert rest.err == ""


def test_all_of_them_as_json(operate, queue, crawl):
    found, after = [], ""
    while True:
        answer = operate("url", "ls", crawl, "--limit", 7, "--json", "--after", after)
        found += urls(answer)
        after = answer.json["after"]
        if not after:
            break
    assert len(found) == len(set(found)) == 33
    [first, *_] = operate("url", "ls", crawl, "--host", "a.example", "--json").json["requests"]
    assert (first["state"], first["handler"], first["attempts"], first["history"]) == ("ready", "product", 0, [])


def test_delayed_and_leased_requests_have_their_times(operate, queue, crawl):
    answer = operate("url", "ls", crawl, "--state", "delayed")
    assert "2096-10-02 07:06:40 UTC" in answer.out
    assert urls(operate("url", "ls", crawl, "--state", "delayed", "--limit", 1, "--json")) == ["https://late.example/0"]
    assert f"{crawl} has no leased requests." in operate("url", "ls", crawl, "--state", "leased").out
    [lease] = queue.claim(1, lease=600)
    [one] = operate("url", "ls", crawl, "--state", "leased", "--json").json["requests"]
    assert (one["url"], one["attempts"]) == (lease.url, 1)
    assert one["expires"] > time.time()


def test_an_export_has_all_of_them_and_no_formula(silkline, queue, crawl, valkey):
    queue.enqueue("https://b.example/9", spill=False)
    [lease] = [one for one in queue.claim(40) if one.url == "https://b.example/9"]
    queue.retry(lease, after=3600, reason="=cmd|' /C calc'!A0", status=500)
    answer = silkline("url", "export", crawl, "--state", "delayed", "--redis", valkey.url)
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert [row["url"] for row in rows] == ["https://b.example/9", *(f"https://late.example/{n}" for n in range(4))]
    assert rows[0]["reason"] == "'=cmd|' /C calc'!A0"
    assert rows[1]["due"] == "2096-10-02T07:06:40.000Z"
    assert rows[1]["priority"] == "5"
    lines = silkline("url", "export", crawl, "--state", "delayed", "--format", "jsonl", "--redis", valkey.url).out
    found = [json.loads(line) for line in lines.splitlines()]
    assert found[0]["reason"] == "=cmd|' /C calc'!A0"
    assert found[1]["due"] == 4_000_000_000


def test_an_export_without_a_state_has_ready_delayed_and_leased_requests(silkline, queue, crawl, valkey):
    queue.claim(2, lease=600)
    answer = silkline("url", "export", crawl, "--redis", valkey.url)
    states = Counter(row["state"] for row in csv.DictReader(io.StringIO(answer.out)))
    assert states == {"ready": 31, "delayed": 4, "leased": 2}


def test_an_export_reads_page_after_page(silkline, frontier, crawl, valkey):
    frontier().enqueue([f"https://h{number % 7}.example/{number}" for number in range(2500)])
    answer = silkline("url", "export", crawl, "--redis", valkey.url)
    found = [row["url"] for row in csv.DictReader(io.StringIO(answer.out))]
    assert len(found) == len(set(found)) == 2500
    only = silkline("url", "export", crawl, "--host", "h3.example", "--redis", valkey.url)
    assert {row["host"] for row in csv.DictReader(io.StringIO(only.out))} == {"h3.example"}


def test_what_comes_from_the_web_does_not_steer_the_terminal(operate, frontier, crawl):
    frontier().enqueue(Request("https://user:geheim@a.example/", handler="\x1b[31m[red]x[/red]"))
    answer = operate("url", "ls", crawl)
    assert "\x1b" not in answer.out
    assert "[red]x[/red]" in answer.out
    assert "geheim" not in answer.out


@pytest.mark.parametrize("wrong", [["--state", "dead"], ["--limit", "0"], ["--after", "x"], ["--host", "not a host"]])
def test_what_is_wrong_gets_a_sentence_and_code_2(operate, queue, crawl, wrong):
    answer = operate("url", "ls", crawl, *wrong)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")


def test_the_only_crawl_of_a_server_needs_no_name(silkline, workplace):
    silkline("enqueue", "books", "https://a.example/1")
    assert "https://a.example/1" in silkline("url", "ls").out
    assert "https://a.example/1" in silkline("url", "export").out
    assert silkline("dead", "export").out.startswith("id,url,host,reason")


# ── drop and promote ──


def waiting(queue, state="ready"):
    found, after = [], ""
    while True:
        some, after = queue.admin.requests(state, limit=1000, after=after)
        found += [one.url for one in some]
        if not after:
            return found


def test_waiting_requests_are_dropped_by_host_handler_and_text(operate, queue, crawl):
    dry = operate("url", "drop", crawl, "--host", "a.example", "--contains", "/2", "--dry-run")
    assert dry.out.splitlines()[:2] == ["11 requests would be dropped:", "  https://a.example/2"]
    assert dry.out.splitlines()[-1] == "  … and 1 more"
    assert len(waiting(queue)) == 33
    assert "11 requests dropped" in operate("url", "drop", crawl, "--host", "a.example", "--contains", "/2", "-y").out
    assert [url for url in waiting(queue) if "a.example/2" in url] == []
    told = operate("url", "drop", crawl, "--handler", "product", "--yes", "--json").json
    assert (told["matching"], told["dropped"], len(told["urls"])) == (19, 19, 10)
    assert sorted(waiting(queue)) == [f"https://b.example/{number}" for number in range(3)]
    stats = queue.admin.stats()
    assert (stats.discarded, stats.delayed, stats.conserved) == (30, 4, True)
    assert [(act.what, act.about) for act in queue.admin.audit()] == [
        ("drop", "handler product: 19"),
        ("drop", "host a.example, contains /2: 11"),
    ]


def test_urls_are_dropped_by_name_and_a_url_that_does_not_wait_is_reported(operate, queue, crawl):
    answer = operate("url", "drop", crawl, "https://A.example/3#x", "https://late.example/0", "-y")
    assert (answer.code, answer.out.strip()) == (0, "2 requests dropped")
    answer = operate("url", "drop", crawl, "https://a.example/3", "https://a.example/4", "-y")
    assert (answer.code, answer.out.strip()) == (1, "1 request dropped")
    assert "Not found among the waiting requests: https://a.example/3. Its state: silkline explain" in answer.err
    assert {"https://a.example/3", "https://a.example/4"} & set(waiting(queue)) == set()
    assert len(waiting(queue, "delayed")) == 3


def test_thousands_of_a_long_queue_are_dropped_at_once(operate, frontier, crawl):
    queue = frontier()
    queue.enqueue([f"https://a.example/{number}" for number in range(4_000)])
    assert operate("url", "drop", crawl, "--contains", "5", "--yes", "--json").json["dropped"] == 1_084
    left = waiting(queue)
    assert left == [f"https://a.example/{number}" for number in range(4_000) if "5" not in str(number)]


def test_only_one_state_is_dropped_if_asked(operate, queue, crawl):
    assert operate("url", "drop", crawl, "--contains", "/1", "--state", "delayed", "-y", "--json").json["dropped"] == 1
    assert len(waiting(queue)) == 33


def test_delayed_requests_are_promoted(operate, queue, crawl):
    answer = operate("url", "promote", crawl, "https://late.example/2")
    assert (answer.code, answer.out.strip()) == (0, "1 request promoted")
    assert operate("url", "promote", crawl, "https://late.example/2").code == 1
    assert operate("url", "promote", crawl, "--dry-run", "--json").json["matching"] == 3
    assert "3 requests promoted" in operate("url", "promote", crawl).out
    assert waiting(queue, "delayed") == []
    assert f"No waiting request of {crawl} matches." in operate("url", "promote", crawl).out
    assert [act.about for act in queue.admin.audit()] == ["all delayed pages: 3", "https://late.example/2: 1"]


def test_calls_of_tasks_that_wait_are_promoted_only_by_name(operate, queue, crawl):
    later = time.time() + 3600
    queue.enqueue([Request(f"https://resize/={number}", handler="resize", not_before=later) for number in range(2)])
    assert "4 requests promoted" in operate("url", "promote", crawl).out
    assert f"No waiting request of {crawl} matches." in operate("url", "promote", crawl).out
    assert sorted(waiting(queue, "delayed")) == ["https://resize/=0", "https://resize/=1"]
    assert "1 request promoted" in operate("url", "promote", crawl, "https://resize/=0").out
    assert "1 request promoted" in operate("url", "promote", crawl, "--handler", "resize").out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([], "name URLs to drop, or give --host, --handler or --contains; to drop everything: silkline crawl cancel"),
        (["--host", ""], "--host is empty"),
        (["--contains", " "], "--contains is empty"),
        (["--contains", "/"], "33 waiting requests of"),
        (["notaurl"], "'notaurl' is not a URL that can be crawled: not an absolute URL"),
        (["--host", "not a host"], "error: "),
        (["--state", "leased", "--contains", "x"], "leased"),
    ],
)
def test_what_is_not_clear_or_not_confirmed_drops_nothing(operate, queue, crawl, wrong, told):
    state = [] if "--state" in wrong else ["--state", "ready"]
    answer = operate("url", "drop", crawl, *wrong, *state)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert len(waiting(queue)) == 33


def test_a_crawl_that_is_not_there_is_reported(operate, crawl):
    for verb in ("drop", "promote"):
        answer = operate("url", verb, "nothing", "https://a.example/")
        assert answer.code == 2
        assert "there is no crawl named 'nothing'" in answer.err
