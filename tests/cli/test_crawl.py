"""``silkline crawl`` and ``silkline host``, on real crawls."""

from __future__ import annotations

import threading
import time

import pytest

from silkline import Bury, Politeness, SyncFrontier
from silkline.frontier.verbs.hosts import StatusCounts
from tests.cli.terminal import Terminal

FAST = Politeness(delay=0, concurrency=100)


@pytest.fixture
def books(frontier):
    """A crawl with something in every state."""
    one = frontier(politeness=FAST, lease=60)
    one.enqueue([f"https://{host}.example/{number}" for host in "ab" for number in range(5)])
    leases = one.claim(3)
    one.complete(leases[0])
    one.bury(leases[1], "broken")
    one.internal.append_audit("bo@lab", "set", "a.example delay=1")
    return one


def acts(frontier):
    return [(act.what, act.about) for act in frontier.admin.audit()]


def test_crawls_are_listed_and_shown(operate, books, crawl):
    assert crawl in operate("crawl", "ls").out
    assert crawl in [one["crawl"] for one in operate("crawl", "ls", "--json").json["crawls"]]
    shown = operate("crawl", "show", crawl).out
    assert f"{crawl} is running" in shown
    for words in ("reason", "broken", "bo@lab", "politeness", "b.example"):
        assert words in shown
    assert operate("crawl", "show", crawl, "--json").json["dead"] == 1


def test_a_crawl_that_is_not_paused_cannot_be_resumed(operate, books, crawl):
    before = books.admin.audit()
    assert operate("crawl", "resume", crawl).out == f"{crawl} is not paused\n"
    assert books.admin.audit() == before
    operate("crawl", "pause", crawl)
    assert operate("crawl", "resume", crawl).out == f"{crawl} is resumed\n"
    assert [act.what for act in books.admin.audit()][:2] == ["resume", "pause"]


def test_a_pause_is_reported_with_its_author_until_it_is_over(operate, books, crawl):
    assert operate("crawl", "pause", crawl).out == f"{crawl} is paused; workers finish the requests in progress\n"
    assert books.claim() == []
    me = books.admin.audit()[0].by
    assert f"{crawl} is draining, paused by {me} at 20" in operate("status", crawl).out
    assert operate("status", crawl, "--json").json["paused_by"] == me
    assert operate("crawl", "resume", crawl, "--json").json["state"] == "open"
    assert operate("status", crawl, "--json").json["paused_by"] is None
    assert acts(books)[:2] == [("resume", ""), ("pause", "")]
    assert len(books.claim()) == 1


def test_draining_waits_for_what_is_in_progress(operate, frontier, crawl):
    one = frontier(politeness=FAST, lease=60)
    one.enqueue([f"https://a.example/{number}" for number in range(5)])
    [lease] = one.claim()
    late = operate("crawl", "drain", crawl, "--timeout", "0.1s")
    assert (late.code, "1 still in progress" in late.out) == (1, True)
    timer = threading.Timer(0.5, one.complete, [lease])
    timer.start()
    answer = operate("crawl", "drain", crawl)
    timer.join()
    assert answer.code == 0
    assert "paused, and no request is in progress" in answer.out
    assert (one.admin.stats().ready, one.admin.stats().done) == (4, 1)


def test_draining_takes_back_what_a_lost_worker_held(operate, frontier, crawl):
    one = frontier(politeness=FAST, lease=0.2)
    one.enqueue("https://a.example/")
    one.claim()
    assert operate("crawl", "drain", crawl, "--json").json == {
        "crawl": crawl,
        "state": "paused",
        "leased": 0,
        "ready": 0,
    }
    assert one.admin.stats().delayed == 1  # the request of a lost worker waits there until it is tried by itself


def test_cancelling_asks_and_counts_first(operate, books, crawl):
    refused = operate("crawl", "cancel", crawl)
    assert (refused.code, "7 requests" in refused.err, "--yes" in refused.err) == (2, True, True)
    assert "7 requests" in operate("crawl", "cancel", crawl, "--dry-run").out
    assert books.admin.stats().state == "open"
    assert operate("crawl", "cancel", crawl, "--yes", "--json").json["dropped"] == 7
    assert (books.admin.stats().state, books.admin.stats().pending) == ("cancelled", 0)
    assert acts(books)[0] == ("cancel", "")
    late = operate("crawl", "pause", crawl)
    assert (late.code, "cancelled is final" in late.err) == (2, True)


def test_removing_leaves_nothing_but_a_note(operate, books, crawl, valkey):
    books.internal.join("w-1")
    dry = operate("crawl", "rm", crawl, "--dry-run")
    assert "7 waiting, 1 in progress, 1 dead, 10 seen; 1 worker running" in dry.out
    assert operate("crawl", "rm", crawl).code == 2
    assert books.admin.stats().accepted == 10
    assert operate("crawl", "rm", crawl, "--yes").out.startswith(f"{crawl} was deleted")
    with valkey.client() as client:
        left = [key for key in client.scan_iter(f"silkline:{{{crawl}*", count=1000) if b":once:" not in key]
        assert left == []
    assert operate("crawl", "show", crawl).code == 2
    removed = operate("crawl", "audit", "--json").json
    assert (removed[0]["what"], removed[0]["about"]) == ("remove", crawl)


