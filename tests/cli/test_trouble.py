"""Which crawl of a server is in trouble, why, and what to do: on the screen of an operator on call."""

from __future__ import annotations

import re
import time

import msgspec
import pytest

from silkline import Politeness, SyncFrontier
from silkline.dashboard import app as dashboard
from silkline.frontier.admin_verbs.audit import A_WORKER
from silkline.frontier.verbs.history import Counts, Levels
from tests.cli.terminal import CONTROL, Terminal
from tests.dashboard.serving import Serving, Visitor
from tests.servers import Server

SIZES = pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
LEVELS = Levels(ready=112, delayed=0, leased=0, done=0, dead=0, discarded=0, overflow=0)
WHY = "the last 50 pages of handler product all failed with KeyError: 'price' (shop.py:21)"
CRAWLS = ["broken", "forgotten", "hopeless", "a-shop-with-a-rather-long-name", "healthy"]
"""Those in trouble come first."""


@pytest.fixture(scope="module")
def troubled():
    """A server with crawls in trouble of several kinds, and a sound one."""
    server = Server("valkey").start()
    opened = []

    def start(name, *, worker=True, **counts):
        crawl = SyncFrontier.open(server.url, crawl=name, politeness=Politeness(delay=0))
        opened.append(crawl)
        crawl.enqueue([f"https://h{number % 4}.{name}.example/{number}" for number in range(112)])
        crawl.internal.add_history(Counts(**counts), LEVELS)
        if worker:
            crawl.internal.join("crawler-1:77", info={"urls": [f"https://h1.{name}.example/1"]}, expires=36_000)
        return crawl

    start("healthy", pages=50, ended=50)
    start("forgotten", worker=False)
    start("hopeless", errors=20)
    shop = start("a-shop-with-a-rather-long-name", pages=50, ended=50)
    for number in range(3):
        host = f"h{number}.a-shop-with-a-rather-long-name.example"
        shop.admin.set_host(host, block_until=time.time() + 36_000)
    broken = start("broken")
    broken.admin.pause()
    broken.internal.append_audit(f"{A_WORKER}{WHY}", "pause")
    yield server
    for crawl in opened:
        crawl.close()
    server.remove()


@pytest.fixture
def screen(troubled, workplace, forker):
    """Starts a command on a pseudo-terminal."""
    started = []

    def start(*arguments, columns, lines):
        size = {"columns": columns, "lines": lines}
        terminal = Terminal(*arguments, "--redis", troubled.url, cwd=workplace, forker=forker, **size)
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        terminal.close()


@SIZES
def test_the_list_begins_with_crawls_in_trouble_and_ends_with_what_to_do(screen, columns, lines):
    terminal = screen("status", columns=columns, lines=lines)
    assert terminal.end() == 0
    printed = [line.rstrip() for line in CONTROL.sub("", terminal.text).replace("\r", "").splitlines()]
    assert max(map(len, printed)) <= columns
    assert len(printed) < lines
    end = printed.index("")
    rows = [line.split()[0] for line in printed[1:end] if len(line.split()) > 3]
    assert [name for name in CRAWLS if name.startswith(tuple(rows))] == CRAWLS
    assert rows == [name[: len(row)] for row, name in zip(rows, CRAWLS, strict=True)]
    told = " ".join(" ".join(printed[end + 1 :]).split())
    for sentence in (
        (
            f"broken: paused itself with 112 waiting requests, because {WHY}: correct the file and restart the workers with it, "
            "then: silkline dead revive broken and silkline crawl resume broken; or, on one machine: silkline run FILE --revive"
        ),
        "forgotten: 112 requests wait and no worker is running: start one with silkline worker FILE",
        "hopeless: every attempt failed in the last 5 minutes: see silkline host ls hopeless --sort trouble",
        "a-shop-with-a-rather-long-name: 3 of 4 hosts are blocked or slowed down for more than a minute: see",
    ):
        assert sentence in told
    assert "healthy" not in told


@SIZES
def test_top_has_a_reason_beside_each_crawl_and_what_to_do_about_the_selected_one(screen, columns, lines):
    terminal = screen("top", "--every", "0.1", columns=columns, lines=lines)
    frame = terminal.frame_with("q quit")
    assert len(frame) <= lines
    assert max(map(len, frame)) <= columns
    rows = [line.rstrip() for line in frame[3 : 3 + len(CRAWLS)]]
    reasons = ["paused itself", "no worker", "100 % fail", "3/4 hosts closed"]
    assert [row.endswith(f"  {reason}") for row, reason in zip(rows, reasons, strict=False)] == [True] * len(reasons)
    assert rows[4].startswith("healthy ")
    assert f"paused itself with 112 waiting requests, because {WHY}" in " ".join(" ".join(frame).split())
    terminal.type(b"j")
    below = terminal.frame_with("112 requests wait and no worker")
    assert "start one with silkline worker FILE" in " ".join(" ".join(below).split())


