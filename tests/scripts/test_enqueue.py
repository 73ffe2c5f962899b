from __future__ import annotations

import random

import msgspec
import pytest

from silkline.frontier.store.record import TIMES, Offer
from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.enqueue import enqueue_again, enqueue_command


def command_for(shard, urls):
    return enqueue_command(shard.keys, [shard.offer(url) for url in urls])


def test_the_reply_is_one_letter_per_request(make_shard):
    shard = make_shard(capacity=2)
    urls = ["https://a.example/1", "https://a.example/1", "https://a.example/2", "https://a.example/3"]
    assert shard.send(command_for(shard, urls)) == b"asaf"


@pytest.mark.parametrize("seen", ["exact", "compact", "bloom"])
def test_the_same_call_sent_twice_acts_once_and_answers_the_same(make_shard, seen):
    shard = make_shard(seen=SeenFilter(seen))
    command = command_for(shard, ["https://a.example/1", "https://b.example/1"])
    assert shard.send(command, ("c:1", 7)) == b"aa"
    before = shard.dump()
    assert shard.send(command, ("c:1", 7)) == b"aa"
    assert shard.dump() == before


def test_the_next_call_of_a_slot_acts_and_so_does_the_same_number_of_another_slot(shard):
    command = command_for(shard, ["https://a.example/1"])
    assert shard.send(command, ("c:1", 7)) == b"a"
    assert shard.send(command, ("c:1", 8)) == b"s"
    assert shard.send(command, ("c:2", 7)) == b"s"
    assert shard.send(command, ("c:1", 77)) == b"s"


def test_a_kept_reply_expires_by_itself(shard, client):
    shard.send(command_for(shard, ["https://a.example/1"]), ("c:1", 7))
    assert 0 < client.pttl(f"{shard.root}:once:c:1") <= 300_000


def test_it_rings_when_a_shard_that_had_nothing_ready_has_something(shard, client):
    with client.pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(shard.keys.channel)
        bell.get_message(timeout=60)
        shard.send(command_for(shard, ["https://a.example/1"]))
        assert bell.get_message(timeout=60)["data"] == b"0"
        shard.send(command_for(shard, ["https://a.example/2", "https://b.example/1"]))
        later = shard.clock() + 1500
        shard.send(enqueue_command(shard.keys, [shard.offer("https://c.example/", f"0 {later} - -")]))
        assert bell.get_message(timeout=60)["data"] == b"1500"


def test_a_record_may_hold_any_bytes(shard, client):
    record = b"\x02" + bytes(range(256)) * 10
    offer = shard.offer("https://a.example/", record=record)
    assert shard.send(enqueue_command(shard.keys, [offer])) == b"a"
    assert client.lrange(f"{shard.root}:queue:0:a.example", 0, -1) == [shard.stored(record)]
    [_, _, _, _, entry] = shard.run("claim", 1, 1000, 0)
    assert entry.split(b"\n", 5)[5] == shard.stored(record)


def test_a_record_begins_with_the_second_in_which_it_was_enqueued(shard, client, clock):
    for rest, seconds in (("1", 0), ("2", 1), ("3", 65_536), ("4", TIMES)):
        clock.advance(seconds)
        shard.send(enqueue_command(shard.keys, [shard.offer(f"https://h{rest}.example/{rest}")]))
        [record] = client.lrange(f"{shard.root}:queue:0:h{rest}.example", 0, -1)
        assert record == shard.stored(rest)
        assert (len(record), record >= b"@", record[3:]) == (4, True, rest.encode())


