from __future__ import annotations

from silkline.frontier.store.settings import SCHEMA
from silkline.frontier.verbs.enqueue import enqueue_command


def test_it_counts_everything_and_changes_nothing(shard, clock):
    offers = [shard.offer(f"https://h{number}.example/") for number in range(6)]
    offers.append(shard.offer("https://later.example/", f"0 {clock.now + 9000} - -"))
    shard.send(enqueue_command(shard.keys, offers))
    tokens = shard.run("claim", 4, 5000, 0)[3::2]
    shard.run("settle", 1, tokens[0], tokens[1], "bury", 0, "no", "", "")
    before = shard.dump()
    reply = shard.run("snapshot", 0)
    assert shard.dump() == before
    told = {reply[i].decode(): reply[i + 1].decode() for i in range(0, len(reply), 2)}
    expected = {"accepted": 7, "queued": 2, "delayed": 1, "leased": 2, "done": 1, "dead": 1, "discarded": 0}
    assert {name: int(told[name]) for name in expected} == expected
    assert (told["state"], told["schema"], told["seen"]) == ("open", str(SCHEMA), "exact")
    assert int(told["token"]) == clock.now * 1024 + 5


def test_every_change_is_a_move_and_a_look_is_none(shard):
    moves = [shard.get("moves")]
    offer = shard.offer("https://a.example/")
    for step in (
        lambda: shard.send(enqueue_command(shard.keys, [offer])),
        lambda: shard.send(enqueue_command(shard.keys, [offer])),
        lambda: shard.run("snapshot", 0),
        lambda: shard.run("claim", 1, 5000, 0),
        lambda: shard.run("claim", 1, 5000, 0),
    ):
        step()
        moves.append(shard.get("moves"))
    assert moves == [None, 1, 1, 1, 2, 2]


def test_of_many_hosts_with_priorities_the_requests_are_estimated(shard, client):
    offers = [shard.offer(f"https://h{host}.example/{number}", "3 0 - -") for host in range(60) for number in range(5)]
    shard.send(enqueue_command(shard.keys, [*offers, shard.offer("https://a.example/")]))
    found = [dict(zip(*[iter(shard.run("snapshot", most))] * 2, strict=True))[b"priorities"] for most in (0, 20, 60)]
    assert found == [b"", b"3 300", b"3 300"]
