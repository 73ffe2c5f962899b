from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command
from silkline.frontier.verbs.hosts import StatusCounts, pack_counts, unpack_counts


def test_the_reply_is_a_row_per_host(make_shard, clock):
    shard = make_shard(politeness=Politeness(delay=1.5, concurrency=2, burst=1))
    shard.send(
        enqueue_command(shard.keys, [shard.offer("https://a.example/1"), shard.offer("https://a.example/2", "7 0 - -")])
    )
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/3", "-7 0 - -")]))
    shard.run("claim", 1, 5000, 0)
    shard.run("set_host", "b.example", "", "", "", clock.now + 900, 1, "")
    assert shard.run("hosts", 10) == [
        [b"a.example", b"waiting", b"1500", 2, 1, b"1500", 2, 1, b"0", 0, 0, b"", b"", b"", 0],
        [b"b.example", b"paused", b"0", 0, 0, b"1500", 2, 1, str(clock.now + 900).encode(), 1, 0, b"", b"", b"", 0],
    ]
    assert shard.run("hosts", 1) == shard.run("hosts", 1, "a.example")


def test_of_many_hosts_a_bounded_number_is_reported(shard):
    offers = [shard.offer(f"https://h{number}.example/") for number in range(300)]
    shard.send(enqueue_command(shard.keys, offers))
    shard.run("claim", 100, 5000, 0)
    assert len(shard.run("hosts", 50)) == 50
    rows = shard.run("hosts", 1000)
    assert len({row[0] for row in rows}) == len(rows) == 300


def test_a_slow_down_and_what_robots_txt_asks_are_reported(make_shard, clock):
    shard = make_shard(politeness=Politeness(delay=1))
    shard.run("set_host", "a.example", "", "", "", "", "", 3000)
    assert shard.run("hosts", 1, "a.example")[0][5:] == [b"3000", 1, 1, b"0", 0, 0, b"", b"3000", b"", 0]
    shard.client.hset(f"{shard.root}:policies", "a.example", f"- - - - - 3000 8000 {clock.now}")
    assert shard.run("hosts", 1, "a.example")[0][5:] == [b"8000", 1, 1, b"0", 0, 0, b"3000", b"3000", b"", 0]


def test_what_a_host_answered_is_reported_as_it_is_kept(shard):
    shard.run("add_answers", 10, "a.example", pack_counts(StatusCounts(status_2xx=7, status_4xx=1, last=404)))
    answers = shard.run("hosts", 1, "a.example")[0][-2]
    assert unpack_counts(answers).counts == [7, 0, 1, 0, 0]
    assert unpack_counts(answers).last == 404
    assert shard.run("hosts", 1, "b.example")[0][-2] == b""
