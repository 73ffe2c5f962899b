"""What hosts answered is kept in sixteen bytes a host, fades, and is kept of no more hosts than it may."""

from __future__ import annotations

import pytest

from silkline.frontier.answers import MOST_COUNTED, Answers, pack, unpack

DAY = 86_400


@pytest.fixture
def tell(shard):
    def tell_(most=100, call=None, **hosts):
        words = [word for host, answers in hosts.items() for word in (host, pack(answers))]
        return shard.run("add_answers", most, *words, call=call)

    return tell_


@pytest.fixture
def kept(shard, client):
    return lambda: {host.decode(): unpack(text) for host, text in client.hgetall(f"{shard.root}:answers").items()}


def test_counts_of_a_host_are_added_up_and_its_last_status_is_the_one_told_last(tell, kept, clock):
    assert tell(a=Answers(status_2xx=3, status_4xx=1, last=404), b=Answers(failed=1)) == b"2"
    clock.advance(9)
    tell(a=Answers(status_2xx=1, status_3xx=2, status_5xx=4, failed=5, last=503))
    now = clock.now // 1000
    assert kept() == {
        "a": Answers(status_2xx=4, status_3xx=2, status_4xx=1, status_5xx=4, failed=5, last=503, heard=now),
        "b": Answers(failed=1, heard=now - 9),
    }


def test_a_host_takes_sixteen_bytes(tell, shard, client):
    tell(a=Answers(status_2xx=1000, last=200))
    assert client.hstrlen(f"{shard.root}:answers", "a") == 16


def test_the_older_fades(tell, kept):
    tell(a=Answers(status_2xx=MOST_COUNTED, last=200))
    assert kept()["a"].status_2xx == MOST_COUNTED, "as many are counted in full"
    for _ in range(10):
        tell(a=Answers(status_4xx=200, last=429))
    assert kept()["a"].total <= MOST_COUNTED
    assert kept()["a"].trouble > 0.75


def test_the_script_fades_as_the_value_does(tell, kept):
    mine = Answers()
    for more in (Answers(status_2xx=999, last=200), Answers(status_3xx=7, last=301), Answers(status_5xx=995, last=500)):
        tell(a=more)
        mine.add(more)
    found = kept()["a"]
    assert (found.counts, found.last) == (mine.counts, mine.last)


def test_of_no_more_hosts_than_it_may_and_those_not_heard_of_for_longest_go_first(tell, kept, clock):
    def tell_of(kind, first):
        return tell(most=1000, **{f"{kind}{n}": Answers(status_2xx=1, last=200) for n in range(first, first + 100)})

    for first in range(0, 1000, 100):
        tell_of("old", first)
    clock.advance(60)
    for first in range(0, 700, 100):
        assert tell_of("new", first) == b"1000"
    names = kept()
    assert len(names) == 1000
    new = sum(name.startswith("new") for name in names)
    assert new > 560  # some 610; it were 500 if any might go


def test_hosts_that_are_heard_of_again_and_again_stay(tell, kept, clock):
    busy = {f"busy{n}": Answers(status_2xx=1, last=200) for n in range(100)}
    for first in range(0, 900, 100):
        tell(most=1000, **{f"old{n}": Answers(failed=1) for n in range(first, first + 100)})
    for turn in range(30):
        clock.advance(1)
        tell(most=1000, **busy, **{f"new{turn}-{n}": Answers(failed=1) for n in range(20)})
    stayed = sum(answers.status_2xx == 30 for host, answers in kept().items() if host.startswith("busy"))
    assert stayed > 75  # some 92; it were 45 if any might go


def test_the_same_call_sent_twice_counts_once(tell, kept):
    first = tell(a=Answers(status_2xx=5, last=200), call=("client:0", 7))
    assert tell(a=Answers(status_2xx=5, last=200), call=("client:0", 7)) == first
    assert kept()["a"].status_2xx == 5


def test_there_are_none_of_no_crawl(shard):
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run("add_answers", 10, "a", pack(Answers(failed=1)), key="silkline:{nowhere:0}")
