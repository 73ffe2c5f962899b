from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def test_what_lacks_its_time_is_rescued_and_a_time_of_nothing_forgotten(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=0))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(3)]))
    tokens = shard.run("claim", 3, 50_000, 0)[3::2]
    assert shard.run("check_times", "", "lease", "text", "0") == [b"", 3, 0]
    assert shard.run("check_times", "", "lease", "time", "0") == [b"", 4, 0], "and the long member"
    client.zrem(f"{shard.root}:leases", tokens[0])
    client.hdel(f"{shard.root}:leased", tokens[1])
    before = shard.dump()
    assert shard.run("check_times", "", "lease", "text", "0") == [b"", 2, 1]
    assert shard.run("check_times", "", "lease", "time", "0") == [b"", 3, 1]
    assert shard.dump() == before
    shard.run("check_times", "1", "lease", "text", "0")
    shard.run("check_times", "1", "lease", "time", "0")
    assert client.zscore(f"{shard.root}:leases", tokens[0]) == clock.now
    assert client.zscore(f"{shard.root}:leases", tokens[1]) is None
    assert shard.run("check_times", "1", "lease", "text", "0") == [b"", 2, 0]
    assert shard.run("check_times", "1", "letter", "text", "0") == [b"", 0, 0]
