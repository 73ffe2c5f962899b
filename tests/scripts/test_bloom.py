"""The Bloom filter: its size and its error rate, for any capacity."""

from __future__ import annotations

import math
import random
from importlib.resources import files

import pytest

from silkline import SyncFrontier
from silkline.frontier.store import bloom
from silkline.frontier.store.settings import BLOCKS_SCHEMA, SeenFilter, Settings
from silkline.frontier.transport.command import assemble


def open_shard(make_shard, error, capacity, shards=1):
    """One shard of a crawl with several."""
    settings = Settings.create(seen=SeenFilter("bloom", error, capacity), shards=shards)
    assert settings.schema == BLOCKS_SCHEMA
    return make_shard(schema=BLOCKS_SCHEMA, seen=SeenFilter("bloom", error, settings.bloom_capacity))


def marks(count, seed, highest=1.0):
    """Fingerprints, of which the high half is in the first part of its range: those of the first blocks."""
    dice = random.Random(seed)
    return [f"{dice.randrange(int(highest * 2**32))}:{dice.randrange(2**32) | 1}" for _ in range(count)]


def mark_seen(shard, chosen):
    for start in range(0, len(chosen), 5000):
        assert shard.run("mark_seen", *chosen[start : start + 5000]) == b"marked"


def known(shard, chosen):
    """How many of these are in the filter: those that are not counted as new."""
    before = shard.get("seen_count") or 0
    mark_seen(shard, chosen)
    return len(chosen) - (shard.get("seen_count") - before)


def found(shard, chosen):
    """How many of these are found; none is added."""
    add = 'do mark_seen(fingerprint, "") end'
    source = (files("silkline.frontier") / "scripts" / "enqueue" / "mark_seen.lua").read_text()
    assert add in source
    source = source.replace("for _, fing", "local count = 0\nfor _, fing").replace(
        add, "do if was_seen(fingerprint) then count = count + 1 end end"
    )
    source = source.replace('return "marked"', "return count")
    parts = (chosen[start : start + 5000] for start in range(0, len(chosen), 5000))
    return sum(shard.client.eval(assemble(source), 1, shard.keys.ledger, *part) for part in parts)


def bits_in_theory(error):
    return math.log2(1 / error) / math.log(2)


def size_of(client, root):
    """The bytes of all bitmaps, as the server allocates them."""
    return sum(client.memory_usage(name) for name in client.scan_iter(f"{root}:bloom:*", count=1000))


def at_most(expected):
    return expected + 4 * expected**0.5


@pytest.mark.parametrize(
    ("error", "capacity"), [(0.01, 500_000), (1e-4, 1_000_000), (1e-6, 300_000), (1e-9, 2_000_000)]
)
def test_its_size_is_that_of_the_formula(make_shard, client, error, capacity):
    shard = open_shard(make_shard, error, capacity)
    layer = next(bloom.layers(capacity, error))
    mark_seen(shard, marks(layer.blocks * 15, seed=1))
    names = list(client.scan_iter(f"{shard.root}:bloom:*", count=1000))
    assert len(names) == layer.blocks
    assert size_of(client, shard.root) * 8 / capacity <= 1.15 * bits_in_theory(error)
    assert size_of(client, shard.root) == pytest.approx(layer.size, rel=0.1)


@pytest.mark.parametrize(
    ("error", "capacity", "share"), [(0.01, 1_000_000, 0.03), (0.001, 40_000, 1), (1e-4, 3_000_000, 0.01)]
)
def test_it_errs_less_than_it_was_asked_to(make_shard, error, capacity, share):
    """Only a *share* of the blocks is filled."""
    shard = open_shard(make_shard, error, capacity)
    blocks = next(bloom.layers(capacity, error)).blocks
    share = math.ceil(share * blocks) / blocks
    chosen = marks(int(capacity * share), seed=2, highest=share)
    assert known(shard, chosen) <= at_most(len(chosen) * error)
    assert known(shard, chosen) == len(chosen)
    assert found(shard, marks(20_000, seed=3, highest=share)) <= at_most(20_000 * error)


def test_a_filter_that_is_outgrown_gets_layers_and_stays_exact_enough(make_shard, client):
    shard = open_shard(make_shard, 0.001, 2000)
    chosen = marks(6000, seed=4)
    assert known(shard, chosen) <= at_most(6)
    assert known(shard, chosen) == len(chosen)
    assert found(shard, marks(10_000, seed=5)) <= at_most(10)
    expected = bloom.size_for(6000, 2000, 0.001)
    assert size_of(client, shard.root) == pytest.approx(expected, rel=0.25)
    while shard.run("remove") == b"more":
        pass
    assert not client.keys(f"{shard.root}:bloom:*")


def test_the_capacity_is_that_of_the_crawl(valkey, crawl):
    """Also if hosts are not spread quite evenly over the shards."""
    with SyncFrontier.open(valkey.url, crawl=crawl, shards=64, seen="bloom:1e-4,300000") as frontier:
        frontier.enqueue(f"https://h{n}.example/" for n in range(3000))
        with valkey.client() as client:
            size = sum(size_of(client, keys.root) for keys in frontier.layout.shards)
    assert size * 8 / 300_000 <= 1.15 * bits_in_theory(1e-4)


def test_without_a_capacity_it_is_that_of_the_queue(valkey, crawl):
    with SyncFrontier.open(valkey.url, crawl=crawl, seen="bloom:0.01", capacity=70_000) as frontier:
        assert str(frontier.layout.settings.seen) == "bloom:0.01,70000"
        with SyncFrontier.open(valkey.url, crawl=crawl, seen="bloom:0.01") as again:
            assert again.layout.settings == frontier.layout.settings


def test_five_billion_urls_on_64_shards(make_shard):
    """A thousandth of the blocks of a shard, full."""
    shard = open_shard(make_shard, 1e-6, 5_000_000_000, shards=64)
    settings = Settings.create(seen=SeenFilter("bloom", 1e-6, 5_000_000_000), shards=64)
    layer = next(bloom.layers(settings.bloom_capacity, 1e-6))
    assert 64 * layer.size * 8 / 5_000_000_000 <= 1.15 * bits_in_theory(1e-6)
    assert layer.bits == bloom.LARGE_BLOCK
    mark_seen(shard, marks(1000, seed=6, highest=1 / layer.blocks))
    assert known(shard, marks(1000, seed=6, highest=1 / layer.blocks)) == 1000


@pytest.mark.long
def test_five_billion_urls_err_as_planned(make_shard):
    """One block of one shard is filled to its part: a filter of this size is a set of such blocks."""
    shard = open_shard(make_shard, 1e-6, 5_000_000_000, shards=64)
    capacity = Settings.create(seen=SeenFilter("bloom", 1e-6, 5_000_000_000), shards=64).bloom_capacity
    blocks = next(bloom.layers(capacity, 1e-6)).blocks
    chosen = marks(capacity // blocks, seed=7, highest=1 / blocks)
    assert known(shard, chosen) <= at_most(len(chosen) * 1e-6)
    wrong = sum(found(shard, marks(100_000, seed=number, highest=1 / blocks)) for number in range(100, 120))
    assert wrong <= at_most(2)
