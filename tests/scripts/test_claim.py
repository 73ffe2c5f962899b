from __future__ import annotations

import re
from collections import Counter

import pytest

from silkline import Politeness
from silkline.frontier.store.settings import SCHEMA
from silkline.frontier.verbs.enqueue import enqueue_command


def fill(shard, *urls):
    shard.send(enqueue_command(shard.keys, [shard.offer(url) for url in urls]))


def claim(shard, wanted=10, lease_ms=5000, call=None):
    """now, look_in, starved, then pairs of token and entry."""
    reply = shard.run("claim", wanted, lease_ms, 0, call=call)
    return reply[:3], dict(zip(reply[3::2], reply[4::2], strict=True))


def number(token):
    return int(token.partition(b".")[0])


def test_the_reply_holds_the_time_and_pairs_of_token_and_entry(make_shard, clock):
    shard = make_shard(politeness=Politeness(delay=2, concurrency=3))
    fill(shard, "https://a.example/1", "https://a.example/2")
    head, leases = claim(shard)
    assert head == [f"{clock.now} 0".encode(), b"2000", b"0"]
    [(token, entry)] = leases.items()
    assert entry == b"a.example\n0\n1\n0\n%d\n%s" % (clock.now, shard.stored("1"))
    assert number(token) == clock.now * 1024 + 1
    assert re.fullmatch(rb"\d+\.[0-9a-f]{8}", token)


def test_two_histories_never_give_the_same_token(shard, client):
    fill(shard, "https://a.example/", "https://b.example/")
    kept = {name: client.dump(name) for name in client.keys(f"{shard.root}:*")}
    _, lost = claim(shard, 1)
    client.delete(*client.keys(f"{shard.root}:*"))
    for name, value in kept.items():
        client.restore(name, 0, value)
    _, given = claim(shard, 1)
    assert [*map(number, given)] == [*map(number, lost)]
    assert set(given).isdisjoint(lost)


def test_the_same_call_sent_twice_leases_once_and_answers_the_same(shard):
    fill(shard, *(f"https://h{number}.example/" for number in range(5)))
    first = claim(shard, 3, call=("c:1", 7))
    before = shard.dump()
    assert claim(shard, 3, call=("c:1", 7)) == first
    assert shard.dump() == before
    assert len(claim(shard, 3, call=("c:1", 8))[1]) == 2


def test_a_call_sent_again_later_still_reports_when_its_leases_began(shard, clock):
    fill(shard, "https://a.example/")
    first, leases = claim(shard, call=("c:1", 7))
    clock.advance(3)
    again, same = claim(shard, call=("c:1", 7))
    assert same == leases
    assert again[0] == first[0]


def test_a_call_sent_again_leaves_out_what_has_ended_meanwhile(shard):
    fill(shard, *(f"https://h{number}.example/" for number in range(3)))
    _, leases = claim(shard, call=("c:1", 7))
    gone = next(iter(leases))
    shard.run("settle", 1, gone, call=("c:2", 1))
    _, again = claim(shard, call=("c:1", 7))
    assert set(again) == set(leases) - {gone}


def test_a_claim_that_found_nothing_may_find_something_when_sent_again(shard):
    assert claim(shard, call=("c:1", 7))[1] == {}
    fill(shard, "https://a.example/")
    assert len(claim(shard, call=("c:1", 7))[1]) == 1


@pytest.mark.parametrize(
    ("prepare", "look_in"),
    [
        ("nothing", b""),
        ("ready", b"0"),
        ("waiting", b"2000"),
        ("delayed", b"700"),
        ("leased", b"5000"),
        ("paused", b""),
    ],
)
def test_it_reports_when_to_look_again(make_shard, clock, prepare, look_in):
    shard = make_shard(politeness=Politeness(delay=2, concurrency=2))
    if prepare in ("ready", "waiting", "leased", "paused"):
        fill(shard, "https://a.example/1", *([] if prepare == "leased" else ["https://a.example/2"]))
    if prepare == "ready":
        fill(shard, "https://b.example/")
    if prepare == "delayed":
        shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/", f"0 {clock.now + 700} - -")]))
    if prepare == "paused":
        shard.run("set_state", "paused")
    head, _ = claim(shard, 1)
    assert head[1] == look_in


