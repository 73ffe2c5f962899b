from __future__ import annotations

from silkline.frontier.verbs.enqueue import enqueue_command


def suspects(shard, clock, number=3):
    """Tokens of leases of requests that were lost once."""
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{i}.example/") for i in range(number)]))
    shard.run("claim", number, 5000, 0, "alone")
    clock.advance(5)
    return [shard.run("claim", 1, 5000, 0, "alone")[3] for _ in range(number)]


def entries(shard, client, tokens):
    return [entry.split(b"\n")[3] for entry in client.hmget(f"{shard.root}:leased", *tokens)]


def test_it_marks_suspects_and_names_the_tokens_that_are_not_held(shard, client, clock):
    one, other, last = suspects(shard, clock)
    shard.run("settle", 1, last)
    assert shard.run("begin", one, last, "17") == last + b" 17"
    assert entries(shard, client, [one, other]) == [b"300", b"100"]


def test_sent_twice_it_is_the_same(shard, clock):
    tokens = suspects(shard, clock)
    shard.run("begin", *tokens)
    before = shard.dump()
    shard.run("begin", *tokens)
    assert shard.dump() == before


def test_it_leaves_requests_alone_that_are_no_suspects(shard, client):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    token = shard.run("claim", 1, 5000, 0, "alone")[3]
    before = shard.dump()
    assert shard.run("begin", token) == b""
    assert shard.dump() == before


def test_a_page_that_has_landed_is_marked_all_the_same(shard, client, clock):
    [token] = suspects(shard, clock, 1)
    shard.run("vacate", token)
    shard.run("begin", token)
    assert client.hget(f"{shard.root}:leased", token).startswith(b"\x1fh0.example\n0\n2\n300\n")


def test_an_entry_of_an_older_version_holds_bare_strikes(shard, client, clock):
    """Such a request waits in its queue; it is a suspect from its next lease on."""
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    client.lset(f"{shard.root}:queue:0:a.example", 0, b"\x1e2\n2\n%d\n/" % clock.now)
    token, entry = shard.run("claim", 1, 5000, 0, "alone")[3:]
    assert entry.split(b"\n")[2:4] == [b"3", b"2"]
    shard.run("begin", token)
    clock.advance(5)
    shard.run("claim", 1, 5000, 0, "alone")
    [letter] = client.hvals(f"{shard.root}:dead")
    assert letter.split(b"\n")[:6] == [b"crashed", b"", b"a.example", b"0", b"3", b"3"]
