"""``silkline fsck`` on real crawls; tests/operate/test_fsck.py has every kind of damage."""

from __future__ import annotations

from silkline import Politeness


def test_a_whole_crawl_is_said_to_be_whole(operate, frontier, crawl):
    frontier(politeness=Politeness(delay=0)).enqueue([f"https://h{n}.example/" for n in range(5)])
    answer = operate("fsck", crawl)
    assert (answer.code, answer.out) == (0, f"{crawl} is consistent (5 queues, 5 waiting, 0 leased, 0 dead, 5 seen)\n")
    [one] = operate("fsck", crawl, "--json").json["crawls"]
    assert (one["sound"], one["damages"], one["queued"]) == (True, [], 5)
    assert f"{crawl} is consistent" in operate("fsck").out


def test_damage_is_reported_repaired_and_noted(operate, frontier, crawl, valkey):
    books = frontier(politeness=Politeness(delay=0))
    books.enqueue([f"https://h{n}.example/" for n in range(5)])
    with valkey.client() as client:
        client.zrem(f"{books.layout.shards[0].root}:ready", "h3.example")
    answer = operate("fsck", crawl)
    assert answer.code == 1
    assert f"{crawl} is damaged" in answer.out
    assert "hosts with requests are not scheduled" in answer.out
    assert "h3.example" in answer.out
    assert f"silkline fsck {crawl} --repair" in answer.err
    assert books.admin.audit() == []
    repaired = operate("fsck", crawl, "--repair", "--json")
    assert (repaired.code, repaired.json["crawls"][0]["damages"][0]["repaired"]) == (0, True)
    assert [(act.what, act.about) for act in books.admin.audit()] == [("repair", "lost")]
    assert "is consistent" in operate("fsck", crawl, "--repair").out
    assert len(books.claim(10)) == 5


def test_what_is_wrong_gets_a_sentence_and_code_2(operate):
    for wrong in (["no-such-crawl"], ["bad name"], ["--mend"]):
        answer = operate("fsck", *wrong)
        assert (answer.code, answer.err.startswith("error: ")) == (2, True)


def test_a_lost_ledger_is_reported_by_every_command_and_restored_by_one(operate, frontier, crawl, valkey):
    books = frontier(politeness=Politeness(delay=0))
    books.enqueue([f"https://h{n}.example/" for n in range(5)])
    with valkey.client() as client:
        client.delete(books.layout.shards[0].ledger)
    told = operate("crawl", "show", crawl)
    assert told.code == 2
    assert f"error: the ledger of the only shard of the crawl '{crawl}' is missing" in told.err
    assert f"silkline fsck {crawl} --repair" in told.err
    found = operate("fsck", crawl)
    assert found.code == 1
    assert "the ledger of the shard is missing" in found.out
    assert operate("fsck", crawl, "--repair").code == 0
    assert operate("fsck", crawl).out.startswith(f"{crawl} is consistent (5 queues, 5 waiting")
    assert [(act.what, "ledger" in act.about) for act in books.admin.audit()] == [("repair", True)]


def test_lost_settings_are_restored_or_it_is_reported_why_not(operate, frontier, crawl, valkey):
    books = frontier(politeness=Politeness(delay=0))
    books.enqueue([f"https://h{n}.example/" for n in range(5)])
    with valkey.client() as client:
        client.delete(books.layout.keys.settings)
        assert operate("fsck", crawl, "--repair").code == 0
        assert operate("crawl", "show", crawl).code == 0
        client.delete(books.layout.keys.settings)
        client.hdel(books.layout.shards[0].ledger, "settings")
    answer = operate("fsck", crawl, "--repair")
    assert answer.code == 1
    assert "The seed of its fingerprints cannot be recovered" in " ".join(answer.out.split())
    assert "To repair it" not in answer.err
