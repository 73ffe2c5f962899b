from __future__ import annotations

import pytest

from silkline.frontier.store.settings import SeenFilter
from silkline.frontier.verbs.enqueue import enqueue_command


@pytest.mark.parametrize("kind", ["exact", "compact"])
def test_the_same_call_sent_twice_acts_once_and_answers_the_same(make_shard, kind):
    shard = make_shard(seen=SeenFilter(kind))
    offers = [shard.offer(f"https://a.example/{number}") for number in range(3)]
    shard.send(enqueue_command(shard.keys, offers))
    marks = [offer.member for offer in offers]
    assert shard.run("forget", *marks[:2], call=("c:1", 5)) == b"2"
    assert shard.run("forget", *marks[:2], call=("c:1", 5)) == b"2"
    assert shard.get("seen_count") == 1
    assert shard.run("forget", *marks, call=("c:1", 6)) == b"1"
    assert shard.get("seen_count") == 0


def test_a_bloom_filter_answers_with_an_error(make_shard):
    shard = make_shard(seen=SeenFilter("bloom"))
    with pytest.raises(Exception, match="CANNOTFORGET"):
        shard.run("forget", "1:1")