def test_programs_get_notices_too(here, troubled):
    for command in (["status"], ["top"]):
        found = here(*command, "--redis", troubled.url, "--json").json
        assert [one["crawl"] for one in found["crawls"]] == CRAWLS
        kinds = [[notice["kind"] for notice in one["notices"]] for one in found["crawls"]]
        assert kinds == [["paused"], ["idle"], ["failing"], ["hosts"], []]
        assert found["notices"] == []
    [notice] = here("status", "hopeless", "--redis", troubled.url, "--json").json["notices"]
    text = "every attempt failed in the last 5 minutes"
    see = "silkline host ls hopeless --sort trouble"
    assert notice == {"kind": "failing", "severe": True, "text": text, "remedy": "", "see": see}


def test_a_server_without_memory_is_one_notice_for_all(here, troubled):
    with troubled.client() as client:
        client.config_set("maxmemory", client.info("memory")["used_memory"])
        try:
            listed = here("status", "--redis", troubled.url).out
            found = here("status", "healthy", "--redis", troubled.url, "--json").json
            looked = here("top", "--redis", troubled.url, "--once").out
        finally:
            client.config_set("maxmemory", 0)
    assert listed.count("out of memory (") == 1
    assert [notice["kind"] for notice in found["notices"]] == ["memory"]
    assert "out of memory (" in looked
    assert "out of memory" not in here("status", "--redis", troubled.url).out


def test_a_crawl_that_recovers_has_no_notice_left(here, troubled):
    with SyncFrontier.open(troubled.url, crawl="recovers", politeness=Politeness(delay=0)) as crawl:
        crawl.enqueue("https://a.example/")
        assert "recovers: 1 request waits" in here("status", "--redis", troubled.url).out
        crawl.internal.join("crawler-1:77")
        assert "recovers: " not in here("status", "--redis", troubled.url).out
        crawl.admin.remove()


def test_what_grows_is_full_before_it_is_and_all_say_when(here, own_server):
    """Twenty minutes ago, half as much memory was used, and a third of the requests waited."""
    server, then = own_server(), time.time_ns() // 1_000_000 - 1_200_000
    with SyncFrontier.open(server.url, crawl="grows", capacity=1000) as crawl, server.client() as client:
        crawl.enqueue([f"https://a.example/{number}" for number in range(300)])
        crawl.internal.join("crawler-1:77")
        used = client.info("memory")["used_memory"]
        earlier = msgspec.structs.replace(LEVELS, ready=100, server_memory=used // 2)
        with SyncFrontier.open(server.url, crawl="grows", clock=lambda: then) as past:
            past.internal.add_history(Counts(), earlier)
        client.config_set("maxmemory", 4 * used)
        texts = [
            here(*words, "--redis", server.url).out for words in (["status"], ["status", "grows"], ["top", "--once"])
        ]
        with Serving(dashboard(server.url)) as serving:
            texts += [Visitor(serving.port).get("/").text, metrics := Visitor(serving.port).get("/metrics").text]
    for text in (" ".join(one.split()) for one in texts[:-1]):
        assert re.search(r"will be out of memory in about (\d\.\d h|\d+ min) at this rate", text), text
        assert re.search(r"full in (about )?\d+ min", text), text
    assert 1800 < float(re.search(r"silkline_seconds_until_full{.*} (\S+)", metrics)[1]) < 3 * 3600
    assert 1800 < float(re.search(r"silkline_seconds_until_out_of_memory{.*} (\S+)", metrics)[1]) < 8 * 3600


def test_a_server_without_memory_is_the_reason_why_a_crawl_is_full(own_server):
    server = own_server()
    with SyncFrontier.open(server.url, crawl="small") as crawl, server.client() as client:
        crawl.enqueue("https://a.example/")
        client.config_set("maxmemory", client.info("memory")["used_memory"])
        with Serving(dashboard(server.url)) as serving:
            metrics = Visitor(serving.port).get("/metrics").text
    assert 'silkline_full{crawl="small",reason="memory"} 1' in metrics
    assert 'silkline_full{crawl="small",reason="capacity"} 0' in metrics