def test_the_page_allowance_keeps_back_and_reports_how_many(make_shard, client):
    shard = make_shard()
    client.hset(f"{shard.root}:ledger", "allowance", 2)
    fill(shard, *(f"https://h{number}.example/" for number in range(5)))
    head, leases = claim(shard, 4)
    assert (head[2], len(leases)) == (b"2", 2)
    head, leases = claim(shard, 4)
    assert (head[2], len(leases)) == (b"4", 0)


def test_it_is_not_starved_when_there_is_nothing_to_keep_back(make_shard, client):
    shard = make_shard()
    client.hset(f"{shard.root}:ledger", "allowance", 0)
    assert claim(shard, 4)[0][2] == b"0"


def test_tokens_grow_even_when_the_counter_was_lost(shard, client, clock):
    fill(shard, "https://a.example/", "https://b.example/")
    _, first = claim(shard, 1)
    client.hset(f"{shard.root}:ledger", "token", 0)
    clock.advance(0.001)
    _, second = claim(shard, 1)
    assert number(next(iter(second))) > number(next(iter(first)))


def test_hosts_that_have_rested_are_forgotten(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=1))
    fill(shard, *(f"https://h{number}.example/" for number in range(150)))
    _, leases = claim(shard, 150)
    shard.run("settle", len(leases), *leases)
    assert client.zcard(f"{shard.root}:idle") == 150
    assert client.exists(f"{shard.root}:hosts") == 0
    clock.advance(1)
    claim(shard, 1)
    claim(shard, 1)
    assert client.exists(f"{shard.root}:idle") == 0


def test_a_crawl_that_is_done_leaves_only_its_memory_of_what_it_saw(shard, client, clock):
    fill(shard, *(f"https://h{number}.example/" for number in range(20)))
    _, leases = claim(shard, 50)
    shard.run("settle", len(leases), *leases)
    clock.advance(60)
    claim(shard)
    names = {name.decode().removeprefix(shard.root + ":").split(":")[0] for name in shard.dump()}
    assert names == {"ledger", "seen", "leases"}


def test_it_keeps_by_how_much_the_shards_clock_is_ahead_once_the_servers_was_set_back(shard, clock, client):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://a.example/{number}") for number in range(3)]))
    _, leases = claim(shard, 1)
    began = clock.now
    clock.advance(-60)
    shard.run("extend", 5000, *leases)
    assert client.hget(f"{shard.root}:ledger", "ahead") is None, "only a claim writes it"
    assert shard.run("claim", 1, 5000, 0)[0] == f"{began} 60000".encode()
    assert client.hget(f"{shard.root}:ledger", "ahead") == b"60000"
    clock.advance(599)
    assert shard.run("claim", 1, 5000, 0)[0] == f"{clock.now + 60000} 60000".encode()
    assert clock.now + 59_000 < shard.get("time") <= clock.now + 60_000


def test_a_clock_that_an_earlier_version_slowed_down_continues_from_where_it_is(shard, clock, client):
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    claim(shard, 1)
    client.hset(
        f"{shard.root}:ledger", mapping={"set_back": f"60000 {clock.now - 100_000}", "time": clock.now + 50_000}
    )
    assert shard.run("claim", 1, 5000, 0)[0] == f"{clock.now + 50_000} 50000".encode()
    clock.advance(1000)
    assert shard.run("claim", 1, 5000, 0)[0] == f"{clock.now + 50_000} 50000".encode()


def test_a_shard_that_does_not_know_what_it_acknowledged_says_so_and_leases_all_the_same(shard):
    fill(shard, "https://a.example/", "https://b.example/")
    reply = shard.run("claim", 1, 5000, 0, relied="c:1 7")
    assert reply[2] == b"0 0 lost writes"
    assert len(reply) == 5
    assert shard.get("losses") == 1


def test_it_marks_a_shard_of_an_earlier_version_so_that_such_versions_refuse_it(make_shard, client):
    shard = make_shard()
    ledger = f"{shard.root}:ledger"
    client.hset(ledger, "schema", 1)
    shard.send(enqueue_command(shard.keys, [shard.offer("https://a.example/")]))
    shard.run("snapshot", 0)
    assert client.hget(ledger, "schema") == b"1"  # nothing is stored that they could not read
    assert client.lrange(f"{shard.root}:queue:0:a.example", 0, -1) == [b"/"]
    shard.run("claim", 1, 50_000, 0)
    assert client.hget(ledger, "schema") == b"%d" % SCHEMA


