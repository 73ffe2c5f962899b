"""``silkline dead``, on a crawl with letters of several kinds."""

from __future__ import annotations

import csv
import getpass
import io
import json
import time

import pytest

from silkline import Bury, Politeness
from tests.cli.terminal import Terminal

KINDS = [("status 503", 503), ("status 503", 503), ("status 404", 404), ("a loop back to https://x.example/1", None)]


@pytest.fixture
def cemetery(frontier):
    """Eight letters: four kinds on two hosts."""
    crawl = frontier(politeness=Politeness(delay=0, concurrency=100))
    crawl.enqueue([f"https://{host}.example/{number}" for host in "ab" for number in range(4)])
    pairs = zip(crawl.claim(8), KINDS * 2, strict=True)
    crawl.settle([(lease, Bury(reason, status, detail="Traceback of it")) for lease, (reason, status) in pairs])
    return crawl


def test_groups_are_shown_by_reason_and_by_host(operate, cemetery, crawl):
    answer = operate("dead", "ls", crawl)
    assert answer.code == 0
    rows = [line.split() for line in answer.out.splitlines()]
    assert f"{crawl} has 8 dead letters" in answer.out
    example = next(letter.id for letter in cemetery.admin.dead(status=503))
    assert ["status", "503", "4", example] in rows
    assert ["a", "loop", "back", "to", "…", "2"] in [row[:-1] for row in rows]
    assert ["a.example", "4"] in rows
    few = operate("dead", "ls", crawl, "--limit", 1)
    assert "(all others)" in few.out
    found = operate("dead", "ls", crawl, "--json").json
    assert found["dead"] == 8
    shown = {"id": example, "url": cemetery.admin.dead(id=example)[0].url, "reason": "status 503"}
    assert found["reasons"][0] == {"reason": "status 503", "letters": 4, "example": shown}
    assert {"host": "b.example", "letters": 4} in found["hosts"]


def test_dropped_letters_are_reported(operate, cemetery, crawl):
    assert "dropped" not in operate("dead", "ls", crawl).out
    cemetery.admin.set_dead_limit(7)
    assert (
        f"{crawl} has 7 dead letters; 1 older one beyond its limit (--dead-limit) was dropped\n"
        in operate("dead", "ls", crawl).out
    )
    cemetery.admin.set_dead_limit(5)
    assert (
        f"{crawl} has 5 dead letters; 3 older ones beyond its limit (--dead-limit) were dropped\n"
        in operate("dead", "ls", crawl).out
    )
    assert operate("dead", "ls", crawl, "--json").json["dropped"] == 3
    cemetery.admin.purge()
    assert operate("dead", "ls", crawl).out.startswith(f"{crawl} has no dead letters; 3 older ones")


def test_letters_are_shown_with_a_filter(operate, cemetery, crawl):
    answer = operate("dead", "ls", crawl, "--host", "a.example", "--status", 503)
    assert answer.out.count("status 503") == 2
    assert "https://a.example/0" in answer.out
    assert operate("dead", "ls", crawl, "--older", "1h").out == "No dead letter matches.\n"
    assert len(operate("dead", "ls", crawl, "--newer", "1h", "--json").json) == 8
    assert len(operate("dead", "ls", crawl, "--letters", "--limit", 3, "--json").json) == 3
    assert [one["status"] for one in operate("dead", "ls", crawl, "--reason", "404", "--json").json] == [404, 404]


def test_letters_are_listed_page_by_page(operate, cemetery, crawl):
    found, after = [], []
    for _ in range(3):
        answer = operate("dead", "ls", crawl, "--letters", "--limit", 3, *after)
        page = operate("dead", "ls", crawl, "--letters", "--limit", 3, "--json", *after).json
        found += [letter["url"] for letter in page]
        after = ["--after", page[-1]["position"]]
        assert (f"repeat the command with --after {page[-1]['position']}" in answer.err) == (len(page) == 3)
    assert found == [letter.url for letter in cemetery.admin.dead()]
    assert len(set(found)) == 8


def test_of_very_many_letters_the_newest_are_read_and_that_is_said(operate, cemetery, crawl, monkeypatch):
    monkeypatch.setattr("silkline.cli.commands.manage.dead.LOOKED_AT", 1)
    answer = operate("dead", "ls", crawl, "--status", 503, "--json")
    assert len(answer.json) < 4
    assert "Searched the newest 1 of 8 only" in answer.err
    whole = operate("dead", "ls", crawl, "--status", 503, "--all", "--json")
    assert (len(whole.json), whole.err) == (4, "")


def test_one_letter_is_shown_with_its_history(operate, cemetery, crawl):
    [letter] = operate("dead", "ls", crawl, "--reason", "404", "--host", "a.example", "--json").json
    answer = operate("dead", "show", crawl, letter["id"])
    assert answer.code == 0
    assert "https://a.example/2" in answer.out
    assert "Traceback of it" in answer.out
    assert operate("dead", "show", crawl, letter["id"], "--json").json == letter
    missing = operate("dead", "show", crawl, "0-1")
    assert (missing.code, "no dead letter" in missing.err) == (2, True)


