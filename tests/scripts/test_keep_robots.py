from __future__ import annotations

DAY = 86_400


def test_all_origins_are_in_one_hash(shard, client, clock):
    assert shard.run("keep_robots", "https://a.example", 5000, b"x") == b"kept"
    shard.run("keep_robots", "http://a.example", 5000, b"y")
    kept = client.hgetall(f"{shard.root}:robots")
    assert kept == {
        b"https://a.example": b"%d 0\nx" % (clock.now + 5000),
        b"http://a.example": b"%d 0\ny" % (clock.now + 5000),
    }


def test_the_same_call_sent_twice_is_the_same_as_once(shard):
    shard.run("keep_robots", "https://a.example", 5000, b"x")
    before = shard.dump()
    shard.run("keep_robots", "https://a.example", 5000, b"x")
    assert shard.dump() == before


def test_keeping_it_ends_the_wait_of_others(shard):
    shard.run("robots", "https://a.example", 5000)
    shard.run("keep_robots", "https://a.example", 5000, b"")
    assert shard.run("robots", "https://a.example", 5000) == [b"known", b"5000", b""]


def test_what_is_out_of_date_is_forgotten_by_and_by(shard, client, clock):
    for number in range(300):
        shard.run("keep_robots", f"https://old{number}.example", 1000, b"x")
        shard.run("robots", f"https://locked{number}.example", 1000)
    clock.advance(2 + DAY)
    for number in range(1000):
        shard.run("keep_robots", f"https://new{number}.example", 100_000_000, b"x")
    names = client.hkeys(f"{shard.root}:robots")
    assert sum(name.startswith(b"https://new") for name in names) == 1000
    assert len(names) < 1400  # of 600 old ones some 500 are gone


def test_what_may_still_be_of_use_is_not(shard, client, clock):
    for number in range(50):
        shard.run("keep_robots", f"https://old{number}.example", 1000, b"x")
    clock.advance(DAY)
    for number in range(50):
        shard.run("robots", f"https://locked{number}.example", 60_000)
    for number in range(300):
        shard.run("keep_robots", f"https://new{number}.example", 100_000_000, b"x")
    assert client.hlen(f"{shard.root}:robots") == 400
