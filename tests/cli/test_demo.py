"""``silkline demo``: a troubled shop, a killed worker, and a comparison."""

from __future__ import annotations

import signal
import sqlite3

import pytest

from silkline.cli.demo.shop_proof import prove
from silkline.testing import Shop
from silkline.testing.site import Visits

SMALL = ("--pages", "200", "--hosts", "31", "--delay", "0.1")


def test_nothing_is_missing_and_nothing_twice(silkline, workplace):
    answer = silkline("demo", *SMALL, "--json", "--dir", "data", timeout=110)
    assert answer.code == 0, answer.err
    proof = answer.json
    assert (proof["sound"], proof["served"], proof["stored"], proof["killed"]) == (True, 190, 190, True)
    assert proof["missing"] == proof["twice"] == proof["wrong"] == proof["strange"] == []
    assert (proof["summary"]["restarts"], proof["dead"]) == (1, 0)
    assert proof["summary"]["rescued"] >= 1
    assert proof["greatest_concurrency"] <= 2
    assert {"301", "429", "500"} <= set(proof["summary"]["statuses"])
    assert 20 <= proof["trap_pages"] <= 30  # of an endless calendar; those of the killed worker are fetched again
    assert "SIGKILL to worker" in answer.err
    with sqlite3.connect(workplace / "data" / "shop.db") as database:
        assert database.execute("SELECT count(*), count(DISTINCT sku) FROM items").fetchone() == (190, 190)
    [crawl] = silkline("status", "--redis", "embedded:data", "--json").json["crawls"]
    assert (crawl["crawl"], crawl["dead"], crawl["ready"]) == ("demo", 0, 0)


def test_interrupted_it_takes_all_along(running, workplace):
    process = running("demo", *SMALL, TMPDIR=str(workplace))
    process.wait_for(" in flight")
    process.process.send_signal(signal.SIGINT)
    assert process.end() == 130
    assert list(workplace.iterdir()) == []


def test_a_directory_that_cannot_be_used_is_reported(silkline, workplace):
    (workplace / "file").write_text("")
    answer = silkline("demo", *SMALL, "--dir", "file")
    assert answer.code == 2
    assert "--dir file cannot be used: File exists" in answer.err


# ── the proof ────────────────────────────────────────────────────────────────────────────────────────────────────────

SHOP = Shop(pages=105)
WELL = {"finished": True, "dead": 0, "killed": True}


def test_the_proof_holds_when_all_is_well():
    proof = prove(SHOP, SHOP.items, Visits(), **WELL)
    assert proof.sound
    assert proof.served == proof.stored == 100
    assert {row.kind: row.served for row in proof.rows}["behind a redirect"] == 4


def test_the_proof_finds_what_is_missing():
    proof = prove(SHOP, SHOP.items[:-1], Visits(), **WELL)
    assert (proof.sound, proof.missing, proof.stored) == (False, ["SKU-000099"], 99)


def test_the_proof_finds_what_is_there_twice():
    proof = prove(SHOP, [*SHOP.items, SHOP.items[7]], Visits(), **WELL)
    assert (proof.sound, proof.twice) == (False, ["SKU-000007"])
    assert {row.kind: row.twice for row in proof.rows}["slow"] == 1


def test_the_proof_finds_what_is_wrong_or_strange():
    wrong = prove(SHOP, [*SHOP.items[1:], {**SHOP.items[0], "price": "0.01"}], Visits(), **WELL)
    assert (wrong.sound, wrong.wrong) == (False, ["SKU-000000"])
    strange = prove(SHOP, [*SHOP.items, {"sku": "SKU-9", "title": "", "price": ""}], Visits(), **WELL)
    assert (strange.sound, strange.strange) == (False, ["SKU-9"])


@pytest.mark.parametrize("change", [{"finished": False}, {"dead": 1}, {"killed": False}])
def test_the_proof_needs_a_kill_and_an_end_without_dead_letters(change):
    assert not prove(SHOP, SHOP.items, Visits(), **{**WELL, **change}).sound
