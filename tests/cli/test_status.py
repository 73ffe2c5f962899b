import re

import pytest

from silkline import Budget, Bury, Politeness, Request, SyncFrontier
from silkline.frontier.overflow import SqliteOverflow
from silkline.frontier.verbs.history import Counts, HandlerCounts
from tests.cli.terminal import Terminal

FAST = Politeness(delay=0, concurrency=100)


@pytest.fixture
def status(silkline, valkey):
    def run(*arguments):
        return silkline("status", *arguments, "--redis", valkey.url)

    return run


def busy(frontier):
    """A crawl with something in every state."""
    crawl = frontier(politeness=FAST, seen="compact")
    crawl.enqueue([f"https://big.example/{i}" for i in range(2_000)])
    crawl.enqueue([f"https://small.example/{i}" for i in range(7)])
    crawl.enqueue(Request("https://late.example/", not_before=9e9))
    held = crawl.claim(4, lease=600)
    crawl.complete(held[0])
    crawl.bury(held[1], "broken")
    crawl.retry(held[2], after=1000)
    return crawl


def row_of(text, crawl):
    [row] = [line.split() for line in text.splitlines() if line.split()[:1] == [crawl]]
    return row


def test_all_crawls_in_a_table(status, frontier, crawl):
    busy(frontier)
    answer = status()
    assert answer.code == 0
    headings = answer.out.splitlines()[0].split()
    counts = ["ready", "delayed", "leased", "done", "dead", "items", "hosts", "capacity"]
    assert headings == ["crawl", "state", "workers", "done/s", *counts]
    numbers = ["running", "0", "0.0", "2,003", "2", "1", "1", "1", "0", "2", "0%"]
    assert row_of(answer.out, crawl) == [crawl, *numbers]


def test_a_narrow_terminal_has_fewer_columns(frontier, crawl, valkey, workplace):
    busy(frontier)
    screen = Terminal("status", "--redis", valkey.url, cwd=workplace, columns=80)
    try:
        screen.wait_for(crawl)
        assert screen.end() == 0
    finally:
        screen.close()
    headings = screen.text.splitlines()[0]
    assert "done/s" in headings
    assert "capacity" not in headings


def test_a_crawl_without_a_worker_is_idle_and_says_how_to_start_one(silkline, workplace):
    silkline("enqueue", "books", *(f"https://a.example/{number}" for number in range(112)))
    told = "112 requests wait and no worker is running: start one with silkline worker FILE"
    answer = silkline("status")
    assert row_of(answer.out, "books")[1] == "idle"
    assert f"books: {told}" in answer.out
    assert told in silkline("status", "books").out
    [mine] = silkline("status", "--json").json["crawls"]
    assert (mine["status"], mine["state"], mine["workers"]) == ("idle", "open", 0)


def test_what_each_handler_did_is_reported(status, frontier, crawl):
    one = frontier(politeness=FAST)
    product = HandlerCounts(pages=1200, items=3600, failures=7, exceptions=5, dead=4)
    product.timing.note(0.2)
    news = {"listing": HandlerCounts(pages=3).numbers, "product": product.numbers}
    one.internal.add_history(Counts(pages=1203), None, news)
    told = status(crawl).out
    assert row_of(told, "handler") == ["handler", "pages", "items", "failures", "exceptions", "dead", "p50", "p95"]
    assert row_of(told, "product") == ["product", "1,200", "3,600", "7", "5", "4", "175", "ms", "242", "ms"]
    assert row_of(told, "listing") == ["listing", "3", "0", "0", "0", "0", "–", "–"]
    first, second = status(crawl, "--json").json["handlers"]
    assert (first["handler"], first["dead"], second["handler"], second["p95"]) == ("product", 4, "listing", None)


def test_workers_rate_and_items_are_reported(status, frontier, crawl):
    one = frontier(politeness=FAST)
    one.enqueue("https://a.example/")
    one.internal.join("w-1")
    one.internal.add_history(Counts(pages=30, items=1234), None)
    assert row_of(status().out, crawl)[1:3] == ["running", "1"]
    assert row_of(status().out, crawl)[9] == "1,234"
    found = status(crawl, "--json").json
    assert (found["status"], found["workers"], found["items"]) == ("running", 1, 1234)
    assert found["pages_per_second"] >= 0
    text = status(crawl).out
    assert "1 worker, " in text
    assert "1,234 items" in text
    assert "no worker is running" not in text


def test_what_was_crawled_is_finished(status, frontier, crawl):
    one = frontier(politeness=FAST)
    one.enqueue("https://a.example/")
    one.complete(one.claim()[0])
    assert row_of(status().out, crawl)[1:4] == ["finished", "0", "-"]
    assert f"{crawl} is finished" in status(crawl).out
    assert "0 workers, - pages/s" in status(crawl).out


