"""``silkline fsck`` on real crawls; tests/operate/test_fsck.py has every kind of damage."""

from __future__ import annotations

from silkline import Politeness


def test_a_whole_crawl_is_said_to_be_whole(operate, frontier, crawl):
    frontier(politeness=Politeness(delay=0)).enqueue([f"https://h{n}.example/" for n in range(5)])
    answer = operate("fsck", crawl)
    assert (answer.code, answer.out) == (0, f"{crawl} is whole (5 queues, 5 waiting, 0 leased, 0 dead, 5 seen)\n")
    [one] = operate("fsck", crawl, "--json").json["crawls"]
    assert (one["sound"], one["damages"], one["queued"]) == (True, [], 5)
    assert f"{crawl} is whole" in operate("fsck").out


def test_damage_is_told_repaired_and_noted(operate, frontier, crawl, valkey):
    books = frontier(politeness=Politeness(delay=0))
    books.enqueue([f"https://h{n}.example/" for n in range(5)])
    with valkey.client() as client:
        client.zrem(f"{books.plan.shards[0].root}:ready", "h3.example")
    answer = operate("fsck", crawl)
    assert answer.code == 1
    assert f"{crawl} is damaged" in answer.out
    assert "hosts with requests are in no line" in answer.out
    assert "h3.example" in answer.out
    assert f"silkline fsck {crawl} --repair" in answer.err
    assert books.audit() == []
    repaired = operate("fsck", crawl, "--repair", "--json")
    assert (repaired.code, repaired.json["crawls"][0]["damages"][0]["repaired"]) == (0, True)
    assert [(act.what, act.about) for act in books.audit()] == [("repair", "lost")]
    assert "is whole" in operate("fsck", crawl, "--repair").out
    assert len(books.claim(10)) == 5


def test_what_is_wrong_gets_a_sentence_and_code_2(operate):
    for wrong in (["no-such-crawl"], ["bad name"], ["--mend"]):
        answer = operate("fsck", *wrong)
        assert (answer.code, answer.err.startswith("error: ")) == (2, True)
