from __future__ import annotations

import pytest

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.fixture
def leased(make_shard):
    """A shard and the tokens of five leases, of five hosts."""
    shard = make_shard(politeness=Politeness(delay=0))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{number}.example/") for number in range(5)]))
    return shard, shard.run("claim", 10, 5000, 0)[3::2]


def other(token, verb, after=0, reason="", status="", record=""):
    return [token, verb, after, reason, status, record]


def test_the_reply_names_the_tokens_that_were_not_held(leased):
    shard, tokens = leased
    assert shard.run("settle", 2, *tokens[:2]) == b""
    assert shard.run("settle", 3, *tokens[:3]) == b" ".join(tokens[:2])
    assert shard.run("settle", 0, *other(tokens[0], "bury"), *other(tokens[3], "release")) == tokens[0]
    assert shard.get("done") == 3


def test_the_same_call_sent_twice_acts_once_and_answers_the_same(leased, clock):
    shard, tokens = leased
    shard.run("settle", 1, tokens[4])
    arguments = [2, tokens[0], tokens[4], *other(tokens[1], "retry", 5), *other(tokens[2], "bury", 0, "no", 404)]
    arguments += other(tokens[3], "release")
    assert shard.run("settle", *arguments, call=("c:1", 9)) == tokens[4]
    before = shard.dump()
    clock.advance(1)
    assert shard.run("settle", *arguments, call=("c:1", 9)) == tokens[4]
    assert shard.dump() == before


def test_sent_again_as_another_call_it_reports_that_all_is_over(leased):
    shard, tokens = leased
    shard.run("settle", 5, *tokens)
    before = shard.dump()
    assert shard.run("settle", 5, *tokens) == b" ".join(tokens)
    assert shard.dump() == before


def test_a_token_given_twice_in_a_call_ends_once(leased, client):
    shard, tokens = leased
    assert shard.run("settle", 2, tokens[0], tokens[0]) == tokens[0]
    assert shard.get("done") == 1
    assert shard.run("settle", 1, tokens[1], *other(tokens[1], "retry")) == tokens[1]
    assert shard.get("done") == 2
    assert client.hlen(f"{shard.root}:leased") == 3


@pytest.mark.parametrize("verb", ["complete", "retry", "slow", "release", "bury"])
def test_a_lease_of_an_earlier_version_has_a_bare_number_and_ends_like_any_other(leased, client, verb):
    shard, [token, *_] = leased
    bare = token.partition(b".")[0]
    client.hset(f"{shard.root}:leased", bare, client.hget(f"{shard.root}:leased", token))
    client.hdel(f"{shard.root}:leased", token)
    client.zadd(f"{shard.root}:leases", {bare: client.zscore(f"{shard.root}:leases", token)})
    client.zrem(f"{shard.root}:leases", token)
    assert shard.run("settle", *([1, bare] if verb == "complete" else [0, *other(bare, verb, 5)])) == b""
    assert client.hlen(f"{shard.root}:leased") == 4


@pytest.mark.parametrize("token", ["0", "1", "99999999999999999999", "-1", "nonsense", ""])
def test_a_token_that_never_was_changes_nothing(leased, token):
    shard, _ = leased
    before = shard.dump()
    assert shard.run("settle", 1, token) == token.encode()
    assert shard.run("settle", 0, *other(token, "bury")) == token.encode()
    assert shard.dump() == before


def test_a_new_record_replaces_the_stored_one_and_an_empty_one_keeps_it(leased, client):
    shard, tokens = leased
    shard.run("settle", 0, *other(tokens[0], "retry", 0, "", "", b"\x02new\nrecord"), *other(tokens[1], "retry"))
    [queued] = client.lrange(f"{shard.root}:queue:0:h0.example", 0, -1)
    assert queued.startswith(b"\x1e1\n0\n")
    assert queued.endswith(b"\n\x02new\nrecord")
    [queued] = client.lrange(f"{shard.root}:queue:0:h1.example", 0, -1)
    assert queued.endswith(b"\n" + shard.stored(""))


def test_a_request_given_back_untried_is_its_bare_record_again(leased, client):
    shard, tokens = leased
    shard.run("settle", 0, *other(tokens[0], "release"))
    assert client.lrange(f"{shard.root}:queue:0:h0.example", 0, -1) == [shard.stored("")]


def test_a_host_without_anything_leaves_nothing_behind(leased, client):
    shard, tokens = leased
    shard.run("settle", 5, *tokens)
    for name in ("hosts", "ready", "waiting", "idle", "lanes", "leased"):
        assert client.exists(f"{shard.root}:{name}") == 0


def test_it_rings_for_a_host_that_comes_back(make_shard, client):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1))
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(2)]))
    [token] = shard.run("claim", 10, 5000, 0)[3::2]
    with client.pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(shard.keys.channel)
        bell.get_message(timeout=60)
        shard.run("settle", 1, token)
        assert bell.get_message(timeout=60)["data"] == b"0"


def test_a_shard_that_does_not_know_what_it_acknowledged_changes_nothing_but_the_count_of_losses(leased, client, clock):
    shard, tokens = leased
    shard.run("settle", 1, tokens[0], call=("c:1", 7))
    assert shard.run("settle", 1, tokens[1], relied="c:1 7") == b""
    before = shard.dump()
    for unknown in ("c:1 8", "c:2 7", "c:1 7\nc:3 1"):
        assert shard.run("settle", 1, tokens[2], *other(tokens[3], "retry"), relied=unknown) == b"lost writes"
    assert (shard.get("losses"), shard.get("lost_at")) == (1, clock.now), "noticed together, it is one loss"
    client.hdel(f"{shard.root}:ledger", "losses", "lost_at")
    assert shard.dump() == before


def test_what_it_answered_before_it_answers_again_whatever_is_named(leased):
    shard, tokens = leased
    assert shard.run("settle", 1, tokens[0], call=("c:1", 7)) == b""
    assert shard.run("settle", 1, tokens[0], call=("c:1", 7), relied="c:9 9") == b""


def test_a_revisit_sent_twice_is_stored_once(leased, client, clock):
    shard, tokens = leased
    kept, now = shard.stored(""), clock()
    arguments = [1, tokens[0], *other(tokens[1], "revisit", 60_000, record=b"\x02new"), *other(tokens[2], "revisit", 5)]
    assert shard.run("settle", *arguments, call=("c:1", 9)) == b""
    before = shard.dump()
    clock.advance(1)
    assert shard.run("settle", *arguments, call=("c:1", 9)) == b""
    assert shard.run("settle", *arguments) == b" ".join(tokens[:3]), "as another call, it ends nothing"
    assert shard.dump() == before
    due = client.zrange(f"{shard.root}:delayed", 0, -1, withscores=True)
    assert [(member.partition(b"\n")[2], time) for member, time in due] == [
        (b"h2.example\n0\n0\n0\n0\n" + kept, now + 5),
        (b"h1.example\n0\n0\n0\n0\n\x02new", now + 60_000),
    ]
    assert (shard.get("done"), shard.get("accepted")) == (3, 7)


def test_a_revisit_rings_when_it_is_the_next_to_be_due(leased, client):
    shard, tokens = leased
    with client.pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(shard.keys.channel)
        bell.get_message(timeout=60)
        shard.run("settle", 0, *other(tokens[0], "revisit", 7_000))
        assert bell.get_message(timeout=60)["data"] == b"7000"