def test_the_audit_is_shown(operate, books, crawl):
    assert "bo@lab" in operate("crawl", "audit", crawl).out
    assert operate("crawl", "audit", crawl, "--json").json[0]["about"] == "a.example delay=1"
    with SyncFrontier.open(books.url, crawl=f"{crawl}-new") as new:
        assert operate("crawl", "audit", f"{crawl}-new").out == "No actions are recorded.\n"
        new.admin.remove()


# ── hosts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hosts_are_listed_by_their_queues(operate, books, crawl):
    books.enqueue([f"https://long.example/{number}" for number in range(50)])
    books.admin.pause("b.example")
    rows = operate("host", "ls", crawl, "--json").json
    assert rows[0]["host"] == "long.example"
    assert rows[0]["queued"] == 50
    assert [row["host"] for row in operate("host", "ls", crawl, "--limit", 1, "--json").json] == ["long.example"]
    assert [row["host"] for row in operate("host", "ls", crawl, "--place", "paused", "--json").json] == ["b.example"]
    assert operate("host", "ls", crawl, "--blocked").out == "No host matches.\n"
    books.admin.set_host("a.example", block_until=time.time() + 60)
    assert "a.example" in operate("host", "ls", crawl, "--blocked").out


def test_a_host_is_shown_with_what_holds_it_back(operate, books, crawl):
    operate("host", "pause", crawl, "a.example")
    shown = operate("host", "show", crawl, "a.example").out
    assert "The host is paused (by " in shown
    told = operate("host", "show", crawl, "a.example", "--json").json
    assert told["paused_by"] == books.admin.audit()[0].by
    operate("host", "resume", crawl, "a.example")
    assert operate("host", "show", crawl, "a.example", "--json").json["paused_by"] is None
    assert acts(books)[:2] == [("resume", "a.example"), ("pause", "a.example")]


def test_what_a_host_answered_is_shown(operate, books, crawl):
    assert operate("host", "show", crawl, "a.example", "--json").json["answers"] is None
    assert "none reported yet" in operate("host", "show", crawl, "a.example").out
    books.internal.add_answers({"a.example": StatusCounts(status_2xx=97, status_5xx=3, last=503)})
    told = operate("host", "show", crawl, "a.example", "--json").json["answers"]
    assert told.pop("updated") > 1_700_000_000
    assert told.pop("cpu") == 0
    assert told == {"status_2xx": 97, "status_3xx": 0, "status_4xx": 0, "status_5xx": 3, "failed": 0, "last": 503}
    shown = operate("host", "show", crawl, "a.example").out
    assert "97 % 2xx · 3 % 5xx of the last 100; last: 503, reported at 20" in shown
    assert "3 % 5xx · 97 % 2xx" in operate("host", "ls", crawl).out
    rows = {row["host"]: row["answers"] for row in operate("host", "ls", crawl, "--json").json}
    assert rows["a.example"]["status_5xx"] == 3
    assert rows["b.example"] is None


def test_hosts_in_trouble_are_listed_first(operate, books, crawl):
    books.enqueue([f"https://long.example/{number}" for number in range(50)])
    books.internal.add_answers(
        {"long.example": StatusCounts(status_2xx=9), "b.example": StatusCounts(status_2xx=1, failed=1)}
    )
    assert operate("host", "ls", crawl, "--json").json[0]["host"] == "long.example"
    rows = operate("host", "ls", crawl, "--sort", "trouble", "--json").json
    assert [row["host"] for row in rows][:2] == ["b.example", "long.example"]


def test_a_host_is_given_a_pace_of_its_own(operate, books, crawl):
    answer = operate(
        "host", "set", crawl, "a.example", "--delay", "2.5", "--concurrency", "3", "--burst", "2", "--json"
    )
    assert (answer.json["delay"], answer.json["concurrency"], answer.json["burst"]) == (2.5, 3, 2)
    assert acts(books)[0] == ("set", "a.example delay=2.5 concurrency=3 burst=2")
    back = operate("host", "set", crawl, "a.example", "--delay", "default", "--json").json
    assert (back["delay"], back["concurrency"]) == (0, 3)
    assert "a.example" in operate("host", "block", crawl, "a.example", "--for", "2h").out
    [state] = books.admin.hosts("a.example")
    assert 7000 < state.blocked_until - time.time() <= 7200
    assert operate("host", "unblock", crawl, "a.example", "--json").json["blocked_until"] is None
    assert [what for what, _ in acts(books)[:2]] == ["unblock", "block"]


def test_on_a_terminal_removing_asks(books, crawl, valkey, workplace):
    screen = Terminal("crawl", "rm", crawl, "--redis", valkey.url, cwd=workplace)
    screen.wait_for("Continue?")
    screen.type(b"\n")
    assert screen.end() == 2
    screen.close()
    assert books.admin.stats().accepted == 10