def test_a_shard_that_was_never_founded_is_refused(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run("enqueue", key="silkline:{nowhere:0}:ledger")


@pytest.mark.parametrize("name", ["enqueue", "claim", "settle", "extend", "vacate", "revive", "forget", "discard", "set_host",
                                  "set_state", "hosts", "snapshot", "seen", "set_allowance", "remove", "mark_seen"])  # fmt: skip
def test_data_of_a_later_version_is_refused_by_every_script(shard, client, name):
    client.hset(f"{shard.root}:ledger", "schema", 99)
    with pytest.raises(Exception, match="NEWERDATA"):
        shard.run(name, 0, 0, 0, 0)


# ── the seen filters ─────────────────────────────────────────────────────────────────────────────────────────────────


def marks(kind, count, seed):
    """Fingerprints as each filter takes them, all different."""
    rng = random.Random(seed)
    if kind == "exact":
        return [str(number) for number in {rng.randrange(10**18, 2**63) for _ in range(count)}]
    if kind == "compact":
        return [str(number) for number in {rng.randrange(2**44) for _ in range(count)}]
    return [f"{rng.randrange(2**32)}:{rng.randrange(2**32) | 1}" for _ in range(count)]


def fill(shard, chosen):
    answers = b""
    for start in range(0, len(chosen), 1000):
        some = chosen[start : start + 1000]
        offers = [Offer(0, "", 0, mark, "a.example", "", "/") for mark in some]
        answers += shard.send(enqueue_command(shard.keys, offers))
    return answers


@pytest.mark.parametrize("kind", ["exact", "compact"])
def test_buckets_stay_small_and_nothing_is_taken_for_something_else_while_they_grow(make_shard, client, kind):
    shard = make_shard(seen=SeenFilter(kind))
    first = shard.get("buckets")
    chosen = marks(kind, 60_000 if kind == "exact" else 900_000 // 15, seed=1)
    if kind == "compact":  # it starts with 4096 buckets; pretend they were fewer, so that it has to grow
        client.hset(f"{shard.root}:ledger", "seen_count", 4096 * 200)
        first = 4096
    assert fill(shard, chosen) == b"a" * len(chosen)
    assert shard.get("buckets") > first
    sizes = 0
    for bucket in range(shard.get("buckets"), 2 * shard.get("buckets")):
        name = f"{shard.root}:seen:{bucket}"
        size = client.scard(name)
        assert size <= 512
        if size:
            assert client.object("encoding", name) == b"intset"
        sizes += size
    assert sizes == len(chosen)
    assert fill(shard, chosen) == b"s" * len(chosen)
    strangers = sorted(set(marks(kind, 20_000, seed=2)) - set(chosen))
    for stranger in strangers[:2000]:
        assert shard.run("seen", stranger, "a.example")[0] == 0
    for known in chosen[::50]:
        assert shard.run("seen", known, "a.example")[0] == 1


@pytest.mark.parametrize("mark", [10**18, 2**63 - 1, 2**62, 2**60, 5 * 10**18, 1_999_999_999_999_999_999])
def test_every_number_of_19_digits_is_kept_exactly(shard, mark):
    near = [str(one) for one in (mark, mark - 1, mark + 1) if 10**18 <= one < 2**63]
    assert fill(shard, near) == b"a" * len(near)
    assert fill(shard, near) == b"s" * len(near)
    assert shard.run("forget", near[0]) == b"1"
    assert fill(shard, near) == b"a" + b"s" * (len(near) - 1)


def test_what_was_forgotten_is_found_again_after_buckets_were_split(shard):
    chosen = marks("exact", 10_000, seed=3)
    fill(shard, chosen)
    assert shard.run("forget", *chosen[:1000]) == b"1000"
    assert shard.get("seen_count") == len(chosen) - 1000
    assert fill(shard, chosen) == b"a" * 1000 + b"s" * (len(chosen) - 1000)


@pytest.mark.parametrize("error", [0.01, 0.001])
def test_a_bloom_filter_grows_by_layers_and_errs_less_than_it_was_asked_to(make_shard, client, error):
    shard = make_shard(seen=SeenFilter("bloom", error, 100))
    chosen = marks("bloom", 20_000, seed=4)
    wrongly_skipped = fill(shard, chosen).count(b"s")
    assert wrongly_skipped <= at_most(20_000 * error)
    assert shard.get("layers") == 8  # of 100, 200 … 12800
    assert client.exists(*(f"{shard.root}:bloom:{layer}" for layer in range(8))) == 8
    assert fill(shard, chosen) == b"s" * len(chosen)
    strangers = marks("bloom", 5000, seed=5)
    wrong = sum(shard.run("seen", stranger, "a.example")[0] for stranger in strangers)
    assert wrong <= at_most(5000 * error)


def at_most(expected):
    """So many may be found where so many are expected: three standard deviations more."""
    return expected + 3 * expected**0.5


def test_a_shard_that_does_not_know_what_it_acknowledged_says_so_and_takes_requests_all_the_same(shard):
    command = enqueue_command(shard.keys, [shard.offer("https://a.example/")])
    assert shard.run("enqueue", *command.args, call=("c:1", 7))[::2] == [b"a", 0]
    assert shard.run("enqueue", *command.args, relied="c:1 7")[::2] == [b"s", 0]
    command = enqueue_command(shard.keys, [shard.offer("https://b.example/")])
    assert shard.run("enqueue", *command.args, relied="c:1 8")[::2] == [b"a", 1]
    assert shard.get("losses") == 1


def test_sent_again_to_a_shard_that_lost_them_requests_need_no_parent_and_unfiltered_ones_are_left_out(shard):
    offers = [shard.offer("https://a.example/1", "0 0 - 77"), shard.offer("https://a.example/2", "0 0 d -")]
    command = enqueue_command(shard.keys, offers)
    assert shard.run("enqueue", *command.args)[0] == b"la"
    assert shard.run("enqueue", *enqueue_again(command).args)[0] == b"as"
    assert shard.run("enqueue", *enqueue_again(command).args)[0] == b"ss"


# ── shards of an earlier version ─────────────────────────────────────────────────────────────────────────────────────


def test_a_shard_of_an_earlier_version_gets_records_that_it_can_read(shard, client):
    client.hset(f"{shard.root}:ledger", "schema", 1)
    rests = ["x", "", "\x01x", b"\x02rich", b"\x03/x\x00short"]
    urls = [f"https://a.example/{number}" for number in range(len(rests))]
    offers = [shard.offer(url) for url in urls]
    for offer, rest in zip(offers, rests, strict=True):
        shard.send(enqueue_command(shard.keys, [msgspec.structs.replace(offer, record=rest)]))
    stored = client.lrange(f"{shard.root}:queue:0:a.example", 0, -1)
    assert stored == [b"/x", b"/", b"\x01/x", b"\x02rich", b"\x03/x\x00short"]
