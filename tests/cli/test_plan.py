"""``silkline plan``."""

from __future__ import annotations

import pytest

from silkline import Politeness


def test_a_plan_is_made_of_numbers(operate):
    answer = operate("plan", "--urls", "5M", "--hosts", "100k", "--time", "12h")
    assert answer.code == 0
    for words in (
        "5,000,000 URLs on 100,000 hosts",
        "memory, exact",
        "memory, compact",
        "maxmemory",
        "12.0 h, limited by the target",
    ):
        assert words in answer.out
    need = operate("plan", "--urls", "5M", "--hosts", "100k", "--time", "12h", "--json").json["need"]
    assert (need["workers"], need["nodes"], need["shards"], need["reachable"]) == (1, 1, 1, True)


def test_a_time_that_cannot_be_met_is_reported(operate):
    answer = operate("plan", "--urls", "1M", "--hosts", "10", "--delay", "2", "--time", "1h")
    assert answer.code == 1
    assert "politeness alone takes 2.3 d" in answer.err


def test_a_plan_from_a_live_crawl_is_held_against_its_server(operate, frontier, crawl):
    books = frontier(politeness=Politeness(delay=3, concurrency=2), seen="compact")
    books.enqueue([f"https://h{n % 100}.example/{n:030}" for n in range(20_000)])
    found = operate("plan", "--from", crawl, "--json").json
    assert found["wish"]["urls"] == 20_000
    assert (found["wish"]["hosts"], found["wish"]["delay"], found["wish"]["concurrency"]) == (100, 3, 2)
    assert found["wish"]["payload"] == 33  # the path, and two bytes for the time
    assert found["live"]["filter"] == "compact"
    assert found["live"]["measured"] > 500_000
    told = operate("plan", "--from", crawl, "--urls", "1M").out
    assert "1,000,000 URLs on 100 hosts" in told
    assert "used on the server" in told


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--urls", "5M"),
        ("--urls", "many", "--hosts", "1"),
        ("--urls", "5", "--hosts", "9"),
        ("--urls", "5", "--hosts", "1", "--time", "soon"),
        ("--urls", "5", "--hosts", "1", "--latency", "0"),
        ("--from", "no-such-crawl"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_code_2(operate, wrong):
    answer = operate("plan", *wrong)
    assert (answer.code, answer.err.startswith("error: "), answer.out) == (2, True, "")


def test_a_large_crawl_is_planned_by_what_is_seen_and_what_is_pending(operate):
    wish = ("--urls", "5e9", "--hosts", "50M", "--pending", "50M", "--seen", "bloom:1e-6", "--time", "30d")
    need = operate("plan", *wish, "--json").json["need"]
    chosen = need["filters"]["bloom:1e-06"]
    assert chosen["seen_bytes"] * 8 / 5e9 == pytest.approx(28.75, rel=0.06)
    assert chosen["skipped"] == 5000
    assert need["nodes"] == chosen["nodes"] < need["filters"]["exact"]["nodes"]
    assert need["shards"] == 64
    assert need["filters"]["exact"]["memory"] - chosen["memory"] > 20 * 2**30
    assert 0 < need["server_cores"] < need["nodes"]
    assert need["connections"] == 4 * need["workers"]
    shown = operate("plan", *wish).out
    for words in ("at most 50,000,000 requests", "bytes per URL for the filter", "connections", "cores of the nodes"):
        assert words in shown
    all_pending = operate("plan", "--urls", "5e9", "--hosts", "50M", "--json").json["need"]
    assert all_pending["memory"]["exact"] > 300 * 2**30


def test_the_capacity_of_a_filter_counts(operate):
    wish = ("--urls", "10M", "--hosts", "1k", "--json", "--seen")
    right, small = (operate("plan", *wish, seen).json["need"] for seen in ("bloom:0.01,10000000", "bloom:0.01,1000000"))
    assert right["maxmemory"] < small["maxmemory"]
    assert operate("plan", *wish, "bloom:7").code == 2
