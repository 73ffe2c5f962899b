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


def test_what_may_still_be_useful_is_not(shard, client, clock):
    for number in range(50):
        shard.run("keep_robots", f"https://old{number}.example", 1000, b"x")
    clock.advance(DAY)
    for number in range(50):
        shard.run("robots", f"https://locked{number}.example", 60_000)
    for number in range(300):
        shard.run("keep_robots", f"https://new{number}.example", 100_000_000, b"x")
    assert client.hlen(f"{shard.root}:robots") == 400


def test_the_delay_of_a_host_is_forgotten_with_its_robots_txt(shard, client, clock):
    """As many hosts as a crawl has seen would keep it for ever. Before a page of one is fetched, robots.txt is again."""
    for number in range(100):
        shard.run("set_host", f"h{number}.example", "", "", "", "", "", 5000)
        shard.run("keep_robots", f"https://h{number}.example", 1000, b"x")
    shard.run("set_host", "h0.example", 2000, "", "", "", "", "")
    shard.run("keep_robots", "http://h1.example", 1_000_000_000, b"x")
    clock.advance(2 + DAY)
    for number in range(1000):
        shard.run("keep_robots", f"https://new{number % 10}.example", 100_000_000, b"x")
    assert client.hgetall(f"{shard.root}:policies") == {
        b"h0.example": b"2000 - - - -",
        b"h1.example": b"- - - - - 5000 - -",
    }


def test_that_a_host_complained_is_forgotten_when_it_is_over(shard, client, clock):
    for number in range(50):
        shard.run("set_host", f"h{number}.example", "", "", "", clock.now + 5000, "", "")
    shard.run("set_host", "paused.example", "", "", "", "", 1, "")
    clock.advance(6)
    for number in range(500):
        shard.run("keep_robots", "https://a.example", 1000, b"%d" % number)
    assert client.hkeys(f"{shard.root}:policies") == [b"paused.example"]
