from __future__ import annotations


def test_the_reply_says_whose_it_is_and_for_how_long(shard, clock):
    assert shard.run("robots", "https://a.example", 5000) == [b"yours", b"5000", b""]
    clock.advance(1)
    assert shard.run("robots", "https://a.example", 5000) == [b"fetching", b"4000", b""]
    shard.run("keep_robots", "https://a.example", 9000, b"any\nbytes\0")
    assert shard.run("robots", "https://a.example", 5000) == [b"known", b"9000", b"any\nbytes\0"]
    clock.advance(9)
    assert shard.run("robots", "https://a.example", 5000) == [b"yours", b"5000", b"any\nbytes\0"]


def test_the_same_call_sent_twice_is_reported_the_same(shard, clock):
    """Or nobody would fetch it: each would be told that somebody else does."""
    first = shard.run("robots", "https://a.example", 5000, call=("c:1", 9))
    before = shard.dump()
    assert shard.run("robots", "https://a.example", 5000, call=("c:1", 9)) == first
    assert shard.dump() == before
    assert shard.run("robots", "https://a.example", 5000, call=("c:1", 10))[0] == b"fetching"


def test_asking_for_what_is_known_writes_nothing(shard):
    shard.run("keep_robots", "https://a.example", 9000, b"x")
    before = shard.dump()
    shard.run("robots", "https://a.example", 5000)
    assert shard.dump() == before


def test_who_only_looks_is_given_nothing_to_do(shard, clock):
    before = shard.dump()
    assert shard.run("robots", "https://a.example", 0) == [b"unknown", b"0", b""]
    assert shard.dump() == before
    shard.run("keep_robots", "https://a.example", 9000, b"x")
    assert shard.run("robots", "https://a.example", 0) == [b"known", b"9000", b"x"]
    clock.advance(10)
    assert shard.run("robots", "https://a.example", 0) == [b"unknown", b"0", b"x"]
