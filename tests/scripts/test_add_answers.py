"""What hosts answered is kept in twenty bytes a host, fades, and is kept of no more hosts than it may."""

from __future__ import annotations

import pytest

from silkline.frontier.verbs.hosts import MOST_COUNTED, StatusCounts, pack_counts, unpack_counts

DAY = 86_400


@pytest.fixture
def tell(shard):
    def tell_(most=100, call=None, **hosts):
        words = [word for host, answers in hosts.items() for word in (host, pack_counts(answers))]
        return shard.run("add_answers", most, *words, call=call)

    return tell_


@pytest.fixture
def kept(shard, client):
    return lambda: {
        host.decode(): unpack_counts(text) for host, text in client.hgetall(f"{shard.root}:answers").items()
    }


def test_counts_of_a_host_are_added_up_and_its_last_status_is_the_one_reported_last(tell, kept, clock):
    assert tell(a=StatusCounts(status_2xx=3, status_4xx=1, last=404), b=StatusCounts(failed=1)) == b"2"
    clock.advance(9)
    tell(a=StatusCounts(status_2xx=1, status_3xx=2, status_5xx=4, failed=5, last=503))
    now = clock.now // 1000
    assert kept() == {
        "a": StatusCounts(status_2xx=4, status_3xx=2, status_4xx=1, status_5xx=4, failed=5, last=503, updated=now),
        "b": StatusCounts(failed=1, updated=now - 9),
    }


def test_a_host_takes_twenty_bytes(tell, shard, client):
    tell(a=StatusCounts(status_2xx=1000, last=200, cpu=10**9))
    assert client.hstrlen(f"{shard.root}:answers", "a") == 20


def test_cpu_time_is_added_and_fades_with_the_answers(tell, kept):
    tell(a=StatusCounts(status_2xx=600, last=200, cpu=3.0))
    tell(a=StatusCounts(status_2xx=200, last=200, cpu=1.0025))
    assert kept()["a"].cpu == 4.0025
    tell(a=StatusCounts(status_2xx=400, last=200, cpu=2.0))
    assert (kept()["a"].total, kept()["a"].cpu) == (600, pytest.approx(3.0012))


def test_cpu_time_never_takes_more_than_its_bytes(tell, kept):
    for _ in range(3):
        tell(a=StatusCounts(status_2xx=1, last=200, cpu=1e12))
    assert kept()["a"].cpu > 200_000


def test_what_an_earlier_version_stored_and_sends_continues(shard, client, kept):
    """Sixteen bytes kept and twelve told: without CPU time."""
    client.hset(f"{shard.root}:answers", "a", pack_counts(StatusCounts(status_2xx=7, last=200))[:12] + b"\1\0\0\0")
    assert (kept()["a"].status_2xx, kept()["a"].cpu) == (7, 0.0)
    shard.run("add_answers", 10, "a", pack_counts(StatusCounts(status_4xx=1, last=404, cpu=0.5)))
    shard.run("add_answers", 10, "a", pack_counts(StatusCounts(status_5xx=1, last=503))[:12])
    assert kept()["a"].counts == [7, 0, 1, 1, 0]
    assert (kept()["a"].cpu, kept()["a"].last) == (0.5, 503)


def test_the_older_fades(tell, kept):
    tell(a=StatusCounts(status_2xx=MOST_COUNTED, last=200))
    assert kept()["a"].status_2xx == MOST_COUNTED, "as many are counted in full"
    for _ in range(10):
        tell(a=StatusCounts(status_4xx=200, last=429))
    assert kept()["a"].total <= MOST_COUNTED
    assert kept()["a"].trouble > 0.75


def test_the_script_fades_as_the_value_does(tell, kept):
    mine = StatusCounts()
    for more in (
        StatusCounts(status_2xx=999, last=200),
        StatusCounts(status_3xx=7, last=301),
        StatusCounts(status_5xx=995, last=500),
    ):
        tell(a=more)
        mine.add(more)
    found = kept()["a"]
    assert (found.counts, found.last) == (mine.counts, mine.last)


def test_of_no_more_hosts_than_it_may_and_those_not_known_for_longest_go_first(tell, kept, clock):
    def tell_of(kind, first):
        return tell(
            most=1000, **{f"{kind}{n}": StatusCounts(status_2xx=1, last=200) for n in range(first, first + 100)}
        )

    for first in range(0, 1000, 100):
        tell_of("old", first)
    clock.advance(60)
    for first in range(0, 700, 100):
        assert tell_of("new", first) == b"1000"
    names = kept()
    assert len(names) == 1000
    new = sum(name.startswith("new") for name in names)
    assert new > 560  # some 610; it were 500 if any might go


def test_hosts_that_are_known_again_and_again_stay(tell, kept, clock):
    busy = {f"busy{n}": StatusCounts(status_2xx=1, last=200) for n in range(100)}
    for first in range(0, 900, 100):
        tell(most=1000, **{f"old{n}": StatusCounts(failed=1) for n in range(first, first + 100)})
    for turn in range(30):
        clock.advance(1)
        tell(most=1000, **busy, **{f"new{turn}-{n}": StatusCounts(failed=1) for n in range(20)})
    stayed = sum(answers.status_2xx == 30 for host, answers in kept().items() if host.startswith("busy"))
    assert stayed > 75  # some 92; it were 45 if any might go


def test_the_same_call_sent_twice_counts_once(tell, kept):
    first = tell(a=StatusCounts(status_2xx=5, last=200), call=("client:0", 7))
    assert tell(a=StatusCounts(status_2xx=5, last=200), call=("client:0", 7)) == first
    assert kept()["a"].status_2xx == 5


def test_there_are_none_of_no_crawl(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run("add_answers", 10, "a", pack_counts(StatusCounts(failed=1)), key="silkline:{nowhere:0}:ledger")