def test_all_crawls_as_json(status, frontier, crawl, valkey):
    busy(frontier)
    answer = status("--json")
    assert answer.json["server"] == valkey.url
    [mine] = [one for one in answer.json["crawls"] if one["crawl"] == crawl]
    counts = {name: mine[name] for name in ("ready", "delayed", "leased", "done", "dead", "accepted", "seen")}
    assert counts == {"ready": 2003, "delayed": 2, "leased": 1, "done": 1, "dead": 1, "accepted": 2008, "seen": 2008}


def test_one_crawl_in_detail(status, frontier, crawl):
    busy(frontier)
    text = status(crawl).out
    lines = dict(line.split(None, 1) for line in text.splitlines() if line.strip())
    assert lines[crawl].strip() == "is running"
    assert lines["requests"].strip() == "2,003 ready, 2 delayed, 1 leased, 1 done, 1 dead, 0 discarded"
    assert lines["seen"].startswith("2,008; about")
    assert "new URLs wrongly skipped" in lines["seen"]
    assert not lines.keys() & {"overflow", "rescued", "politeness"}
    assert lines["capacity"].strip() == "0% of 5,000,000"
    assert text.index("big.example") < text.index("small.example")
    assert lines["big.example"].split()[:2] == ["ready", "1,996"]


def test_one_crawl_as_json(status, frontier, crawl):
    busy(frontier)
    found = status(crawl, "--json", "--hosts", "1").json
    assert found["settings"]["seen"] == "compact"
    assert found["settings"]["politeness"] == {"delay": 0.0, "concurrency": 100, "burst": 1}
    assert "seed" not in found["settings"]
    assert 0 < found["expected_skips"] < 1
    [host] = found["busiest_hosts"]
    assert (host["host"], host["queued"], host["place"]) == ("big.example", 1996, "ready")


def test_the_settings_are_reported_as_one_would_write_them(operate, frontier, crawl):
    budget = Budget(pages=1000, depth=3)
    frontier(seen="bloom:0.001,5000", order="lifo", shards=2, budget=budget, politeness=FAST)
    text = operate("crawl", "show", crawl).out
    pace = "0 s delay, 100 at a time, burst 1, per host"
    for words in ("bloom:0.001,5000", "lifo", "1,000 pages, 3 deep", "shards      2", pace):
        assert words in text


@pytest.mark.parametrize("state", ["paused", "cancelled"])
def test_the_state_is_reported(status, frontier, crawl, state):
    one = frontier()
    one.admin.pause() if state == "paused" else one.admin.cancel()
    assert row_of(status().out, crawl)[1] == state
    assert f"{crawl} is {state}" in status(crawl).out


def test_a_slowed_host_is_reported_in_words(status, frontier, crawl):
    slow = frontier(politeness=Politeness(delay=10))
    slow.enqueue(["https://busy.example/1", "https://busy.example/2"])
    slow.retry(slow.claim(1)[0], slow_host=True)
    assert re.search(r"[\d.]+ s \(slowed\)", status(crawl).out)
    [host] = status(crawl, "--json").json["busiest_hosts"]
    assert 10 < host["delay"] <= 20, "it decays meanwhile"
    assert host["slowed_from"] == 10


def test_a_full_crawl_says_so(status, frontier, crawl):
    frontier(capacity=10).enqueue([f"https://a.example/{i}" for i in range(20)])
    assert row_of(status().out, crawl)[1:3] == ["idle,", "full"]
    told = " ".join(status(crawl).out.split())
    assert "capacity 100% of 10" in told
    assert (
        "at its capacity, so feeds pause, and new links wait on the disks of workers, or their pages are retried: add workers, or raise it"
        in told
    )


def test_what_waits_on_disk_is_reported(status, frontier, crawl, workplace):
    one = frontier(capacity=1, overflow=workplace / "overflow.db", politeness=FAST)
    one.enqueue("https://a.example/")
    [lease] = one.claim(1)
    one.complete(lease, links=[f"https://b.example/{i}" for i in range(31)])
    assert status(crawl, "--json").json["overflow"] == 30
    assert "30 links on disk" in status(crawl).out


def test_what_was_dropped_for_want_of_room_on_disk_is_reported(status, frontier, crawl, workplace):
    store = SqliteOverflow(workplace / "overflow.db", per_host=5)
    one = frontier(capacity=1, overflow=store, politeness=FAST)
    one.enqueue("https://a.example/")
    [lease] = one.claim(1)
    one.complete(lease, links=[f"https://b.example/{i}" for i in range(31)])
    assert status(crawl, "--json").json["overflow_refused"] == 25
    assert "5 links on disk; 25 were dropped because the file holds too many links of their host" in status(crawl).out


