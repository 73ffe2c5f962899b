"""The seen filter against a plain set, while it grows under the hands of several clients."""

from __future__ import annotations

import random

import pytest

from silkline import Admission, Politeness, Request


@pytest.mark.parametrize("seen", ["exact", "compact"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_whoever_asks_and_however_it_has_grown_since_nothing_is_confused(open_sync, seen, seed):
    rng = random.Random(seed)
    clients = [open_sync(seen=seen, politeness=Politeness(delay=0)) for _ in range(3)]
    if seen == "compact":  # it begins with 4096 buckets; let it think that they are full, so that it grows
        [keys] = clients[0].layout.shards
        clients[0]._connection._nodes.any().client.hset(f"{keys.root}:ledger", "seen_count", 4096 * 200)
    known = set()
    for _ in range(120):
        # most of the work is done by the first; the others know less and less of how many buckets there are
        client = clients[min(rng.randrange(12), 2)] if rng.random() < 0.5 else clients[0]
        batch = [rng.randrange(60_000) for _ in range(rng.choice([1, 20, 300, 1500]))]
        offered = [f"https://a.example/{number}" for number in batch]
        if rng.random() < 0.3:
            offered = [Request(url, priority=1) for url in offered]
        expected = []
        for number in batch:
            expected.append(Admission.SEEN if number in known else Admission.ADDED)
            known.add(number)
        assert client.enqueue(offered) == expected
        if rng.random() < 0.2:
            gone = rng.sample(sorted(known), min(50, len(known)))
            assert client.forget([f"https://a.example/{number}" for number in gone]) == len(gone)
            known -= set(gone)
    assert len(known) > 30_000
