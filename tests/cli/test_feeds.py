"""``--feed``: URLs that another program pushes while the crawl runs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from silkline.frontier.store.keys import InboxKeys
from tests.cli.sites import lines_of, wait_until

ROUTES = {f"/{number}": f"<h1>{number}</h1>" for number in range(1, 9)}


def test_a_fed_crawl_needs_no_start_and_stays_open(running, valkey, site, write, crawl, frontier, workplace):
    here, key = site(ROUTES), f"{crawl}:urls"
    file = write([])
    with valkey.client() as client:
        run = running(
            "run", file, "--redis", valkey.url, "--feed", f"redis:{key}", "-o", "items.jsonl", "--workers", "2"
        )
        run.wait_for("the crawl stays open")
        client.lpush(key, here.at("/1"))
        wait_until(lambda: len(here.visits) == 1)
        wait_until(lambda: frontier().admin.stats().done == 1)
        client.lpush(key, json.dumps({"url": here.at("/2"), "meta": {"n": 1}}), "{bad", here.at("/3"))
        wait_until(lambda: frontier().admin.stats().done == 3)
        run.process.send_signal(signal.SIGINT)
        assert run.end() in (5, 130)  # finished with a dead letter, or interrupted
        assert client.exists(key, InboxKeys(key).messages) == 0
    assert sorted(item["path"] for item in lines_of(workplace / "items.jsonl")) == ["1", "2", "3"]
    [letter] = frontier().admin.dead()
    assert (letter.host, letter.request.body) == ("feed.invalid", b"{bad")
    assert "not valid JSON" in letter.reason


def test_it_ends_when_it_was_idle_and_a_worker_that_joins_does_the_same(
    running, silkline, valkey, site, write, crawl, frontier
):
    here, key = site(ROUTES), f"{crawl}:urls"
    file = write([])
    options = ("--redis", valkey.url, "--feed", f"redis:{key}", "--until-idle", "1s")
    with valkey.client() as client:
        client.sadd(key, here.at("/1"), here.at("/2"))
        run = running("run", file, *options)
        wait_until(lambda: len(here.visits) == 2)
        joined = running("worker", file, "--redis", valkey.url)
        joined.wait_for(f"this worker reads redis:{key} too")
        assert run.end() == joined.end() == 0
        again = silkline("run", file, *options)  # it is finished, but may be fed
        assert again.code == 0
    assert frontier().admin.stats().done == 2


def test_a_file_is_read_once_by_all_workers_together(silkline, valkey, site, write, crawl, frontier, workplace):
    here = site(ROUTES)
    rows = ["url,priority", *(f"{here.at(path)},1" for path in ROUTES), "no URL,2"]
    (workplace / "urls.csv").write_text("\n".join(rows))
    options = ("--redis", valkey.url, "--feed", "urls.csv", "-o", "items.jsonl", "--workers", "2")
    run = silkline("run", write([]), *options)
    assert run.code == 5
    assert f"feeds: {workplace / 'urls.csv'}; the crawl ends when they are read and nothing is left" in run.err
    assert sorted(visit.path for visit in here.visits) == sorted(ROUTES)
    [letter] = frontier().admin.dead()
    assert letter.url == f"https://feed.invalid{workplace / 'urls.csv'}?line=10"
    again = silkline("run", write([]), *options)
    assert again.code == 5
    assert len(here.visits) == len(ROUTES)


def test_a_bad_entry_can_be_revived_once_its_handler_is_there(silkline, valkey, site, write, crawl, frontier):
    here, key = site(ROUTES), f"{crawl}:urls"
    options = ("--redis", valkey.url, "--feed", f"redis:{key}", "--until-idle", "0.5s")
    with valkey.client() as client:
        client.rpush(key, json.dumps({"url": here.at("/1"), "handler": "product"}), "no URL")
        assert silkline("run", write([]), *options).code == 5
        assert len(here.visits) == 0
        file = write([], "@crawl.handler\ndef product(page):\n    yield {'product': page.url}\n")
        answer = silkline("run", file, *options, "--revive")
    assert answer.code == 5
    assert [visit.path for visit in here.visits] == ["/1"]
    [letter] = frontier().admin.dead()
    assert letter.request.body == b"no URL"


def test_wrong_feeds_are_reported(silkline, write, workplace):
    file = write([])
    Path(workplace / "x.csv").write_text("name\nhttps://a.example/\n")
    wrong = {
        "redis:": "must be a string that is not empty",
        "kafka:x": "unknown feed 'kafka:x'",
        "none.txt": "none.txt cannot be read: No such file",
        "x.csv": 'x.csv has no column "url"; its columns are: name',
        "x.parquet.gz": "Parquet files are already compressed",
    }
    for feed, words in wrong.items():
        answer = silkline("run", file, "--feed", feed)
        assert answer.code == 2
        assert words in answer.err
    assert "must be a time such as" in silkline("run", file, "--until-idle", "soon").err
