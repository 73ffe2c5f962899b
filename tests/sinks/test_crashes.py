"""Writers are killed at any moment, and several write at once: nothing acknowledged is lost, nothing torn stays."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sinks import writing
from tests.sinks.conftest import FILES, UPSERTING

LOCAL = (*FILES, "folder", *UPSERTING)


def keys_of(writer, last, size):
    return {f"{writer}-{number}-{place}" for number in range(last + 1) for place in range(size)}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *((kind, 0) for kind in LOCAL if kind != "folder"),
        ("parquet", 1),  # it finishes files meanwhile
        *(pytest.param(kind, 1, marks=pytest.mark.long) for kind in LOCAL if kind not in ("folder", "parquet")),
    ],
)
async def test_killed_writers_lose_nothing_and_leave_nothing_torn(forker, kind, seed, place):
    there = place(kind)
    rounds = 12 if kind == "postgres" else 15
    (last,) = writing.run(
        forker, "killed", out=there.out, seed=seed, rounds=rounds, longest=0.02, batches=10**6, size=80, columns=9,
        finish_every=2 if kind == "parquet" and seed else 0,
    )  # fmt: skip
    sink = there.open()  # which mends what the last one left
    await sink.close()
    found = Counter(item["_key"] for item in there.items())
    assert last > 0
    assert keys_of("w", last, 80) <= found.keys() <= keys_of("w", last + 1, 80)
    if kind in UPSERTING:
        assert set(found.values()) == {1}


@pytest.mark.parametrize("kind", [*LOCAL, "redis", "s3"])
async def test_several_processes_write_to_one_place(forker, kind, place):
    there = place(kind)
    last = writing.run(
        forker, "together", out=there.out, redis=there.redis, writers=3, batches=9, size=20, columns=9, finish_every=4
    )
    assert last == [8] * 3
    found = Counter(item["_key"] for item in there.items())
    assert found == Counter(key for writer in range(3) for key in keys_of(f"w{writer}", 8, 20))