def test_dropped_dead_letters_are_reported(status, operate, frontier, crawl):
    one = frontier(dead_limit=2, politeness=FAST)
    assert "dropped" not in status(crawl).out
    one.enqueue([f"https://a.example/{number}" for number in range(5)])
    one.settle([(lease, Bury("no")) for lease in one.claim(5)])
    told = status(crawl).out
    assert re.search(r"dead limit +2 dead letters", operate("crawl", "show", crawl).out)
    assert "3 of the discarded requests were dead letters beyond the limit" in told
    found = status(crawl, "--json").json
    assert (found["dead"], found["dead_dropped"], found["dead_limit"], found["settings"]["dead_limit"]) == (2, 3, 2, 2)
    one.admin.set_dead_limit(0)
    assert re.search(r"dead limit +none", operate("crawl", "show", crawl).out)


def test_an_unknown_crawl_is_reported_with_those_that_exist(silkline, workplace):
    silkline("enqueue", "books", "https://a.example/")
    silkline("enqueue", "shoes", "https://a.example/")
    answer = silkline("status", "boks")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err == "error: there is no crawl named 'boks' on this server; there are books, shoes\n"
    assert silkline("status", "boks", "--json").code == 2


def test_a_server_without_crawls_says_how_to_start_one(silkline, workplace):
    with SyncFrontier.open(f"embedded:{workplace / '.silkline'}", crawl="gone") as frontier:
        frontier.admin.remove()
    answer = silkline("status")
    assert (answer.code, answer.err) == (0, "")
    assert "No crawls on embedded:.silkline" in answer.out
    assert silkline("status", "--json").json == {"server": "embedded:.silkline", "notices": [], "crawls": []}


def test_looking_starts_no_server_where_none_has_been(silkline, workplace):
    answer = silkline("status")
    assert answer.code == 2
    assert ".silkline has no data of an embedded server" in answer.err
    assert list(workplace.iterdir()) == []


def test_one_unreadable_crawl_does_not_hide_the_others(status, frontier, valkey, crawl):
    frontier().enqueue("https://a.example/")
    with valkey.client() as client:
        client.sadd("silkline:crawls", f"{crawl}-later", f"{crawl}-gone")
        client.hset(f"silkline:{{{crawl}-later}}:crawl", "settings", '{"schema": 999}')
    try:
        answer = status()
        assert answer.code == 0
        assert row_of(answer.out, crawl)[1:3] == ["idle", "0"]
        assert row_of(answer.out, f"{crawl}-later") == [f"{crawl}-later", "unreadable"]
        assert f"{crawl}-gone" not in answer.out
        assert "schema 999" in answer.err
        [later] = [one for one in status("--json").json["crawls"] if one["crawl"] == f"{crawl}-later"]
        assert "schema 999" in later["error"]
        assert status(f"{crawl}-later").code == 2
    finally:
        with valkey.client() as client:
            client.srem("silkline:crawls", f"{crawl}-later", f"{crawl}-gone")


def test_the_names_of_unreadable_crawls_do_not_steer_the_terminal(operate, valkey, crawl):
    name = f"\x1b[31m[red]{crawl}[/red]"
    with valkey.client() as client:
        client.sadd("silkline:crawls", name)
    try:
        answer = operate("status")
        assert answer.code == 0
        assert f"\\x1b[31m[red]{crawl}[/red]" in answer.out
        assert f"\\x1b[31m[red]{crawl}[/red]: " in answer.err
        assert "\x1b" not in answer.out + answer.err
    finally:
        with valkey.client() as client:
            client.srem("silkline:crawls", name)


def test_looking_changes_nothing(status, frontier, crawl, valkey):
    busy(frontier)
    before = status(crawl, "--json").json
    status()
    status(crawl)
    assert status(crawl, "--json").json == before


def test_the_password_is_not_shown(silkline, servers, crawl):
    server = servers("cluster")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "operator", "on", ">geheim", "~*", "&*", "+@all")
        try:
            address = f"redis+cluster://operator:geheim@127.0.0.1:{server.port}"
            assert silkline("enqueue", crawl, "https://a.example/", "--redis", address).code == 0
            answer = silkline("status", "--json", "--redis", address)
            assert answer.json["server"] == f"redis+cluster://***@127.0.0.1:{server.port}"
            refused = silkline("status", "--redis", address.replace("geheim", "falsch"))
            assert refused.code in (2, 3)  # redis-py tells a cluster's wrong password as a lost connection
            assert "falsch" not in refused.err
        finally:
            client.execute_command("ACL", "DELUSER", "operator")


def test_a_crawl_whose_server_lost_writes_says_so(status, frontier, crawl, valkey):
    one = frontier()
    with valkey.client() as client:
        client.hset(one.layout.shards[0].ledger, mapping={"losses": 2, "lost_at": 1_800_000_000_000})
    told = "the server lost its last writes at 2027-01-15 08:00:00 UTC (2 times in total), after a failover or restart; some pages"
    assert told in " ".join(status(crawl).out.split())
    assert status(crawl, "--json").json["losses"] == 2