def lose(shard, clock, *, begin=True):
    """Lease suspects, as many as there are, and let all of their leases expire; returns the tokens."""
    tokens = []
    while len(reply := shard.run("claim", 1, 5000, 0, "alone")) > 3:
        tokens.append(reply[3])
    if begin:
        shard.run("begin", *tokens)
    clock.advance(5)
    shard.run("claim", 1, 5000, 0, "none")
    return tokens


def suspects(shard, clock, number):
    shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{i}.example/") for i in range(number)]))
    shard.run("claim", number, 5000, 0, "none")
    clock.advance(5)


def struck(shard, client):
    text = client.hget(f"{shard.root}:ledger", "struck") or b""
    return [tuple(pair.split(b":")) for pair in text.split()]


def test_it_lists_the_leases_that_gave_a_strike_with_the_last_lease_of_the_request(shard, client, clock):
    suspects(shard, clock, 1)
    assert lose(shard, clock, begin=False)
    assert struck(shard, client) == []
    [one] = lose(shard, clock)
    assert struck(shard, client) == [(one, one)]
    [two] = lose(shard, clock)
    assert struck(shard, client) == [(one, two), (two, two)]
    current = shard.run("claim", 1, 5000, 0, "alone")[3]
    assert struck(shard, client) == [(one, current), (two, current)]
    shard.run("settle", 1, one)
    assert struck(shard, client) == [(two, current)]
    assert client.hget(f"{shard.root}:leased", current).split(b"\n")[3] == b"101"


def test_it_lists_the_last_hundred_strikes(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=0))
    suspects(shard, clock, 60)
    tokens = lose(shard, clock) + lose(shard, clock)
    assert len(tokens) == 120
    assert [token for token, _ in struck(shard, client)] == tokens[20:]
    shard.run("settle", 120, *tokens)
    counts = Counter(last for _, last in struck(shard, client))
    assert sum(counts.values()) == 100
    for _ in range(60):
        *_, entry = shard.run("claim", 1, 5000, 0, "alone")
        assert entry.split(b"\n")[3] in (b"100", b"101")
    assert struck(shard, client) == []


def fill_with_priorities(shard, *priorities):
    offers = [shard.offer(f"https://h{number}.example/", f"{one} 0 - -") for number, one in enumerate(priorities)]
    shard.send(enqueue_command(shard.keys, offers))


@pytest.mark.parametrize(
    ("priorities", "taken", "summary"),
    [((5, 3), 1, b"0 3"), ((5, 0), 1, b"0"), ((0, -7), 1, b"0 -7"), ((5, 3), 2, b"0"), ((1000, 1000), 1, b"0 1000")],
)
def test_the_reply_has_the_priority_of_the_next_request(shard, priorities, taken, summary):
    fill_with_priorities(shard, *priorities)
    assert shard.run("claim", taken, 5000, 0)[2] == summary


@pytest.mark.parametrize(
    ("priorities", "floor", "leased"),
    [
        ((9, 5, 0), 5, 2),
        ((9, 5, 0), 10, 0),
        ((0, 0), 1, 0),
        ((0, 0), 0, 2),
        ((0, -1), 0, 1),
        ((0, -1), -1, 2),
        ((9,), "", 1),
    ],
)
def test_requests_below_the_floor_are_not_leased(shard, priorities, floor, leased):
    fill_with_priorities(shard, *priorities)
    reply = shard.run("claim", 9, 5000, 0, "none", floor)
    assert len(reply[3::2]) == leased
    assert reply[1] == (b"0" if leased < len(priorities) else b"5000")


def test_a_request_of_a_higher_priority_is_announced_also_if_hosts_are_ready(shard, client):
    with client.pubsub() as heard:
        heard.subscribe(shard.keys.channel)
        heard.get_message(timeout=10)
        for priority in (0, -3, 7, 7, 5, 9):
            shard.send(
                enqueue_command(
                    shard.keys, [shard.offer(f"https://p{priority}.example/{priority}", f"{priority} 0 d -")]
                )
            )
        client.publish(shard.keys.channel, "the end")
        messages = list(iter(lambda: heard.get_message(timeout=10)["data"], b"the end"))
    assert messages == [b"0", b"-7", b"-9"]
