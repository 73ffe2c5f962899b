from __future__ import annotations

from silkline.frontier.verbs.enqueue import enqueue_command


def test_it_looks_in_one_place_at_a_bounded_number_of_entries(shard, clock):
    offers = [shard.offer(f"https://a.example/page/{number}") for number in range(30)]
    shard.send(enqueue_command(shard.keys, offers))
    assert shard.run("locate", "queue", 0, 20, "page/7", "nowhere", "a.example", 0) == [
        20,
        7,
        b"",
        shard.stored("page/7"),
    ]
    assert shard.run("locate", "queue", 20, 20, "page/7", "nowhere", "a.example", 0) == [10]
    assert shard.run("locate", "queue", 0, 20, "%d", "nowhere", "a.example", 0) == [20]


def test_it_reports_where_in_each_place(shard, clock):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/x") for number in range(3)]))
    tokens = shard.run("claim", 3, 5000, 0)[3::2]
    leased = shard.run("locate", "leased", 0, 100, "x", "nowhere", "h1.example", 0)
    assert leased[1:3] == [1, str(clock.now + 5000).encode()]
    assert leased[3].startswith(b"h1.example\n")
    shard.run("settle", 0, tokens[1], "retry", 700, "", "", "", tokens[2], "bury", 0, "no", "", "")
    assert shard.run("locate", "delayed", 0, 100, "x", "nowhere", "h1.example", 0)[:3] == [
        1,
        0,
        str(clock.now + 700).encode(),
    ]
    assert shard.run("locate", "dead", 0, 100, "x", "nowhere", "h2.example", 0)[:3] == [1, 0, str(clock.now).encode()]
    assert shard.run("locate", "dead", 0, 100, "x", "nowhere", "h1.example", 0) == [0], "it has none"