@pytest.mark.parametrize(
    "wrong",
    [
        ("crawl", "show"),
        ("crawl", "show", "no-such-crawl"),
        ("crawl", "pause", "bad name"),
        ("crawl", "drain", "CRAWL", "--timeout", "soon"),
        ("crawl", "audit", "CRAWL", "--limit", "0"),
        ("crawl", "rm", "no-such-crawl", "--yes"),
        ("host", "ls", "no-such-crawl"),
        ("host", "ls", "CRAWL", "--place", "bed"),
        ("host", "ls", "CRAWL", "--limit", "-1"),
        ("host", "set", "CRAWL", "a.example"),
        ("host", "set", "CRAWL", "a.example", "--concurrency", "0"),
        ("host", "set", "CRAWL", "a.example", "--concurrency", "many"),
        ("host", "set", "CRAWL", "", "--delay", "1"),
        ("host", "block", "CRAWL", "a.example"),
        ("host", "block", "CRAWL", "a.example", "--for", "ever"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_code_2(operate, frontier, crawl, wrong):
    frontier()
    answer = operate(*(crawl if word == "CRAWL" else word for word in wrong))
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert answer.out == ""


# ── other settings for a crawl that is there ─────────────────────────────────────────────────────────────────────────


def stored(one):
    one.refresh()
    return one.layout.settings


def test_settings_are_changed_shown_and_noted(operate, books, crawl):
    dry = operate("crawl", "set", crawl, "--max-pages", "5000", "--dry-run")
    assert dry.out == f"{crawl} would be changed: max-pages none → 5,000\n"
    assert stored(books).budget.pages is None
    answer = operate("crawl", "set", crawl, "--max-pages", "5000", "--delay", "0.5", "--concurrency", "4", "--yes")
    assert answer.code == 0, answer.err
    assert (stored(books).budget.pages, stored(books).politeness.delay) == (5000, 0.5)
    assert acts(books)[0][0] == "set"
    assert "max-pages none → 5,000" in acts(books)[0][1]
    more = operate("crawl", "set", crawl, "--max-pages", "none", "--capacity", "77", "--allow-private", "--json")
    assert more.json["changes"] == [
        {"setting": "max_pages", "was": 5000, "now": None},
        {"setting": "capacity", "was": 5_000_000, "now": 77},
        {"setting": "allow_private", "was": False, "now": True},
    ]
    assert books.admin.run_options().allow_private is True
    assert operate("crawl", "set", crawl, "--no-allow-private").code == 0
    assert books.admin.run_options().allow_private is False
    same = operate("crawl", "set", crawl, "--capacity", "77")
    assert "nothing was changed" in same.out


def test_a_dead_limit_is_changed_and_taken_away(operate, books, crawl):
    books.enqueue([f"https://gone.example/{n}" for n in range(4)])
    while leases := books.claim(100):
        books.settle([(lease, Bury("no", 404)) for lease in leases])
    dead = books.admin.stats().dead
    refused = operate("crawl", "set", crawl, "--dead-limit", "2")
    assert (refused.code, books.admin.stats().dead) == (2, dead)
    assert "dead-limit 250,000 → 2. The oldest dead letters beyond a lower limit are deleted" in refused.err
    done = operate("crawl", "set", crawl, "--dead-limit", "2", "--yes")
    assert done.out == f"{crawl} was changed: dead-limit 250,000 → 2\n"
    stats = books.admin.stats()
    assert (stats.dead, stats.dead_dropped, stored(books).dead_limit) == (2, dead - 2, 2)
    both = operate("crawl", "set", crawl, "--dead-limit", "1", "--max-pages", "2")
    assert "Requests beyond a lower limit are not crawled or kept" in both.err
    assert operate("crawl", "set", crawl, "--dead-limit", "none", "--json").json["changes"] == [
        {"setting": "dead_limit", "was": 2, "now": None}
    ]
    assert stored(books).dead_limit == 0


def test_a_lower_limit_is_asked_for(operate, books, crawl):
    refused = operate("crawl", "set", crawl, "--max-pages", "2")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert stored(books).budget.pages is None
    assert operate("crawl", "set", crawl, "--max-pages", "2", "-y").code == 0
    assert operate("crawl", "set", crawl, "--max-pages", "3").code == 0, "to raise it harms nobody"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "nothing to set"),
        (["--max-pages", "many"], "--max-pages must be a whole number or none, got 'many'"),
        (["--max-pages", "0"], "budget pages must be an integer of at least 1"),
        (["--capacity", "none"], "--capacity must be a whole number, got 'none'"),
        (["--dead-limit", "few"], "--dead-limit must be a whole number or none, got 'few'"),
        (["--delay", "-1"], "delay"),
        (["--max-pages-per-host", "3", "-y"], "without counting them by host"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_sentence(arguments, why, operate, books, crawl):
    before = stored(books)
    answer = operate("crawl", "set", crawl, *arguments)
    assert (answer.code, why in answer.err) == (2, True), answer.err
    assert stored(books) == before