def test_what_matches_is_revived_and_that_is_noted(operate, cemetery, crawl):
    dry = operate("dead", "revive", crawl, "--status", 503, "--dry-run")
    assert "4 dead letters would be revived" in dry.out
    assert cemetery.admin.stats().dead == 8
    answer = operate("dead", "revive", crawl, "--status", 503)
    assert (answer.code, answer.out) == (0, "4 dead letters revived\n")
    assert cemetery.admin.stats().ready == 4
    [act] = cemetery.admin.audit()
    assert (act.what, act.about) == ("revive", "--status 503: 4")
    assert act.by.startswith(f"{getpass.getuser()}@")
    assert act.time == pytest.approx(time.time(), abs=60)
    assert operate("dead", "revive", crawl, "--status", 503).out == "No dead letter matches.\n"
    assert operate("dead", "revive", crawl, "--json").json["revived"] == 4


def test_purging_needs_a_word(operate, cemetery, crawl):
    refused = operate("dead", "purge", crawl)
    assert refused.code == 2
    assert "8 dead letters" in refused.err
    assert "--yes" in refused.err
    assert operate("dead", "purge", crawl, "--dry-run", "--json").json == {
        "matching": 8,
        "purged": 0,
        "dry_run": True,
        "reasons": [
            {"reason": "status 503", "letters": 4},
            {"reason": "a loop back to …", "letters": 2},
            {"reason": "status 404", "letters": 2},
        ],
        "hosts": [{"host": "a.example", "letters": 4}, {"host": "b.example", "letters": 4}],
    }
    assert cemetery.admin.stats().dead == 8
    assert operate("dead", "purge", crawl, "--host", "a.example", "--yes").out == "4 dead letters purged\n"
    assert (cemetery.admin.stats().dead, cemetery.admin.stats().discarded) == (4, 4)


def test_on_a_terminal_it_asks(cemetery, crawl, valkey, workplace):
    for word, code, left in ((b"n\n", 2, 8), (b"y\n", 0, 0)):
        screen = Terminal("dead", "purge", crawl, "--redis", valkey.url, cwd=workplace)
        screen.wait_for("Continue?")
        screen.type(word)
        assert screen.end() == code
        assert cemetery.admin.stats().dead == left
        screen.close()


def test_letters_from_the_web_do_not_steer_the_terminal(operate, frontier, crawl):
    one = frontier(politeness=Politeness(delay=0))
    one.enqueue("https://a.example/[bold]x")
    [lease] = one.claim()
    one.bury(lease, "evil \x1b[31m [red]reason[/red]")
    for answer in (operate("dead", "ls", crawl), operate("dead", "ls", crawl, "--letters")):
        assert "\x1b[31m" not in answer.out
        assert "[red]reason[/red]" in answer.out


@pytest.mark.parametrize(
    "wrong",
    [
        ("ls",),
        ("ls", "no-such-crawl"),
        ("ls", "CRAWL", "--older", "soon"),
        ("ls", "CRAWL", "--reason", ""),
        ("revive", "CRAWL", "--host", " "),
        ("purge", "CRAWL", "--yes", "--reason", ""),
        ("purge", "CRAWL", "--yes", "--id", ""),
        ("ls", "CRAWL", "--limit", "0"),
        ("ls", "CRAWL", "--status", "x"),
        ("ls", "CRAWL", "--id", "x"),
        ("show", "CRAWL", "nonsense"),
        ("revive", "CRAWL", "--host", ""),
        ("purge", "CRAWL", "--newer", "-5"),
        ("bury", "CRAWL"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_code_2(operate, frontier, crawl, wrong):
    frontier()
    answer = operate("dead", *(crawl if word == "CRAWL" else word for word in wrong))
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert answer.out == ""


def test_letters_are_exported_with_a_filter_and_without_formulas(silkline, cemetery, crawl, valkey):
    cemetery.enqueue("https://c.example/1")
    cemetery.bury(cemetery.claim(1)[0], "=HYPERLINK(1)")
    whole = silkline("dead", "export", crawl, "--redis", valkey.url)
    rows = list(csv.DictReader(io.StringIO(whole.out)))
    assert len({row["id"] for row in rows}) == 9
    assert rows[0]["reason"] == "'=HYPERLINK(1)"
    assert rows[0]["last"].endswith("Z")
    some = silkline("dead", "export", crawl, "--status", 503, "--format", "jsonl", "--redis", valkey.url)
    found = [json.loads(line) for line in some.out.splitlines()]
    assert [(one["status"], one["attempts"]) for one in found] == [(503, 1)] * 4
    assert found[0]["last"] == next(letter.last for letter in cemetery.admin.dead(status=503))
    assert silkline("dead", "export", crawl, "--status", "", "--redis", valkey.url).code == 2
