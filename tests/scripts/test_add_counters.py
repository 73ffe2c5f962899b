from __future__ import annotations

from silkline.frontier.user_keys.counters import Counter, CounterChange


def send(shard, command):
    return shard.run("add_counters", *command.args, key=command.keys[0], call=command.call)


def test_each_verb_does_what_it_says(shard, client, crawl):
    key = f"{crawl}:stats"
    client.hset(key, "words", "some")
    changes = [
        CounterChange("add", "pages", 2),
        CounterChange("add", "pages", 3),
        CounterChange("add", "seconds", 1.5),
        CounterChange("add", "words", 7),
        CounterChange("most", "depth", 3),
        CounterChange("most", "depth", 2),
        CounterChange("least", "size", 3),
        CounterChange("least", "size", 2),
        CounterChange("set", "reason", "finished"),
    ]
    counter = Counter(key)
    assert send(shard, counter.count(changes)) == b"counted"
    assert client.hgetall(key) == {
        b"pages": b"5", b"seconds": b"1.5", b"words": b"7", b"depth": b"3", b"size": b"2", b"reason": b"finished",
    }  # fmt: skip
    send(shard, counter.count([CounterChange("clear")]))
    assert client.exists(key) == 0


def test_sent_twice_it_counts_once(shard, client, crawl):
    command = Counter(f"{crawl}:stats").count([CounterChange("add", "pages", 2)])
    send(shard, command)
    send(shard, command)
    assert client.hget(f"{crawl}:stats", "pages") == b"2"
